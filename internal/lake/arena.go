package lake

import "github.com/apache/arrow-go/v18/arrow/memory"

// arenaBlock is the least that an arena asks the heap for: the columns of a chunk of usual rows.
const arenaBlock = 4 << 20

// arena is an allocator for the rows of one chunk after the other: it takes everything back at once, and gives the same
// memory out again. Without it the heap clears, and the collector frees, all that a chunk holds with each chunk.
type arena struct {
	blocks [][]byte
	at     int // the block that is given out
	used   int // of it
}

var _ memory.Allocator = (*arena)(nil)

// arenas are n of them, to be taken by turns.
func arenas(n int) chan *arena {
	all := make(chan *arena, n)
	for range n {
		all <- &arena{}
	}
	return all
}

// Allocate gives out memory that is not cleared.
func (a *arena) Allocate(size int) []byte {
	const align = 64
	need := (size + align - 1) &^ (align - 1)
	for a.at < len(a.blocks) && a.used+need > len(a.blocks[a.at]) {
		a.at, a.used = a.at+1, 0
	}
	if a.at == len(a.blocks) {
		a.blocks = append(a.blocks, memory.DefaultAllocator.Allocate(max(need, arenaBlock)))
	}
	b := a.blocks[a.at][a.used : a.used+size : a.used+need]
	a.used += need
	return b
}

// Reallocate keeps what fits in place.
func (a *arena) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	grown := a.Allocate(size)
	copy(grown, b)
	return grown
}

// Free does nothing: reset frees.
func (a *arena) Free([]byte) {}

// reset takes everything back. Nothing that was given out may be used any more. Blocks beyond keep bytes go to the
// heap, so that a chunk of one huge row is not remembered for good.
func (a *arena) reset(keep int) {
	a.at, a.used = 0, 0
	for i, b := range a.blocks {
		if keep -= len(b); keep < 0 {
			clear(a.blocks[i:])
			a.blocks = a.blocks[:i]
			return
		}
	}
}
