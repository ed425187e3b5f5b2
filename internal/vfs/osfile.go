//go:build linux

package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// osFile keeps the end of the file itself and writes at it with pwritev, because O_APPEND would send WriteAt
// to the end too. It is the only writer of its file: the caller holds the lane's lock.
type osFile struct {
	f   *os.File
	raw syscall.RawConn
	mu  sync.Mutex
	end int64 // guarded by mu
}

// ReadAt implements File.
func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }

// WriteAt implements File.
func (o *osFile) WriteAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.f.WriteAt(p, off)
	o.end = max(o.end, off+int64(n))
	return n, err
}

// Writev implements File.
func (o *osFile) Writev(bufs [][]byte) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := writevAll(bufs, o.end, o.pwritev)
	o.end += n
	return n, o.named("writev", err)
}

func (o *osFile) pwritev(iov [][]byte, off int64) (n int, err error) {
	err = o.control(func(fd int) error {
		var err error
		n, err = unix.Pwritev(fd, iov, off)
		return err
	})
	return max(n, 0), err
}

// control runs a system call on the descriptor while it is open, again when a signal came between.
func (o *osFile) control(call func(fd int) error) error {
	var err error
	if o.raw.Control(func(fd uintptr) { err = retryEINTR(func() error { return call(int(fd)) }) }) != nil {
		return fs.ErrClosed // its only reason to fail
	}
	return err
}

// maxIov is IOV_MAX of Linux: the kernel refuses more buffers in one call with EINVAL.
const maxIov = 1024

// writevAll writes all buffers at off and what follows, going on after short writes. It does not change bufs.
func writevAll(bufs [][]byte, off int64, write func(iov [][]byte, off int64) (int, error)) (int64, error) {
	rest := make([][]byte, 0, len(bufs))
	for _, b := range bufs {
		if len(b) > 0 {
			rest = append(rest, b)
		}
	}
	var total int64
	for len(rest) > 0 {
		n, err := write(rest[:min(len(rest), maxIov)], off+total)
		total += int64(n)
		if err != nil {
			return total, err
		}
		if n == 0 {
			return total, io.ErrShortWrite // no progress and no reason: do not spin
		}
		rest = skip(rest, n)
	}
	return total, nil
}

// skip drops the first n bytes of bufs.
func skip(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// Sync implements File.
func (o *osFile) Sync() error { return o.named("fdatasync", o.control(unix.Fdatasync)) }

func (o *osFile) named(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: o.f.Name(), Err: err}
}

// Truncate implements File.
func (o *osFile) Truncate(size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.f.Truncate(size); err != nil {
		return err
	}
	o.end = size
	return nil
}

// Touch implements File.
func (o *osFile) Touch(t time.Time) error {
	ts := unix.NsecToTimeval(t.UnixNano())
	return o.named("futimes", o.control(func(fd int) error { return unix.Futimes(fd, []unix.Timeval{ts, ts}) }))
}

// Stat implements File.
func (o *osFile) Stat() (Info, error) {
	st, err := o.f.Stat()
	if err != nil {
		return Info{}, err
	}
	return infoOf(st), nil
}

// Close implements File.
func (o *osFile) Close() error { return o.f.Close() }
