package drain

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// LAKE-1 when an answer is lost: the commit landed, the caller saw an error, and the proof forgot it too.
func TestRun_a_lost_answer_doubles_nothing_R10(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	table := w.tables.get("events")
	table.forget = true
	_, l := w.laneOf("events")
	w.pass(l)      // the lane is known
	w.seal(spec{}) // sealed while the drain runs: not doubtful before the failure
	lost := errors.New("connection reset")
	table.after = func([]lake.Segment) error { return lost }
	l.pass(t.Context(), t.Context())
	require.ErrorIs(t, l.view().err, lost)
	require.Equal(t, map[segment.State]int{segment.Sealed: 1}, w.states("events"))
	require.Len(t, table.rows, 1, "the rows are there")
	table.after = nil
	l.atOnce()
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	w.accounted()
}

// LAKE-1: whoever may have been committed before is looked up, the ordinary new segment is not.
func TestMeet_who_is_doubtful(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	namer := segment.NewNamer([6]byte{6})
	atStart := w.seal(spec{name: namer.Next(time.Now().Add(500 * time.Millisecond)).FileName()}) // its name alone tells nothing
	d, l := w.laneOf("events")
	d.opt.GateAge, d.opt.GateBytes = time.Hour, 1<<40
	w.pass(l)
	older := segment.NewNamer([6]byte{7}).Next(d.born.Add(-time.Minute)).FileName()
	ahead := segment.NewNamer([6]byte{8}).Next(time.Now().Add(time.Hour)).FileName()
	fresh := w.seal(spec{})
	w.seal(spec{name: older})
	w.seal(spec{name: ahead})
	back := w.seal(spec{})
	l.setAside(back)
	partial := w.seal(spec{partial: true})
	w.pass(l)
	_, err := l.screen([]*file{l.files[partial]})
	require.NoError(t, err)
	got := make(map[string]bool)
	for name, f := range l.files {
		got[name] = f.doubtful
	}
	require.Equal(t, map[string]bool{atStart: true, fresh: false, older: true, ahead: true, back: true, partial: true}, got)
}

// LAKE-1: a writer that is refused a sync at the end of a seal does it again and makes the name in sealed/ anew that the
// drain has taken meanwhile: while the segment is in committed/, and after it was retired.
func TestMeet_what_was_committed_comes_back(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	now := time.Now()
	w.opt.Now = func() time.Time { return now }
	w.tables.get("events").forget = true
	_, l := w.laneOf("events")
	w.pass(l)
	name := w.seal(spec{})
	require.NoError(t, w.fs.Link(l.dir.Path(segment.Sealed, name), "/kept"))
	for _, retired := range []bool{false, true} {
		w.pass(l)
		if retired {
			now = now.Add(2 * w.opt.Retain)
			l.clock = clock{}
			w.pass(l)
			require.Empty(t, w.states("events"))
		} else {
			require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
		}
		require.NoError(t, w.fs.Link("/kept", l.dir.Path(segment.Sealed, name)))
		w.pass(l)
		require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
		w.accounted()
	}
}

// LAKE-1: a mark that fails, and then the way back that fails for one of two: both are looked up before they are written.
// So are orphans whose way back fails when they are in sealed/ already.
func TestPass_a_way_back_that_fails(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]segment.State{"mark": segment.Sealed, "orphans": segment.Orphans} {
		w := onDisk(t)
		w.tables.get("events").forget = true
		_, l := w.laneOf("events")
		w.pass(l) // what comes from now on is new
		first := w.seal(spec{state: st})
		second := w.seal(spec{state: st})
		if st == segment.Orphans { // a recovery has brought them, and the table has one row of each
			table := w.tables.get("events")
			for _, n := range []string{first, second} {
				id, _, err := segment.ParseName(n)
				require.NoError(t, err)
				table.rows[id.String()] = []int{1}
			}
		}
		faults := map[simfs.Kind]string{simfs.Link: l.dir.Path(segment.Committed, first)}
		if st == segment.Orphans {
			faults = map[simfs.Kind]string{simfs.Remove: l.dir.Path(segment.Orphans, first)}
		}
		w.fs.(*simfs.FS).SetHook(func(op simfs.Op) error {
			at, ok := faults[op.Kind]
			if !ok || at != op.Name && at != op.To {
				return nil
			}
			delete(faults, op.Kind)
			if at == l.dir.Path(segment.Committed, first) {
				faults[simfs.Link] = l.dir.Path(segment.Sealed, second)
			}
			return errors.New("injected")
		})
		for range 4 {
			l.pass(t.Context(), t.Context())
			l.atOnce()
		}
		require.Empty(t, faults, name)
		require.Equal(t, map[segment.State]int{segment.Committed: 2}, w.states("events"), name)
		w.accounted()
	}
}

// Orphans that cannot be asked for are held and shown; what is sealed goes on, and they follow when they can.
func TestPass_held_orphans_hold_up_nothing_else_R45(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.Poll = time.Hour // so are the waits
	w.seal(spec{state: segment.Processing})
	table := w.tables.get("events")
	table.lookup = errors.New("table unreadable")
	_, l := w.laneOf("events")
	for n := range 3 {
		w.seal(spec{})
		l.pass(t.Context(), t.Context())
		require.ErrorIs(t, l.view().err, table.lookup)
		require.Equal(t, 1, l.view().orphansHeld)
		require.Equal(t, map[segment.State]int{segment.Orphans: 1, segment.Committed: n + 1}, w.states("events"))
	}
	require.Len(t, w.logs.FilterMessageSnippet("drain is in trouble").All(), 1, "tried once, told once")
	table.lookup = nil
	l.atOnce()
	w.pass(l)
	require.Zero(t, l.view().orphansHeld)
	require.Equal(t, map[segment.State]int{segment.Committed: 4}, w.states("events"))
	w.accounted()
}

// A claim that fails half-way is undone, and made again by the next pass.
func TestPass_undoes_half_a_claim(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	w.seal(spec{})
	_, l := w.laneOf("events")
	hook, _ := simfs.FailAt(1, simfs.Link.Is, syscall.EIO)
	w.fs.(*simfs.FS).SetHook(hook)
	l.pass(t.Context(), t.Context())
	require.ErrorIs(t, l.view().err, syscall.EIO)
	require.Equal(t, map[segment.State]int{segment.Sealed: 2}, w.states("events"))
	l.atOnce()
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 2}, w.states("events"))
	w.accounted()
}

// Segments that have failed share no batch with those that have not.
func TestCut(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.MaxBytesInFlight = 100
	_, l := w.laneOf("events")
	files := func(failures ...int) []*file {
		out := make([]*file, len(failures))
		for i, n := range failures {
			out[i] = &file{failures: n, size: 10}
		}
		return out
	}
	require.Len(t, l.cut(files(0, 0, 1, 1)), 2)
	require.Len(t, l.cut(files(1, 1, 2)), 2)
	require.Len(t, l.cut(files(0, 0, 0, 0, 0, 0, 0)), 5, "half the budget")
	require.Len(t, l.cut([]*file{{size: 1000}, {size: 1}}), 1, "a large one goes alone")
	require.Len(t, l.cut([]*file{{size: 10, zstd: true}, {size: 1}}), 1)
	l.limit = 1
	require.Len(t, l.cut(files(0, 0)), 1)
}

// A move that fails half-way is finished by the next pass, not only by the next start.
func TestPass_rescues_what_a_failed_move_left(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	_, l := w.laneOf("events")
	broken := errors.New("read-only file system")
	w.tables.get("events").before = func(context.Context, []lake.Segment) error {
		w.fs.(*simfs.FS).SetHook(func(op simfs.Op) error {
			if op.Kind == simfs.Link || op.Kind == simfs.Create {
				return broken
			}
			return nil
		})
		return errors.New("catalog away")
	}
	l.pass(t.Context(), t.Context())
	require.ErrorIs(t, l.view().err, broken)
	require.Equal(t, map[segment.State]int{segment.Processing: 1}, w.states("events"))
	w.fs.(*simfs.FS).SetHook(nil)
	w.tables.get("events").before = nil
	l.atOnce()
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	w.accounted()
}

// 04 §1: what one client made 200 partitions of gets in part by part, each row once.
func TestOnce_a_prefix_is_followed_by_the_rest(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{rows: 10})
	w.seal(spec{rows: 4})
	w.tables.get("events").most = 6
	r := w.once()
	require.Equal(t, Report{Lanes: 1, Segments: 2, Rows: 14}, r)
	w.accounted()
}

// The gate: neither enough bytes nor old enough, so nothing moves; then one of the two.
func TestRun_waits_for_the_gate(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.GateAge, w.opt.GateBytes = time.Hour, 1<<30
	first := w.seal(spec{})
	d := w.drain()
	l := newLane(d, w.lane("events"))
	l.pass(t.Context(), t.Context())
	require.NoError(t, l.view().err)
	require.Equal(t, 1, l.view().pending)
	require.Equal(t, map[segment.State]int{segment.Sealed: 1}, w.states("events"))

	w.age(w.lane("events").Path(segment.Sealed, first), 2*time.Hour)
	delete(l.files, first) // seen anew
	l.pass(t.Context(), t.Context())
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))

	w.seal(spec{})
	d.opt.GateBytes = 1
	l.pass(t.Context(), t.Context())
	require.Equal(t, map[segment.State]int{segment.Committed: 2}, w.states("events"))
	w.accounted()
}

// Woken for a lane, a drain takes what is there before its gate opens and before its next look; other lanes wait on.
func TestRun_comes_when_woken(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.GateAge, w.opt.GateBytes, w.opt.Poll = time.Hour, 1<<30, time.Hour
	w.seal(spec{index: "spans"})
	stop := w.start()
	for _, committed := range []int{1, 2, 3} {
		w.seal(spec{})
		require.NoError(t, w.lane("events").Wake(time.Now()))
		eventually(t, func() bool { return w.states("events")[segment.Committed] == committed }, "committed")
	}
	w.seal(spec{})
	require.NoError(t, stop())
	require.Equal(t, map[segment.State]int{segment.Sealed: 1}, w.states("spans"), "nobody asked")
	require.Equal(t, 1, w.states("events")[segment.Sealed], "nobody asked again")
	w.once()
	w.accounted()
}

// Oldest first by seal time, then by name.
func TestDue_oldest_first(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	a, b, c := w.seal(spec{}), w.seal(spec{}), w.seal(spec{})
	w.age(w.lane("events").Path(segment.Sealed, c), time.Minute)
	w.age(w.lane("events").Path(segment.Sealed, a), time.Second)
	d := w.drain()
	l := newLane(d, w.lane("events"))
	require.NoError(t, l.list())
	require.Equal(t, []string{c, a, b}, fileNames(l.due()))
}

// The byte budget over all lanes, and one segment larger than it.
func TestMemory_bytes_in_flight_are_bounded_R50(t *testing.T) {
	t.Parallel()
	w, now := onDisk(t), time.Now()
	const lanes, each = 6, 4
	for i := range lanes {
		for range each {
			w.seal(spec{index: fmt.Sprint("lane", i), rows: 100, at: now}) // late ones have fewer turns
		}
	}
	size := int64(len(encode(t, spec{rows: 100, at: now})))
	w.opt.MaxBytesInFlight = 4 * size
	d := w.drain()
	d.once = true
	var inFlight, peak atomic.Int64
	for i := range lanes {
		table := w.tables.get(fmt.Sprint("lane", i))
		table.before = func(_ context.Context, segs []lake.Segment) error {
			inFlight.Add(int64(len(segs)))
			defer inFlight.Add(-int64(len(segs)))
			time.Sleep(100 * time.Millisecond) // the others would come in meanwhile
			peak.Store(max(peak.Load(), inFlight.Load()))
			return nil
		}
	}
	require.NoError(t, d.sweep(t.Context()))
	require.Equal(t, int64(lanes*each), d.report().Segments)
	require.LessOrEqual(t, peak.Load(), int64(4))
	require.True(t, d.bytes.TryAcquire(4*size), "all of it was given back")

	w.seal(spec{rows: 5000})
	d.bytes.Release(4 * size)
	require.NoError(t, d.sweep(t.Context()))
	w.accounted()
}
