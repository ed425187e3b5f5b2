package lake

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// A table is made, written and read the same way wherever it lies, and another lake finds it there.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			opt := p.opt(t)
			l := lakeOf(t, opt, hooks{})
			tbl := events(t, l)
			first, second := newSegment(t, 1, 4), newSegment(t, 2, 5)
			out, err := tbl.Commit(t.Context(), []Segment{first})
			require.NoError(t, err)
			require.Equal(t, committed(first), out.Committed)
			out, err = tbl.Commit(t.Context(), []Segment{first, second})
			require.NoError(t, err)
			require.Equal(t, int64(4), out.Duplicates)
			requireExactly(t, l, first, second)

			reader := lakeOf(t, Options{Catalog: opt.Catalog, S3: opt.S3, REST: opt.REST, ReadOnly: true}, hooks{})
			infos, err := reader.Tables(t.Context())
			require.NoError(t, err)
			require.Len(t, infos, 1)
			require.Equal(t, int64(9), infos[0].Rows)
			requireExactly(t, reader, first, second)
			_, _, err = reader.Ensure(t.Context(), "default", "spans", otelarrow.Traces)
			require.ErrorIs(t, err, ErrReadOnly)

			// What the proof does not know is found in the rows themselves.
			found, err := tbl.rowsOf(t.Context(), loaded(t, l), []string{first.ID, second.ID, "none"})
			require.NoError(t, err)
			require.Equal(t, committed(first, second), found)
			requireReadable(t, reader)
		})
	}
}

// requireReadable opens each file of the plan and reads its two ends.
func requireReadable(tb testing.TB, l *Lake) {
	tb.Helper()
	plan, err := l.Plan(tb.Context(), "siglake", "events")
	require.NoError(tb, err)
	require.Len(tb, plan.Files, 2)
	for _, file := range plan.Files {
		f, err := l.OpenFile(file.Path)
		require.NoError(tb, err)
		require.Equal(tb, file.Bytes, f.Size())
		magic := make([]byte, 4)
		for _, at := range []int64{0, f.Size() - 4} {
			_, err = f.ReadAt(magic, at)
			require.NoError(tb, err)
			require.Equal(tb, "PAR1", string(magic))
		}
		n, err := f.ReadAt(magic, f.Size()-2)
		require.ErrorIs(tb, err, io.EOF)
		require.Equal(tb, 2, n)
		require.NoError(tb, f.Close())
		_, err = l.OpenFile(file.Path + ".not")
		require.ErrorIs(tb, err, fs.ErrNotExist)
	}
}

// Metadata in a bucket is compressed, and nothing in the bucket was written twice.
func TestS3_metadata_is_compressed(t *testing.T) {
	t.Parallel()
	home, access := newBucketHome(t)
	l := lakeOf(t, Options{Catalog: newDatabase(t), Warehouse: home, S3: access}, hooks{})
	_, err := events(t, l).Commit(t.Context(), []Segment{newSegment(t, 1, 3)})
	require.NoError(t, err)
	location := loaded(t, l).MetadataLocation()
	require.True(t, strings.HasPrefix(location, home+"/siglake.db/events/metadata/"), location)
	require.True(t, strings.HasSuffix(location, ".gz.metadata.json"), location)
	raw, err := os.ReadFile(objectPath(t, location))
	require.NoError(t, err)
	require.Equal(t, "\x1f\x8b", string(raw[:2]))
}

// A read-only lake makes nothing in a database, needs no more than SELECT there, and says what is missing.
func TestPostgres_read_only(t *testing.T) {
	t.Parallel()
	at := newDatabase(t)
	_, err := Open(t.Context(), Options{Catalog: at, ReadOnly: true})
	require.ErrorIs(t, err, ErrNoCatalog)
	require.ErrorContains(t, err, "holds no Iceberg tables")
	_, err = Open(t.Context(), Options{Catalog: strings.Replace(at, "/lake", "/nosuch", 1), ReadOnly: true})
	require.ErrorIs(t, err, ErrNoCatalog)
	require.ErrorContains(t, err, "name the right database")

	w := lakeOf(t, Options{Catalog: at, Warehouse: t.TempDir()}, hooks{})
	seg := newSegment(t, 1, 3)
	_, err = events(t, w).Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	role := strings.ReplaceAll(at[strings.LastIndexByte(at, '/')+1:strings.IndexByte(at, '?')], "lake", "reader")
	pgExec(t, at, "CREATE ROLE "+role+" LOGIN PASSWORD 'reader'")
	pgExec(t, at, "GRANT SELECT ON iceberg_tables, iceberg_namespace_properties TO "+role)
	r := lakeOf(t, Options{Catalog: strings.Replace(at, "siglake:local-test@", role+":reader@", 1), ReadOnly: true}, hooks{})
	requireExactly(t, r, seg)
}

// A role that may not make tables can work once they are there.
func TestPostgres_least_privilege(t *testing.T) {
	t.Parallel()
	at := newDatabase(t)
	role := "writer" + at[strings.LastIndexByte(at, '/')+1:strings.IndexByte(at, '?')]
	pgExec(t, at, "CREATE ROLE "+role+" LOGIN PASSWORD 'writer'")
	limited := Options{Catalog: strings.Replace(at, "siglake:local-test@", role+":writer@", 1), Warehouse: t.TempDir()}
	_, err := Open(t.Context(), limited)
	require.ErrorContains(t, err, "make tables in its schema once")
	lakeOf(t, Options{Catalog: at, Warehouse: t.TempDir()}, hooks{})
	pgExec(t, at, "GRANT SELECT, INSERT, UPDATE ON iceberg_tables, iceberg_namespace_properties TO "+role)
	l := lakeOf(t, limited, hooks{})
	seg := newSegment(t, 1, 3)
	_, err = events(t, l).Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	requireExactly(t, l, seg)
}

// Many may open an empty database at once: the tables are made once and each has its catalog.
func TestPostgres_is_made_once(t *testing.T) {
	t.Parallel()
	at, home := newDatabase(t), t.TempDir()
	errs := make(chan error)
	for range 8 {
		go func() {
			l, err := Open(t.Context(), Options{Catalog: at, Warehouse: home})
			if err == nil {
				err = l.Close()
			}
			errs <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-errs)
	}
}

// LOUD-1: a database restored from a dump shows an older state, and stops the table.
func TestPostgres_catalog_gone_back(t *testing.T) {
	t.Parallel()
	at := newDatabase(t)
	l := lakeOf(t, Options{Catalog: at, Warehouse: t.TempDir()}, hooks{})
	tbl := events(t, l)
	_, err := tbl.Commit(t.Context(), []Segment{newSegment(t, 1, 3)})
	require.NoError(t, err)
	before := loaded(t, l).MetadataLocation()
	_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 2, 3)})
	require.NoError(t, err)
	pgExec(t, at, "UPDATE iceberg_tables SET metadata_location = $1", before)
	var back *GoneBackError
	_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 3, 3)})
	require.ErrorAs(t, err, &back)
	require.Equal(t, before, back.HaveMetadata)
}

// LAKE-1: the server is killed before, during and after the request to commit, and started again. What was not answered
// is found out, and each row is in the table once.
func TestPostgres_killed_in_the_middle_R10(t *testing.T) {
	t.Parallel()
	svc := ownPostgres(t)
	start := func() { require.NoError(t, svc.Do("start")) }
	kill := func() { require.NoError(t, svc.Do("kill")) }
	type do = func(context.Context) (table.Metadata, string, error)
	f := &faultyCatalog{answers: []answer{
		func(ctx context.Context, do do) (table.Metadata, string, error) {
			kill()
			defer start()
			return do(ctx)
		},
		nil,
		func(ctx context.Context, do do) (table.Metadata, string, error) {
			defer start()
			done := make(chan struct{})
			go func() {
				defer close(done)
				kill()
			}()
			defer func() { <-done }()
			return do(ctx)
		},
		nil,
		func(ctx context.Context, do do) (table.Metadata, string, error) {
			defer start()
			defer kill()
			_, _, err := do(ctx)
			return nil, "", errors.Join(err, errInjected)
		},
	}}
	h := faults(f)
	h.wait = sleep
	opt := Options{Catalog: svc.Info["url"], Warehouse: t.TempDir()}
	l := lakeOf(t, opt, hooks{})
	events(t, l) // makes the table: what follows are commits only
	tbl := events(t, lakeOf(t, opt, h))
	var all []Segment
	for i := range 5 {
		all = append(all, newSegment(t, uint64(i+1), 3))
		out, err := tbl.Commit(t.Context(), all[i:])
		require.NoError(t, err)
		require.Equal(t, committed(all[i]), out.Committed)
	}
	require.Empty(t, f.answers)
	requireExactly(t, l, all...)
}
