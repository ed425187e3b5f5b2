package drain

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// 04 §3, the three rows of the table. LAKE-1.
func TestOnce_orphans_R1_R30(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		there  int // rows of the segment in the table
		lookup error
		want   Report
		states map[segment.State]int
	}{
		{"committed", 3, nil, Report{Lanes: 1}, map[segment.State]int{segment.Committed: 1}},
		{"proved_absent", 0, nil, Report{Lanes: 1, Segments: 1, Rows: 3, Requeued: 1}, map[segment.State]int{segment.Committed: 1}},
		{"committed_in_part", 2, nil, Report{Lanes: 1, Segments: 1, Rows: 1, Duplicates: 2, Requeued: 1}, map[segment.State]int{segment.Committed: 1}},
		{"undecidable", 0, errors.New("table unreadable"), Report{Lanes: 1, OrphansHeld: 1}, map[segment.State]int{segment.Orphans: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			name := w.seal(spec{state: segment.Processing})
			id, _, err := segment.ParseName(name)
			require.NoError(t, err)
			table := w.tables.get("events")
			table.forget = true
			for range tc.there {
				table.rows[id.String()] = append(table.rows[id.String()], 1)
			}
			table.lookup = tc.lookup
			d, r := w.onceWithDrain()
			failures := r.Failures
			r.Failures = nil
			require.Equal(t, tc.want, r)
			require.Equal(t, tc.states, w.states("events"))
			require.Equal(t, int64(1), d.m.orphans.sum.Load())
			require.Equal(t, tc.there == 3, d.m.orphansDeleted.sum.Load() == 1)
			if tc.lookup != nil {
				require.ErrorIs(t, failures["default/events"], tc.lookup)
				table.lookup = nil
				require.Equal(t, 1, int(w.once().Requeued), "decided when the table can be read")
			}
			w.accounted()
		})
	}
}

func (w *world) onceWithDrain() (*drain, Report) {
	w.t.Helper()
	d := w.drain()
	d.once = true
	require.NoError(w.t, d.sweep(w.t.Context()))
	return d, d.report()
}

// An orphan that nobody can read is judged by the rules for what is unreadable.
func TestOnce_a_damaged_orphan_goes_to_poison(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{state: segment.Processing, mangle: func(b []byte) []byte { return b[:len(b)-9] }})
	clear(w.want)
	r := w.once()
	require.Equal(t, Report{Lanes: 1, Requeued: 1, Poisoned: 1}, r)
	require.Equal(t, map[segment.State]int{segment.Poison: 1}, w.states("events"))
}

// A drain that is started before its exporter waits, says so, and begins when the root is there.
func TestRun_waits_for_the_root(t *testing.T) {
	t.Parallel()
	fsys := simfs.New(nil)
	w := &world{t: t, fs: fsys, dir: "/wal", tables: newFakeCatalog(), opt: Options{FS: fsys, WAL: "/wal", Poll: time.Millisecond}}
	told := make(chan error, 10)
	w.opt.Status = func(err error) { told <- err }
	stop := w.start()
	require.ErrorIs(t, <-told, segment.ErrNotRoot)
	_, err := segment.Create(fsys, "/wal")
	require.NoError(t, err)
	require.NoError(t, <-told)
	require.NoError(t, stop())
}

// A root of another format is refused for good, one without its catalog is not.
func TestRun_refuses_another_format(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	require.NoError(t, w.fs.Remove("/wal/siglake-wal.json"))
	put(t, w.fs, "/wal/siglake-wal.json", []byte(`{"format":7,"uuid":"0199a3f0-0000-7000-8000-000000000000"}`))
	require.ErrorIs(t, run(t.Context(), w.options(), w.tables), segment.ErrFormat)
}

// One drain per root: the second stands by, says who holds it, and takes over.
func TestRun_standby_takes_over(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vfs.OS(), filepath.Join(t.TempDir(), "wal"))
	w.opt.Holder = "the first"
	stopFirst := w.start()
	w.seal(spec{})
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 }, "first")

	_, err := once(t.Context(), w.options(), w.tables)
	locked := new(vfs.LockedError)
	require.ErrorAs(t, err, &locked)
	require.Equal(t, "the first", locked.Holder)

	told := make(chan error, 10)
	w.opt.Status = func(err error) { told <- err }
	stopSecond := w.start()
	require.ErrorContains(t, <-told, "held by the first")
	require.NoError(t, stopFirst())
	w.seal(spec{})
	require.NoError(t, <-told, "the standby works")
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 2 }, "second")
	require.NoError(t, stopSecond())
	w.accounted()
}

// What is no file has the name of the lock: that is no other drain that works. It is an error with what to do, and the drain works once
// the name is free.
func TestRun_lock_that_is_no_file(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vfs.OS(), filepath.Join(t.TempDir(), "wal"))
	lock := filepath.Join(w.dir, segment.DrainLockName)
	require.NoError(t, w.fs.Mkdir(lock))
	told := make(chan error, 100)
	w.opt.Status = func(err error) { told <- err }
	stop := w.start()
	w.seal(spec{})
	require.ErrorContains(t, <-told, "take the lock of the drain: open "+lock+": is a directory; move it out of the log")
	const failed = "nothing is drained: the lock of the drain cannot be taken"
	eventually(t, func() bool { return w.logs.FilterMessageSnippet(failed).Len() == 1 }, "logged")
	require.Empty(t, w.logs.FilterMessage("standing by").All())
	require.NoError(t, w.fs.Remove(lock))
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 }, "drains")
	require.NoError(t, stop())
	w.accounted()
}

// A standby that is told to stop stops, and leaves the holder alone.
func TestRun_standby_stops(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	lock, err := w.fs.Lock("/wal/"+segment.DrainLockName, "somebody")
	require.NoError(t, err)
	require.NoError(t, w.start()())
	require.NoError(t, lock.Close())
}

// Two roots, two drains, one catalog.
func TestRun_two_roots(t *testing.T) {
	t.Parallel()
	fsys := simfs.New(nil)
	a, b := newWorld(t, fsys, "/a"), newWorld(t, fsys, "/b")
	b.tables = a.tables
	stopA, stopB := a.start(), b.start()
	a.seal(spec{})
	b.seal(spec{})
	for _, w := range []*world{a, b} {
		eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 }, w.dir)
	}
	require.NoError(t, stopA())
	require.NoError(t, stopB())
	maps.Copy(a.want, b.want)
	a.accounted()
}

// SIGTERM in the middle of a commit: it is finished, marked, and Run returns nil. LAKE-1.
func TestRun_stop_finishes_the_commit_in_hand(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	entered, leave := make(chan struct{}), make(chan struct{})
	w.tables.get("events").before = func(ctx context.Context, _ []lake.Segment) error {
		close(entered)
		<-leave
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	opt := w.options()
	go func() { done <- run(ctx, opt, w.tables) }()
	<-entered
	w.seal(spec{}) // not claimed any more
	cancel()
	close(leave)
	require.NoError(t, <-done)
	require.Equal(t, map[segment.State]int{segment.Committed: 1, segment.Sealed: 1}, w.states("events"))
	w.tables.get("events").before = nil
	w.once()
	w.accounted()
}

// A commit that outlasts the grace is given up; its segments are back in sealed.
func TestRun_stop_gives_a_stuck_commit_up(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.Grace = 10 * time.Millisecond
	w.seal(spec{})
	entered := make(chan struct{})
	w.tables.get("events").before = func(ctx context.Context, _ []lake.Segment) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}
	stop := w.start()
	<-entered
	require.NoError(t, stop())
	require.Equal(t, map[segment.State]int{segment.Sealed: 1}, w.states("events"))
}
