package crashtest

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// bug is a mistake that a wrapped file system makes for the product.
type bug struct {
	life, recovery func(vfs.FS) vfs.FS
	policy         simfs.Policy
	fault          string // that brings it to light, with the policy
	breaks         string // id of the promise
}

// bugs are planted one at a time. The product has no flag for any of them.
var bugs = map[string]bug{
	"": {life: plain, recovery: plain},
	"no-directory-sync": {
		life: lazy(wrapped{noSyncDir: true}), recovery: plain, breaks: "ACK-1",
	},
	"ack-before-sync": {
		life: lazy(wrapped{noSync: true}), recovery: plain, breaks: "ACK-1",
	},
	"failed-sync-retried": {
		life: lazy(wrapped{retrySync: true}), recovery: plain, fault: "sync-eio", breaks: "ACK-1",
	},
	"no-rollback-of-a-torn-append": {
		life: lazy(wrapped{noTruncate: true}), recovery: plain, fault: "writev-short-900", breaks: "ACK-1",
	},
	"no-checksum": {
		life: plain, recovery: lazy(wrapped{noChecksum: true}), policy: simfs.KeepAny, breaks: "ACK-2",
	},
	"no-sync-in-recovery": {
		life: plain, recovery: lazy(wrapped{noSync: true, noSyncDir: true}), policy: simfs.KeepAll, breaks: "SEE-1",
	},
	"header-without-tail": {
		life: lazy(wrapped{headerOnly: true}), recovery: plain, breaks: "ACK-1",
	},
}

func plain(fsys vfs.FS) vfs.FS { return fsys }

// wrapped is a file system that does something else than it was asked to, with segments and with the directories
// of states: what else there is would give it away in the first moments of a life.
type wrapped struct {
	vfs.FS
	noSyncDir  bool // names are not made durable, and nobody is told
	noSync     bool // nor are the bytes
	retrySync  bool // a failed sync is tried again, and the second answer is believed
	noTruncate bool // what a short write left stays in the file
	noChecksum bool // the checksums of messages are not looked at
	headerOnly bool // of a file that is sealed the sync takes the header's sector and leaves the tail
}

func lazy(w wrapped) func(vfs.FS) vfs.FS {
	return func(fsys vfs.FS) vfs.FS {
		w := w
		w.FS = fsys
		return &w
	}
}

func (w *wrapped) SyncDir(dir string) error {
	if w.noSyncDir && isState(filepath.Base(dir)) {
		return nil
	}
	return w.FS.SyncDir(dir)
}

func (w *wrapped) Create(name string) (vfs.File, error) { return w.file(name, w.FS.Create) }
func (w *wrapped) Open(name string) (vfs.File, error)   { return w.file(name, w.FS.Open) }
func (w *wrapped) OpenRW(name string) (vfs.File, error) { return w.file(name, w.FS.OpenRW) }

func (w *wrapped) file(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := open(name)
	if err != nil || !strings.Contains(name, ".arrow") {
		return f, err
	}
	return &wrappedFile{File: f, w: w}, nil
}

type wrappedFile struct {
	vfs.File
	w      *wrapped
	tail   []byte // appended since the last sync
	headed bool   // its beginning was overwritten since then
}

func (f *wrappedFile) Truncate(size int64) error {
	if f.w.noTruncate {
		return nil
	}
	return f.File.Truncate(size)
}

func (f *wrappedFile) Writev(bufs [][]byte) (int64, error) {
	all := bytes.Join(bufs, nil) // what is written may be reused when the call returns
	n, err := f.File.Writev(bufs)
	f.tail = append(f.tail, all[:n]...)
	return n, err
}

func (f *wrappedFile) WriteAt(p []byte, off int64) (int, error) {
	f.headed = f.headed || off == 0
	return f.File.WriteAt(p, off)
}

func (f *wrappedFile) Sync() error {
	if f.w.noSync {
		return nil
	}
	if f.w.headerOnly && f.headed {
		return f.syncHeader()
	}
	err := f.File.Sync()
	if err != nil && f.w.retrySync {
		return f.File.Sync()
	}
	f.tail = nil
	return err
}

// syncHeader makes durable what was overwritten and leaves what was appended in the cache.
func (f *wrappedFile) syncHeader() error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	tail := f.tail
	if err := errors.Join(f.File.Truncate(info.Size-int64(len(tail))), f.File.Sync()); err != nil {
		return err
	}
	_, err = f.File.Writev([][]byte{tail})
	f.tail, f.headed = nil, false
	return err
}

// The key of a message's checksum, and one that nobody knows: without a key there is no checksum to look at.
var crcKey, otherKey = []byte("siglake.crc32c"), []byte("siglake.crc32x")

// ReadAt gives bytes of which no checksum tells that they are damaged: those of the messages are hidden, those of
// the header are made to fit.
func (f *wrappedFile) ReadAt(p []byte, off int64) (int, error) {
	info, err := f.Stat()
	if err != nil || !f.w.noChecksum || info.Size < frame.HeaderSize {
		return f.File.ReadAt(p, off)
	}
	all := make([]byte, info.Size)
	if n, err := f.File.ReadAt(all, 0); n < len(all) {
		return 0, err
	}
	all = bytes.ReplaceAll(all, crcKey, otherKey)
	if h, err := frame.ParseHeader(all); err == nil && !h.Partial {
		h.CRC = crc32.ChecksumIEEE(all[frame.HeaderSize:])
		head := h.Encode()
		copy(all, head[:])
	}
	n := copy(p, all[min(off, info.Size):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
