package segment

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// ReserveBytes is the size of the reserve: sixteen blocks of 4 KiB, for owner, head, numbers and a block more of directory
// in each of four lanes, as many as a drain works on at once. What they retire is room for the next.
const ReserveBytes = 64 << 10

// IsReserve tells whether a file in a root is the reserve, which is no part of what the log holds.
func IsReserve(name string) bool { return name == reserveName }

// KeepReserve makes the file siglake-wal.reserve of a root, unless it is there: bytes that nobody needs. On a full
// volume the drain could not write the small records without which it may not take a segment away; then the reserve
// is given up, and the drain goes on. For the writer to call while the volume has room. A crash leaves a short file,
// which the next call replaces. Idempotent.
func (r *Root) KeepReserve() error {
	name := filepath.Join(r.dir, reserveName)
	info, err := r.fs.Stat(name)
	if err == nil && info.Size < ReserveBytes {
		err = r.fs.Remove(name)
		info = vfs.Info{}
	}
	if info.Size >= ReserveBytes || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := r.fill(name); err != nil {
		return fmt.Errorf("keep a reserve: %w", err)
	}
	return nil
}

// fill writes bytes that no file system stores as less. They are synced so that it gives their room to nobody else.
func (r *Root) fill(name string) error {
	f, err := r.fs.Create(name)
	if errors.Is(err, fs.ErrExist) {
		return nil // another collector of a shared root was faster
	}
	if err != nil {
		return err
	}
	noise := make([]byte, ReserveBytes)
	_, _ = rand.Read(noise) // never fails: crypto/rand ends the program instead
	_, err = f.Writev([][]byte{noise})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, r.fs.Remove(name))
	}
	return nil
}

// thriftyFS is the file system of a root. What meets a full volume there is names and small records, not rows: it gives
// up the reserve, once, and is tried again.
type thriftyFS struct {
	vfs.FS

	reserve string
}

func thrifty(fsys vfs.FS, dir string) vfs.FS {
	return thriftyFS{fsys, filepath.Join(dir, reserveName)}
}

// spent tells whether err is a full volume that has just got room.
func (t thriftyFS) spent(err error) bool {
	return (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) && t.FS.Remove(t.reserve) == nil
}

func (t thriftyFS) twice(op func() error) error {
	err := op()
	if t.spent(err) {
		err = op()
	}
	return err
}

func (t thriftyFS) Create(name string) (vfs.File, error) {
	f, err := t.FS.Create(name)
	if t.spent(err) {
		f, err = t.FS.Create(name)
	}
	if err != nil || name == t.reserve {
		return f, err
	}
	return thriftyFile{f, t}, nil
}

func (t thriftyFS) Link(from, to string) error {
	return t.twice(func() error { return t.FS.Link(from, to) })
}

func (t thriftyFS) Rename(from, to string) error {
	return t.twice(func() error { return t.FS.Rename(from, to) })
}

func (t thriftyFS) MkdirAll(dir string) error {
	return t.twice(func() error { return t.FS.MkdirAll(dir) })
}

type thriftyFile struct {
	vfs.File

	fs thriftyFS
}

// Writev is not tried again when a part was written: the caller begins anew, and finds the room.
func (f thriftyFile) Writev(bufs [][]byte) (int64, error) {
	n, err := f.File.Writev(bufs)
	if f.fs.spent(err) && n == 0 {
		return f.File.Writev(bufs)
	}
	return n, err
}
