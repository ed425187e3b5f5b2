package drain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// errLockLost says that the name of drain.lock leads to no file or to another one: whoever took it holds the root as well.
var errLockLost = errors.New("the lock of the drain is lost")

// held is the lock of a root, and a file system that changes no name once the lock is lost. The lock is the file's and not the
// name's, so the system does not notice when somebody removes the name, and another drain can hold the next file of it. Two
// drains that move the same segments can lose one (ADR 0004).
//
// What changes no name is let through, because it harms nobody once the lock is lost:
//
//	a modification time  is set to now, of a segment whose rows were found in the table. It makes the next holder wait longer, to
//	                     retire it or at the gate. Whether a segment is looked up goes by the time in its id, or an earlier one
//	a temporary file     of a record or a note: made under a name that is not there, or else it must be removed, which is refused.
//	                     So the next holder's is never written to; it removes ours, and we write on into a file without a name
//	a directory          is there already, or empty
type held struct {
	vfs.FS
	path  string
	inode uint64
	lock  io.Closer
}

// hold takes drain.lock of the root in dir; text names the holder.
//
//	errors  *vfs.LockedError when another holds it
func hold(fsys vfs.FS, dir, text string) (*held, error) {
	path := filepath.Join(dir, segment.DrainLockName)
	lock, err := fsys.Lock(path, text)
	switch {
	case vfs.NoFile(err):
		return nil, fmt.Errorf("%w; move it out of the log, the next drain makes another", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w; let the user that drains write it (chown)", err)
	case err != nil:
		return nil, err
	}
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &held{FS: fsys, path: path, inode: info.Inode, lock: lock}, nil
}

// holdRoot is hold of a directory that must be a root, and the root seen through the lock.
func holdRoot(fsys vfs.FS, dir, text string) (*segment.Root, *held, error) {
	if _, err := segment.Open(fsys, dir); err != nil { // before a lock is made in what is no root
		return nil, nil, fmt.Errorf("open write-ahead log: %w", err)
	}
	lock, err := hold(fsys, dir, text)
	if err != nil {
		return nil, nil, fmt.Errorf("lock the root: %w", err)
	}
	root, err := segment.Open(lock, dir)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open write-ahead log: %w", err), lock.Close())
	}
	return root, lock, nil
}

// check returns errLockLost when the name does not lead to the file of the lock any more. Safe for many goroutines.
func (h *held) check() error {
	info, err := h.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is gone; leave that file alone while a drain or a siglake command runs", errLockLost, h.path)
	case err != nil:
		return err
	case info.Inode != h.inode:
		return fmt.Errorf("%w: %s is another file; leave it alone while a drain or a siglake command runs", errLockLost, h.path)
	}
	return nil
}

// Link implements vfs.FS.
func (h *held) Link(oldname, newname string) error {
	if err := h.check(); err != nil {
		return err
	}
	return h.FS.Link(oldname, newname)
}

// Rename implements vfs.FS.
func (h *held) Rename(oldname, newname string) error {
	if err := h.check(); err != nil {
		return err
	}
	return h.FS.Rename(oldname, newname)
}

// Remove implements vfs.FS.
func (h *held) Remove(name string) error {
	if err := h.check(); err != nil {
		return err
	}
	return h.FS.Remove(name)
}

// Close gives the lock back.
func (h *held) Close() error {
	if err := h.lock.Close(); err != nil {
		return fmt.Errorf("unlock %s: %w", h.path, err)
	}
	return nil
}
