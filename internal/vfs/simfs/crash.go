package simfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Policy says how much of what was not synced a crash keeps.
type Policy int

const (
	// KeepNone is a power loss that keeps only what was synced.
	KeepNone Policy = iota
	// KeepPrefix is a power loss on a disk that writes everything in order, over all files and directories: it
	// stops at a random point, perhaps inside a write.
	KeepPrefix
	// KeepAny is a power loss on a disk without order: any subset of directory operations and of 512-byte
	// sectors; what is missing between is zeros.
	KeepAny
	// KeepAll is kill -9: everything is there, and what was not synced is still not durable.
	KeepAll
)

// Policies returns all of them.
func Policies() []Policy { return []Policy{KeepNone, KeepPrefix, KeepAny, KeepAll} }

func (p Policy) String() string {
	return [...]string{"KeepNone", "KeepPrefix", "KeepAny", "KeepAll"}[p]
}

// sector is what a disk writes whole or not at all.
const sector = 512

// Crash returns the disk as it is found after a crash at this moment: no locks, no hook, an empty log. The same
// random source gives the same disk. The old disk is left as it is and may go on.
func (s *FS) Crash(p Policy, rng *rand.Rand) *FS {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &crash{policy: p, rng: rng, seen: map[*node]*node{}}
	c.draw(pendingSeqs(s.root))
	return &FS{disk: &disk{
		now: s.now, root: c.node(s.root), inode: s.inode, seq: s.seq,
		locks: map[*lock]struct{}{}, space: s.space, noLog: s.noLog,
	}}
}

// pendingSeqs returns the numbers of all operations below a node that are not durable, in order.
func pendingSeqs(root *node) []int {
	var seqs []int
	seen := map[*node]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		for _, op := range n.pending {
			seqs = append(seqs, op.seq)
		}
		if n.dir == nil {
			return
		}
		for _, m := range n.dir.durable {
			walk(m)
		}
		for _, op := range n.dir.pending {
			seqs = append(seqs, op.seq)
			walk(op.n)
		}
	}
	walk(root)
	slices.Sort(seqs)
	return slices.Compact(seqs)
}

// draw chooses where KeepPrefix stops: before the first operation that is not durable, or after one of them.
func (c *crash) draw(pending []int) {
	i := c.rng.IntN(len(pending) + 1)
	if i > 0 {
		c.cut = pending[i-1]
	}
	if i < len(pending) {
		c.next = pending[i]
	}
}

type crash struct {
	policy Policy
	rng    *rand.Rand
	cut    int // KeepPrefix: the last operation that was written
	next   int // KeepPrefix: the one that may have been torn; 0 is none
	seen   map[*node]*node
}

// keeps draws whether an unsynced operation was written.
func (c *crash) keeps(seq int) bool {
	switch c.policy {
	case KeepAll:
		return true
	case KeepPrefix:
		return seq <= c.cut
	case KeepAny:
		return c.rng.IntN(2) == 0
	case KeepNone:
	}
	return false
}

func (c *crash) node(n *node) *node {
	if out := c.seen[n]; out != nil {
		return out
	}
	out := &node{inode: n.inode, mod: n.durableMod, durableMod: n.durableMod, modSeq: n.modSeq}
	c.seen[n] = out
	if n.mod != n.durableMod && c.keeps(n.modSeq) {
		out.mod = n.mod
	}
	if c.policy != KeepAll {
		out.durableMod = out.mod
	}
	switch {
	case n.dir != nil:
		out.dir = c.dir(n.dir)
	case c.policy == KeepAll:
		out.live, out.durable, out.pending = slices.Clone(n.live), slices.Clone(n.durable), slices.Clone(n.pending)
	default:
		out.live = c.data(n)
		out.durable = slices.Clone(out.live)
	}
	return out
}

// dir visits names in order, because each visit draws.
func (c *crash) dir(d *dir) *dir {
	if c.policy == KeepAll {
		out := &dir{live: c.names(d.live), durable: c.names(d.durable)}
		for _, op := range d.pending {
			if op.n != nil {
				op.n = c.node(op.n)
			}
			out.pending = append(out.pending, op)
		}
		return out
	}
	names := maps.Clone(d.durable)
	for _, op := range d.pending {
		if c.keeps(op.seq) {
			op.apply(names)
		}
	}
	names = c.names(names)
	return &dir{live: names, durable: maps.Clone(names)}
}

func (c *crash) names(in map[string]*node) map[string]*node {
	out := make(map[string]*node, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		out[name] = c.node(in[name])
	}
	return out
}

// data draws what is in a file.
func (c *crash) data(n *node) []byte {
	b := slices.Clone(n.durable)
	for _, op := range n.pending {
		switch {
		case c.policy == KeepAny && !op.truncate:
			b = c.sectors(b, op)
		case c.keeps(op.seq):
			b = op.apply(b)
		case c.policy == KeepPrefix && op.seq == c.next && !op.truncate:
			b = c.torn(b, op)
		}
	}
	return b
}

// sectors writes any subset of the sectors of a write, and perhaps only the size.
func (c *crash) sectors(b []byte, op dataOp) []byte {
	end := op.off + int64(len(op.data))
	if c.rng.IntN(2) == 0 && int64(len(b)) < end {
		b = resize(b, end)
	}
	for off := op.off; off < end; {
		next := min((off/sector+1)*sector, end)
		if c.rng.IntN(2) == 0 {
			b = dataOp{off: off, data: op.data[off-op.off : next-op.off]}.apply(b)
		}
		off = next
	}
	return b
}

// torn writes the sectors of a write up to a random one.
func (c *crash) torn(b []byte, op dataOp) []byte {
	end := op.off + int64(len(op.data))
	sectors := int((end-1)/sector - op.off/sector + 1)
	stop := min((op.off/sector+int64(c.rng.IntN(sectors+1)))*sector, end)
	if stop <= op.off {
		return b
	}
	return dataOp{off: op.off, data: op.data[:stop-op.off]}.apply(b)
}
