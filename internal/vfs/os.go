//go:build linux

package vfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// OS returns the real file system. Safe for use by many goroutines; a File is safe for readers beside one
// writer.
func OS() FS { return osFS{} }

type osFS struct{}

// Create implements FS.
func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
}

// Open implements FS.
func (osFS) Open(name string) (File, error) { return openOS(name, os.O_RDONLY) }

// OpenRW implements FS.
func (osFS) OpenRW(name string) (File, error) { return openOS(name, os.O_RDWR) }

func openOS(name string, flag int) (File, error) {
	f, st, err := openRegular(name, flag)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &osFile{f: f, raw: raw, end: st.Size()}, nil
}

// openRegular opens without waiting for whoever may write to a FIFO; of a regular file that makes no difference. What is no file is
// refused, but a device: none waits, and one stands in for a full disk in tests.
func openRegular(name string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, flag|unix.O_NONBLOCK, fileMode)
	if errors.Is(err, unix.ENXIO) { // a socket
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	}
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
		err = &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// Link implements FS.
func (osFS) Link(oldname, newname string) error { return os.Link(oldname, newname) }

// Rename implements FS.
func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// Remove implements FS.
func (osFS) Remove(name string) error { return os.Remove(name) }

// List implements FS.
func (osFS) List(dir string) ([]Entry, error) {
	des, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(des))
	for i, de := range des {
		out[i] = Entry{Name: de.Name(), IsDir: de.IsDir()}
	}
	return out, nil
}

// Stat implements FS.
func (osFS) Stat(name string) (Info, error) {
	st, err := os.Lstat(name)
	if err != nil {
		return Info{}, err
	}
	return infoOf(st), nil
}

func infoOf(st fs.FileInfo) Info {
	in := Info{Size: st.Size(), ModTime: st.ModTime(), IsDir: st.IsDir(), Special: st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		in.Inode = sys.Ino
	}
	return in
}

// Mkdir implements FS.
func (osFS) Mkdir(dir string) error { return os.Mkdir(dir, dirMode) }

// MkdirAll implements FS. It works from the top: each directory is named durably before the next is made inside it. A process
// that died in between left at most its last directory without a durable name, and that is the deepest one
// found here; so its name is synced first. Where its parent may not be read, it was not ours to make.
func (o osFS) MkdirAll(dir string) error {
	missing, found, err := missingDirs(filepath.Clean(dir))
	if err != nil {
		return err
	}
	if err := o.SyncDir(filepath.Dir(found)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for _, m := range slices.Backward(missing) {
		if err := o.Mkdir(m); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := o.SyncDir(filepath.Dir(m)); err != nil {
			return err
		}
	}
	return nil
}

// missingDirs returns the directories that must be made for dir, deepest first, and the deepest that exists.
func missingDirs(dir string) (missing []string, found string, err error) {
	for {
		st, err := os.Stat(dir) // follows links: a symbolic link to a directory is one
		switch {
		case err == nil && st.IsDir():
			return missing, dir, nil
		case err == nil:
			return nil, "", &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return nil, "", err
		}
		missing = append(missing, dir)
		dir = filepath.Dir(dir)
	}
}

// SyncDir implements FS.
func (osFS) SyncDir(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Space implements FS.
func (osFS) Space(dir string) (Space, error) {
	var st unix.Statfs_t
	err := retryEINTR(func() error { return unix.Statfs(dir, &st) })
	if err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	unit := cmp.Or(st.Frsize, st.Bsize) // block counts are in fragments
	return Space{Free: int64(st.Bavail) * unit, Total: int64(st.Blocks) * unit}, nil
}

// lockTries bounds the race with holders who remove the lock file while we take it.
const lockTries = 8

// Lock implements FS.
func (osFS) Lock(name, text string) (io.Closer, error) { return lockOS(name, text, unix.LOCK_EX) }

// LockShared implements FS.
func (osFS) LockShared(name, text string) (io.Closer, error) { return lockOS(name, text, unix.LOCK_SH) }

func lockOS(name, text string, kind int) (io.Closer, error) {
	for range lockTries {
		f, _, err := openRegular(name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			return nil, err
		}
		same, err := lockFile(f, name, text, kind)
		if err == nil && same {
			return f, nil // flock belongs to the open file: closing it releases
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("lock %s: the file was replaced %d times meanwhile", name, lockTries)
}

// lockFile takes the lock and leaves text. It returns false when the name no longer leads to f.
func lockFile(f *os.File, name, text string, kind int) (bool, error) {
	err := retryEINTR(func() error { return unix.Flock(int(f.Fd()), kind|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, &LockedError{Name: name, Holder: readHolder(f)}
	}
	if err != nil {
		return false, &fs.PathError{Op: "flock", Path: name, Err: err}
	}
	have, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(have, now) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.WriteAt([]byte(text), 0)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		// The text is for who is refused. A full volume must not keep from starting what would empty it.
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Truncate(int64(len(text)))
}

// Held implements FS.
func (osFS) Held(name string) (bool, error) {
	f, _, err := openRegular(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = retryEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) })
	_ = f.Close() // which lets go of the lock
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "flock", Path: name, Err: err}
	}
	return false, nil
}

// maxHolder bounds what is read from a lock file into an error text.
const maxHolder = 4096

func readHolder(f *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxHolder))
	if text := strings.TrimSpace(string(b)); err == nil && text != "" {
		return text
	}
	return "a process that left no name"
}

func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// PrivateDir makes a directory for temporary files that only this user may enter. Remove deletes it with all in it.
func PrivateDir(prefix string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", prefix)
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// AppendPrivate adds to a file that only this user may read, and makes it and its directory. Not durable.
func AppendPrivate(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return writePrivate(name, os.O_APPEND, content)
}

// WritePrivate puts content in the place of what a file holds that only this user may read. Not durable.
func WritePrivate(name string, content []byte) error { return writePrivate(name, os.O_TRUNC, content) }

func writePrivate(name string, how int, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
