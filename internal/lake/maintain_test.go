package lake

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// later is a clock that a test sets forward.
type later struct{ by atomic.Int64 }

func (c *later) now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// metadataFiles are the names below metadata/ that end so, except those given.
func metadataFiles(tb testing.TB, dir, suffix string) map[string]bool {
	tb.Helper()
	out := map[string]bool{}
	for _, f := range filesUnderDir(tb, filepath.Join(dir, "warehouse/siglake.db/events/metadata"), suffix) {
		out[f] = true
	}
	return out
}

// reached are the manifest lists and manifests that the table's snapshots name.
func reached(tb testing.TB, l *Lake) map[string]bool {
	tb.Helper()
	out := map[string]bool{}
	for _, s := range metaOf(tb, l).Snapshots() {
		manifests, err := s.Manifests(l.io)
		require.NoError(tb, err)
		for _, name := range append(paths(manifests), s.ManifestList) {
			path, err := localPath(name)
			require.NoError(tb, err)
			out[path] = true
		}
	}
	return out
}

func paths(manifests []iceberg.ManifestFile) []string {
	out := make([]string, len(manifests))
	for i, m := range manifests {
		out[i] = m.FilePath()
	}
	return out
}

// Manifests that only expired snapshots name are removed, not before readers and a restored catalog are done with
// them; no other file is.
func TestMaintain_removes_what_no_snapshot_names(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	var clock later
	l.now = clock.now
	tbl := events(t, l)
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "3")
	segs := commitEach(t, tbl, 12)
	k := newKeeper(l, 3)
	before := metadataFiles(t, dir, ".avro")
	data := filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet")
	require.Len(t, data, 12)
	base, err := l.open(t.Context(), tbl.id)
	require.NoError(t, err)
	require.NoError(t, k.round(t.Context()))
	expired := reached(t, l)
	require.Less(t, len(expired), len(before))

	look := func() {
		k.tables[tbl.Name()].idle = idleRounds
		require.NoError(t, k.round(t.Context()))
	}
	look()
	clock.by.Store(int64(readersTime + time.Second))
	look()
	require.Equal(t, before, metadataFiles(t, dir, ".avro"), "the metadata file that names them is still kept")
	for _, s := range base.Metadata().Snapshots() { // so a catalog that is restored to it can be read
		require.Len(t, readAll(t, l, table.WithSnapshotID(base.Metadata().CurrentSnapshot().SnapshotID)), 24)
		_, err := s.Manifests(l.io)
		require.NoError(t, err)
	}

	clock.by.Store(0)
	for i := range 25 { // the history of metadata files is 20 long
		setProperty(t, l, "events", "n", string(rune('a'+i)))
	}
	look()
	require.Equal(t, before, metadataFiles(t, dir, ".avro"), "readers have not had their time")
	clock.by.Store(int64(readersTime + time.Second))
	look()
	left := metadataFiles(t, dir, ".avro")
	require.Less(t, len(left), len(before))
	for f := range reached(t, l) {
		require.True(t, left[f], "%s is named by a snapshot", f)
	}
	for f := range left {
		// What a merge made and used up itself was named by no snapshot at any time.
		require.True(t, expired[f] || !strings.HasPrefix(filepath.Base(f), "snap-"), "%s was left", f)
	}
	require.Equal(t, data, filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet"))
	requireTravel(t, l, 10)
	requireExactly(t, l, segs...)
	require.Empty(t, k.tables[tbl.Name()].waste)
}

// An expiry that failed leaves nothing to remove; one that landed unheard does.
func TestMaintain_removes_nothing_on_a_guess(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer answer
		gone   bool
	}{{"lost", lost, false}, {"landed_unheard", landedUnheard, true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := &faultyCatalog{}
			l := lakeAt(t, dir, faults(f))
			var clock later
			l.now = clock.now
			tbl := events(t, l)
			segs := commitEach(t, tbl, 6)
			f.answers = []answer{tc.answer}
			k := newKeeper(l, 2)
			require.ErrorIs(t, k.round(t.Context()), errInjected)
			lists := metadataFiles(t, dir, ".avro")
			clock.by.Store(int64(readersTime + time.Second))
			k.retain = 100
			for i := range 25 {
				setProperty(t, l, "events", "n", string(rune('a'+i)))
			}
			for range 2 {
				k.tables[tbl.Name()].idle = idleRounds
				require.NoError(t, k.round(t.Context()))
			}
			if tc.gone {
				require.Len(t, metadataFiles(t, dir, ".avro"), len(lists)-4)
			} else {
				require.Equal(t, lists, metadataFiles(t, dir, ".avro"))
			}
			requireTravel(t, l, 6-len(metaOf(t, l).Snapshots())+1)
			requireExactly(t, l, segs...)
		})
	}
}

// D10: a file of an expired snapshot that somebody removed by hand is no trouble; one that is needed is.
func TestMaintain_D10_a_file_removed_by_hand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	segs := commitEach(t, tbl, 5)
	list, err := localPath(metaOf(t, l).Snapshots()[0].ManifestList)
	require.NoError(t, err)
	require.NoError(t, os.Remove(list))
	k := newKeeper(l, 2)
	for range 2 {
		require.NoError(t, k.round(t.Context()))
		k.tables[tbl.Name()].idle = idleRounds
	}
	more := commitEach(t, tbl, 1)
	requireExactly(t, l, append(segs, more...)...)
	for _, f := range filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet") {
		_, err := os.Stat(filepath.Join(dir, "warehouse/siglake.db/events/data", f))
		require.NoError(t, err)
	}

	list, err = localPath(metaOf(t, l).Snapshots()[0].ManifestList)
	require.NoError(t, err)
	k.retain = 1
	require.NoError(t, k.round(t.Context()))
	last, err := localPath(metaOf(t, l).CurrentSnapshot().ManifestList)
	require.NoError(t, err)
	require.NoError(t, os.Remove(last))
	k.tables[tbl.Name()].idle = idleRounds
	require.ErrorIs(t, k.round(t.Context()), fs.ErrNotExist)
	_, err = os.Stat(list)
	require.NoError(t, err, "what cannot be found out is not removed")
}

// Every table of every tenant is kept, and nobody else's; one in trouble holds up no other.
func TestMaintain_every_table_of_ours_R34(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	ctx := t.Context()
	var all []*Table
	for _, tenant := range []string{"default", "a", "b"} {
		for _, index := range []string{"events", "audit"} {
			tbl, _, err := l.Ensure(ctx, tenant, index, otelarrow.Logs)
			require.NoError(t, err)
			commitEach(t, tbl, 4)
			all = append(all, tbl)
		}
	}
	count := func(id ...string) int {
		raw, err := l.open(ctx, id)
		require.NoError(t, err)
		return len(raw.Metadata().Snapshots())
	}
	// In our namespace, but of no signal; and of a signal in a namespace that is not ours.
	raw, err := l.open(ctx, table.Identifier{"tenant_b", "audit"})
	require.NoError(t, err)
	tx := raw.NewTransaction()
	require.NoError(t, tx.RemoveProperties([]string{propSignal}))
	_, err = tx.Commit(ctx)
	require.NoError(t, err)
	require.NoError(t, l.createNamespace(ctx, table.Identifier{"tenants"}))
	_, err = l.db.ExecContext(ctx, "UPDATE iceberg_tables SET table_namespace = 'tenants' WHERE table_namespace = 'tenant_b' AND table_name = 'events'")
	require.NoError(t, err)
	_, broken := all[0].Head()
	good, err := l.io.ReadFile(broken)
	require.NoError(t, err)
	require.NoError(t, l.io.WriteFile(broken, []byte("{")))
	forget(l)

	k := newKeeper(l, 2)
	require.ErrorContains(t, k.round(ctx), "siglake.events")
	require.Equal(t, 4, count("tenants", "events"))
	require.Equal(t, 4, count("tenant_b", "audit"))
	for _, id := range [][]string{{"siglake", "audit"}, {"tenant_a", "events"}, {"tenant_a", "audit"}} {
		require.Equal(t, 2, count(id...), id)
	}
	require.NoError(t, l.io.WriteFile(broken, good))
	require.NoError(t, k.round(ctx))
	require.Equal(t, 2, count("siglake", "events"))

	// A table that was dropped and made again is met as the new one it is.
	_, err = l.db.ExecContext(ctx, "DELETE FROM iceberg_tables WHERE table_namespace = 'tenant_a'")
	require.NoError(t, err)
	anew, created, err := l.Ensure(ctx, "a", "events", otelarrow.Logs)
	require.NoError(t, err)
	require.True(t, created)
	commitEach(t, anew, 4)
	for range 2 {
		k.tables["tenant_a.events"].idle = idleRounds
		require.NoError(t, k.round(ctx))
		if k.tables["tenant_a.events"] == nil {
			require.NoError(t, k.round(ctx))
		}
	}
	require.Equal(t, 2, count("tenant_a", "events"))
	require.NotContains(t, k.tables, "tenant_a.audit")
}

// A table that nobody changes costs a look now and then.
func TestMaintain_idle_tables(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	l := lakeAt(t, t.TempDir(), faults(f))
	tbl := events(t, l)
	commitEach(t, tbl, 3)
	k := newKeeper(l, 2)
	require.NoError(t, k.round(t.Context()))
	f.loads = 0
	for range idleRounds {
		require.NoError(t, k.round(t.Context()))
	}
	require.Zero(t, f.loads)
	require.NoError(t, k.round(t.Context()))
	require.Equal(t, 1, f.loads)
	commitEach(t, tbl, 1)
	require.NoError(t, k.round(t.Context()))
	require.Len(t, metaOf(t, l).Snapshots(), 2)
}

// Maintain works until its context ends, also when the catalog is away for a while.
func TestMaintain_until_ctx_ends(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	var away atomic.Bool
	f.onLoad = func(int) error {
		if away.Load() {
			return errInjected
		}
		return nil
	}
	l := lakeAt(t, t.TempDir(), faults(f))
	tbl := events(t, l)
	commitEach(t, tbl, 6)
	away.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Maintain(ctx, Upkeep{RetainLast: 2, Interval: time.Millisecond})
	}()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.loads > 10
	}, time.Minute, time.Millisecond)
	away.Store(false)
	require.Eventually(t, func() bool { return len(metaOf(t, l).Snapshots()) == 2 }, time.Minute, 10*time.Millisecond)
	cancel()
	<-done
}

// LAKE-1: drains of several processes commit beside maintenance of several; each row is there once, and in the end the
// table is as small as it is to be.
func TestMaintain_beside_commits_R34(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := hooks{limits: limits{proofEntries: 8}, wait: sleep}
	events(t, lakeAt(t, dir, h))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var upkeep, drains errgroup.Group
	var all []Segment
	for i := range 45 {
		all = append(all, newSegment(t, uint64(i), 2))
	}
	for p := range 3 {
		l := lakeAt(t, dir, h)
		tbl := events(t, l)
		if p > 0 {
			upkeep.Go(func() error {
				l.Maintain(ctx, Upkeep{RetainLast: 3, Interval: time.Millisecond})
				return nil
			})
		}
		drains.Go(func() error {
			for i := range 15 {
				// Each segment is offered by two processes, as after a takeover.
				for _, owner := range []int{p, (p + 1) % 3} {
					seg := all[owner*15+i]
					seg.Doubtful = owner != p
					if _, err := tbl.Commit(context.Background(), []Segment{seg}); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	require.NoError(t, drains.Wait())
	cancel()
	require.NoError(t, upkeep.Wait())
	l := lakeAt(t, dir, h)
	require.NoError(t, newKeeper(l, 3).round(t.Context()))
	require.Len(t, metaOf(t, l).Snapshots(), 3)
	requireTravel(t, l, 43)
	requireExactly(t, l, all...)
}
