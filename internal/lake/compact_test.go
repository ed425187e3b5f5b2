package lake

import (
	"bytes"
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

func newCompactor(l *Lake) *compactor {
	return &compactor{lake: l, behind: func() bool { return false }, tables: map[string]*compacted{}}
}

// compactAll merges until nothing is due any more.
func compactAll(tb testing.TB, l *Lake) {
	tb.Helper()
	c := newCompactor(l)
	for range 100 {
		require.NoError(tb, c.round(tb.Context()))
		due := 0
		for _, e := range c.tables {
			due += e.due
		}
		if due == 0 {
			return
		}
	}
	tb.Fatal("compaction does not end")
}

// Generated rows of every kind, each segment in a commit of its own, are merged, and the OTLP that was sent can be
// rebuilt from the merged files cell for cell. Their manifests and footers hold what is claimed of them.
func TestCompact_keeps_every_cell(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	for _, signal := range signals {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			g := otlptest.New(seed, false)
			l := lakeAt(t, t.TempDir(), hooks{limits: limits{chunkRows: 5, rowGroupBytes: 20 << 10}})
			tbl, _, err := l.Ensure(t.Context(), "default", signal.Table(), signal)
			require.NoError(t, err)
			trips := map[string]otlptest.Trip{}
			for i := range 24 {
				requests := []any{request(t, g, signal), request(t, g, signal)}
				trip, err := otlptest.Sent(requests...)
				require.NoError(t, err)
				data, _ := segmentBytes(t, signal, requests)
				decoded, err := frame.Decode(bytes.NewReader(data), int64(len(data)), frame.DecodeOptions{})
				require.NoError(t, err)
				id := testID(t, time.Now(), uint64(i))
				trips[id] = trip
				_, err = tbl.Commit(t.Context(), []Segment{{ID: id, Batches: decoded.Batches, Rows: decoded.Rows}})
				require.NoError(t, err)
				decoded.Release()
			}
			before, err := l.Plan(t.Context(), "siglake", signal.Table())
			require.NoError(t, err)
			compactAll(t, l)
			after, err := l.Plan(t.Context(), "siglake", signal.Table())
			require.NoError(t, err)
			t.Logf("%d files, then %d", len(before.Files), len(after.Files))
			require.Less(t, len(after.Files), len(before.Files)-10)
			require.Equal(t, before.Table.Rows, after.Table.Rows)
			rows := tableRows(t, l, signal.Table())
			for id, trip := range trips {
				require.NoError(t, trip.Check(rows[id]), "segment %s", id)
			}
			requireAsWritten(t, l, signal.Table())
		})
	}
}

// requireAsWritten: each file is in the order that it claims, and statistics and page index hold for its rows.
func requireAsWritten(t *testing.T, l *Lake, name string) {
	t.Helper()
	tbl, err := l.open(t.Context(), table.Identifier{"siglake", name})
	require.NoError(t, err)
	for df, err := range l.dataFiles(tbl.CurrentSnapshot()) {
		require.NoError(t, err)
		require.Equal(t, 1, *df.SortOrderID())
		path, err := localPath(df.FilePath())
		require.NoError(t, err)
		rows := parquetRows(t, path)
		require.True(t, slices.IsSortedFunc(rows, func(a, b otlptest.Row) int {
			return cmp.Compare(a[colTimestampNs].(int64), b[colTimestampNs].(int64))
		}), path)
		pf := openParquet(t, l, df)
		for g := range pf.NumRowGroups() {
			n := int(pf.MetaData().RowGroup(g).NumRows())
			require.Len(t, pf.MetaData().RowGroup(g).SortingColumns(), 2)
			checkGroup(t, pf, g, rows[:n])
			checkPages(t, pf, g, rows[:n])
			rows = rows[n:]
		}
		require.Empty(t, rows)
	}
}

// Many small files of one day become few, of each level fewer than it takes to merge them, and each row is written again
// once per level at most.
func TestCompact_levels(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	var segs []Segment
	c := newCompactor(l)
	for i := range 80 {
		seg := segment(t, testID(t, time.Now(), uint64(i)), rowsAt(day0.Add(time.Duration(i)*time.Minute), 2))
		_, err := tbl.Commit(t.Context(), []Segment{seg})
		require.NoError(t, err)
		segs = append(segs, seg)
		if i%5 == 0 {
			require.NoError(t, c.round(t.Context()))
		}
	}
	require.NoError(t, c.round(t.Context()))
	requireExactly(t, l, segs...)
	files := manifestFiles(t, l)
	require.Less(t, len(files), 2*mergeFiles)
	levels := map[int]int{}
	for _, df := range files {
		levels[levelOf(df.Count())]++
	}
	for level, n := range levels {
		require.Less(t, n, mergeFiles, "level %d", level)
	}
	found, err := tbl.Lookup(t.Context(), []string{segs[0].ID, segs[79].ID})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{segs[0].ID: 2, segs[79].ID: 2}, found)
}
