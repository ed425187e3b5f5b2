package lake

import (
	"context"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"
)

// mergedFrom writes one file of all of a table's.
func mergedFrom(t *testing.T, l *Lake, tbl *Table) *merged {
	t.Helper()
	st, err := tbl.load(t.Context())
	require.NoError(t, err)
	tg, ok := tbl.mergeTarget(st)
	require.True(t, ok)
	var files []mergeFile
	for _, df := range manifestFiles(t, l) {
		f, ok := tg.ours(df)
		require.True(t, ok)
		files = append(files, f)
	}
	m, err := l.writeMerged(t.Context(), tg, files, func(context.Context, time.Duration) error { return nil })
	require.NoError(t, err)
	return m
}

// While a merged file takes the place of others, and commits of rows wait, a manifest is read as often as iceberg-go does.
func TestReplace_reads_no_manifest_of_its_own(t *testing.T) {
	t.Parallel()
	l, disk := manifestSpy(t)
	tbl := events(t, l)
	segs := commitEach(t, tbl, 8)
	m := mergedFrom(t, l, tbl)
	disk.take()
	require.NoError(t, tbl.replace(t.Context(), m))
	read, _ := disk.take()
	require.Len(t, read, 2*8)
	require.Len(t, manifestFiles(t, l), 1)
	requireExactly(t, l, segs...)
}

// A replacement after which the table would have other rows, or other files, than it should is not sent.
func TestReplace_that_does_not_add_up_is_not_sent(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	l := lakeAt(t, t.TempDir(), faults(f))
	tbl := events(t, l)
	segs := commitEach(t, tbl, 8)
	m := mergedFrom(t, l, tbl)
	sent := f.commits
	m.from[0].df = miscounted{m.from[0].df}
	require.ErrorIs(t, tbl.replace(t.Context(), m), errNotConserved)
	require.Equal(t, sent, f.commits)
	requireExactly(t, l, segs...)
}

// miscounted is a data file that has a row less than it says.
type miscounted struct{ iceberg.DataFile }

func (m miscounted) Count() int64 { return m.DataFile.Count() + 1 }

// Files that are gone by the time are no fault: another was faster, and the table is as it was.
func TestReplace_of_files_that_are_gone(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	segs := commitEach(t, tbl, 8)
	late := mergedFrom(t, l, tbl)
	m := mergedFrom(t, l, tbl)
	require.NoError(t, tbl.replace(t.Context(), m))
	require.ErrorIs(t, tbl.replace(t.Context(), late), errOvertaken)
	require.Len(t, manifestFiles(t, l), 1)
	requireExactly(t, l, segs...)
}
