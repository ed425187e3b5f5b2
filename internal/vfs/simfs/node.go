package simfs

import (
	"errors"
	"slices"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// node is an inode: a directory, or a file with its bytes.
type node struct {
	inode uint64
	dir   *dir // nil for a file

	live    []byte   // what reads see
	durable []byte   // what every crash keeps
	pending []dataOp // from durable to live, in order; after a failed Sync they no longer add up to live

	mod        time.Time
	durableMod time.Time
	modSeq     int
}

// dir holds the names of a directory.
type dir struct {
	live, durable map[string]*node
	pending       []dirOp // from durable to live, in order
}

// dirOp is one unsynced change: a name removed, a name added or replaced, or both at once.
type dirOp struct {
	del, add string
	n        *node
	seq      int
}

func (o dirOp) apply(names map[string]*node) {
	if o.del != "" {
		delete(names, o.del)
	}
	if o.add != "" {
		names[o.add] = o.n
	}
}

// dataOp is one unsynced write, or the setting of the size to off.
type dataOp struct {
	off      int64
	data     []byte
	truncate bool
	seq      int
}

func (o dataOp) apply(b []byte) []byte {
	if o.truncate {
		return resize(b, o.off)
	}
	if end := o.off + int64(len(o.data)); int64(len(b)) < end {
		b = resize(b, end)
	}
	copy(b[o.off:], o.data)
	return b
}

// resize cuts b or fills it up with zeros.
func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size] // a later append must not find the old bytes
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

func (s *FS) newNode(isDir bool) *node {
	s.inode++
	n := &node{inode: s.inode, mod: s.now()}
	n.durableMod = n.mod
	if isDir {
		n.dir = &dir{live: map[string]*node{}, durable: map[string]*node{}}
	}
	return n
}

func (n *node) info() vfs.Info {
	return vfs.Info{Size: int64(len(n.live)), ModTime: n.mod, Inode: n.inode, IsDir: n.dir != nil}
}

func (s *FS) write(n *node, off int64, data []byte) {
	if len(data) == 0 {
		return
	}
	s.record(n, dataOp{off: off, data: slices.Clone(data)})
	n.mod = s.now()
	n.modSeq = s.seq
}

func (s *FS) truncate(n *node, size int64) {
	if size != int64(len(n.live)) {
		s.record(n, dataOp{off: size, truncate: true})
	}
}

func (s *FS) record(n *node, op dataOp) {
	s.seq++
	op.seq = s.seq
	n.live = op.apply(n.live)
	n.pending = append(n.pending, op)
}

// sync makes the bytes and the size durable.
func (n *node) sync() {
	for _, op := range n.pending {
		n.durable = op.apply(n.durable)
	}
	n.pending = nil
}

// drop is a failed sync: the kernel marks the pages clean, and nothing will ever write them. The size may still
// get to the disk with later metadata; so may zeros in their place, which the next write behind them shows.
func (n *node) drop() { n.pending = nil }

// errNotAtRest is Decay's answer for what somebody writes.
var errNotAtRest = errors.New("simfs: not at rest")

// Decay changes bytes of a file that is at rest, on the medium itself: what reads see and what every crash keeps. It is
// nobody's operation.
func (s *FS) Decay(name string, change func(b []byte)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.lookup(name)
	if err != nil {
		return err
	}
	if n.dir != nil || len(n.pending) > 0 || len(n.live) == 0 {
		return errNotAtRest
	}
	n.live = slices.Clone(n.live)
	change(n.live)
	n.durable = slices.Clone(n.live)
	return nil
}
