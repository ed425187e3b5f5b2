package killfs

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// FS is the real file system, which kills its process before the k-th change. What only reads is not counted: a death
// before it leaves the same disk. One MkdirAll is one change, whatever it makes.
type FS struct {
	vfs.FS

	left   atomic.Int64
	obit   io.Writer // is told the change that never came
	enough chan struct{}
}

func newFS(k int64, obit io.Writer) *FS {
	m := &FS{FS: vfs.OS(), obit: obit, enough: make(chan struct{})}
	m.left.Store(k)
	return m
}

func (m *FS) step(change string) {
	switch left := m.left.Add(-1); {
	case left == -1:
		_, _ = fmt.Fprintf(m.obit, "died %s\n", change)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-m.enough // never: nothing more may happen in this goroutine
	case left < -1:
		<-m.enough
	}
}

// Create of the real file system, if the process lives to make it.
func (m *FS) Create(name string) (vfs.File, error) {
	m.step("create")
	return m.mortal(m.FS.Create(name))
}

// OpenRW changes nothing by itself; what is done to the file counts.
func (m *FS) OpenRW(name string) (vfs.File, error) { return m.mortal(m.FS.OpenRW(name)) }

func (m *FS) mortal(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return file{f, m}, nil
}

// Link of the real file system, if the process lives to make it.
func (m *FS) Link(from, to string) error {
	m.step("link")
	return m.FS.Link(from, to)
}

// Rename of the real file system, if the process lives to make it.
func (m *FS) Rename(from, to string) error {
	m.step("rename")
	return m.FS.Rename(from, to)
}

// Remove of the real file system, if the process lives to make it.
func (m *FS) Remove(name string) error {
	m.step("remove")
	return m.FS.Remove(name)
}

// Mkdir of the real file system, if the process lives to make it.
func (m *FS) Mkdir(dir string) error {
	m.step("mkdir")
	return m.FS.Mkdir(dir)
}

// MkdirAll of the real file system, if the process lives to make it.
func (m *FS) MkdirAll(dir string) error {
	m.step("mkdir")
	return m.FS.MkdirAll(dir)
}

// SyncDir of the real file system, if the process lives to make it.
func (m *FS) SyncDir(dir string) error {
	m.step("syncdir")
	return m.FS.SyncDir(dir)
}

// Lock of the real file system, if the process lives to make it.
func (m *FS) Lock(name, text string) (io.Closer, error) {
	m.step("lock")
	return m.FS.Lock(name, text)
}

// LockShared is one change, as Lock is.
func (m *FS) LockShared(name, text string) (io.Closer, error) {
	m.step("lock")
	return m.FS.LockShared(name, text)
}

type file struct {
	vfs.File

	m *FS
}

func (f file) Writev(bufs [][]byte) (int64, error) {
	f.m.step("writev")
	return f.File.Writev(bufs)
}

func (f file) WriteAt(p []byte, off int64) (int, error) {
	f.m.step("writeat")
	return f.File.WriteAt(p, off)
}

func (f file) Sync() error {
	f.m.step("sync")
	return f.File.Sync()
}

func (f file) Truncate(size int64) error {
	f.m.step("truncate")
	return f.File.Truncate(size)
}

func (f file) Touch(at time.Time) error {
	f.m.step("touch")
	return f.File.Touch(at)
}
