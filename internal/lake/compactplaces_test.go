package lake

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// everyCell are the values of each column of the events, in no order.
func everyCell(tb testing.TB, l *Lake) map[string][]string {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", "events"})
	require.NoError(tb, err)
	out := map[string][]string{}
	for _, f := range t.Schema().Fields() {
		out[f.Name] = scanRows(tb, t, f.Name)
	}
	return out
}

// mergedObjects are the merged files that the S3 server keeps of a warehouse.
func mergedObjects(tb testing.TB, home string) []string {
	tb.Helper()
	var out []string
	require.NoError(tb, filepath.WalkDir(objectPath(tb, home), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), "merged-") {
			out = append(out, path)
		}
		return err
	}))
	return out
}

// LAKE-1: on PostgreSQL and S3 a merge that is stopped at any of its rests leaves the table as it was and no object
// behind, and the process after it merges the same files. So does one that is stopped when it has the turn to commit.
func TestCompact_stopped_on_postgres_and_s3(t *testing.T) {
	t.Parallel()
	home, access := newBucketHome(t)
	opt := Options{Catalog: newDatabase(t), Warehouse: home, S3: access}
	l := lakeOf(t, opt, hooks{})
	segs := commitEach(t, events(t, l), mergeFiles)
	before := everyCell(t, l)
	// Between the rests no object is whole. One is when the turn to commit comes: the table is loaded then.
	ctx, stop := context.WithCancel(t.Context())
	f := &faultyCatalog{}
	whole := 0
	f.onLoad = func(int) error {
		if whole = len(mergedObjects(t, home)); whole > 0 {
			stop()
		}
		return nil
	}
	h := faults(f)
	require.ErrorIs(t, newCompactor(lakeOf(t, opt, h)).round(ctx), context.Canceled)
	stop()
	require.Equal(t, 1, whole)
	require.Zero(t, f.commits)
	require.Empty(t, mergedObjects(t, home), "no catalog has heard of it")
	require.Len(t, manifestFiles(t, l), mergeFiles)

	stops := 0
	for ; ; stops++ {
		ctx, stop := context.WithCancel(t.Context())
		at := 0
		next := lakeOf(t, opt, hooks{limits: limits{chunkRows: 4}, wait: func(ctx context.Context, _ time.Duration) error {
			if at++; at > stops {
				stop()
			}
			return ctx.Err()
		}})
		err := newCompactor(next).round(ctx)
		stopped := ctx.Err() != nil
		stop()
		if !stopped {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, manifestFiles(t, l), mergeFiles)
		require.Empty(t, mergedObjects(t, home))
	}
	require.Greater(t, stops, mergeFiles+2)
	require.Len(t, manifestFiles(t, l), 1)
	require.Len(t, mergedObjects(t, home), 1)
	requireExactly(t, l, segs...)
	require.Equal(t, before, everyCell(t, l))
}

// LAKE-1: PostgreSQL is killed before and after the replacement of merged files is committed, and so it is at an expiry.
// The rounds that follow end what was begun, and each row has every value that it had.
func TestCompact_postgres_killed_in_the_middle(t *testing.T) {
	t.Parallel()
	home, access := newBucketHome(t)
	svc := ownPostgres(t)
	opt := Options{Catalog: svc.Info["url"], Warehouse: home, S3: access}
	type do = func(context.Context) (table.Metadata, string, error)
	before := func(ctx context.Context, do do) (table.Metadata, string, error) {
		if err := svc.Do("kill"); err != nil {
			return nil, "", err
		}
		defer func() { require.NoError(t, svc.Do("start")) }()
		return do(ctx)
	}
	after := func(ctx context.Context, do do) (table.Metadata, string, error) {
		_, _, err := do(ctx)
		return nil, "", errors.Join(err, svc.Do("kill"), svc.Do("start"), errInjected)
	}
	plain := lakeOf(t, opt, hooks{})
	var segs []Segment
	for i, answers := range [][]answer{{before}, {after}, {before, after}} {
		segs = append(segs, commitEach(t, events(t, plain), mergeFiles)...)
		cells := everyCell(t, plain)
		files := len(manifestFiles(t, plain))
		f := &faultyCatalog{answers: slices.Clone(answers)}
		h := faults(f)
		h.wait = sleep
		l := lakeOf(t, opt, h)
		c, k := newCompactor(l), newKeeper(l, 2)
		compactAll(t, l)
		require.Empty(t, f.answers)
		require.Less(t, len(manifestFiles(t, plain)), files)
		f.mu.Lock()
		f.answers = slices.Clone(answers)
		f.mu.Unlock()
		for range 2 * len(answers) {
			_ = k.round(t.Context()) // one that was not answered is for the next
		}
		require.NoError(t, k.round(t.Context()))
		require.Empty(t, f.answers, i)
		require.LessOrEqual(t, len(loaded(t, plain).Metadata().Snapshots()), 2)
		require.NoError(t, c.round(t.Context()))
		requireExactly(t, plain, segs...)
		require.Equal(t, cells, everyCell(t, plain))
	}
}
