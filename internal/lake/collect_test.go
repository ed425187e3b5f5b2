package lake

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// listing are the files below the location of the events table, by what follows it.
func listing(tb testing.TB, l *Lake) []string {
	tb.Helper()
	at, err := plain(metaOf(tb, l).Location())
	require.NoError(tb, err)
	var out []string
	require.NoError(tb, l.io.WalkDir(at, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, strings.TrimPrefix(name, at+"/"))
		}
		return err
	}))
	slices.Sort(out)
	return out
}

// plant writes what a kill, another engine and a person may leave.
func plant(tb testing.TB, l *Lake) (orphans, kept []string) {
	tb.Helper()
	meta := metaOf(tb, l)
	content, err := l.io.ReadFile(manifestFiles(tb, l)[0].FilePath())
	require.NoError(tb, err)
	put := func(name string, content []byte) {
		require.NoError(tb, l.io.WriteFile(meta.Location()+"/"+name, content))
	}
	var first string
	for e := range meta.PreviousFiles() {
		first = e.MetadataFile
		break
	}
	leftovers := map[string][]byte{
		"data/timestamp_day=2026-05-17/" + uuid.NewString() + "-00000.parquet": content,
		"data/timestamp_day=1999-01-01/torn.parquet":                           content[:7],
		"metadata/" + uuid.NewString() + "-m0.avro":                            []byte("x"),
		"metadata/snap-1-0-" + uuid.NewString() + ".avro":                      nil,
	}
	if raw, err := l.io.ReadFile(first); !isAbsent(err) { // the server of the tests keeps them to itself
		require.NoError(tb, err)
		_, ending, _ := strings.Cut(filepath.Base(first), ".")
		leftovers["metadata/00001-"+uuid.NewString()+"."+ending] = raw
	}
	for name, content := range leftovers {
		put(name, content)
		orphans = append(orphans, name)
	}
	kept = []string{"data/notes.txt", "metadata/00002-" + uuid.NewString() + ".metadata.json", "version-hint.text"}
	for _, name := range kept {
		put(name, []byte(`{"torn`))
	}
	slices.Sort(orphans)
	return orphans, kept
}

// agedBy makes all files of a local warehouse that much older.
func agedBy(tb testing.TB, dir string, by time.Duration) {
	tb.Helper()
	require.NoError(tb, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		at := time.Now().Add(-by)
		return os.Chtimes(name, at, at)
	}))
}

func pathsOf(tb testing.TB, l *Lake, orphans []OrphanFile) []string {
	tb.Helper()
	at, err := plain(metaOf(tb, l).Location())
	require.NoError(tb, err)
	out := []string{}
	for _, o := range orphans {
		out = append(out, strings.TrimPrefix(o.Path, at+"/"))
	}
	return out
}

// collectOne collects the events table.
func collectOne(tb testing.TB, l *Lake, opt GC) Collected {
	tb.Helper()
	opt.MinAge = max(opt.MinAge, l.limits.orphanAge)
	out, err := l.Collect(tb.Context(), []string{"siglake.events"}, opt)
	require.NoError(tb, err)
	require.Len(tb, out, 1)
	return out[0]
}

// Wherever a table lies: what nothing reaches goes, once it is old enough, and nothing else does.
func TestCollect_places(t *testing.T) {
	t.Parallel()
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			opt := p.opt(t)
			l := lakeOf(t, opt, hooks{})
			tbl := events(t, l)
			setProperty(t, l, "events", table.MetadataPreviousVersionsMaxKey, "3")
			segs := commitEach(t, tbl, 12)
			_, err := tbl.Expire(t.Context(), 4)
			require.NoError(t, err)
			setProperty(t, l, "events", "n", "1") // and past the metadata files that name what has expired
			setProperty(t, l, "events", "n", "2")
			setProperty(t, l, "events", "n", "3")
			setProperty(t, l, "events", "n", "4")
			orphans, kept := plant(t, l)
			before := listing(t, l)

			found := collectOne(t, l, GC{})
			require.NoError(t, found.Err)
			require.Empty(t, found.Orphans, "all is young")
			require.Equal(t, len(before), found.Files)
			require.Equal(t, found.Files, found.Reached+found.Young+found.Kept)
			require.Equal(t, len(kept), found.Kept)
			require.Equal(t, before, listing(t, l))

			// The listing's times are the store's, to the second in some; so a moment is enough, and it may have to pass.
			gc := lakeOf(t, opt, hooks{limits: limits{orphanAge: time.Nanosecond}})
			require.Eventually(t, func() bool {
				found = collectOne(t, gc, GC{})
				return found.Young == 0
			}, time.Minute, 50*time.Millisecond)
			require.NoError(t, found.Err)
			require.Equal(t, before, listing(t, l), "nothing is removed without Apply")
			names := pathsOf(t, l, found.Orphans)
			for _, name := range orphans {
				require.Contains(t, names, name)
			}
			lists := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(orphans, n) })
			require.Len(t, lists, 8, "the manifest lists of what has expired")
			require.Equal(t, found.Files, found.Reached+len(found.Orphans)+found.Kept)
			require.Positive(t, found.Bytes)

			// To the second also by the store's clock, which a removal asks.
			var deleted int
			var size int64
			require.Eventually(t, func() bool {
				done := collectOne(t, gc, GC{Apply: true})
				require.NoError(t, done.Err)
				require.Equal(t, len(done.Orphans), done.Deleted)
				deleted, size = deleted+done.Deleted, size+done.DeletedBytes
				return deleted >= len(found.Orphans)
			}, time.Minute, 50*time.Millisecond)
			require.Equal(t, len(found.Orphans), deleted)
			require.Equal(t, found.Bytes, size)
			require.ElementsMatch(t, before, append(listing(t, l), names...))
			requireExactly(t, l, segs...)
			for _, s := range metaOf(t, l).Snapshots() {
				require.NotEmpty(t, readAll(t, l, table.WithSnapshotID(s.SnapshotID)))
			}
			out, err := tbl.Commit(t.Context(), segs)
			require.NoError(t, err)
			require.Equal(t, committed(segs...), out.Committed)
			again := collectOne(t, gc, GC{Apply: true})
			require.NoError(t, again.Err)
			require.Zero(t, again.Deleted)
		})
	}
}

// The earlier states that a catalog may be restored to keep all they name.
func TestCollect_keeps_what_earlier_metadata_names(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 6)
	base, err := l.open(t.Context(), tbl.id)
	require.NoError(t, err)
	_, err = tbl.Expire(t.Context(), 2)
	require.NoError(t, err)
	agedBy(t, dir, 48*time.Hour)
	found := collectOne(t, l, GC{Apply: true})
	require.NoError(t, found.Err)
	require.Zero(t, found.Deleted)
	for i, s := range base.Metadata().Snapshots() {
		require.Len(t, filesOf(t, l, base, s.SnapshotID), i+1)
	}
}

// filesOf reads the data files of a snapshot by an earlier state of the table.
func filesOf(tb testing.TB, l *Lake, base *table.Table, snapshot int64) []string {
	tb.Helper()
	var out []string
	for df, err := range l.dataFiles(base.Metadata().SnapshotByID(snapshot)) {
		require.NoError(tb, err)
		_, err = l.io.ReadFile(df.FilePath())
		require.NoError(tb, err)
		out = append(out, df.FilePath())
	}
	return out
}

// Beside a commit that is being sent, and one that conflicts and is sent again.
func TestCollect_beside_a_commit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	l := lakeAt(t, dir, faults(f))
	tbl := events(t, l)
	first := newSegment(t, 1, 3)
	_, err := tbl.Commit(t.Context(), []Segment{first})
	require.NoError(t, err)
	agedBy(t, dir, 48*time.Hour)
	orphans, _ := plant(t, l)
	agedBy(t, dir, 48*time.Hour)
	gc := lakeAt(t, dir, hooks{})
	var deleted int
	collect := func() {
		found := collectOne(t, gc, GC{Apply: true})
		require.NoError(t, found.Err)
		require.Positive(t, found.Young)
		deleted += found.Deleted
	}
	f.answers = []answer{after(func() { collect(); setProperty(t, gc, "events", "n", "1") }), after(collect)}
	second := newSegment(t, 2, 4)
	_, err = tbl.Commit(t.Context(), []Segment{second})
	require.NoError(t, err)
	require.Equal(t, len(orphans), deleted)
	requireExactly(t, l, first, second)
}

// What is committed between the listing and the removal is reached.
func TestCollect_looks_again_before_it_removes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	gc := lakeAt(t, dir, faults(f))
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	segs := commitEach(t, tbl, 3)
	old := loaded(t, l)
	last := newSegment(t, 9, 5)
	_, err := tbl.Commit(t.Context(), []Segment{last})
	require.NoError(t, err)
	require.NoError(t, l.io.Remove(loaded(t, l).MetadataLocation())) // it would tell of the commit that is undone here
	_, err = l.db.ExecContext(t.Context(), "UPDATE iceberg_tables SET metadata_location = ?", old.MetadataLocation())
	require.NoError(t, err)
	agedBy(t, dir, 48*time.Hour)
	judged := collectOne(t, gc, GC{})
	require.Len(t, judged.Orphans, 3, "data file, manifest and manifest list of the last commit")

	f.mu.Lock()
	from := f.loads
	f.onLoad = func(n int) error {
		if n == from+4 { // for the places, twice at the beginning, after the listing: by this one the files are judged
			tx := old.NewTransaction()
			require.NoError(t, tx.AddFiles(context.Background(), []string{judged.Orphans[0].Path}, nil, false))
			_, err := tx.Commit(context.Background())
			require.NoError(t, err)
		}
		return nil
	}
	f.mu.Unlock()
	done := collectOne(t, gc, GC{Apply: true})
	require.NoError(t, done.Err)
	require.Equal(t, judged.Orphans, done.Orphans)
	require.Equal(t, 2, done.Deleted, "not the data file")
	requireExactly(t, l, append(segs, last)...)
}

// Whatever casts doubt on whose the files are, or on what the catalog shows, keeps all of them.
func TestCollect_refuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, l *Lake, tbl *Table)
		opt   GC
		want  string
	}{
		"gc.enabled": {spoil: func(t *testing.T, l *Lake, _ *Table) {
			t.Helper()
			setProperty(t, l, "events", table.GCEnabledKey, "false")
		}, want: "gc.enabled is false"},
		"another table at the place": {spoil: func(t *testing.T, l *Lake, tbl *Table) {
			t.Helper()
			tb, err := l.open(t.Context(), tbl.id)
			require.NoError(t, err)
			b, err := l.birth(table.Identifier{"siglake", "spans"}, otelarrow.Traces)
			require.NoError(t, err)
			b.location = tb.Location() + "/data/inside"
			_, _, err = l.cat.CommitTable(t.Context(), table.Identifier{"siglake", "spans"}, []table.Requirement{table.AssertCreate()}, b.updates())
			require.NoError(t, err)
		}, want: "are inside one another"},
		"an earlier table": {spoil: func(t *testing.T, l *Lake, _ *Table) {
			t.Helper()
			_, err := l.db.ExecContext(t.Context(), "DELETE FROM iceberg_tables")
			require.NoError(t, err)
			commitEach(t, events(t, l), 2)
		}, want: "files of another table, UUID "},
		"gone back, by the metadata files": {spoil: func(t *testing.T, l *Lake, _ *Table) {
			t.Helper()
			backTo(t, l, 3)
		}, want: "went back"},
		"gone back, by what was seen": {spoil: func(*testing.T, *Lake, *Table) {}, opt: GC{Seen: func(tenant, index string) (Seen, error) {
			return Seen{Sequence: 99, Metadata: tenant + "/" + index}, nil
		}}, want: "seen before: sequence 99 (default/events)"},
		"another incarnation": {spoil: func(*testing.T, *Lake, *Table) {}, opt: GC{Seen: func(string, string) (Seen, error) {
			return Seen{Table: uuid.New(), Sequence: 1, Metadata: "m"}, nil
		}}, want: "another incarnation"},
		"what was seen is unknown": {spoil: func(*testing.T, *Lake, *Table) {}, opt: GC{Seen: func(string, string) (Seen, error) {
			return Seen{}, errInjected
		}}, want: "injected"},
		"a file elsewhere": {spoil: func(t *testing.T, l *Lake, tbl *Table) {
			t.Helper()
			base, err := l.open(t.Context(), tbl.id)
			require.NoError(t, err)
			content, err := l.io.ReadFile(manifestFiles(t, l)[0].FilePath())
			require.NoError(t, err)
			out := filepath.Join(t.TempDir(), "elsewhere.parquet")
			require.NoError(t, os.WriteFile(out, content, 0o600))
			tx := base.NewTransaction()
			require.NoError(t, tx.AddFiles(t.Context(), []string{out}, nil, false))
			_, err = tx.Commit(t.Context())
			require.NoError(t, err)
		}, want: "outside of its location"},
		"a manifest is gone": {spoil: func(t *testing.T, l *Lake, _ *Table) {
			t.Helper()
			manifests, err := metaOf(t, l).CurrentSnapshot().Manifests(l.io)
			require.NoError(t, err)
			require.NoError(t, l.io.Remove(manifests[0].FilePath()))
		}, want: "the table is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := lakeAt(t, dir, hooks{})
			tbl := events(t, l)
			commitEach(t, tbl, 6)
			plant(t, l)
			tc.spoil(t, l, tbl)
			agedBy(t, dir, 48*time.Hour)
			before := listing(t, l)
			tc.opt.Apply = true
			found := collectOne(t, l, tc.opt)
			require.ErrorContains(t, found.Err, tc.want)
			require.Zero(t, found.Deleted)
			require.Equal(t, before, listing(t, l))
		})
	}
}

// backTo points the catalog to the metadata file of that many commits before.
func backTo(tb testing.TB, l *Lake, commits int) {
	tb.Helper()
	var log []string
	for e := range metaOf(tb, l).PreviousFiles() {
		log = append(log, e.MetadataFile)
	}
	_, err := l.db.ExecContext(tb.Context(), "UPDATE iceberg_tables SET metadata_location = ?", log[len(log)-commits])
	require.NoError(tb, err)
}

// A metadata file that follows the catalog's is a commit that may still land, or the one the catalog lost.
func TestCollect_keeps_the_commit_after(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	segs := commitEach(t, events(t, l), 4)
	last := metaOf(t, l)
	at := loaded(t, l).MetadataLocation()
	backTo(t, l, 1)
	agedBy(t, dir, 48*time.Hour)
	found := collectOne(t, l, GC{Apply: true})
	require.NoError(t, found.Err)
	require.Empty(t, found.Orphans)
	_, err := l.db.ExecContext(t.Context(), "UPDATE iceberg_tables SET metadata_location = ?", at)
	require.NoError(t, err)
	require.Equal(t, last.LastSequenceNumber(), metaOf(t, l).LastSequenceNumber())
	requireExactly(t, l, segs...)
}

// Of a table that was at the place before, and of which nothing is needed, all goes.
func TestCollect_abandons(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	first := events(t, l)
	commitEach(t, first, 3)
	_, err := l.db.ExecContext(t.Context(), "DELETE FROM iceberg_tables")
	require.NoError(t, err)
	segs := commitEach(t, events(t, l), 2)
	agedBy(t, dir, 48*time.Hour)
	found := collectOne(t, l, GC{Apply: true, Abandoned: []uuid.UUID{first.UUID()}})
	require.NoError(t, found.Err)
	require.Equal(t, 3+3+3+4, found.Deleted, "data files, manifests, lists, metadata files")
	requireExactly(t, l, segs...)
}

// Tables that are not ours are not collected, and no more than is asked for is done.
func TestCollect_whom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	commitEach(t, events(t, l), 1)
	_, _, err := l.Ensure(t.Context(), "acme", "spans", otelarrow.Traces)
	require.NoError(t, err)
	_, _, err = l.Ensure(t.Context(), "acme", "other", otelarrow.Traces)
	require.NoError(t, err)
	tx := func(id table.Identifier) {
		tbl, err := l.open(t.Context(), id)
		require.NoError(t, err)
		tx := tbl.NewTransaction()
		require.NoError(t, tx.RemoveProperties([]string{propSignal}))
		_, err = tx.Commit(t.Context())
		require.NoError(t, err)
	}
	tx(table.Identifier{"tenant_acme", "other"})
	out, err := l.Collect(t.Context(), nil, GC{MinAge: LeastOrphanAge})
	require.NoError(t, err)
	require.Len(t, out, 2)
	require.Equal(t, []string{"siglake.events", "tenant_acme.spans"}, []string{out[0].Table, out[1].Table})
	out, err = l.Collect(t.Context(), []string{"tenant_acme.other"}, GC{MinAge: LeastOrphanAge})
	require.NoError(t, err)
	require.ErrorIs(t, out[0].Err, errNotOurs)
	_, err = l.Collect(t.Context(), []string{"siglake.none"}, GC{MinAge: LeastOrphanAge})
	require.ErrorIs(t, err, ErrNoTable)
	_, err = l.Collect(t.Context(), nil, GC{MinAge: LeastOrphanAge - 1})
	require.ErrorContains(t, err, "want at least 24h0m0s")

	reader := lakeOf(t, Options{Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), ReadOnly: true}, hooks{})
	out, err = reader.Collect(t.Context(), nil, GC{MinAge: LeastOrphanAge})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	_, err = reader.Collect(t.Context(), nil, GC{MinAge: LeastOrphanAge, Apply: true})
	require.ErrorIs(t, err, ErrReadOnly)
}

// A commit gives up files that are half as old as an orphan: a machine may sleep between the writing and the commit.
func TestWritten_too_old_to_commit(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	st, err := tbl.load(t.Context())
	require.NoError(t, err)
	_, tg, err := tbl.begin(st)
	require.NoError(t, err)
	seg := newSegment(t, 1, 3)
	parts := []part{{seg: seg, to: seg.Rows}}
	w, err := l.write(t.Context(), otelarrow.Logs, tg, parts)
	require.NoError(t, err)
	require.True(t, w.fits(parts, tg.columns, l.limits))
	w.began = time.Now().Add(-LeastOrphanAge / 2)
	require.False(t, w.fits(parts, tg.columns, l.limits))
}
