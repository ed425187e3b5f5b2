package segment

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

const leaseSuffix = ".lock"

// ErrLeaseLost says that the file of a lease is gone or another one: somebody may have taken its writer for dead
// and its segments with it.
var ErrLeaseLost = errors.New("segment: lease lost")

// Lease keeps the files in active/ that bear the name of one writer for whoever holds it: the writer while it
// lives, afterwards one adopter at a time. A writer whose lease nobody holds is dead.
type Lease struct {
	fs    vfs.FS
	path  string
	lock  io.Closer // nil on a volume without locks
	inode uint64
	over  atomic.Bool // given up
}

// Lease takes the lease of a writer: leases/<writer>.lock, locked. A writer takes its own before it makes its first
// file; an adopter takes a dead one's before it looks at a file of it. text names the holder. The directory is
// made by PrepareLeases.
//
// The lock counts and not the name: it is gone with the process that holds it. The name is durable when
// SyncLeases has returned; only a volume that outlives its writers, on a server, can tell the difference.
//
//	errors  *vfs.LockedError when another holds it, also another holder in this process
func (r *Root) Lease(writer [6]byte, text string) (*Lease, error) {
	path := r.leasePath(writer)
	lock, err := r.fs.Lock(path, text)
	if err != nil {
		return nil, err
	}
	info, err := r.fs.Stat(path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Lease{fs: r.fs, path: path, lock: lock, inode: info.Inode}, nil
}

// Adopt takes the lease of a dead writer. Another file takes the place of its own first: should the writer live all the
// same, because the volume's locks do nothing or were forgotten, then it sees before the adopter reads that it has
// lost its lease, and answers nothing more. errors as Lease; a crash leaves no file, or one that nobody holds.
func (r *Root) Adopt(writer [6]byte, text string) (*Lease, error) {
	last, err := r.Lease(writer, text)
	if err == nil {
		err = last.End()
	}
	if err != nil {
		return nil, err
	}
	return r.Lease(writer, text)
}

// LeaseUnlocked is Lease of a fresh writer on a volume without locks: the file alone. Its holder calls Beat while it
// lives, and Check after each write; who takes it for dead calls Fence.
func (r *Root) LeaseUnlocked(writer [6]byte, text string) (*Lease, error) {
	path := r.leasePath(writer)
	f, err := r.fs.Create(path)
	if err != nil {
		return nil, err
	}
	_, err = f.Writev([][]byte{[]byte(text)})
	info, serr := f.Stat()
	if err = errors.Join(err, serr, f.Close()); err != nil {
		_ = r.fs.Remove(path) // best effort: it stays silent, and is removed as a dead writer's
		return nil, err
	}
	return &Lease{fs: r.fs, path: path, inode: info.Inode}, nil
}

// Fence takes the lease of a silent writer from it on a volume without locks: what the writer has answered until
// now it has written before, and it answers nothing more. A lease that is gone is a dead writer's as well.
func (r *Root) Fence(writer [6]byte) (*Lease, error) {
	l := &Lease{fs: r.fs, path: r.leasePath(writer)}
	l.over.Store(true)
	err := r.fs.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l, err
}

// LastBeat is when the holder of a lease last gave a sign of life, by its own clock or the volume's; fs.ErrNotExist
// without a lease.
func (r *Root) LastBeat(writer [6]byte) (time.Time, error) {
	info, err := r.fs.Stat(r.leasePath(writer))
	return info.ModTime, err
}

func (r *Root) leasePath(writer [6]byte) string {
	return filepath.Join(r.dir, leasesName, hex.EncodeToString(writer[:])+leaseSuffix)
}

// PrepareLeases makes the directory of the leases. Durable when it returns. Idempotent; safe for use at once.
func (r *Root) PrepareLeases() error { return r.fs.MkdirAll(filepath.Join(r.dir, leasesName)) }

// SyncLeases makes the names of all leases taken so far durable.
func (r *Root) SyncLeases() error { return r.fs.SyncDir(filepath.Join(r.dir, leasesName)) }

// Leases returns the writers that have a lease file, held or not, in order.
func (r *Root) Leases() ([][6]byte, error) {
	entries, err := list(r.fs, filepath.Join(r.dir, leasesName))
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	var out [][6]byte
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name, leaseSuffix)
		var w [6]byte
		if !ok || e.IsDir || len(digits) != writerLen {
			continue
		}
		if _, err := hex.Decode(w[:], []byte(digits)); err == nil {
			out = append(out, w)
		}
	}
	return out, nil
}

// Check returns ErrLeaseLost if the lease was given up, or its name does not lead to its file any more. Safe for many
// goroutines.
func (l *Lease) Check() error {
	if l.over.Load() {
		return fmt.Errorf("%w: %s is given up", ErrLeaseLost, l.path)
	}
	info, err := l.look()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is gone", ErrLeaseLost, l.path)
	case err != nil:
		return err
	case info.Inode != l.inode:
		return fmt.Errorf("%w: %s is another file", ErrLeaseLost, l.path)
	}
	return nil
}

// look describes the file that the name leads to. Without a lock the answer has to be the volume's, not that of a
// cache of names: opening asks a server, where a description may be a minute old.
func (l *Lease) look() (vfs.Info, error) {
	if l.lock != nil {
		return l.fs.Stat(l.path)
	}
	f, err := l.fs.Open(l.path)
	if err != nil {
		return vfs.Info{}, err
	}
	info, err := f.Stat()
	return info, errors.Join(err, f.Close())
}

// End removes the file, if it is still the lease's, and gives the lease up: the writer has nothing in active/ any
// more, or nothing that it will touch again. A crash in between leaves a file that nobody holds, which the next
// adopter removes. Call it once.
func (l *Lease) End() error {
	err := l.Check()
	if err == nil {
		err = l.fs.Remove(l.path)
	} else if errors.Is(err, ErrLeaseLost) {
		err = nil
	}
	l.over.Store(true)
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// Beat is a sign of life. ErrLeaseLost as Check.
func (l *Lease) Beat(now time.Time) error {
	if err := l.Check(); err != nil {
		return err
	}
	f, err := l.fs.OpenRW(l.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Touch(now), f.Close())
}
