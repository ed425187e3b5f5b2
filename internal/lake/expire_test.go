package lake

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// commitEach commits n segments of two rows, each by itself.
func commitEach(tb testing.TB, t *Table, n int) []Segment {
	tb.Helper()
	out := make([]Segment, n)
	for i := range out {
		out[i] = newSegment(tb, uint64(i), 2)
		_, err := t.Commit(context.Background(), out[i:i+1])
		require.NoError(tb, err)
	}
	return out
}

func metaOf(tb testing.TB, l *Lake) table.Metadata {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", "events"})
	require.NoError(tb, err)
	return t.Metadata()
}

// newKeeper keeps retain snapshots, a round at a time.
func newKeeper(l *Lake, retain int) *keeper {
	return &keeper{lake: l, retain: retain, tables: map[string]*kept{}}
}

// requireTravel reads every snapshot the table has. The first of them has the rows of first commits of commitEach.
func requireTravel(tb testing.TB, l *Lake, first int) {
	tb.Helper()
	for i, s := range metaOf(tb, l).Snapshots() {
		require.Len(tb, readAll(tb, l, table.WithSnapshotID(s.SnapshotID)), 2*(first+i), "snapshot %d", i)
	}
}

// Of the snapshots the last ones stay and can be read; of the rows all do.
func TestExpire_keeps_the_last(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	segs := commitEach(t, tbl, 12)
	before := metaOf(t, l)
	k := newKeeper(l, 5)
	require.NoError(t, k.round(t.Context()))
	after := metaOf(t, l)
	require.Len(t, after.Snapshots(), 5)
	require.Equal(t, before.CurrentSnapshot(), after.CurrentSnapshot())
	require.Equal(t, before.LastSequenceNumber(), after.LastSequenceNumber())
	require.Equal(t, before.Properties()[propProof], after.Properties()[propProof])
	requireTravel(t, l, 8)
	requireExactly(t, l, segs...)
	_, head := tbl.Head()
	raw, err := l.open(t.Context(), tbl.id)
	require.NoError(t, err)
	require.Equal(t, raw.MetadataLocation(), head, "what the drain writes down as seen")

	require.NoError(t, k.round(t.Context()))
	delete(k.tables, tbl.Name())
	require.NoError(t, k.round(t.Context()))
	raw, err = l.open(t.Context(), tbl.id)
	require.NoError(t, err)
	require.Equal(t, raw.MetadataLocation(), head, "no commit without need")
	_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 99, 1)})
	require.NoError(t, err)
}

// What branches and tags lead to stays, and so does what the table's own properties ask for.
func TestExpire_keeps_what_others_asked_for(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		ask  func(t *testing.T, l *Lake)
		want int
	}{
		{"tag", func(t *testing.T, l *Lake) {
			ref := table.NewSetSnapshotRefUpdate("audit", metaOf(t, l).Snapshots()[1].SnapshotID, table.TagRef, 0, 0, 0)
			_, _, err := l.cat.CommitTable(t.Context(), table.Identifier{"siglake", "events"}, nil, []table.Update{ref})
			require.NoError(t, err)
		}, 4},
		{"no_garbage_collection", func(t *testing.T, l *Lake) { setProperty(t, l, "events", table.GCEnabledKey, "false") }, 10},
		{"more_snapshots", func(t *testing.T, l *Lake) { setProperty(t, l, "events", table.MinSnapshotsToKeepKey, "6") }, 6},
		{"for_a_day", func(t *testing.T, l *Lake) { setProperty(t, l, "events", table.MaxSnapshotAgeMsKey, "86400000") }, 10},
		{"nothing", func(*testing.T, *Lake) {}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{})
			segs := commitEach(t, events(t, l), 10)
			tc.ask(t, l)
			require.NoError(t, newKeeper(l, 3).round(t.Context()))
			require.Len(t, metaOf(t, l).Snapshots(), tc.want)
			requireExactly(t, l, segs...)
		})
	}
}

// A snapshot that a rollback left stays as long as its age mates on main.
func TestExpire_after_a_rollback(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 8)
	all := metaOf(t, l).Snapshots()
	raw, err := l.open(t.Context(), tbl.id)
	require.NoError(t, err)
	tx := raw.NewTransaction()
	require.NoError(t, tx.RollbackToSnapshot(all[5].SnapshotID))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	k := newKeeper(l, 3)
	require.NoError(t, k.round(t.Context()))
	require.Len(t, metaOf(t, l).Snapshots(), 5, "three of main and two that nothing leads to")
	commitEach(t, tbl, 3)
	require.NoError(t, k.round(t.Context()))
	require.Len(t, metaOf(t, l).Snapshots(), 3)
}

// LAKE-1: whatever becomes of an expiry and of its answer, each row is in the table once, every snapshot that is left
// can be read, and a later round does the rest.
func TestExpire_survives_every_answer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		answer  func(t *testing.T, other *Lake, more Segment) answer
		outcome error
		left    int
		more    bool
	}{
		{"truth", func(*testing.T, *Lake, Segment) answer { return nil }, nil, 3, false},
		{"lost", func(*testing.T, *Lake, Segment) answer { return lost }, errInjected, 9, false},
		{"landed_unheard", func(*testing.T, *Lake, Segment) answer { return landedUnheard }, errInjected, 3, false},
		{"hung", func(*testing.T, *Lake, Segment) answer { return hung }, context.DeadlineExceeded, 9, false},
		{"a_drain_of_another_process_commits_first", func(t *testing.T, other *Lake, more Segment) answer {
			return after(func() {
				_, err := events(t, other).Commit(context.Background(), []Segment{more})
				require.NoError(t, err)
			})
		}, nil, 10, true},
		{"another_process_expires_first", func(t *testing.T, other *Lake, _ Segment) answer {
			return after(func() { require.NoError(t, newKeeper(other, 4).round(context.Background())) })
		}, nil, 4, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := &faultyCatalog{}
			h := faults(f)
			h.limits.commitTimeout = 10 * time.Second
			if tc.name == "hung" {
				h.limits.commitTimeout = time.Second
			}
			l := lakeAt(t, dir, h)
			tbl := events(t, l)
			segs := commitEach(t, tbl, 9)
			more := newSegment(t, 100, 2)
			f.answers = []answer{tc.answer(t, lakeAt(t, dir, hooks{}), more)}
			k := newKeeper(l, 3)
			err := k.round(t.Context())
			if tc.outcome != nil {
				require.ErrorIs(t, err, tc.outcome)
			}
			if tc.more {
				require.Error(t, err, "a conflict is left to the next round")
				segs = append(segs, more)
			}
			left := len(metaOf(t, l).Snapshots())
			if tc.name == "another_process_expires_first" { // a commit that says the same twice may be refused or not
				require.LessOrEqual(t, left, tc.left)
			} else {
				require.Equal(t, tc.left, left)
			}
			requireExactly(t, l, segs...)
			requireTravel(t, l, len(segs)-left+1)
			k.tables[tbl.Name()].idle = idleRounds // the other's commits are not this process's
			require.NoError(t, k.round(t.Context()))
			require.Len(t, metaOf(t, l).Snapshots(), 3)
			requireTravel(t, l, len(segs)-2)
			requireExactly(t, l, segs...)
			out, err := tbl.Commit(t.Context(), append(segs, newSegment(t, 101, 1)))
			require.NoError(t, err)
			require.Equal(t, int64(1), out.RowsWritten)
		})
	}
}

// LAKE-1: an expiry that stops at any step of the disk leaves a table that can be read and goes on.
func TestExpire_survives_a_stop_at_every_step(t *testing.T) {
	t.Parallel()
	count := func() int {
		d := &spyDisk{}
		l := lakeAt(t, t.TempDir(), spied(t, d))
		commitEach(t, events(t, l), 5)
		before := d.ops
		require.NoError(t, newKeeper(l, 2).round(t.Context()))
		return d.ops - before
	}()
	require.Greater(t, count, 3)
	for _, stop := range stops(count) {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := &spyDisk{}
			h := spied(t, d)
			l := lakeAt(t, dir, h)
			segs := commitEach(t, events(t, l), 5)
			d.stop = d.ops + stop
			_ = newKeeper(l, 2).round(t.Context())
			d.mu.Lock()
			d.stop = 0
			d.mu.Unlock()
			next := lakeAt(t, dir, hooks{scheme: h.scheme})
			requireExactly(t, next, segs...)
			requireTravel(t, next, 5-len(metaOf(t, next).Snapshots())+1)
			for i := range segs {
				segs[i].Doubtful = true
			}
			out, err := events(t, next).Commit(t.Context(), segs)
			require.NoError(t, err)
			require.Zero(t, out.RowsWritten)
			require.NoError(t, newKeeper(next, 2).round(t.Context()))
			require.Len(t, metaOf(t, next).Snapshots(), 2)
			requireExactly(t, next, segs...)
		})
	}
}

// LAKE-1: when the snapshots and the proof of a segment are long gone, offering it again, from this process or
// another, writes nothing.
func TestExpire_then_a_replay_of_everything_R2(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	dir := t.TempDir()
	h := hooks{limits: limits{proofEntries: 4}}
	l := lakeAt(t, dir, h)
	tbl := events(t, l)
	k := newKeeper(l, 3)
	var segs []Segment
	for i := range 30 {
		segs = append(segs, newSegment(t, uint64(i), 2))
		_, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
		if i%4 == 3 {
			require.NoError(t, k.round(t.Context()))
		}
	}
	require.LessOrEqual(t, len(metaOf(t, l).Snapshots()), 6)
	for _, doubtful := range []bool{false, true} {
		for _, from := range []*Lake{l, lakeAt(t, dir, h)} {
			for i := range segs {
				segs[i].Doubtful = doubtful
			}
			out, err := events(t, from).Commit(t.Context(), segs)
			require.NoError(t, err)
			require.Equal(t, Outcome{Committed: committed(segs...), Duplicates: 60}, out)
		}
	}
	requireExactly(t, l, segs...)
}

// LAKE-1: a commit whose answer is lost is found also when, before anybody looks, another process has pushed it out of
// the retained snapshots and out of the proof.
func TestExpire_past_a_commit_in_doubt(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{2, 1000} {
		t.Run(fmt.Sprintf("proof_of_%d", entries), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := &faultyCatalog{}
			h := faults(f)
			h.limits.proofEntries = entries
			l := lakeAt(t, dir, h)
			tbl := events(t, l)
			other := lakeAt(t, dir, hooks{limits: limits{proofEntries: entries}})
			segs := []Segment{newSegment(t, 1, 4), newSegment(t, 2, 3)}
			var theirs []Segment
			f.answers = []answer{func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
				meta, at, err := landedUnheard(ctx, do)
				theirs = commitEach(t, events(t, other), 6)
				require.NoError(t, newKeeper(other, 2).round(context.Background()))
				return meta, at, err
			}}
			out, err := tbl.Commit(t.Context(), segs)
			require.NoError(t, err)
			require.Equal(t, committed(segs...), out.Committed)
			require.Equal(t, 1, f.commits-1, "made, and not made again") // the first made the table
			require.Len(t, metaOf(t, l).Snapshots(), 2)
			requireExactly(t, l, append(theirs, segs...)...)
		})
	}
}

// A table whose proof cannot be read is left as it is: its snapshots may help whoever repairs it.
func TestExpire_refuses_what_commits_refuse(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 5)
	_, _, err := l.Ensure(t.Context(), "other", "events", otelarrow.Logs)
	require.NoError(t, err)
	_, backup := tbl.Head()
	commitEach(t, tbl, 1)
	setProperty(t, l, "events", propProof, "1.AAAA")
	k := newKeeper(l, 2)
	require.ErrorIs(t, k.round(t.Context()), ErrProof)
	require.Len(t, metaOf(t, l).Snapshots(), 6)
	_, err = l.db.ExecContext(t.Context(), "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = 'siglake'", backup)
	require.NoError(t, err)
	var back *GoneBackError
	require.ErrorAs(t, k.round(t.Context()), &back)
	require.Len(t, metaOf(t, l).Snapshots(), 5)
}

// A table that takes rows is not kept waiting for, and is not kept from taking them.
func TestExpire_waits_for_its_turn_D13(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{turnWait: time.Millisecond}})
	tbl := events(t, l)
	commitEach(t, tbl, 4)
	k := newKeeper(l, 2)
	<-tbl.turn
	require.ErrorIs(t, k.round(t.Context()), errBusy)
	require.Len(t, metaOf(t, l).Snapshots(), 4)
	tbl.turn <- struct{}{}
	require.NoError(t, k.round(t.Context()))
	require.Len(t, metaOf(t, l).Snapshots(), 2)
	require.Len(t, tbl.turn, 1, "given back")
}
