package lake

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/testdata"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// LAKE-1
func TestCommit_each_row_once(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	segs := []Segment{newSegment(t, 1, 10), newSegment(t, 2, 1), newSegment(t, 3, 7), newSegment(t, 4, 0)}
	out, err := tbl.Commit(t.Context(), segs)
	require.NoError(t, err)
	require.Equal(t, committed(segs...), out.Committed)
	require.Equal(t, int64(18), out.RowsWritten)
	require.Equal(t, int64(1), out.FilesWritten)
	require.NotZero(t, out.Snapshot)
	require.Zero(t, out.Duplicates)
	requireExactly(t, l, segs...)

	again, err := tbl.Commit(t.Context(), segs)
	require.NoError(t, err)
	require.Equal(t, Outcome{Committed: committed(segs...), Duplicates: 18}, again)
	requireExactly(t, l, segs...)

	more := append(segs[1:2:2], newSegment(t, 5, 3))
	mixed, err := tbl.Commit(t.Context(), more)
	require.NoError(t, err)
	require.Equal(t, committed(more...), mixed.Committed)
	require.Equal(t, int64(3), mixed.RowsWritten)
	require.Equal(t, int64(1), mixed.Duplicates)
	requireExactly(t, l, append(segs, more[1])...)
}

// A whole file is sorted, whatever the order of segments and rows.
func TestCommit_sorts_the_whole_file(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{chunkRows: 3}})
	late, early := rowsAt(day0.Add(time.Hour), 5), rowsAt(day0, 20)
	early[3].at = early[3].at.Add(time.Nanosecond)
	early[0], early[7] = early[7], early[0]
	segs := []Segment{segment(t, testID(t, time.Now(), 1), late), segment(t, testID(t, time.Now(), 2), early)}
	_, err := events(t, l).Commit(t.Context(), segs)
	require.NoError(t, err)
	rows := readAll(t, l)
	require.Len(t, rows, 25)
	for i := range rows[1:] {
		require.LessOrEqual(t, rows[i].ns, rows[i+1].ns)
	}
	requireExactly(t, l, segs...)
	files := manifestFiles(t, l)
	require.Len(t, files, 1)
	require.Equal(t, 1, *files[0].SortOrderID())
}

// All three tables take what their encoders make, nested columns included, and find it again.
func TestCommit_every_signal(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	batches := map[otelarrow.Signal]otelarrow.Batch{}
	var err error
	batches[otelarrow.Logs], err = otelarrow.EncodeLogs(testdata.GenerateLogs(20), day0, memory.DefaultAllocator)
	require.NoError(t, err)
	batches[otelarrow.Traces], err = otelarrow.EncodeTraces(testdata.GenerateTraces(20), day0, memory.DefaultAllocator)
	require.NoError(t, err)
	batches[otelarrow.Metrics], err = otelarrow.EncodeMetrics(testdata.GenerateMetricsAllTypes(), day0, memory.DefaultAllocator)
	require.NoError(t, err)
	for s, b := range batches {
		tbl, _, err := l.Ensure(t.Context(), "default", s.Table(), s)
		require.NoError(t, err)
		seg := Segment{ID: testID(t, time.Now(), uint64(s)), Rows: int64(b.Rows), Batches: []arrow.RecordBatch{b.Record}}
		require.Positive(t, seg.Rows)
		out, err := tbl.Commit(t.Context(), []Segment{seg})
		require.NoError(t, err)
		require.Equal(t, committed(seg), out.Committed)
		setProperty(t, l, s.Table(), propProof, "")
		found, err := tbl.Lookup(t.Context(), []string{seg.ID})
		require.NoError(t, err)
		require.Equal(t, committed(seg), found)
		raw, err := l.open(t.Context(), table.Identifier{"siglake", s.Table()})
		require.NoError(t, err)
		_, rows, err := raw.Scan().ToArrowRecords(t.Context())
		require.NoError(t, err)
		var n int64
		for rec, err := range rows {
			require.NoError(t, err)
			require.Equal(t, int64(otelarrow.TableSchema(s).NumFields()), rec.NumCols())
			n += rec.NumRows()
			rec.Release()
		}
		require.Equal(t, seg.Rows, n)
	}
}
