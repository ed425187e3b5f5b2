package lake

import (
	"context"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// keepTen keeps ten days, and has no doubt about segments that are two days old.
func keepTen() Retention { return Retention{Keep: 10 * day, Settled: 2 * day, Interval: time.Hour} }

// arrived is a segment that was made so long ago, with n rows of each of these days before now.
func arrived(tb testing.TB, seq uint64, ago time.Duration, n int, now time.Time, days ...int) Segment {
	tb.Helper()
	var rows []record
	for _, d := range days {
		rows = append(rows, rowsAt(now.Truncate(day).Add(-time.Duration(d)*day+time.Hour), n)...)
	}
	return segment(tb, testID(tb, now.Add(-ago), seq), rows)
}

func requireDays(tb testing.TB, l *Lake, want map[string]int) {
	tb.Helper()
	got := map[string]int{}
	for _, r := range readAll(tb, l) {
		got[time.Unix(0, r.ns).UTC().Format(time.DateOnly)]++
	}
	require.Equal(tb, want, got)
}

func dayBefore(now time.Time, n int) string {
	return now.Add(-time.Duration(n) * day).Format(time.DateOnly)
}

// Whole days go, in one snapshot that reads and writes no rows; what ended later, by a millisecond, stays.
func TestRetention_drops_whole_days(t *testing.T) {
	t.Parallel()
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l := lakeOf(t, p.opt(t), hooks{})
			tbl := events(t, l)
			now := time.Now().UTC().Truncate(day).Add(day) // the end of a day
			segs := []Segment{
				arrived(t, 1, 20*day, 3, now, 20, 19, 11), arrived(t, 2, 12*day, 2, now, 12, 11, 10), arrived(t, 3, time.Minute, 4, now, 1, 9),
			}
			for i := range segs {
				_, err := tbl.Commit(t.Context(), segs[i:i+1])
				require.NoError(t, err)
			}
			before := metaOf(t, l)
			files := listing(t, l)
			old, err := l.oldDays(loaded(t, l), keepTen(), now)
			require.NoError(t, err)
			require.Len(t, old, 4)
			require.Equal(t, dayBefore(now, 20), old[0].Day.Format(time.DateOnly))
			require.Equal(t, []any{2, int64(5), false}, []any{old[3].Files, old[3].Rows, old[3].Waits})

			require.NoError(t, l.dropRound(t.Context(), keepTen(), now.Add(-time.Millisecond)))
			requireDays(t, l, map[string]int{dayBefore(now, 11): 5, dayBefore(now, 10): 2, dayBefore(now, 9): 4, dayBefore(now, 1): 4})
			require.NoError(t, l.dropRound(t.Context(), keepTen(), now))
			requireDays(t, l, map[string]int{dayBefore(now, 10): 2, dayBefore(now, 9): 4, dayBefore(now, 1): 4})
			after := metaOf(t, l)
			require.Len(t, after.Snapshots(), len(before.Snapshots())+2)
			sum := after.CurrentSnapshot().Summary
			require.Equal(t, table.OpDelete, sum.Operation)
			require.Equal(t, "retention", sum.Properties[sumMaintenance])
			require.Equal(t, "5", sum.Properties["deleted-records"])
			require.Equal(t, before.Properties(), after.Properties(), "the proof among them")
			for _, f := range files {
				require.Contains(t, listing(t, l), f, "files stay for those who read an older snapshot")
			}
			require.Len(t, readAll(t, l, table.WithSnapshotID(before.CurrentSnapshot().SnapshotID)), 23)

			require.NoError(t, l.dropRound(t.Context(), keepTen(), now))
			require.Equal(t, after.LastSequenceNumber(), metaOf(t, l).LastSequenceNumber(), "nothing to do is no commit")
		})
	}
}

// A day stays until the youngest segment with rows of it is settled: its rows are what tells that it is committed.
func TestRetention_late_rows_wait(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	now := time.Now().UTC()
	for i, seg := range []Segment{arrived(t, 1, 30*day, 3, now, 30, 29), arrived(t, 2, 47*time.Hour, 1, now, 29), arrived(t, 3, 49*time.Hour, 1, now, 28)} {
		_, err := tbl.Commit(t.Context(), []Segment{seg})
		require.NoError(t, err, i)
	}
	require.NoError(t, l.dropRound(t.Context(), keepTen(), now))
	requireDays(t, l, map[string]int{dayBefore(now, 29): 4})
	old, err := l.OldDays(t.Context(), keepTen())
	require.NoError(t, err)
	require.Equal(t, "siglake.events", old[0].Table)
	require.Len(t, old[0].Days, 1)
	require.True(t, old[0].Days[0].Waits)
	require.NoError(t, l.dropRound(t.Context(), keepTen(), now.Add(time.Hour)))
	requireDays(t, l, map[string]int{})

	// An id that tells no time settles never.
	seg := arrived(t, 4, 0, 2, now, 40)
	seg.ID = "segment 4"
	_, err = tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	require.NoError(t, l.dropRound(t.Context(), keepTen(), now.Add(100*day)))
	requireDays(t, l, map[string]int{dayBefore(now, 40): 2})
}

// LAKE-1: whatever is offered again after its days were deleted, rows of days that stay are there once. Rows of deleted days
// are committed again when no proof remembers them, and go in the next round.
func TestRetention_then_a_replay(t *testing.T) {
	t.Parallel()
	for _, remembered := range []bool{true, false} {
		l := lakeAt(t, t.TempDir(), hooks{})
		tbl := events(t, l)
		now := time.Now().UTC()
		segs := []Segment{
			arrived(t, 1, 20*day, 3, now, 20), arrived(t, 2, 12*day, 2, now, 20, 5), arrived(t, 3, 12*day, 2, now, 5, 20), arrived(t, 4, 3*day, 2, now, 3),
		}
		_, err := tbl.Commit(t.Context(), segs)
		require.NoError(t, err)
		require.NoError(t, l.dropRound(t.Context(), keepTen(), now))
		stay := map[string]int{dayBefore(now, 5): 4, dayBefore(now, 3): 2}
		requireDays(t, l, stay)
		if !remembered {
			setProperty(t, l, "events", propProof, "")
		}
		for i := range segs {
			segs[i].Doubtful = true
		}
		out, err := tbl.Commit(t.Context(), segs)
		require.NoError(t, err)
		require.Equal(t, committed(segs...), out.Committed)
		if remembered {
			require.Zero(t, out.RowsWritten)
		} else {
			require.Equal(t, int64(3+2), out.RowsWritten, "a whole segment, and the rows behind the last that is there")
			requireDays(t, l, map[string]int{dayBefore(now, 20): 5, dayBefore(now, 5): 4, dayBefore(now, 3): 2})
		}
		require.NoError(t, l.dropRound(t.Context(), keepTen(), now))
		requireDays(t, l, stay)
	}
}

// A deletion whose answer was lost is looked at again, and a commit that came in between is kept.
func TestRetention_survives_every_answer(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]answer{"lost": lost, "landed unheard": landedUnheard} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &faultyCatalog{}
			l := lakeAt(t, t.TempDir(), faults(f))
			tbl := events(t, l)
			now := time.Now().UTC()
			segs := []Segment{arrived(t, 1, 20*day, 3, now, 20), arrived(t, 2, 12*day, 2, now, 5)}
			_, err := tbl.Commit(t.Context(), segs)
			require.NoError(t, err)
			f.answers = []answer{said}
			require.ErrorIs(t, l.dropRound(t.Context(), keepTen(), now), errInjected)
			require.NoError(t, l.dropRound(t.Context(), keepTen(), now))
			requireDays(t, l, map[string]int{dayBefore(now, 5): 2})
		})
	}
	t.Run("overtaken", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		f := &faultyCatalog{}
		l, other := lakeAt(t, dir, faults(f)), lakeAt(t, dir, hooks{})
		tbl, theirs := events(t, l), events(t, other)
		now := time.Now().UTC()
		_, err := tbl.Commit(t.Context(), []Segment{arrived(t, 1, 20*day, 3, now, 20)})
		require.NoError(t, err)
		f.answers = []answer{after(func() {
			_, err := theirs.Commit(context.Background(), []Segment{arrived(t, 2, time.Minute, 2, now, 20, 0)})
			require.NoError(t, err)
		})}
		require.Error(t, l.dropRound(t.Context(), keepTen(), now))
		require.NoError(t, l.dropRound(t.Context(), keepTen(), now))
		requireDays(t, l, map[string]int{dayBefore(now, 20): 5, dayBefore(now, 0): 2})
	})
}

// Many days go in steps; merged files go like others, and a table that others have partitioned is left alone.
func TestRetention_steps_merges_and_other_specs(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	now := time.Now().UTC()
	for i := range 8 {
		_, err := tbl.Commit(t.Context(), []Segment{arrived(t, uint64(i), 11*day, 1, now, 11)})
		require.NoError(t, err)
	}
	var days []int
	for d := range 2*daysAtOnce + 2 {
		days = append(days, 12+d)
	}
	_, err := tbl.Commit(t.Context(), []Segment{arrived(t, 8, 11*day, 1, now, days...)})
	require.NoError(t, err)
	_, err = tbl.Commit(t.Context(), []Segment{arrived(t, 9, 11*day, 1, now, 4)})
	require.NoError(t, err)
	c := newCompactor(l)
	require.NoError(t, c.round(t.Context()))
	require.Len(t, manifestFiles(t, l), 1+len(days)+1, "eight files are one")
	before := len(metaOf(t, l).Snapshots())
	require.NoError(t, l.dropRound(t.Context(), keepTen(), now))
	requireDays(t, l, map[string]int{dayBefore(now, 4): 1})
	require.Len(t, metaOf(t, l).Snapshots(), before+3)

	_, err = tbl.Commit(t.Context(), []Segment{arrived(t, 10, 11*day, 1, now, 40)})
	require.NoError(t, err)
	raw := loaded(t, l)
	tx := raw.NewTransaction()
	us := tx.UpdateSpec(true)
	spec := raw.Spec()
	us.RemoveField(spec.Field(0).Name)
	require.NoError(t, us.Commit())
	unplaced, err := tx.Commit(t.Context())
	require.NoError(t, err)
	content, err := l.io.ReadFile(manifestFiles(t, l)[0].FilePath())
	require.NoError(t, err)
	require.NoError(t, l.io.WriteFile(unplaced.Location()+"/data/other.parquet", content))
	tx = unplaced.NewTransaction()
	require.NoError(t, tx.AddFiles(t.Context(), []string{unplaced.Location() + "/data/other.parquet"}, nil, false))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, l.dropRound(t.Context(), keepTen(), now), errUnplaced)
	require.Len(t, readAll(t, l), 3)
}

// The tables of others are not touched, and trouble with one table is none of the next.
func TestRetention_every_table_of_ours(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	now := time.Now().UTC()
	first := events(t, l)
	_, err := first.Commit(t.Context(), []Segment{arrived(t, 1, 20*day, 3, now, 20)})
	require.NoError(t, err)
	second, _, err := l.Ensure(t.Context(), "acme", "events", otelarrow.Logs)
	require.NoError(t, err)
	_, err = second.Commit(t.Context(), []Segment{arrived(t, 2, 20*day, 3, now, 20)})
	require.NoError(t, err)
	setProperty(t, l, "events", propProof, "9.x")
	require.ErrorIs(t, l.dropRound(t.Context(), keepTen(), now), ErrProof)
	require.Len(t, readAll(t, l), 3)
	old, err := l.OldDays(t.Context(), keepTen())
	require.NoError(t, err)
	require.Len(t, old, 2)
	require.Len(t, old[0].Days, 1)
	require.Empty(t, old[1].Days)
}
