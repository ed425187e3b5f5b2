package lake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
