package simfs

import (
	"errors"
	"io"
	"io/fs"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// lock is a held lock. It belongs to the file, not to the name, and dies with its process and with the machine.
type lock struct {
	s      *FS
	n      *node
	shared bool
}

// Lock implements vfs.FS.
func (s *FS) Lock(name, text string) (io.Closer, error) { return s.lock(name, text, false) }

// LockShared implements vfs.FS.
func (s *FS) LockShared(name, text string) (io.Closer, error) { return s.lock(name, text, true) }

func (s *FS) lock(name, text string, shared bool) (io.Closer, error) {
	l := &lock{s: s, shared: shared}
	err := s.do(Op{Kind: Lock, Name: name}, func(fault error) error {
		d, base, err := s.parent(name)
		if err = errors.Join(fault, err); err != nil {
			return &fs.PathError{Op: string(Lock), Path: name, Err: err}
		}
		n := d.live[base]
		if n == nil {
			n = s.newNode(false)
			s.change(map[*dir]dirOp{d: {add: base, n: n}})
		}
		for held := range s.locks {
			if held.n == n && (!shared || !held.shared) {
				return &vfs.LockedError{Name: name, Holder: string(n.live)}
			}
		}
		s.write(n, 0, []byte(text))
		s.truncate(n, int64(len(text)))
		l.n = n
		s.locks[l] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Held implements vfs.FS.
func (s *FS) Held(name string) (held bool, err error) {
	err = s.simple(Op{Kind: Stat, Name: name}, func() error {
		n, err := s.lookup(name)
		for l := range s.locks {
			held = held || l.n == n && !l.shared
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return held, err
}

// Close releases the lock, also on a machine that is off.
func (l *lock) Close() error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.n == nil {
		return fs.ErrClosed
	}
	delete(l.s.locks, l)
	l.n = nil
	return nil
}
