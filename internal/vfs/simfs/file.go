package simfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// file is an open file of a disk.
type file struct {
	s      *FS
	n      *node
	name   string
	write  bool
	closed bool // guarded by s.mu
}

func (f *file) simple(op Op, act func() error) error {
	op.Name = f.name
	return f.s.simple(op, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		return act()
	})
}

var _ vfs.File = (*file)(nil)

// ReadAt implements vfs.File.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	eof := false
	err = f.simple(Op{Kind: ReadAt, Offset: off, Bytes: int64(len(p))}, func() error {
		if off < 0 {
			return syscall.EINVAL
		}
		if off < int64(len(f.n.live)) {
			n = copy(p, f.n.live[off:])
		}
		eof = n < len(p)
		return nil
	})
	if err == nil && eof {
		err = io.EOF
	}
	return n, err
}

// WriteAt implements vfs.File.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.put(Op{Kind: WriteAt, Offset: off, Bytes: int64(len(p))}, p, func() int64 { return off })
	return int(n), err
}

// Writev implements vfs.File.
func (f *file) Writev(bufs [][]byte) (int64, error) {
	p := bytes.Join(bufs, nil)
	f.s.mu.Lock()
	end := int64(len(f.n.live))
	f.s.mu.Unlock()
	return f.put(Op{Kind: Writev, Offset: end, Bytes: int64(len(p))}, p, func() int64 { return int64(len(f.n.live)) })
}

func (f *file) put(op Op, p []byte, off func() int64) (n int64, err error) {
	op.Name = f.name
	err = f.s.do(op, func(fault error) error {
		var short *ShortWrite
		switch {
		case f.closed:
			fault = fs.ErrClosed
		case !f.write:
			fault = syscall.EBADF
		case errors.As(fault, &short):
			n, fault = min(short.Bytes, int64(len(p))), short.Err
			f.s.write(f.n, off(), p[:n])
		case fault == nil:
			n = int64(len(p))
			f.s.write(f.n, off(), p)
		}
		if fault != nil {
			return &fs.PathError{Op: string(op.Kind), Path: f.name, Err: fault}
		}
		return nil
	})
	return n, err
}

// Sync implements vfs.File. See Hook for a failed one.
func (f *file) Sync() error {
	return f.s.do(Op{Kind: Sync, Name: f.name}, func(fault error) error {
		switch {
		case f.closed:
			fault = fs.ErrClosed
		case fault != nil:
			f.n.drop()
		default:
			f.n.sync()
		}
		if fault != nil {
			return &fs.PathError{Op: string(Sync), Path: f.name, Err: fault}
		}
		return nil
	})
}

// Truncate implements vfs.File.
func (f *file) Truncate(size int64) error {
	return f.simple(Op{Kind: Truncate, Offset: size}, func() error {
		if !f.write || size < 0 {
			return syscall.EINVAL
		}
		f.s.truncate(f.n, size)
		return nil
	})
}

// Touch implements vfs.File.
func (f *file) Touch(t time.Time) error {
	return f.simple(Op{Kind: Touch}, func() error {
		f.s.seq++
		f.n.mod, f.n.modSeq = t, f.s.seq
		return nil
	})
}

// Stat implements vfs.File.
func (f *file) Stat() (in vfs.Info, err error) {
	err = f.simple(Op{Kind: FileStat}, func() error {
		in = f.n.info()
		return nil
	})
	return in, err
}

// Close implements vfs.File. It closes also when it returns an error.
func (f *file) Close() error {
	err := f.simple(Op{Kind: Close}, func() error { return nil })
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.closed = true
	return err
}
