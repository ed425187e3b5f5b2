package lake

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// LAKE-1: whoever commits, whatever is named again, and wherever the catalog goes back to: a segment that was committed is
// listed by the proof at hand or is not ruled out. And one that is new is ruled out, where one process sees all proofs.
func TestDropped_rules_out_nothing_that_was_committed(t *testing.T) {
	t.Parallel()
	l := limits{proofEntries: 8, droppedEntries: 64, droppedAge: time.Minute}.orDefault()
	known, forgotten, backs := 0, 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		now := proofTime
		p, table := proof{table: uuid.New()}, map[string]time.Time{} // what it has, and when that was made
		p0, table0 := p, map[string]time.Time{}
		var readers [2]dropped
		for step := range 200 {
			if rng.IntN(20) > 0 { // else in the same millisecond
				now = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			}
			var named []proofEntry
			for range 1 + rng.IntN(4) {
				made := now.Add(-time.Duration(rng.IntN(3000)) * time.Millisecond)
				id := testID(t, made, uint64(step))
				if rng.IntN(4) == 0 {
					for old, at := range table { // any
						id, made = old, at
						break
					}
				}
				table[id] = made
				named = append(named, proofEntry{id: id, rows: int64(step)})
			}
			switch rng.IntN(40) {
			case 0: // a far larger one
				for i := range 20 {
					id := testID(t, now, uint64(i))
					table[id] = now
					named = append(named, proofEntry{id: id, rows: 1})
				}
			case 1: // the catalog goes back
				p, table = p0, maps.Clone(table0)
				for _, e := range named {
					table[e.id] = now
				}
				backs++
			case 2:
				p0, table0 = p, maps.Clone(table)
				for _, e := range named {
					delete(table0, e.id)
				}
			}
			p = p.merge(now, named, l)
			if rng.IntN(5) == 0 {
				readers[1].see(p, l) // sees a part of them
			}
			readers[0].see(p, l)
			for i := range readers {
				r := &readers[i]
				if i == 1 && rng.IntN(5) > 0 {
					continue
				}
				r.see(p, l)
				require.LessOrEqual(t, len(r.at), l.droppedEntries)
				listed := p.rows()
				for id, made := range table {
					_, inProof := listed[id]
					// The margin is for clocks that differ; here there is one.
					require.False(t, !inProof && r.rulesOut(id, made.Add(skewMargin)), "seed %d, step %d, reader %d: %s was committed", seed, step, i, id)
					if !inProof {
						forgotten++
					}
				}
				if i == 0 && r.rulesOut(testID(t, now, 1), now.Add(skewMargin)) {
					known++
				}
			}
		}
	}
	require.Positive(t, forgotten)
	require.Positive(t, backs)
	require.Greater(t, known, 40*200*9/10)
}

// A clock that stands still gives two commits one time, and the second may name segments of the first again.
func TestDropped_a_commit_of_the_same_time_is_another(t *testing.T) {
	t.Parallel()
	l := limits{proofEntries: 2}.orDefault()
	first := proof{table: uuid.New()}.merge(proofTime, entries("a", "b"), l)
	second := first.merge(proofTime, append(entries("a"), entries("c", "d")...), l)
	require.NotContains(t, second.rows(), "b")
	require.False(t, second.follows(first))
	var r dropped
	r.see(first, l)
	r.see(second, l)
	require.False(t, r.rulesOut("b", proofTime.Add(skewMargin)))
}

// What one process saw dropped is not kept for ever, and seeing the same proof again adds nothing.
func TestDropped_is_bounded(t *testing.T) {
	t.Parallel()
	l := limits{proofEntries: 8, droppedEntries: 50, droppedAge: time.Hour}.orDefault()
	var r dropped
	p := proof{table: uuid.New()}
	for i := range 1000 {
		p = p.merge(proofTime, entries(fmt.Sprintf("a %d", i), fmt.Sprintf("b %d", i)), l) // a clock that stands still
		for range 3 {
			r.see(p, l)
		}
		require.LessOrEqual(t, len(r.at), 50)
		require.LessOrEqual(t, len(r.commits), 25)
	}
	require.Len(t, r.at, 50)
	l.droppedAge = time.Minute
	p = p.merge(proofTime.Add(2*time.Minute), entries("late"), l)
	r.see(p, l)
	require.Empty(t, r.at)
	require.Equal(t, proofTime.UnixMilli()+1, r.coverage)
}

// At 2,048 segments in less than the margin for clocks, the proof covers no new segment. A process that saw them all come looks
// for none in the table, and finds those that were dropped; one that begins later, or missed some, does look.
func TestCommit_a_busy_table_is_not_searched_for_new_segments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func() (*Table, func() float64) {
		reader := sdkmetric.NewManualReader()
		l, err := open(t.Context(), Options{
			Catalog: "sqlite://" + filepath.Join(dir, "c.db"), Warehouse: filepath.Join(dir, "wh"),
			Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("lake"),
		}, hooks{limits: limits{proofEntries: 3}, wait: noWait})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		return events(t, l), func() float64 { return metricsOf(t, reader)["siglake_lake_lookups_total {segment}"] }
	}
	var all []Segment
	commit := func(tbl *Table) {
		s := newSegment(t, uint64(len(all)), 2)
		all = append(all, s)
		out, err := tbl.Commit(t.Context(), []Segment{s})
		require.NoError(t, err)
		require.Equal(t, int64(2), out.RowsWritten)
	}
	one, looks := at()
	for range 12 {
		commit(one)
	}
	require.Zero(t, looks(), "new segments")
	out, err := one.Commit(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, committed(all...), out.Committed)
	require.Zero(t, out.RowsWritten)
	require.Equal(t, 9.0, looks(), "those that the proof does not list any more")

	other, otherLooks := at()
	commit(other)
	require.Equal(t, 1.0, otherLooks(), "what the proof dropped before this process began may be any")
	commit(other)
	commit(one)
	require.Equal(t, 9.0, looks(), "it has seen all, those of the other process, too")
	for range 4 {
		commit(other)
	}
	commit(one)
	require.Equal(t, 10.0, looks(), "what it saw last is not listed any more, so others may have come and gone")
	out, err = one.Commit(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, committed(all...), out.Committed)
	require.Zero(t, out.RowsWritten)
	requireExactly(t, one.lake, all...)
}
