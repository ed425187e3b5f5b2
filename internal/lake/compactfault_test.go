package lake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// leftFiles are data files on the disk that no snapshot names.
func leftFiles(tb testing.TB, l *Lake, dir string) []string {
	tb.Helper()
	named := map[string]bool{}
	for _, s := range metaOf(tb, l).Snapshots() {
		for df, err := range l.dataFiles(&s) {
			require.NoError(tb, err)
			named[filepath.Base(df.FilePath())] = true
		}
	}
	var out []string
	for _, f := range filesUnder(tb, dir+"/warehouse/siglake.db/events/data", ".parquet") {
		if !named[filepath.Base(f)] {
			out = append(out, f)
		}
	}
	return out
}

// LAKE-1: a merge that stops at any step of the disk leaves a table that can be read and goes on, and at worst a merged
// file that no snapshot names.
func TestCompact_survives_a_stop_at_every_step(t *testing.T) {
	t.Parallel()
	count := func() int {
		d := &spyDisk{}
		l := lakeAt(t, t.TempDir(), spied(t, d))
		commitEach(t, events(t, l), mergeFiles)
		before := d.ops
		require.NoError(t, newCompactor(l).round(t.Context()))
		return d.ops - before
	}()
	require.Greater(t, count, 12)
	for _, stop := range stops(count) {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := &spyDisk{}
			h := spied(t, d)
			l := lakeAt(t, dir, h)
			segs := commitEach(t, events(t, l), mergeFiles)
			d.stop = d.ops + stop
			_ = newCompactor(l).round(t.Context())
			d.mu.Lock()
			d.stop = 0
			d.mu.Unlock()
			// Another process; the first one's memory is gone.
			next := lakeAt(t, dir, hooks{scheme: h.scheme})
			requireExactly(t, next, segs...)
			left := leftFiles(t, next, dir)
			require.LessOrEqual(t, len(left), 1)
			for _, f := range left {
				require.Contains(t, f, "/merged-")
			}
			for i := range segs {
				segs[i].Doubtful = true
			}
			out, err := events(t, next).Commit(t.Context(), segs)
			require.NoError(t, err)
			require.Zero(t, out.RowsWritten)
			compactAll(t, next)
			require.Len(t, manifestFiles(t, next), 1)
			requireExactly(t, next, segs...)
		})
	}
}

// LAKE-1: whatever becomes of a merge's commit and of its answer, each row is in the table once, and no file is removed
// that may be part of it.
func TestCompact_survives_every_answer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		answers func(t *testing.T, other *Lake) []answer
		foreign []Segment
		files   int // live after the round
		left    int // on the disk, named by no snapshot
		fails   bool
	}{
		{name: "truth", answers: func(*testing.T, *Lake) []answer { return nil }, files: 1},
		{name: "lost", answers: func(*testing.T, *Lake) []answer { return []answer{lost, lost} }, files: 1},
		{name: "landed_unheard", answers: func(*testing.T, *Lake) []answer { return []answer{landedUnheard} }, files: 1},
		{name: "hung", answers: func(*testing.T, *Lake) []answer { return []answer{hung} }, files: 1},
		{name: "lost_for_good", answers: func(*testing.T, *Lake) []answer { return []answer{lost, lost, lost, lost, lost} }, files: mergeFiles, left: 1, fails: true},
		{
			name: "rows_come_between", files: 2, foreign: []Segment{{ID: "foreign", Rows: 1}},
			answers: func(t *testing.T, other *Lake) []answer {
				return []answer{after(func() { appendForeign(t, other, "foreign") })}
			},
		},
		{
			name: "rows_come_between_each_time", files: mergeFiles + replaceTries, left: 1,
			foreign: []Segment{{ID: "f0", Rows: 1}, {ID: "f1", Rows: 1}, {ID: "f2", Rows: 1}, {ID: "f3", Rows: 1}, {ID: "f4", Rows: 1}},
			answers: func(t *testing.T, other *Lake) []answer {
				var out []answer
				for i := range replaceTries {
					out = append(out, after(func() { appendForeign(t, other, fmt.Sprint("f", i)) }))
				}
				return out
			},
		},
		{
			name: "another_process_merges_the_same", files: 1, left: 1,
			answers: func(t *testing.T, other *Lake) []answer {
				return []answer{after(func() { compactAll(t, other) })}
			},
		},
		{
			name: "landed_unheard_and_another_process_goes_on", files: 2, foreign: []Segment{{ID: "foreign", Rows: 1}},
			answers: func(t *testing.T, other *Lake) []answer {
				return []answer{func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
					m, loc, err := landedUnheard(ctx, do)
					appendForeign(t, other, "foreign")
					_, _, eerr := events(t, other).expire(context.Background(), 1)
					require.NoError(t, eerr)
					return m, loc, err
				}}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := &faultyCatalog{}
			h := faults(f)
			h.limits.commitTimeout = 2e9
			l := lakeAt(t, dir, h)
			tbl := events(t, l)
			segs := commitEach(t, tbl, mergeFiles)
			f.mu.Lock()
			f.answers = tc.answers(t, lakeAt(t, dir, hooks{}))
			f.mu.Unlock()
			err := newCompactor(l).round(t.Context())
			if tc.fails {
				var unknown *UnknownError
				require.ErrorAs(t, err, &unknown)
			} else {
				require.NoError(t, err)
			}
			requireExactly(t, l, append(segs, tc.foreign...)...)
			require.Len(t, manifestFiles(t, l), tc.files)
			if tc.name != "landed_unheard_and_another_process_goes_on" { // there the replaced ones are left too
				require.Len(t, leftFiles(t, l, dir), tc.left)
			}
			compactAll(t, l)
			requireExactly(t, l, append(segs, tc.foreign...)...)
		})
	}
}

// Commits of rows, merges and expiry of two processes, all at the same time: each row once.
func TestCompact_beside_everything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var group errgroup.Group
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all []Segment
	var writers errgroup.Group
	for p := range 2 {
		l := lakeAt(t, dir, hooks{wait: sleep})
		tbl := events(t, l)
		var segs []Segment
		for i := range 12 {
			segs = append(segs, newSegment(t, uint64(100*p+i), 2))
		}
		all = append(all, segs...)
		writers.Go(func() error {
			for i := range segs {
				if _, err := tbl.Commit(ctx, segs[i:i+1]); err != nil {
					return err
				}
			}
			return nil
		})
		group.Go(func() error {
			c, k := newCompactor(l), newKeeper(l, 5)
			for ctx.Err() == nil {
				if err := c.round(ctx); errors.Is(err, errNotConserved) {
					return err
				}
				_ = k.round(ctx) // a conflict, and a catalog that is busy for long, are for the next round
			}
			return nil
		})
	}
	require.NoError(t, writers.Wait())
	stop()
	require.NoError(t, group.Wait())
	last := lakeAt(t, dir, hooks{})
	requireExactly(t, last, all...)
	compactAll(t, last)
	requireExactly(t, last, all...)
	require.Less(t, len(manifestFiles(t, last)), 2*mergeFiles) // up to 7 of two rows, and what 17 of those make
}

// A merged file that is as old as orphans are is not committed: somebody may be about to remove it.
func TestCompact_gives_an_old_file_up(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{limits: limits{orphanAge: time.Nanosecond}})
	other := lakeAt(t, dir, hooks{})
	segs := commitEach(t, events(t, other), mergeFiles)
	require.NoError(t, newCompactor(l).round(t.Context()))
	require.Len(t, manifestFiles(t, l), mergeFiles)
	require.Empty(t, leftFiles(t, l, dir))
	compactAll(t, other)
	require.Len(t, manifestFiles(t, other), 1)
	requireExactly(t, other, segs...)
}

// Files of other engines stay as they are, and so do all files of a table that has delete files.
func TestCompact_leaves_alone_what_is_not_ours(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	segs := commitEach(t, tbl, mergeFiles)
	for i := range mergeFiles {
		id := fmt.Sprint("foreign ", i)
		appendForeign(t, l, id)
		segs = append(segs, Segment{ID: id, Rows: 1})
	}
	compactAll(t, l)
	require.Len(t, manifestFiles(t, l), 1+mergeFiles)
	requireExactly(t, l, segs...)

	commitEach(t, tbl, mergeFiles)
	data := manifestFiles(t, l)[0]
	change(t, l, func(tx *table.Transaction) error {
		b, err := iceberg.NewDataFileBuilder(loaded(t, l).Spec(), iceberg.EntryContentPosDeletes, l.home+"/siglake.db/events/data/deletes.parquet",
			iceberg.ParquetFile, data.Partition(), nil, nil, 1, 100)
		require.NoError(t, err)
		return tx.NewRowDelta(nil).AddDeletes(b.Build()).Commit(t.Context())
	})
	compactAll(t, l)
	require.Len(t, manifestFiles(t, l), 1+2*mergeFiles)
}

// LAKE-1: a merge that wrote other rows than it read is thrown away, told, and not tried again for ever.
func TestCompact_throws_away_what_is_not_conserved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &spyDisk{}
	l := lakeAt(t, dir, spied(t, d))
	segs := commitEach(t, events(t, l), mergeFiles)
	data := filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet")
	swapped := 0
	d.fail = func(op, path string) error { // when the merged file is closed, one of those it was made of takes its place
		if op != "syncdir" || !strings.Contains(path, "timestamp_day") {
			return nil
		}
		made, err := filepath.Glob(path + "/merged-*")
		require.NoError(t, err)
		for _, m := range made {
			swapped++
			old, err := os.ReadFile(filepath.Join(dir, "warehouse/siglake.db/events/data", data[0]))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(m, old, 0o600))
		}
		return nil
	}
	c := newCompactor(l)
	require.ErrorIs(t, c.round(t.Context()), errNotConserved)
	require.Equal(t, 1, swapped)
	require.NoError(t, c.round(t.Context()))
	require.Equal(t, 1, swapped)
	require.Len(t, manifestFiles(t, l), mergeFiles)
	require.Empty(t, leftFiles(t, l, dir))
	requireExactly(t, l, segs...)
}
