package simfs

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Kind of an operation.
type Kind string

// The operations. MkdirAll is not one: it is a Mkdir and a SyncDir for each directory.
const (
	Create   Kind = "create"
	Open     Kind = "open"
	OpenRW   Kind = "openrw"
	Link     Kind = "link"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	List     Kind = "list"
	Stat     Kind = "stat"
	Mkdir    Kind = "mkdir"
	SyncDir  Kind = "syncdir"
	Lock     Kind = "lock"
	Space    Kind = "space"
	ReadAt   Kind = "readat"
	WriteAt  Kind = "writeat"
	Writev   Kind = "writev"
	Sync     Kind = "sync"
	Truncate Kind = "truncate"
	Touch    Kind = "touch"
	FileStat Kind = "filestat"
	Close    Kind = "close"
)

// Changes tells whether the operation changes the disk or what of it is durable. A crash before any other one
// leaves the same disk as a crash before the next that does, so sweeps need to cut only here.
func (k Kind) Changes() bool {
	switch k {
	case Open, OpenRW, List, Stat, Space, ReadAt, FileStat, Close:
		return false
	}
	return true
}

// Is tells whether two kinds are the same; for FailAt.
func (k Kind) Is(other Kind) bool { return k == other }

// Op is one operation.
type Op struct {
	K      int // its number on this disk, from 0
	Kind   Kind
	Name   string
	To     string // the new name of a link or rename
	Offset int64  // of a read, write or truncate
	Bytes  int64  // asked to be read or written
	Err    error  // in the log: what it returned
}

func (o Op) String() string {
	s := fmt.Sprintf("%d %s %s", o.K, o.Kind, o.Name)
	if o.To != "" {
		s += " -> " + o.To
	}
	if o.Bytes != 0 || o.Offset != 0 {
		s += fmt.Sprintf(" [%d+%d]", o.Offset, o.Bytes)
	}
	if o.Err != nil {
		s += ": " + o.Err.Error()
	}
	return s
}

// ErrOff is what every operation returns once the machine is off. A Hook returns it to switch the machine off
// before the operation.
var ErrOff = errors.New("simfs: machine is off")

// ShortWrite is returned by a Hook for a write: it lets Bytes of it reach the file and fails the rest with Err.
type ShortWrite struct { //nolint:errname // reads as what a Hook does to a write
	Bytes int64
	Err   error
}

func (s *ShortWrite) Error() string {
	return fmt.Sprintf("simfs: short write of %d bytes: %v", s.Bytes, s.Err)
}

func (s *ShortWrite) Unwrap() error { return s.Err }

// Hook sees each operation before it happens. nil lets it happen; ErrOff switches the machine off; *ShortWrite
// shortens a write; any other error fails the operation, which then has no effect, except that a Sync drops the
// unsynced bytes for good. It is called without the disk's lock, by the goroutine of the operation, and may
// itself use the disk.
type Hook func(Op) error

// FailAt returns a Hook that answers the n-th operation, from 0, of the kinds that match with err, and a function
// that tells whether it came to that. For one kind: FailAt(0, simfs.Sync.Is, syscall.EIO). For sweeps: n = 0, 1,
// 2, ... until it does not.
func FailAt(n int, match func(Kind) bool, err error) (hook Hook, fired func() bool) {
	var seen atomic.Int64
	hook = func(op Op) error {
		if match(op.Kind) && seen.Add(1) == int64(n)+1 {
			return err
		}
		return nil
	}
	return hook, func() bool { return seen.Load() > int64(n) }
}

// CutAt is FailAt that switches the machine off before the n-th operation that changes the disk.
func CutAt(n int) (hook Hook, fired func() bool) { return FailAt(n, Kind.Changes, ErrOff) }
