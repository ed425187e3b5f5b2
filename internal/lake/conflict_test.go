package lake

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// appendForeign commits rows as a program would that knows nothing of segments and proofs.
func appendForeign(tb testing.TB, l *Lake, id string) {
	tb.Helper()
	require.NoError(tb, tryForeign(l, foreignRow(tb, id)))
}

func foreignRow(tb testing.TB, id string) arrow.RecordBatch {
	tb.Helper()
	rec, err := otelarrow.Gather(otelarrow.Logs, []otelarrow.Source{{SegmentID: id, Record: batchOf(tb, rowsAt(day0, 1))}},
		[]otelarrow.RowRef{{}}, memory.DefaultAllocator)
	require.NoError(tb, err)
	return rec
}

// tryForeign is one attempt, which a commit of somebody else fails.
func tryForeign(l *Lake, rec arrow.RecordBatch) error {
	defer rec.Release()
	t, err := l.open(context.Background(), table.Identifier{"siglake", "events"})
	if err != nil {
		return err
	}
	rdr, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
	if err != nil {
		return err
	}
	defer rdr.Release()
	made, err := t.Append(context.Background(), rdr, nil)
	if err != nil {
		return err
	}
	if n := made.CurrentSnapshot().Summary.Properties["added-records"]; n != "1" {
		return fmt.Errorf("%s records were added", n)
	}
	return nil
}

// setProperty changes a property as an operator would.
func setProperty(tb testing.TB, l *Lake, name, key, value string) {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", name})
	require.NoError(tb, err)
	tx := t.NewTransaction()
	if value == "" {
		err = tx.RemoveProperties([]string{key})
	} else {
		err = tx.SetProperties(iceberg.Properties{key: value})
	}
	require.NoError(tb, err)
	_, err = tx.Commit(context.Background())
	require.NoError(tb, err)
}

// LAKE-1: whatever becomes of a commit and of its answer, each row is in the table once.
func TestCommit_survives_every_answer(t *testing.T) {
	t.Parallel()
	type env struct {
		f     *faultyCatalog
		other *Lake // a second process on the same catalog
		segs  []Segment
	}
	for _, tc := range []struct {
		name    string
		answers func(t *testing.T, e env) []answer
		commits int
		foreign []Segment
		written int64
		dupes   int64
		files   int // data files on disk, if not one
	}{
		{name: "truth", answers: func(*testing.T, env) []answer { return nil }, commits: 1, written: 9},
		{name: "lost", answers: func(*testing.T, env) []answer { return []answer{lost} }, commits: 2, written: 9},
		{name: "lost_three_times", answers: func(*testing.T, env) []answer { return []answer{lost, lost, lost} }, commits: 4, written: 9},
		{name: "landed_unheard", answers: func(*testing.T, env) []answer { return []answer{landedUnheard} }, commits: 1, written: 9},
		{name: "lost_then_landed_unheard", answers: func(*testing.T, env) []answer { return []answer{lost, landedUnheard} }, commits: 2, written: 9},
		{name: "hung", answers: func(*testing.T, env) []answer { return []answer{hung} }, commits: 2, written: 9},
		{
			name: "D4_foreign_commit_between_load_and_commit", commits: 2, written: 9, files: 2, foreign: []Segment{{ID: "foreign", Rows: 1}},
			answers: func(t *testing.T, e env) []answer {
				return []answer{after(func() { appendForeign(t, e.other, "foreign") })}
			},
		},
		{
			name: "conflicts_three_times", commits: 4, written: 9, files: 4,
			foreign: []Segment{{ID: "f0", Rows: 1}, {ID: "f1", Rows: 1}, {ID: "f2", Rows: 1}},
			answers: func(t *testing.T, e env) []answer {
				var out []answer
				for _, id := range []string{"f0", "f1", "f2"} {
					out = append(out, after(func() { appendForeign(t, e.other, id) }))
				}
				return out
			},
		},
		{
			name: "a_second_process_commits_the_same", commits: 1, dupes: 9, files: 2,
			answers: func(t *testing.T, e env) []answer {
				return []answer{after(func() {
					_, err := events(t, e.other).Commit(context.Background(), e.segs)
					require.NoError(t, err)
				})}
			},
		},
		{
			name: "a_second_process_commits_some_of_it", commits: 2, written: 5, dupes: 4, files: 3,
			answers: func(t *testing.T, e env) []answer {
				return []answer{after(func() {
					_, err := events(t, e.other).Commit(context.Background(), e.segs[:1])
					require.NoError(t, err)
				})}
			},
		},
		{
			name: "landed_unheard_and_a_second_process_retries", commits: 1, written: 9,
			answers: func(t *testing.T, e env) []answer {
				return []answer{func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
					m, loc, err := landedUnheard(ctx, do)
					out, cerr := events(t, e.other).Commit(context.Background(), e.segs)
					require.NoError(t, cerr)
					require.Zero(t, out.RowsWritten)
					return m, loc, err
				}}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e := env{f: &faultyCatalog{}, other: lakeAt(t, dir, hooks{}), segs: []Segment{newSegment(t, 1, 4), newSegment(t, 2, 5)}}
			h := faults(e.f)
			h.limits.commitTimeout = 2 * time.Second
			l := lakeAt(t, dir, h)
			tbl := events(t, l)
			e.f.answers, e.f.commits = tc.answers(t, e), 0
			out, err := tbl.Commit(t.Context(), e.segs)
			require.NoError(t, err)
			require.Equal(t, committed(e.segs...), out.Committed)
			require.Equal(t, tc.written, out.RowsWritten)
			require.Equal(t, tc.dupes, out.Duplicates)
			require.Equal(t, tc.commits, e.f.commits)
			requireExactly(t, l, append(e.segs, tc.foreign...)...)
			// What was offered to a catalog stays on disk, wanted or not; what is wanted was written once.
			require.Len(t, filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet"), max(1, tc.files))
		})
	}
}

// LAKE-1: a request that was given up on lands after the table was looked at, and before the next one is sent.
func TestCommit_a_late_landing_is_found(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	l := lakeAt(t, t.TempDir(), faults(f))
	tbl := events(t, l)
	var late func() error
	f.answers = []answer{func(_ context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
		late = func() error {
			_, _, err := do(context.Background())
			return err
		}
		return nil, "", errInjected
	}}
	f.onLoad = func(int) error {
		if late == nil {
			return nil
		}
		land := late
		late = nil
		return land()
	}
	segs := []Segment{newSegment(t, 1, 4), newSegment(t, 2, 5)}
	out, err := tbl.Commit(t.Context(), segs)
	require.NoError(t, err)
	require.Equal(t, committed(segs...), out.Committed)
	requireExactly(t, l, segs...)
}

// LAKE-1: what a lookup found is only right for the state it looked at. Here a program that keeps no proof commits
// the first row of the segment after the lookup.
func TestCommit_looks_again_after_a_foreign_commit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	l := lakeAt(t, dir, faults(f))
	other := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	appendForeign(t, other, "foreign") // a table with rows, so that there is something to look through
	seg := newSegment(t, 1, 4)
	seg.Doubtful = true
	f.answers = []answer{after(func() { appendForeign(t, other, seg.ID) })}
	out, err := tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	require.Equal(t, int64(3), out.RowsWritten)
	requireExactly(t, l, seg, Segment{ID: "foreign", Rows: 1})
}

// Commits of one process to one table take turns: they would only run into each other at the catalog.
func TestCommit_takes_turns(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	l := lakeAt(t, t.TempDir(), faults(f))
	events(t, l)
	const n = 6
	var running, most atomic.Int32
	f.answers = slices.Repeat([]answer{func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		return do(ctx)
	}}, n)
	f.commits = 0
	var g errgroup.Group
	for i := range n {
		tbl, seg := events(t, l), newSegment(t, uint64(i), 1)
		g.Go(func() error {
			_, err := tbl.Commit(t.Context(), []Segment{seg})
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.Equal(t, int32(1), most.Load())
	require.Equal(t, n, f.commits, "none of them was a conflict")
}

// Files are written once and offered again, unless somebody else committed some of their rows.
func TestCommit_offers_the_same_files_again(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	l := lakeAt(t, dir, faults(f))
	tbl := events(t, l)
	f.answers = []answer{lost, lost, lost}
	_, err := tbl.Commit(t.Context(), []Segment{newSegment(t, 1, 4)})
	require.NoError(t, err)
	data := dir + "/warehouse/siglake.db/events/data"
	require.Len(t, filesUnder(t, data, ".parquet"), 1)
}

// D3: while an outcome is unknown no file is deleted, and the error says that it is unknown.
func TestCommit_an_unknown_outcome_keeps_all_files_D3(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	h := faults(f)
	h.limits.attempts = 3
	l := lakeAt(t, dir, h)
	tbl := events(t, l)
	f.answers = []answer{landedUnheard}
	seen := 0
	f.onLoad = func(int) error {
		if seen++; seen > 1 { // the catalog cannot be reached after the commit
			return errInjected
		}
		return nil
	}
	segs := []Segment{newSegment(t, 1, 4)}
	out, err := tbl.Commit(t.Context(), segs)
	var unknown *UnknownError
	require.ErrorAs(t, err, &unknown)
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, "siglake.events", unknown.Table)
	require.Equal(t, int64(0), out.Committed[segs[0].ID])
	files := filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet")
	require.Len(t, files, 1)
	require.Contains(t, files[0], unknown.CommitID)

	f.onLoad = nil
	out, err = tbl.Commit(t.Context(), segs)
	require.NoError(t, err)
	require.Equal(t, committed(segs...), out.Committed)
	require.Zero(t, out.RowsWritten)
	requireExactly(t, l, segs...)
}

func TestCommit_gives_up_after_a_bounded_number_of_attempts(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	h := faults(f)
	h.limits.attempts = 4
	l := lakeAt(t, t.TempDir(), h)
	tbl := events(t, l)
	f.answers, f.commits = slices.Repeat([]answer{lost}, 100), 0
	out, err := tbl.Commit(t.Context(), []Segment{newSegment(t, 1, 4)})
	require.ErrorIs(t, err, errInjected)
	require.ErrorContains(t, err, "after 4 attempts")
	var unknown *UnknownError
	require.NotErrorAs(t, err, &unknown, "the last look saw that nothing landed")
	require.Equal(t, 4, f.commits)
	require.Zero(t, out.RowsWritten)
}

// A commit under way is not torn by the end of the caller's ctx, and its outcome is learned.
func TestCommit_ctx_does_not_tear_what_was_sent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		then   answer
		landed bool
	}{
		{"landed", func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
			return do(ctx)
		}, true},
		{"landed_unheard", landedUnheard, true},
		{"lost", lost, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := &faultyCatalog{}
			l := lakeAt(t, t.TempDir(), faults(f))
			tbl := events(t, l)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.answers = []answer{func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
				cancel()
				return tc.then(ctx, do)
			}}
			segs := []Segment{newSegment(t, 1, 4)}
			out, err := tbl.Commit(ctx, segs)
			if tc.landed {
				require.NoError(t, err)
				require.Equal(t, committed(segs...), out.Committed)
				requireExactly(t, l, segs...)
				return
			}
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errInjected)
			requireExactly(t, l)
		})
	}
}

func TestCommit_ctx_ends_the_wait_for_the_turn(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	<-tbl.turn
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tbl.Commit(ctx, []Segment{newSegment(t, 1, 1)})
	require.ErrorIs(t, err, context.Canceled)
	tbl.turn <- struct{}{}
}

// D1: eight processes and a foreign one commit to one table; every commit of ours succeeds and each row is there once.
func TestCommit_many_processes_at_once_D1(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	events(t, lakeAt(t, dir, hooks{}))
	const processes, rounds = 8, 4
	var all []Segment
	for i := range processes * rounds {
		all = append(all, newSegment(t, uint64(i), 3))
	}
	var g errgroup.Group
	for p := range processes {
		l := lakeAt(t, dir, hooks{wait: sleep})
		tbl := events(t, l)
		g.Go(func() error {
			for r := range rounds {
				// Each round is offered by two processes, as after a takeover.
				for _, owner := range []int{p, (p + 1) % processes} {
					if _, err := tbl.Commit(t.Context(), all[owner*rounds+r:owner*rounds+r+1]); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	foreign, stop, landed := lakeAt(t, dir, hooks{}), make(chan struct{}), make(chan []Segment)
	var rows []arrow.RecordBatch
	for i := range 100 {
		rows = append(rows, foreignRow(t, fmt.Sprint("foreign", i)))
	}
	go func() {
		var done []Segment
		defer func() { landed <- done }()
		for i, row := range rows {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if tryForeign(foreign, row) == nil { // who loses the race gives up
				done = append(done, Segment{ID: fmt.Sprint("foreign", i), Rows: 1})
			}
		}
	}()
	require.NoError(t, g.Wait())
	close(stop)
	theirs := <-landed
	t.Logf("%d foreign commits", len(theirs))
	requireExactly(t, lakeAt(t, dir, hooks{}), append(all, theirs...)...)
}

func TestCommit_different_tables_in_parallel(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{wait: sleep})
	var g errgroup.Group
	for _, tenant := range []string{"default", "a", "b", "c"} {
		g.Go(func() error {
			tbl, created, err := l.Ensure(t.Context(), tenant, "events", otelarrow.Logs)
			if err != nil {
				return err
			}
			require.True(t, created)
			for i := range 5 {
				out, err := tbl.Commit(t.Context(), []Segment{newSegment(t, uint64(i), 3)})
				if err != nil {
					return err
				}
				require.Equal(t, int64(3), out.RowsWritten)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	infos, err := l.Tables(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 4)
	for _, info := range infos {
		require.Equal(t, int64(15), info.Rows)
		require.Equal(t, 5, info.Snapshots)
	}
}
