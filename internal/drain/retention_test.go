package drain

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// dropTwoDays deletes days that ended two days ago, when the newest segment with rows of them is as old.
func dropTwoDays() lake.Retention {
	return lake.Retention{Keep: 2 * day, Settled: 2 * day, Interval: time.Hour}
}

// old puts a segment into committed/ that was made three days ago.
func (w *world) old(s spec) string {
	w.t.Helper()
	s.state, s.name = segment.Committed, w.namer("events").Next(time.Now().Add(-3*day)).FileName()
	return w.seal(s)
}

// daysGone is a log with a segment in committed/ that a mirror, which was away for days, has pinned. It lost its day to
// retention::table meanwhile, and the list of committed segments in the table has forgotten it.
func daysGone(t *testing.T) (w *world, l *lake.Lake, name string) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	dir := t.TempDir()
	w = newWorld(t, simfs.New(nil), "/wal")
	l, err := lake.Open(t.Context(), lake.Options{
		Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	w.opt.Lake, w.opt.Retain, w.opt.Drop = l, time.Nanosecond, dropTwoDays()

	name = w.seal(spec{name: w.namer("events").Next(time.Now().Add(-3 * day)).FileName(), at: time.Now().Add(-10 * day)})
	lane := w.lane("events")
	require.NoError(t, w.fs.Link(lane.Path(segment.Sealed, name), lane.Path(segment.MirrorPending, name)))
	require.Equal(t, Report{Lanes: 1, Segments: 1, Rows: 3}, w.life())
	for range 2048 {
		w.seal(spec{rows: 1})
	}
	require.EqualValues(t, 2048, w.life().Segments)
	w.accountedIn(l)

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.DropOldDays(ctx, w.opt.Drop)
	}()
	id, _, err := segment.ParseName(name)
	require.NoError(t, err)
	eventually(t, func() bool { return rowsIn(t, l, "events")[id.String()] == nil }, "its day goes")
	stop()
	<-done
	w.life()
	require.Equal(t, []string{name}, w.in("events", segment.Committed), "pinned")
	return w, l, name
}

// life is a drain that starts, does what there is to do, and ends.
func (w *world) life() Report {
	w.t.Helper()
	r, err := Once(w.t.Context(), w.opt)
	require.NoError(w.t, err)
	require.Empty(w.t, r.Failures)
	return r
}

// BND-1: it stayed for ever when the pin was gone.
func TestRetention_what_was_pinned_while_its_days_went_leaves(t *testing.T) {
	t.Parallel()
	w, _, name := daysGone(t)
	require.NoError(t, w.fs.Remove(w.lane("events").Path(segment.MirrorPending, name)))
	require.EqualValues(t, 1, w.life().Retired)
	require.Empty(t, w.states("events"))
}

// RET-1: beside a catalog that went back it stays, and the repair puts it back as any other that the table lacks.
func TestRetention_what_was_pinned_while_its_days_went_is_put_back(t *testing.T) {
	t.Parallel()
	w, l, name := daysGone(t)
	lane := w.lane("events")
	require.NoError(t, w.fs.Remove(lane.Path(segment.MirrorPending, name)))
	head, ok, err := lane.Head()
	require.NoError(t, err)
	require.True(t, ok)
	head.Sequence++
	head.Metadata = strings.Replace(head.Metadata, "/metadata/", "/metadata/9", 1)
	require.NoError(t, lane.WriteHead(head))
	r, err := Once(t.Context(), w.opt)
	require.NoError(t, err)
	back := new(lake.GoneBackError)
	require.ErrorAs(t, r.Failures["default/events"], &back)
	require.Equal(t, []string{name}, w.in("events", segment.Committed))

	repair := RepairOptions{FS: w.fs, WAL: w.dir, Lake: l, AcceptLoss: true}
	found, err := RepairCatalog(t.Context(), repair)
	require.NoError(t, err)
	require.Len(t, found[0].Strays, 1, "its data file")
	require.NoError(t, os.Remove(strings.TrimPrefix(found[0].Strays[0].Path, "file://")))
	repair.Apply = true
	_, err = RepairCatalog(t.Context(), repair)
	require.NoError(t, err)
	require.Equal(t, []string{name}, w.in("events", segment.Sealed))
	require.EqualValues(t, 3, w.life().Rows)
	w.accountedIn(l)
}

// RET-1: only rows of days that retention::table deletes need not be in the table, and only of a segment that is old enough for it.
func TestRetire_without_rows_that_retention_deleted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ago   time.Duration // of its newest row
		spec  spec
		young bool
		drop  lake.Retention
		rows  int // of it in the table
		stays bool
	}{
		{"its_day_is_over", 4 * day, spec{}, false, dropTwoDays(), 0, false},
		{"its_day_is_not_over", 2 * day, spec{}, false, dropTwoDays(), 0, true},
		{"days_stay_for_ever", 4 * day, spec{}, false, lake.Retention{Settled: 2 * day}, 0, true},
		{"it_may_be_asked_for_still", 4 * day, spec{}, true, dropTwoDays(), 0, true},
		// Rows 0, 3 are of a day that stays, the others of one that went.
		{"as_far_as_a_day_that_stays", 2 * day, spec{days: 3, rows: 6}, false, dropTwoDays(), 4, false},
		{"one_row_short_of_it", 2 * day, spec{days: 3, rows: 6}, false, dropTwoDays(), 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			now := time.Now().Add(time.Hour) // later than all that is done, and no midnight comes between
			w.opt.Now = func() time.Time { return now }
			w.opt.Retain, w.opt.Drop = time.Nanosecond, c.drop
			c.spec.at = now.Add(-c.ago)
			var name string
			if c.young {
				c.spec.state = segment.Committed
				name = w.seal(c.spec)
			} else {
				name = w.old(c.spec)
			}
			id, _, err := segment.ParseName(name)
			require.NoError(t, err)
			w.tables.get("events").rows[id.String()] = make([]int, c.rows)
			if c.stays {
				require.Equal(t, Report{Lanes: 1}, w.once())
				require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
				require.Len(t, w.logs.FilterMessageSnippet("committed segment is kept").All(), 1)
				return
			}
			require.Equal(t, Report{Lanes: 1, Retired: 1}, w.once())
			require.Empty(t, w.states("events"))
		})
	}
}

// A clock that was set forward makes no day old.
func TestRetire_a_jump_of_the_clock_makes_no_day_old(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	now := time.Now()
	w.opt.Now = func() time.Time { return now }
	w.opt.Retain, w.opt.Drop = time.Minute, dropTwoDays()
	w.old(spec{at: now.Add(-2 * day)})
	_, l := w.laneOf("events")
	w.pass(l)
	now = now.Add(20 * day)
	w.pass(l)
	now = now.Add(time.Minute)
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	require.Len(t, w.logs.FilterMessageSnippet("committed segment is kept").All(), 1)
}
