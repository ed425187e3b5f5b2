package simfs

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// FS is the simulated disk as one process sees it. Safe for use by many goroutines.
type FS struct {
	*disk

	off  bool // guarded by mu, as all of disk
	hook Hook
}

// disk is what the processes on one machine share.
type disk struct {
	now func() time.Time

	mu    sync.Mutex
	root  *node
	inode uint64 // last one given out
	seq   int    // of the newest unsynced operation; one journal for data and directories
	locks map[*lock]struct{}
	space vfs.Space
	k     int // operations so far
	noLog bool
	ops   []Op
}

var _ vfs.FS = (*FS)(nil)

// New returns an empty disk. The clock sets modification times; nil is time.Now.
func New(now func() time.Time) *FS {
	if now == nil {
		now = time.Now
	}
	s := &FS{disk: &disk{now: now, locks: map[*lock]struct{}{}, space: vfs.Space{Free: 1 << 40, Total: 1 << 40}}}
	s.root = s.newNode(true)
	return s
}

// Process returns the same disk as another process sees it: with a hook of its own, and an end of its own.
// ErrOff from its hook, or its PowerOff, is a kill -9 of this process: its locks are free at once and the others
// go on.
func (s *FS) Process() *FS { return &FS{disk: s.disk} }

// SetHook replaces the hook of this process; nil removes it.
func (s *FS) SetHook(h Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = h
}

// SetSpace sets what Space reports. Writes are not bounded by it; a Hook can fail them.
func (s *FS) SetSpace(sp vfs.Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.space = sp
}

// PowerOff makes every later operation of this process fail with ErrOff, and frees its locks.
func (s *FS) PowerOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

func (s *FS) end() {
	s.off = true
	maps.DeleteFunc(s.locks, func(l *lock, _ struct{}) bool { return l.s == s })
}

// NoLog makes a new disk, and those that crashes make of it, keep no log of operations: for sweeps over thousands
// of disks, where the log is most of the memory.
func (s *FS) NoLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noLog = true
}

// Ops returns the log of all operations so far.
func (s *FS) Ops() []Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ops)
}

// do logs an operation, asks the hook, and runs it with the lock held. act gets what the hook returned and
// has no effect if that is an error, except as the Hook's comment says.
func (s *FS) do(op Op, act func(fault error) error) error {
	s.mu.Lock()
	if s.off {
		s.mu.Unlock()
		return ErrOff
	}
	op.K = s.k
	s.k++
	logged := !s.noLog
	if logged {
		s.ops = append(s.ops, op)
	}
	hook := s.hook
	s.mu.Unlock()
	var fault error
	if hook != nil {
		fault = hook(op)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(fault, ErrOff) {
		s.end()
	}
	err := ErrOff
	if !s.off {
		err = act(fault)
	}
	if logged {
		s.ops[op.K].Err = err
	}
	return err
}

// simple is do for operations that a fault makes fail without effect.
func (s *FS) simple(op Op, act func() error) error {
	return s.do(op, func(fault error) error {
		err := fault
		if err == nil {
			err = act()
		}
		if err != nil {
			return &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: err}
		}
		return nil
	})
}

func clean(name string) string { return filepath.Clean("/" + name) }

// lookup walks to a node. ENOENT, ENOTDIR.
func (s *FS) lookup(name string) (*node, error) {
	n := s.root
	for base := range strings.SplitSeq(clean(name)[1:], "/") {
		switch {
		case base == "": // the root itself
		case n.dir == nil:
			return nil, syscall.ENOTDIR
		case n.dir.live[base] == nil:
			return nil, syscall.ENOENT
		default:
			n = n.dir.live[base]
		}
	}
	return n, nil
}

// parent returns the directory that holds a name.
func (s *FS) parent(name string) (*dir, string, error) {
	dirName, base := filepath.Split(clean(name))
	n, err := s.lookup(dirName)
	if err != nil {
		return nil, "", err
	}
	if n.dir == nil {
		return nil, "", syscall.ENOTDIR
	}
	return n.dir, base, nil
}

// change applies unsynced directory operations that belong together, each in its directory.
func (s *FS) change(ops map[*dir]dirOp) {
	s.seq++
	for d, op := range ops {
		op.seq = s.seq
		op.apply(d.live)
		d.pending = append(d.pending, op)
	}
}

// Create implements vfs.FS.
func (s *FS) Create(name string) (vfs.File, error) {
	var f *file
	err := s.simple(Op{Kind: Create, Name: name}, func() error {
		d, base, err := s.parent(name)
		if err != nil {
			return err
		}
		if d.live[base] != nil {
			return syscall.EEXIST
		}
		n := s.newNode(false)
		s.change(map[*dir]dirOp{d: {add: base, n: n}})
		f = &file{s: s, n: n, name: name, write: true}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Open implements vfs.FS.
func (s *FS) Open(name string) (vfs.File, error) { return s.open(Open, name) }

// OpenRW implements vfs.FS.
func (s *FS) OpenRW(name string) (vfs.File, error) { return s.open(OpenRW, name) }

func (s *FS) open(kind Kind, name string) (vfs.File, error) {
	var f *file
	err := s.simple(Op{Kind: kind, Name: name}, func() error {
		n, err := s.lookup(name)
		if err != nil {
			return err
		}
		if n.dir != nil {
			return syscall.EISDIR
		}
		f = &file{s: s, n: n, name: name, write: kind == OpenRW}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Link implements vfs.FS.
func (s *FS) Link(oldname, newname string) error {
	return s.simple(Op{Kind: Link, Name: oldname, To: newname}, func() error {
		n, err := s.lookup(oldname)
		if err != nil {
			return err
		}
		d, base, err := s.parent(newname)
		switch {
		case err != nil:
			return err
		case n.dir != nil:
			return syscall.EPERM
		case d.live[base] != nil:
			return syscall.EEXIST
		}
		s.change(map[*dir]dirOp{d: {add: base, n: n}})
		return nil
	})
}

// Rename implements vfs.FS. Files only.
func (s *FS) Rename(oldname, newname string) error {
	return s.simple(Op{Kind: Rename, Name: oldname, To: newname}, func() error {
		from, oldBase, err := s.parent(oldname)
		if err != nil {
			return err
		}
		to, newBase, err := s.parent(newname)
		if err != nil {
			return err
		}
		n, old := from.live[oldBase], to.live[newBase]
		switch {
		case n == nil:
			return syscall.ENOENT
		case n.dir != nil:
			return syscall.ENOTSUP
		case old != nil && old.dir != nil:
			return syscall.EISDIR
		case n == old: // two names of one file: POSIX leaves both
		case from == to:
			s.change(map[*dir]dirOp{from: {del: oldBase, add: newBase, n: n}})
		default:
			s.change(map[*dir]dirOp{from: {del: oldBase}, to: {add: newBase, n: n}})
		}
		return nil
	})
}

// Remove implements vfs.FS.
func (s *FS) Remove(name string) error {
	return s.simple(Op{Kind: Remove, Name: name}, func() error {
		d, base, err := s.parent(name)
		if err != nil {
			return err
		}
		n := d.live[base]
		switch {
		case n == nil:
			return syscall.ENOENT
		case n.dir != nil && len(n.dir.live) > 0:
			return syscall.ENOTEMPTY
		}
		s.change(map[*dir]dirOp{d: {del: base}})
		return nil
	})
}

// Stat implements vfs.FS.
func (s *FS) Stat(name string) (in vfs.Info, err error) {
	err = s.simple(Op{Kind: Stat, Name: name}, func() error {
		n, err := s.lookup(name)
		if err == nil {
			in = n.info()
		}
		return err
	})
	return in, err
}
