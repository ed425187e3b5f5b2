// Package vfs is the file-system seam of the write-ahead log: every file call of the core packages goes
// through FS, so that a test can record each operation, fail it, or cut the power after it.
//
// The seam promises what the kernel promises and no more:
//
//   - File.Sync makes the bytes and the size of that file durable, never its name.
//   - FS.SyncDir makes the names in that directory durable, never the bytes behind them.
//   - After a Sync that returned an error the unsynced bytes are lost for good, though reads may still
//     show them; a later Sync of the same file that returns nil proves nothing.
//
// os.go, with osfile.go for what is open, is the only place of the repository that calls the operating system's file functions; simfs
// simulates a disk that loses what was not synced.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// FS is the whole file-system surface the core may use. Names are operating-system paths and are passed on
// as given. Errors satisfy errors.Is with fs.ErrNotExist and fs.ErrExist where the kernel says so, and with
// the syscall.Errno it returned.
type FS interface {
	// Create makes a new file, mode 0640, open for reading and appending. fs.ErrExist if the name is taken.
	Create(name string) (File, error)
	// Open opens a file for reading. It waits for nobody: ErrIrregular of a FIFO or a socket.
	Open(name string) (File, error)
	// OpenRW opens an existing file for reading and appending, as Open does. For recovery and marking only.
	OpenRW(name string) (File, error)
	// Link gives the file behind oldname the further name newname; fs.ErrExist if it is taken.
	Link(oldname, newname string) error
	// Rename publishes a finished temporary file within one directory and replaces what held newname.
	// Segments change state by segment.Lane.Move, never by Rename.
	Rename(oldname, newname string) error
	// Remove unlinks a file or removes an empty directory.
	Remove(name string) error
	// List returns the entries of a directory in name order.
	List(dir string) ([]Entry, error)
	// Stat describes a name without opening it. It does not follow symbolic links.
	Stat(name string) (Info, error)
	// Mkdir creates one directory, mode 0750. fs.ErrExist if the name is taken. Durable once its parent is synced.
	Mkdir(dir string) error
	// MkdirAll creates dir and what is missing above it, mode 0750, from the top. Durable when it returns, also
	// when an earlier call died half-way: the parent of each directory made is synced, and so is the parent of
	// the deepest one found, because its maker may have been killed before doing so.
	MkdirAll(dir string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Lock takes the exclusive advisory lock of a file, created if missing, and writes text into it for
	// whoever is refused. *LockedError when another process, or another lock of this one, holds it. Close
	// releases; the end of the process releases too. The lock is the file's, not the name's: who holds it may
	// Remove the name, and the next Lock makes another file. NoLocks tells an error of a volume without locks.
	// ErrIrregular as Open.
	Lock(name, text string) (io.Closer, error)
	// LockShared is Lock beside others of its kind: it is refused while an exclusive lock is held, and while it
	// is held an exclusive one is refused. The file names the last who came.
	LockShared(name, text string) (io.Closer, error)
	// Held tells whether somebody has the exclusive lock of a file; false without the file. It changes nothing, but in
	// the moment of the question a Lock of somebody else is refused: do not ask for every request.
	Held(name string) (bool, error)
	// Space tells how much room the volume behind dir has.
	Space(dir string) (Space, error)
}

// File is an open file. Writes append, except WriteAt.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Writev appends the buffers in order and returns the bytes that reached the file, fewer than their sum
	// only with an error. One system call where the kernel takes them all.
	Writev(bufs [][]byte) (int64, error)
	// Sync makes the file's bytes and size durable (fdatasync).
	Sync() error
	// Truncate cuts or extends the file; the next Writev appends at the new end.
	Truncate(size int64) error
	// Touch sets the modification time.
	Touch(t time.Time) error
	Stat() (Info, error)
}

// Entry is one name in a directory.
type Entry struct {
	Name  string
	IsDir bool
}

// Info describes a file. Two names with the same Inode on one volume are one file.
type Info struct {
	Size    int64 // bytes
	ModTime time.Time
	Inode   uint64
	IsDir   bool
	Special bool // a FIFO, a socket or a device: to open it otherwise than FS does may wait for ever
}

// ErrIrregular says that what has the name is no regular file but a FIFO or a socket. Nothing here makes one.
var ErrIrregular = errors.New("it is no regular file")

// Space is the room of a volume in bytes. Free counts what an unprivileged process may use.
type Space struct {
	Free, Total int64
}

// LockedError reports a lock held by somebody else. Holder is the text the holder wrote.
type LockedError struct {
	Name   string
	Holder string
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("lock %s: held by %s", e.Name, e.Holder)
}

// NoLocks tells whether err, of Lock or LockShared, says that the volume has no locks.
func NoLocks(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP)
}

// NoFile tells whether err, of Open, OpenRW, Lock, LockShared or Held, says that a directory, a FIFO or a socket has the name.
func NoFile(err error) bool { return errors.Is(err, ErrIrregular) || errors.Is(err, syscall.EISDIR) }

// NoLinks tells whether err, of Link, says that the volume has no hard links, or none for that file, and not that it is in
// trouble.
func NoLinks(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EMLINK)
}
