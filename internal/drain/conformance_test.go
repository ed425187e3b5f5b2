package drain

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// The fake catalog answers as the real one does, as far as the drain listens.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		conforms(t, newFakeCatalog())
	})
	t.Run("lake", func(t *testing.T) {
		t.Parallel()
		_, l := realWorld(t)
		conforms(t, lakeCatalog{l})
	})
}

func conforms(t *testing.T, c Catalog) {
	t.Helper()
	first, created, err := c.Ensure(t.Context(), "default", "events", otelarrow.Logs)
	require.NoError(t, err)
	require.True(t, created)
	table, created, err := c.Ensure(t.Context(), "default", "events", otelarrow.Logs)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first.UUID(), table.UUID())
	sequence, metadata := table.Head()
	require.Zero(t, sequence)
	require.NotEmpty(t, metadata)

	namer := onDisk(t).namer("events")
	batch := records(t, spec{rows: 3})
	defer batch.Record.Release()
	segs := make([]lake.Segment, 2)
	want := make(map[string]int64)
	for i := range segs {
		id := namer.Next(batchTime()).String()
		segs[i] = lake.Segment{ID: id, Batches: []arrow.RecordBatch{batch.Record}, Rows: 3, ModTime: batchTime()}
		want[id] = 3
	}
	for n, duplicates := range []int64{0, 6, 6} {
		out, err := table.Commit(t.Context(), segs)
		require.NoError(t, err)
		require.Equal(t, want, out.Committed)
		require.Equal(t, 6-duplicates, out.RowsWritten)
		require.Equal(t, duplicates, out.Duplicates)
		sequence, _ = table.Head()
		require.Equal(t, int64(1), sequence, "commit %d", n)
		for i := range segs {
			segs[i].Doubtful = true
		}
	}
	found, err := table.Lookup(t.Context(), []string{segs[0].ID, namer.Next(batchTime()).String()})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{segs[0].ID: 3}, found)
}
