package drain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// into are the options that bring what is in stale/ into the table of default/events.
func (w *world) into(c Selection) RequeueOptions {
	c.From = segment.Stale
	table := w.tables.get("events").uuid
	return RequeueOptions{Selection: c, Into: table, Tables: func(context.Context) ([]lake.TableInfo, error) {
		return []lake.TableInfo{
			{Namespace: "tenant_a", Name: "events", UUID: uuid.New()},
			{Namespace: "siglake", Name: "events", UUID: table},
		}, nil
	}}
}

// lostCatalog is a lane whose table was lost with its catalog: one segment of each kind is in stale/, of three rows each.
func (w *world) lostCatalog() {
	w.t.Helper()
	w.seal(spec{})
	require.EqualValues(w.t, 3, w.once().Rows)
	old := w.tables.get("events").uuid
	w.seal(spec{table: old})
	w.seal(spec{table: old, partial: true})
	w.seal(spec{mangle: func(b []byte) []byte { return b[frame.HeaderSize:] }}) // of the reference: no header
	w.seal(spec{mangle: version1})
	w.tables.recreate("events")
	r := w.once()
	require.Empty(w.t, r.Failures)
	require.EqualValues(w.t, 5, r.Stale)
	require.Zero(w.t, r.Rows)
}

// version1 rewrites a sealed segment in the older format.
func version1(b []byte) []byte {
	head := slices.Clone(b[:36])
	head[4], head[6], head[7] = 1, 0, 0
	return append(head, b[frame.HeaderSize:]...)
}

// LAKE-1. Segments of a table whose catalog was lost go into the new one by an operator's word: each row once, also when
// the table has some of them by other means, when the command runs again, and when they are restored from a mirror later.
func TestStale_requeue(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.lostCatalog()
	lane, table := w.lane("events"), w.tables.get("events")
	table.forget = true // only that the drain doubts prevents a double
	names := w.in("events", segment.Stale)
	require.Len(t, names, 5)
	old, err := vfs.ReadFile(w.fs, lane.Path(segment.Stale, names[1]))
	require.NoError(t, err)
	first := strings.TrimSuffix(names[0][37:], ".arrow")
	table.rows[first] = []int{1, 1}

	before := w.files()
	require.Equal(t, slices.Repeat([]Fate{Requeued}, 5), fates(w.requeued(w.into(Selection{DryRun: true}))))
	require.Equal(t, before, w.files())

	id, _, err := segment.ParseName(names[0][37:])
	require.NoError(t, err)
	got := w.requeued(w.into(Selection{IDs: []segment.ID{id}}))
	require.Equal(t, []Fate{Requeued}, fates(got))
	require.Contains(t, got[0].Note, "written for table "+names[0][:36])
	require.Len(t, w.in("events", segment.Stale), 4, "one that is named goes alone")
	require.Len(t, w.requeued(w.into(Selection{})), 4)
	require.Empty(t, w.requeued(w.into(Selection{})))
	intos, err := lane.Intos(uuid.MustParse(names[0][:36]))
	require.NoError(t, err)
	require.Len(t, intos, 1)
	require.Equal(t, table.uuid, intos[0].Table)
	require.Equal(t, "test", intos[0].By)
	require.Empty(t, w.strays())

	r := w.once()
	require.Empty(t, r.Failures)
	require.EqualValues(t, 3*5-2, r.Rows)
	require.Zero(t, r.Gaps)
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 5}, w.states("events"))

	// What a mirror has of them names the old table still.
	require.NoError(t, lane.Retire([]string{names[1][37:]}))
	put(t, w.fs, lane.Path(segment.Sealed, names[1][37:]), old)
	require.EqualValues(t, 1, w.once().Stale)
	require.Equal(t, []Fate{Requeued}, fates(w.requeued(w.into(Selection{}))))
	require.Zero(t, w.once().Rows)
	w.accounted()
}

// What is refused stays as it is, and says why.
func TestStale_requeue_refuses(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{rows: 2})
	w.once()
	old := uuid.New()
	w.seal(spec{table: old, mangle: func(b []byte) []byte {
		b[len(b)-40] ^= 1
		return b
	}})
	w.seal(spec{table: old, mangle: func(b []byte) []byte {
		b[4] = 9
		return b
	}})
	w.seal(spec{table: old, index: "other"})
	lane := w.lane("events")
	for _, name := range w.in("events", segment.Sealed) {
		require.NoError(t, lane.MoveStale(segment.Sealed, name, old))
	}
	other := w.in("other", segment.Sealed)[0]
	require.NoError(t, w.lane("other").MoveStale(segment.Sealed, other, old))
	otherID, _, err := segment.ParseName(other)
	require.NoError(t, err)
	before := w.files()

	got := w.requeued(w.into(Selection{}))
	require.Len(t, got, 2, "a lane whose table is another one is left alone")
	require.Equal(t, []Fate{Refused, Refused}, fates(got))
	require.ErrorIs(t, got[0].Err, ErrDamaged)
	require.ErrorIs(t, got[1].Err, frame.ErrVersion)
	got = w.requeued(w.into(Selection{IDs: []segment.ID{otherID}}))
	require.Equal(t, []Fate{Refused}, fates(got))
	require.ErrorIs(t, got[0].Err, ErrOtherTable)

	opt := w.into(Selection{})
	opt.Into = old
	_, err = w.requeue(opt)
	require.ErrorIs(t, err, ErrNoSuchTable)
	require.ErrorContains(t, err, old.String())
	opt.Tables = func(context.Context) ([]lake.TableInfo, error) { return nil, errors.New("no answer") }
	_, err = w.requeue(opt)
	require.ErrorContains(t, err, "no answer")
	require.NotErrorIs(t, err, ErrNoSuchTable)
	require.Equal(t, before, w.files())
}

// ADR 0004: beside a drain nothing is moved back, and nothing is half done.
func TestStale_requeue_beside_a_drain(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.lostCatalog()
	stop := w.start()
	eventually(t, func() bool {
		_, err := w.requeue(w.into(Selection{}))
		_, locked := errors.AsType[*vfs.LockedError](err)
		return locked || len(w.in("events", segment.Stale)) == 0
	}, "the drain has its lock")
	require.NoError(t, stop())
	w.requeued(w.into(Selection{}))
	w.once()
	w.accounted()
}

// TestSweep_stale cuts the power before every operation of stale requeue, under every policy of what the disk keeps, then
// once more inside the next; then either an operator repeats it or a drain comes first. In the end each row is in the new
// table once, and who decided it is recorded. ACCOUNTED, LAKE-1, ONE-1, LOUD-1.
func TestSweep_stale(t *testing.T) {
	t.Parallel()
	command := func(w *world) error {
		_, err := w.requeue(w.into(Selection{}))
		return err
	}
	sweepCommand(t, 60, func(w *world) (func(*world) error, func(*world)) {
		w.lostCatalog()
		return command, func(w *world) {
			w.nothingTwice()
			require.Empty(w.t, w.once().Failures)
			w.nothingTwice()
			w.requeued(w.into(Selection{}))
			r := w.once()
			require.Empty(w.t, r.Failures)
			require.Zero(w.t, r.Gaps)
			w.accounted()
			require.Equal(w.t, map[segment.State]int{segment.Committed: 5}, w.states("events"))
			require.Empty(w.t, w.strays())
			decisions := 0
			for path := range w.files() {
				require.NotContains(w.t, path, ".tmp")
				if strings.Contains(path, "/into-"+w.tables.get("events").uuid.String()) {
					decisions++
				}
			}
			require.Equal(w.t, 1, decisions)
			require.Empty(w.t, w.requeued(w.into(Selection{})))
		}
	})
}

// nothingTwice: each row is in the table once, or its segment has a name.
func (w *world) nothingTwice() {
	w.t.Helper()
	copies, err := w.lane("events").Copies()
	require.NoError(w.t, err)
	named := map[string]bool{}
	for id := range copies {
		named[id.String()] = true
	}
	rows := w.tables.get("events").rows
	for id, want := range w.want {
		for i, times := range rows[id] {
			require.Equal(w.t, 1, times, "row %d of %s", i, id)
		}
		require.True(w.t, len(rows[id]) == want || named[id], "%s has %d of %d rows and no name", id, len(rows[id]), want)
	}
}
