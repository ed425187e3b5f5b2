package lake

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// What a merge holds is a multiple of its limits and does not grow with the rows: chunks in table form with their levels
// (4 x chunkBytes), a row group that is being made and its copy on the way to the file (2 x rowGroupBytes), 2 MiB for each
// column of the file that is written, as for a commit, and of each file that is open a page and a dictionary of each
// column (openFileBytes).
//
// Not parallel: the heap is everybody's.
func TestCompact_memory_is_bounded_by_its_limits(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	const chunk, group, leaves, openFileBytes = 1 << 20, 2 << 20, 46, 4 << 20
	var first uint64
	for _, rowsEach := range []int{2048, 8192} {
		l := lakeAt(t, t.TempDir(), hooks{limits: limits{chunkBytes: chunk, rowGroupBytes: group}})
		commitLoad(t, events(t, l), loadSegments(t, otelarrow.Logs, mergeFiles, rowsEach))
		require.Len(t, manifestFiles(t, l), mergeFiles)
		usual := debug.SetGCPercent(10) // garbage is not what is measured
		high := highWater(func() { require.NoError(t, newCompactor(l).round(t.Context())) })
		debug.SetGCPercent(usual)
		require.Len(t, manifestFiles(t, l), 1)
		const bound = 4*chunk + 2*group + leaves*(2<<20) + mergeFiles*openFileBytes
		t.Logf("%d files of %d rows: %d MiB of at most %d", mergeFiles, rowsEach, high>>20, bound>>20)
		require.LessOrEqual(t, high, uint64(bound), "%d rows", rowsEach)
		if first == 0 {
			first = high
		}
		require.LessOrEqual(t, high, 2*first, "four times the rows")
	}
}
