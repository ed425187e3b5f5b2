package drain

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

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

// LOUD-1: a damaged segment is set aside with a note after three reads; its neighbours are committed.
func TestOnce_a_damaged_segment_goes_to_poison_alone_A14_R26(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	for range 31 {
		w.seal(spec{})
	}
	bad := w.seal(spec{mangle: func(b []byte) []byte {
		b[len(b)/2] ^= 0x40
		return b
	}})
	for range 32 {
		w.seal(spec{})
	}
	id, _, err := segment.ParseName(bad)
	require.NoError(t, err)
	delete(w.want, id.String())

	r := w.once()
	require.Equal(t, Report{Lanes: 1, Segments: 63, Rows: 189, Poisoned: 1}, r)
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 63, segment.Poison: 1}, w.states("events"))
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
func TestOnce_a_newer_format_stays_where_it_is_A11(t *testing.T) {
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
func TestOnce_another_tables_segment_goes_to_stale_R19(t *testing.T) {
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
func TestOnce_a_new_owner_turns_unstamped_segments_away_R19(t *testing.T) {
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
	told := w.logs.FilterMessageSnippet("drain has stopped for this table").All()
	require.NotEmpty(t, told)
	require.Equal(t, zap.ErrorLevel, told[0].Level)
	require.Empty(t, w.logs.FilterMessageSnippet("goes on by itself").All())
	require.Equal(t, 1, r.Remaining)
	require.Equal(t, map[segment.State]int{segment.Committed: 3, segment.Sealed: 1}, w.states("events"))
}

// A drain has started on an empty catalog; then the old one is restored. The lane has not forgotten what it committed to the old
// table: one that shows less stops it, and one that shows all of it goes on. What waits in committed/ for its time is set aside at once,
// also what a recovery sealed. LAKE-1, LOUD-1.
func TestOnce_a_catalog_restored_after_an_empty_one(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	old := w.tables.get("events")
	for range 2 {
		w.seal(spec{table: old.uuid, partial: true})
		w.once()
	}
	require.Equal(t, map[segment.State]int{segment.Committed: 2}, w.states("events"))
	w.seal(spec{table: w.tables.recreate("events").uuid})
	require.Empty(t, w.once().Failures)
	require.Equal(t, map[segment.State]int{segment.Committed: 1, segment.Stale: 2}, w.states("events"))

	for range 2 { // also when it starts again
		w.tables.tables["default/events"] = old
		old.sequence = 1
		w.seal(spec{table: old.uuid})
		r := w.once()
		back := new(lake.GoneBackError)
		require.ErrorAs(t, r.Failures["default/events"], &back)
		require.Equal(t, []int64{2, 1}, []int64{back.WantSequence, back.HaveSequence})
	}
	require.Equal(t, map[segment.State]int{segment.Committed: 1, segment.Stale: 2, segment.Sealed: 2}, w.states("events"))
	old.sequence = 2
	require.Empty(t, w.once().Failures)
	owner, err := w.lane("events").Owner()
	require.NoError(t, err)
	require.Equal(t, old.uuid, owner)
	require.Equal(t, map[segment.State]int{segment.Committed: 2, segment.Stale: 3}, w.states("events"))
}

// One lane in trouble holds up no other.
func TestRun_a_failing_lane_does_not_hold_up_another_D4(t *testing.T) {
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
func TestRun_a_segment_no_commit_accepts_is_isolated_R27(t *testing.T) {
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
