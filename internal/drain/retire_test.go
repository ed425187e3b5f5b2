package drain

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// laneOf returns a drain whose passes the test makes itself, and its lane.
func (w *world) laneOf(index string) (*drain, *lane) {
	w.t.Helper()
	d := w.drain()
	d.born = d.born.Add(-time.Second) // names have milliseconds only
	return d, newLane(d, w.lane(index))
}

// drain is one that knows its lock, as a life has it. It is not held: a test may have several lives.
func (w *world) drain() *drain {
	w.t.Helper()
	d, err := newDrain(w.options(), w.tables)
	require.NoError(w.t, err)
	d.root = w.root
	d.held, err = hold(w.fs, w.dir, "test")
	require.NoError(w.t, err)
	require.NoError(w.t, d.held.Close())
	return d
}

// atOnce ends all waits.
func (l *lane) atOnce() {
	for _, s := range []*step{&l.preparing, &l.auditing, &l.disposing, &l.draining, &l.retiring} {
		s.after = 0
	}
	for _, f := range l.files {
		f.after = 0
	}
}

// A load that always has another batch due does not keep committed segments from leaving: a pass that never ended did.
func TestRun_retires_under_a_load_that_never_ends(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.Retain, w.opt.MaxBytesInFlight = time.Nanosecond, 1 // a segment a commit
	var commits atomic.Int64
	var most int
	w.tables.get("events").after = func([]lake.Segment) error {
		if commits.Add(1) < 60 {
			w.seal(spec{})
			time.Sleep(2 * time.Millisecond)
			most = max(most, w.states("events")[segment.Committed])
		}
		return nil
	}
	w.seal(spec{})
	stop := w.start()
	eventually(t, func() bool { return commits.Load() == 60 && w.states("events")[segment.Committed] == 0 }, "all is drained and gone")
	require.NoError(t, stop())
	require.Less(t, most, 40)
	w.accounted()
}

func (w *world) pass(l *lane) {
	w.t.Helper()
	l.pass(w.t.Context(), w.t.Context())
	require.NoError(w.t, l.view().err)
}

// RET-1, BND-1: age counts from the mark, not from the seal.
func TestRetire_counts_from_the_mark(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	now := time.Now()
	w.opt.Now = func() time.Time { return now }
	w.opt.Retain = time.Minute
	name := w.seal(spec{})
	w.age(w.lane("events").Path(segment.Sealed, name), time.Hour) // sealed long ago
	_, l := w.laneOf("events")
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	now = now.Add(59 * time.Second)
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	now = now.Add(time.Second)
	w.pass(l)
	require.Empty(t, w.states("events"))
	require.Equal(t, int64(1), l.d.m.retired.sum.Load())
	require.Empty(t, l.marks)
	w.accounted()
}

// What a recovery sealed stays a day, for inspection.
func TestRetire_a_recovered_segment_stays_longer(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	now := time.Now()
	w.opt.Now = func() time.Time { return now }
	w.opt.Retain = time.Minute
	partial := w.seal(spec{partial: true})
	w.seal(spec{})
	_, l := w.laneOf("events")
	w.pass(l)
	for range 23 * 2 {
		now = now.Add(30 * time.Minute)
		w.pass(l)
	}
	require.Equal(t, []string{partial}, w.in("events", segment.Committed))
	for range 3 {
		now = now.Add(30 * time.Minute)
		l.clock = clock{} // no jump: half an hour has passed
		w.pass(l)
	}
	require.Empty(t, w.states("events"))
}

// RET-1: what the mirror still needs stays.
func TestRetire_keeps_what_is_pinned_R12(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.Retain = time.Nanosecond
	name := w.seal(spec{})
	lane := w.lane("events")
	require.NoError(t, w.fs.Link(lane.Path(segment.Sealed, name), lane.Path(segment.MirrorPending, name)))
	_, l := w.laneOf("events")
	w.pass(l)
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	require.NoError(t, w.fs.Remove(lane.Path(segment.MirrorPending, name)))
	w.pass(l)
	require.Empty(t, w.states("events"))
}

// A clock that was set forward makes nothing old: the pass is left out, told, and ages begin anew.
func TestRetire_a_jump_of_the_clock_retires_nothing(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	now := time.Now()
	w.opt.Now = func() time.Time { return now }
	w.opt.Retain = time.Minute
	w.seal(spec{})
	_, l := w.laneOf("events")
	w.pass(l)
	now = now.Add(48 * time.Hour)
	w.pass(l)
	require.Len(t, w.logs.FilterMessageSnippet("clock was set").All(), 1)
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	now = now.Add(time.Minute)
	w.pass(l)
	require.Empty(t, w.states("events"))

	w.seal(spec{})
	w.pass(l)
	now = now.Add(-48 * time.Hour) // and back: the mark is ahead of the clock
	w.pass(l)
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	l.d.started = l.d.started.Add(-2 * time.Minute) // a minute goes by
	w.pass(l)
	require.Empty(t, w.states("events"))
	w.accounted()
}

// RET-1: what was proven by a catalog that was deleted or replaced since is not proven any more.
func TestRetire_keeps_what_a_lost_catalog_proved(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]bool{"catalog_gone": false, "and_the_lane_has_seen_it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			now := time.Now()
			w.opt.Now = func() time.Time { return now }
			w.opt.Retain = time.Minute
			w.seal(spec{})
			_, l := w.laneOf("events")
			w.pass(l)
			table := w.tables.get("events")
			table.gone = errors.New("another file than the one that was opened")
			if forget {
				clear(l.tables)
				table.lookup = table.gone
			}
			now = now.Add(time.Hour - time.Second)
			l.pass(t.Context(), t.Context())
			require.ErrorIs(t, l.view().err, table.gone)
			require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
		})
	}
}

// RET-1 after a restart: committed/ alone is no proof, the table is asked.
func TestRetire_asks_the_table_after_a_restart(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T, s spec) (*world, *fakeTable, string) {
		t.Helper()
		w := onDisk(t)
		w.opt.Retain = time.Nanosecond
		s.state = segment.Committed
		return w, w.tables.get("events"), w.seal(s)
	}
	t.Run("all_rows_there", func(t *testing.T) {
		t.Parallel()
		w, table, name := setUp(t, spec{})
		id, _, err := segment.ParseName(name)
		require.NoError(t, err)
		table.rows[id.String()] = []int{1, 1, 1}
		require.Equal(t, Report{Lanes: 1, Retired: 1}, w.once())
		require.Empty(t, w.states("events"))
	})
	t.Run("rows_missing", func(t *testing.T) {
		t.Parallel()
		w, _, _ := setUp(t, spec{})
		require.Equal(t, Report{Lanes: 1}, w.once())
		require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
		require.Len(t, w.logs.FilterMessageSnippet("committed segment is kept").All(), 1)
	})
	t.Run("another_table", func(t *testing.T) {
		t.Parallel()
		w, _, _ := setUp(t, spec{table: uuid.New()})
		require.Equal(t, Report{Lanes: 1, Stale: 1}, w.once())
		require.Equal(t, map[segment.State]int{segment.Stale: 1}, w.states("events"))
	})
	t.Run("table_unreadable", func(t *testing.T) {
		t.Parallel()
		w, table, _ := setUp(t, spec{})
		table.lookup = errors.New("gone fishing")
		r := w.once()
		require.ErrorIs(t, r.Failures["default/events"], table.lookup)
		require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	})
}
