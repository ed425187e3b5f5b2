package simfs

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// List implements vfs.FS.
func (s *FS) List(name string) ([]vfs.Entry, error) {
	var out []vfs.Entry
	err := s.simple(Op{Kind: List, Name: name}, func() error {
		n, err := s.lookup(name)
		if err != nil {
			return err
		}
		if n.dir == nil {
			return syscall.ENOTDIR
		}
		for _, base := range slices.Sorted(maps.Keys(n.dir.live)) {
			out = append(out, vfs.Entry{Name: base, IsDir: n.dir.live[base].dir != nil})
		}
		return nil
	})
	return out, err
}

// MkdirAll implements vfs.FS, in the same order of operations as vfs.OS.
func (s *FS) MkdirAll(name string) error {
	missing, found, err := s.missing(clean(name))
	if err != nil {
		return err
	}
	if err := s.SyncDir(filepath.Dir(found)); err != nil {
		return err
	}
	for _, m := range slices.Backward(missing) {
		if err := s.Mkdir(m); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := s.SyncDir(filepath.Dir(m)); err != nil {
			return err
		}
	}
	return nil
}

func (s *FS) missing(name string) (missing []string, found string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return nil, "", ErrOff
	}
	for ; ; name = filepath.Dir(name) {
		n, err := s.lookup(name)
		if err == nil && n.dir == nil {
			err = syscall.ENOTDIR
		}
		if err == nil {
			return missing, name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", &fs.PathError{Op: string(Mkdir), Path: name, Err: err}
		}
		missing = append(missing, name)
	}
}

// Mkdir implements vfs.FS.
func (s *FS) Mkdir(name string) error {
	name = clean(name)
	return s.simple(Op{Kind: Mkdir, Name: name}, func() error {
		d, base, err := s.parent(name)
		if err != nil {
			return err
		}
		if d.live[base] != nil {
			return syscall.EEXIST
		}
		s.change(map[*dir]dirOp{d: {add: base, n: s.newNode(true)}})
		return nil
	})
}

// SyncDir implements vfs.FS. A failed one leaves the names unsynced: a later one can still save them.
func (s *FS) SyncDir(name string) error {
	return s.simple(Op{Kind: SyncDir, Name: name}, func() error {
		n, err := s.lookup(name)
		if err != nil {
			return err
		}
		if n.dir == nil {
			return syscall.ENOTDIR
		}
		n.dir.durable, n.dir.pending = maps.Clone(n.dir.live), nil
		return nil
	})
}

// Space implements vfs.FS.
func (s *FS) Space(name string) (sp vfs.Space, err error) {
	err = s.simple(Op{Kind: Space, Name: name}, func() error {
		sp = s.space
		_, err := s.lookup(name)
		return err
	})
	return sp, err
}
