package drain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// ask asks the fake tables.
func (w *world) ask(ctx context.Context, l segment.Lane, ids []string) (uuid.UUID, map[string]lake.Evidence, error) {
	t := w.tables.get(l.Index())
	found, err := t.Lookup(ctx, ids)
	out := make(map[string]lake.Evidence)
	for id, n := range found {
		out[id] = lake.Evidence{Committed: n, Rows: n}
	}
	return t.uuid, out, err
}

// choice names orphans of the world.
func (w *world) choice(names ...string) Selection {
	w.t.Helper()
	c := Selection{FS: w.fs, WAL: w.dir, Holder: "test", Logger: w.opt.Logger, Now: time.Now, From: segment.Orphans}
	for _, name := range names {
		id, _, err := segment.ParseName(name)
		require.NoError(w.t, err)
		c.IDs = append(c.IDs, id)
	}
	return c
}

// orphaned are orphans of each kind, three rows each.
type orphaned struct{ whole, partly, absent, stale, damaged string }

func (w *world) orphaned() orphaned {
	w.t.Helper()
	table := w.tables.get("events")
	o := orphaned{
		damaged: w.seal(spec{state: segment.Orphans, mangle: func(b []byte) []byte {
			b[len(b)-40] ^= 1
			return b
		}}),
		whole:  w.seal(spec{state: segment.Orphans, table: table.uuid}),
		partly: w.seal(spec{state: segment.Orphans}),
		absent: w.seal(spec{state: segment.Orphans}),
		stale:  w.seal(spec{state: segment.Orphans, table: uuid.New()}),
	}
	table.rows[strings.TrimSuffix(o.whole, ".arrow")] = []int{1, 1, 1}
	table.rows[strings.TrimSuffix(o.partly, ".arrow")] = []int{1, 1}
	w.forget(o.stale, o.damaged)
	return o
}

// An operator sees of each orphan what the table has of it, and why where that is not known. Nothing is changed.
func TestOrphans_compare(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	o := w.orphaned()
	before := w.files()
	got, err := CompareOrphans(t.Context(), w.choice(), w.ask)
	require.NoError(t, err)
	require.Len(t, got, 5)
	want := map[string]Verdict{o.whole: InTable, o.partly: PartlyIn, o.absent: NotInTable, o.stale: OtherTable, o.damaged: Undecided}
	for _, c := range got {
		require.Equal(t, want[c.ID.FileName()], c.Verdict)
		switch c.ID.FileName() {
		case o.partly:
			require.Equal(t, []int64{3, 2, 2}, []int64{c.Rows, c.Shown.Committed, c.Shown.Rows})
			require.Equal(t, w.tables.get("events").uuid, c.Table)
		case o.damaged:
			require.ErrorIs(t, c.Err, frame.ErrCRC)
		}
	}
	one, err := CompareOrphans(t.Context(), w.choice(o.absent), w.ask)
	require.NoError(t, err)
	require.Len(t, one, 1)

	w.tables.get("events").lookup = errors.New("table unreadable")
	got, err = CompareOrphans(t.Context(), w.choice(), w.ask)
	require.NoError(t, err)
	for _, c := range got {
		require.Equal(t, Undecided, c.Verdict)
		if c.ID.FileName() != o.damaged {
			require.ErrorContains(t, c.Err, "the table cannot be asked: table unreadable")
		}
	}
	require.Equal(t, before, w.files())
}

// RET-1, LOUD-1: only what is proved committed goes, and to committed/ only; by force also others, which is no gap.
func TestOrphans_delete(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	o := w.orphaned()
	dispose := func(c Selection, force bool) map[string]Fate {
		t.Helper()
		done, err := DisposeOrphans(t.Context(), c, force, w.ask)
		require.NoError(t, err)
		out := make(map[string]Fate)
		for _, d := range done {
			out[d.ID.FileName()] = d.Fate
		}
		return out
	}
	before := w.files()
	want := map[string]Fate{o.whole: Marked, o.partly: Refused, o.absent: Refused, o.stale: Refused, o.damaged: Refused}
	dry := w.choice()
	dry.DryRun = true
	require.Equal(t, want, dispose(dry, false))
	dry.IDs = w.choice(o.absent).IDs
	require.Equal(t, map[string]Fate{o.absent: Discarded}, dispose(dry, true))
	require.Equal(t, before, w.files())

	w.age(w.lane("events").Path(segment.Orphans, o.whole), 48*time.Hour)
	require.Equal(t, want, dispose(w.choice(), false))
	require.Equal(t, []string{o.whole}, w.in("events", segment.Committed))
	info, err := w.fs.Stat(w.lane("events").Path(segment.Committed, o.whole))
	require.NoError(t, err)
	require.Less(t, time.Since(info.ModTime), time.Hour, "retention counts from the mark")
	delete(want, o.whole)
	require.Equal(t, want, dispose(w.choice(), false), "again")

	require.Equal(t, map[string]Fate{o.damaged: Discarded}, dispose(w.choice(o.damaged), true))
	require.Empty(t, dispose(w.choice(o.damaged), true))
	w.tables.get("events").lookup = errors.New("table unreadable")
	require.Equal(t, map[string]Fate{o.partly: Refused, o.absent: Refused, o.stale: Refused}, dispose(w.choice(), false))
	w.tables.get("events").lookup = nil
	r := w.once()
	require.Empty(t, r.Failures)
	require.Zero(t, r.Gaps, "what was deleted on purpose is not missing")
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 3, segment.Stale: 1}, w.states("events"))
}

// Orphans go back as they are; the drain writes only what the table lacks.
func TestOrphans_requeue(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.tables.get("events").forget = true
	o := w.orphaned()
	got := w.requeued(RequeueOptions{Selection: Selection{From: segment.Orphans}})
	require.Equal(t, []Fate{Refused, Requeued, Requeued, Requeued, Requeued}, fates(got))
	require.ErrorIs(t, got[0].Err, ErrDamaged)
	require.Equal(t, []string{o.damaged}, w.in("events", segment.Orphans))
	r := w.once()
	require.Empty(t, r.Failures)
	require.EqualValues(t, 4, r.Rows)
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 3, segment.Stale: 1, segment.Poison: 1}, w.states("events"))
}

// Beside a drain nothing is moved; comparing works.
func TestOrphans_beside_a_drain(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.orphaned()
	lock, err := w.fs.Lock(w.dir+"/drain.lock", "lakecompactor of pod-7")
	require.NoError(t, err)
	before := w.files()
	_, err = DisposeOrphans(t.Context(), w.choice(), false, w.ask)
	locked, ok := errors.AsType[*vfs.LockedError](err)
	require.True(t, ok)
	require.Equal(t, "lakecompactor of pod-7", locked.Holder)
	_, err = w.requeue(RequeueOptions{Selection: Selection{From: segment.Orphans}})
	_, ok = errors.AsType[*vfs.LockedError](err)
	require.True(t, ok)
	got, err := CompareOrphans(t.Context(), w.choice(), w.ask)
	require.NoError(t, err)
	require.Len(t, got, 5)
	require.Equal(t, before, w.files())
	require.NoError(t, lock.Close())
}

// TestSweep_orphans cuts the power before every operation of orphans delete and requeue, under every policy of what the
// disk keeps, then once more in the next drain. What the table has is there once, what it lacked is committed, and only what
// was discarded may be gone. ACCOUNTED, LAKE-1, ONE-1, RET-1.
func TestSweep_orphans(t *testing.T) {
	t.Parallel()
	sweepCommand(t, 40, func(w *world) (func(*world) error, func(*world)) {
		discarded := w.seal(spec{state: segment.Orphans})
		w.forget(discarded)
		o := w.orphaned()
		commands := func(w *world) error {
			_, err := DisposeOrphans(w.t.Context(), w.choice(o.whole, o.partly), false, w.ask)
			if err == nil {
				_, err = DisposeOrphans(w.t.Context(), w.choice(discarded), true, w.ask)
			}
			if err == nil {
				_, err = w.requeue(RequeueOptions{Selection: w.choice()})
			}
			return err
		}
		return commands, func(w *world) {
			w.nothingTwice()
			require.NoError(w.t, commands(w))
			r := w.once()
			require.Empty(w.t, r.Failures)
			require.Zero(w.t, r.Gaps)
			want := map[segment.State]int{segment.Committed: 3, segment.Stale: 1, segment.Poison: 1}
			id := strings.TrimSuffix(discarded, ".arrow")
			if rows := w.tables.get("events").rows[id]; len(rows) > 0 { // a drain came first
				require.Equal(w.t, slices.Repeat([]int{1}, 3), rows)
				w.want[id] = 3
				want[segment.Committed]++
			}
			w.accounted()
			require.Equal(w.t, want, w.states("events"))
			require.Empty(w.t, w.strays())
		}
	})
}
