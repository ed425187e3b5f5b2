package drain

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// TestSweep_requeue cuts the power before every operation of a requeue with salvage, under every policy of what the disk
// keeps, then once more inside the next. Then either an operator repeats the command or a drain comes first. Whatever was
// done: no row is lost, none is twice, and each damaged segment's bytes are there. ACCOUNTED, LAKE-1, ONE-1, LOUD-1.
func TestSweep_requeue(t *testing.T) {
	t.Parallel()
	salvage := func(w *world) error {
		_, err := w.requeue(RequeueOptions{Salvage: true})
		return err
	}
	sweepCommand(t, 40, func(w *world) (func(*world) error, func(*world)) {
		p := w.poisonedThree()
		return salvage, func(w *world) {
			w.checkHalf(p)
			require.Empty(w.t, w.once().Failures)
			w.checkHalf(p)
			w.requeued(RequeueOptions{Salvage: true})
			w.checkSalvaged(p)
		}
	})
}

// checkSalvaged: each row is in the table once, and the damaged segments' bytes and notes are there.
func (w *world) checkSalvaged(p three) {
	w.t.Helper()
	r := w.once()
	require.Empty(w.t, r.Failures)
	require.Zero(w.t, r.Gaps)
	w.accounted()
	require.Equal(w.t, map[segment.State]int{segment.Committed: 4}, w.states("events"))
	require.Empty(w.t, w.strays())
	entries, err := w.fs.List(w.lane("events").Dir(segment.Poison))
	require.NoError(w.t, err)
	require.Len(w.t, entries, 4, "two originals and their notes: %v", entries)
	for _, id := range []segment.ID{p.damaged, p.committed} {
		name := id.FileName() + ".salvaged"
		_, err := w.lane("events").ReadNote(name)
		require.NoError(w.t, err)
		data, err := vfs.ReadFile(w.fs, w.lane("events").Path(segment.Poison, name))
		require.NoError(w.t, err)
		require.Equal(w.t, p.bad, data)
	}
	for path := range w.files() {
		require.NotContains(w.t, path, ".tmp")
	}
	require.Empty(w.t, w.requeued(RequeueOptions{Salvage: true}))
}

// three are the segments in poison/ of a sweep.
type three struct {
	bad                         []byte
	damaged, committed, healthy segment.ID
}

// poisonedThree has a drain set two damaged segments aside, the rows of one of them in the table before, and puts a
// healthy one beside them.
func (w *world) poisonedThree() three {
	w.t.Helper()
	file, ends := batches(w.t, 3, 2, 4)
	p := three{bad: slices.Clone(file)}
	p.bad[ends[2]-20] ^= 1
	w.seal(spec{})
	p.damaged = w.sealBytes(segment.Sealed, p.bad, 5)
	p.committed = w.sealBytes(segment.Processing, p.bad, 9) // damaged after its commit and before its mark
	w.tables.get("events").rows[p.committed.String()] = []int{1, 1, 1, 1, 1, 1, 1, 1, 1}
	p.healthy = w.sealBytes(segment.Sealed, file, 9)
	lane := w.lane("events")
	require.NoError(w.t, lane.Quarantine(segment.Sealed, p.healthy.FileName(), segment.Note{Reason: "by hand"}))
	require.EqualValues(w.t, 2, w.once().Poisoned)
	require.Len(w.t, w.in("events", segment.Poison), 3)
	return p
}

// checkHalf: each segment is in the table as far as it can be, or still somewhere on the disk, whole; nothing is twice.
func (w *world) checkHalf(p three) {
	w.t.Helper()
	table := w.tables.get("events")
	copies, err := w.lane("events").Copies()
	require.NoError(w.t, err)
	for _, id := range []segment.ID{p.damaged, p.committed, p.healthy} {
		rows := table.rows[id.String()]
		for i, times := range rows {
			require.Equal(w.t, 1, times, "row %d of %s", i, id)
		}
		require.True(w.t, len(rows) == w.want[id.String()] || len(copies[id]) > 0, "%s has %d rows and no name", id, len(rows))
	}
}
