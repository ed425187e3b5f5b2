package drain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// LAKE-1: what is sealed is in the table once, and the directory says so.
func TestOnce_everything_sealed_is_committed_once(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	for range 5 {
		w.seal(spec{})
	}
	w.seal(spec{index: "spans", signal: otelarrow.Traces, rows: 2})

	r := w.once()
	require.Equal(t, Report{Lanes: 2, Segments: 6, Rows: 17}, r)
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 5}, w.states("events"))
	require.Len(t, w.tables.get("spans").rows, 1)
	require.Equal(t, Report{Lanes: 2}, w.once(), "nothing is left to do")
	w.accounted()
}

// Design 04 §1: the owner is written by the drain, and the head of every commit.
func TestOnce_binds_the_lane_to_its_table(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	w.once()
	owner, err := w.lane("events").Owner()
	require.NoError(t, err)
	require.Equal(t, w.tables.get("events").uuid, owner)
	head, ok, err := w.lane("events").Head()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, segment.Head{Table: owner, Sequence: 1, Metadata: "v1.metadata.json"}, head)
}

// LAKE-1 when an answer is lost: the commit landed, the caller saw an error, and the proof forgot it too.
func TestRun_a_lost_answer_doubles_nothing(t *testing.T) {
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
	l.files[w.in("events", segment.Sealed)[0]].after = 0
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
	for _, f := range l.files {
		f.after = 0
	}
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
	for _, f := range l.files {
		f.after = 0
	}
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
	require.Equal(t, Report{Lanes: 1, Segments: 2, Rows: 14, Duplicates: 8}, r)
	w.accounted()
}

// LOUD-1: a damaged segment is set aside with a note after three reads; its neighbours are committed.
func TestOnce_a_damaged_segment_goes_to_poison_alone(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	bad := w.seal(spec{mangle: func(b []byte) []byte {
		b[len(b)/2] ^= 0x40
		return b
	}})
	w.seal(spec{})
	id, _, err := segment.ParseName(bad)
	require.NoError(t, err)
	delete(w.want, id.String())

	r := w.once()
	require.Equal(t, Report{Lanes: 1, Segments: 2, Rows: 6, Poisoned: 1}, r)
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 2, segment.Poison: 1}, w.states("events"))
	note, err := w.lane("events").ReadNote(bad)
	require.NoError(t, err)
	require.Equal(t, maxReads, note.Attempts)
	require.Contains(t, note.Reason, "CRC")
}

// A disk that cannot return the bytes is damage too; running out of descriptors is not.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{&frame.CorruptError{Err: frame.ErrCRC}, true},
		{fmt.Errorf("read: %w", syscall.EIO), true},
		{frame.ErrEmpty, true},
		{otelarrow.ErrNotOurs, true},
		{syscall.EMFILE, false},
		{simfs.ErrOff, false},
		{context.Canceled, false},
	} {
		require.Equal(t, tc.want, damaged(tc.err), tc.err.Error())
	}
}

// LOUD-1: a format of a newer version stays in sealed, untouched, and is told once.
func TestOnce_a_newer_format_stays_where_it_is(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	name := w.seal(spec{mangle: func(b []byte) []byte {
		b[4] = 9
		return b
	}})
	clear(w.want)
	w.seal(spec{})
	r := w.once()
	require.Equal(t, Report{Lanes: 1, Segments: 1, Rows: 3, NewerFormat: 1}, r)
	w.accounted()
	require.Equal(t, []string{name}, w.in("events", segment.Sealed))
	require.Len(t, w.logs.FilterMessageSnippet("newer format").All(), 1)
}

// Reference bug 19: a segment of a dropped table never enters the one made after it.
func TestOnce_another_tables_segment_goes_to_stale(t *testing.T) {
	t.Parallel()
	old := uuid.New()
	for _, state := range []segment.State{segment.Sealed, segment.Processing, segment.Orphans} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			w.seal(spec{table: old, state: state})
			clear(w.want)
			w.seal(spec{})
			w.seal(spec{table: w.tables.get("events").uuid})
			r := w.once()
			require.Equal(t, Report{Lanes: 1, Segments: 2, Rows: 6, Stale: 1}, r)
			w.accounted()
			require.Equal(t, map[segment.State]int{segment.Committed: 2, segment.Stale: 1}, w.states("events"))
		})
	}
}

// A lane that is bound anew: what names no table was written for the table before.
func TestOnce_a_new_owner_turns_unstamped_segments_away(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	w.once()
	w.accounted()
	first := w.tables.get("events").uuid
	w.seal(spec{})                       // sealed before the writer saw an owner
	w.seal(spec{state: segment.Orphans}) // the same, interrupted
	w.seal(spec{state: segment.Sealed})  // and another
	w.tables.recreate("events")
	clear(w.want)
	w.seal(spec{table: w.tables.get("events").uuid, rows: 7})
	r := w.once()
	require.Equal(t, int64(4), r.Stale, "three undrained ones and the committed one")
	require.Equal(t, int64(7), r.Rows)
	w.accounted()
	for _, name := range w.in("events", segment.Stale) {
		require.Contains(t, name, first.String())
	}
	owner, err := w.lane("events").Owner()
	require.NoError(t, err)
	require.Equal(t, w.tables.get("events").uuid, owner)
}

// LOUD-1: a catalog that was restored from a backup stops the lane; nothing is committed to it.
func TestOnce_a_catalog_that_went_back_stops_the_lane(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	for range 3 {
		w.seal(spec{})
		w.once()
	}
	w.accounted()
	w.tables.get("events").sequence = 2
	w.seal(spec{})
	r := w.once()
	back := new(lake.GoneBackError)
	require.ErrorAs(t, r.Failures["default/events"], &back)
	require.Equal(t, &lake.GoneBackError{
		Table:        "default/events",
		WantSequence: 3, WantMetadata: "v3.metadata.json", HaveSequence: 2, HaveMetadata: "v2.metadata.json",
	}, back)
	require.Equal(t, 1, r.Remaining)
	require.Equal(t, map[segment.State]int{segment.Committed: 3, segment.Sealed: 1}, w.states("events"))
}

// One lane in trouble holds up no other.
func TestRun_a_failing_lane_does_not_hold_up_another(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.tables.ensure = func(index string) error {
		if index == "broken" {
			return errors.New("no such shape")
		}
		return nil
	}
	told := make(chan error, 100)
	w.opt.Status = func(err error) { told <- err }
	w.seal(spec{index: "broken"})
	stop := w.start()
	for n := range 3 {
		w.seal(spec{})
		eventually(t, func() bool { return w.states("events")[segment.Committed] == n+1 }, "the good lane")
	}
	eventually(t, func() bool { return len(told) > 0 }, "status")
	require.NoError(t, stop())
	w.accounted()
	require.ErrorContains(t, <-told, "lane default/broken: open table: no such shape")
	require.Equal(t, map[segment.State]int{segment.Sealed: 1}, w.states("broken"))
}

// Failing alone: a segment that no commit accepts does not keep its neighbours out.
func TestRun_a_segment_no_commit_accepts_is_isolated(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	bad := w.seal(spec{rows: 5})
	for range 6 {
		w.seal(spec{})
	}
	w.tables.get("events").before = func(_ context.Context, segs []lake.Segment) error {
		for _, s := range segs {
			if s.Rows == 5 {
				return errors.New("cannot be written")
			}
		}
		return nil
	}
	stop := w.start()
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 6 }, "the neighbours")
	require.NoError(t, stop())
	id, _, err := segment.ParseName(bad)
	require.NoError(t, err)
	delete(w.want, id.String())
	w.accounted()
	require.Equal(t, []string{bad}, w.in("events", segment.Sealed))
}

// Segments of two signals in one lane, as a client may cause that names one index for both.
func TestOnce_two_signals_in_one_lane(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	w.seal(spec{signal: otelarrow.Traces})
	w.seal(spec{})
	r := w.once()
	require.Equal(t, Report{Lanes: 1, Segments: 3, Rows: 9}, r)
	require.Equal(t, 2, w.tables.get("events").commits)
	w.accounted()
}

// The gate: neither enough bytes nor old enough, so nothing moves; then one of the two.
func TestRun_waits_for_the_gate(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.GateAge, w.opt.GateBytes = time.Hour, 1<<30
	first := w.seal(spec{})
	d, err := newDrain(w.options(), w.tables)
	require.NoError(t, err)
	d.root = w.root
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

// Oldest first by seal time, then by name.
func TestDue_oldest_first(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	a, b, c := w.seal(spec{}), w.seal(spec{}), w.seal(spec{})
	w.age(w.lane("events").Path(segment.Sealed, c), time.Minute)
	w.age(w.lane("events").Path(segment.Sealed, a), time.Second)
	d, err := newDrain(w.options(), w.tables)
	require.NoError(t, err)
	l := newLane(d, w.lane("events"))
	require.NoError(t, l.list())
	require.Equal(t, []string{c, a, b}, fileNames(l.due()))
}

// The byte budget over all lanes, and one segment larger than it.
func TestMemory_bytes_in_flight_are_bounded(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	const lanes, each = 6, 4
	for i := range lanes {
		for range each {
			w.seal(spec{index: fmt.Sprint("lane", i), rows: 100})
		}
	}
	size := int64(len(encode(t, spec{rows: 100})))
	w.opt.MaxBytesInFlight = 4 * size
	d, err := newDrain(w.options(), w.tables)
	require.NoError(t, err)
	d.root, d.once = w.root, true
	var inFlight, peak atomic.Int64
	for i := range lanes {
		table := w.tables.get(fmt.Sprint("lane", i))
		table.before = func(_ context.Context, segs []lake.Segment) error {
			n := inFlight.Add(int64(len(segs)))
			defer inFlight.Add(-int64(len(segs)))
			for range 10_000 { // let the others in
				peak.Store(max(peak.Load(), n))
				n = inFlight.Load()
				runtime.Gosched()
			}
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
