package lake

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// What an arena gave out does not overlap, whatever its sizes, and the next chunk gets the same memory.
func TestArena_gives_the_same_memory_again(t *testing.T) {
	t.Parallel()
	a := &arena{}
	var first *byte
	for range 3 {
		var all [][]byte
		for i := range 300 {
			b := a.Allocate(i * 100)
			require.Len(t, b, i*100)
			require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%64)
			for j := range b {
				b[j] = byte(i)
			}
			all = append(all, b)
		}
		grown := a.Reallocate(5000, all[7])
		require.Equal(t, all[7], grown[:700])
		for i, b := range all {
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, i*100), b)
		}
		if first == nil {
			first = unsafe.SliceData(all[1])
		}
		require.Same(t, first, unsafe.SliceData(all[1]))
		require.Len(t, a.blocks, 2)
		a.reset(16 << 20)
	}
}

// A chunk of one huge row does not stay in memory for good.
func TestArena_lets_go_of_what_is_more_than_it_may_keep(t *testing.T) {
	t.Parallel()
	a := &arena{}
	a.Allocate(100)
	a.Allocate(64 << 20)
	a.reset(2 * arenaBlock)
	require.Len(t, a.blocks, 1)
	require.Len(t, a.blocks[0], arenaBlock)
}
