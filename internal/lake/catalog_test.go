package lake

import (
	"os"
	"path/filepath"
	"testing"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// A wrong key is named with its value and the way out.
func TestOpen_says_what_is_wrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ok := "sqlite://" + filepath.Join(dir, "catalog.db")
	for _, tc := range []struct {
		name string
		opt  Options
		want []string
	}{
		{"no_catalog", Options{Warehouse: dir}, []string{`catalog: ""`, "sqlite:///"}},
		{"other_catalog", Options{Catalog: "mysql://u:canary@db/lake?x=canary", Warehouse: dir}, []string{`catalog: "mysql://db/lake"`, "sqlite:///", "postgres://"}},
		{"no_database", Options{Catalog: "postgres://db", Warehouse: dir}, []string{`catalog: "postgres://db"`, "names no database"}},
		{"rest_with_user", Options{Catalog: "rest+https://u:canary@host/x", Warehouse: dir}, []string{`catalog: "rest+https://host/x"`, "section rest"}},
		{
			"no_directory",
			Options{Catalog: "sqlite://" + filepath.Join(dir, "no", "catalog.db"), Warehouse: dir},
			[]string{"catalog: ", "no/catalog.db", "directory " + filepath.Join(dir, "no") + " does not exist", "make it"},
		},
		{"no_warehouse", Options{Catalog: ok}, []string{`warehouse: ""`}},
		{"other_warehouse", Options{Catalog: ok, Warehouse: "ftp://bucket/wh"}, []string{`warehouse: "ftp://bucket/wh"`, "s3://bucket/prefix"}},
		{"warehouse_with_key", Options{Catalog: ok, Warehouse: "s3://key:canary@bucket/wh"}, []string{`warehouse: "s3://bucket/wh"`, "section s3"}},
		{"warehouse_of_another_host", Options{Catalog: ok, Warehouse: "file://server/wh"}, []string{`warehouse: "file://server/wh"`, `"server"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(t.Context(), tc.opt)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "canary")
		})
	}
}

// The catalog may stand next to a file of any name, and the two forms of a relative path mean the same.
func TestOpen_takes_every_spelling_of_a_path(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	odd := filepath.Join(dir, "a b%20c?d#e")
	require.NoError(t, os.MkdirAll(odd, 0o750))
	for _, opt := range []Options{
		{Catalog: "sqlite://" + odd + "/catalog.db", Warehouse: odd + "/wh"},
		{Catalog: "sqlite://./catalog.db", Warehouse: "file://./wh"},
		{Catalog: "sqlite:///./catalog.db", Warehouse: "wh"},
		{Catalog: "sqlite://" + dir + "/catalog.db", Warehouse: "file://" + dir + "/wh"},
	} {
		l, err := Open(t.Context(), opt)
		require.NoError(t, err)
		tbl := events(t, l)
		_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 1, 2)})
		require.NoError(t, err)
		plan, err := l.Plan(t.Context(), "siglake", "events")
		require.NoError(t, err)
		for _, f := range plan.Files {
			require.FileExists(t, f.Path)
		}
		require.NoError(t, l.Close())
	}
	require.FileExists(t, filepath.Join(odd, "catalog.db"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"a b%20c?d#e", "catalog.db", "wh"}, names)
}

// A read-only lake makes nothing, not even where a writer would.
func TestOpen_read_only_makes_nothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opt := Options{Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "wh"), ReadOnly: true}
	_, err := Open(t.Context(), opt)
	require.ErrorIs(t, err, ErrNoCatalog)
	require.ErrorContains(t, err, filepath.Join(dir, "catalog.db"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.db"), nil, 0o600))
	_, err = Open(t.Context(), opt)
	require.ErrorIs(t, err, ErrNoCatalog)
	require.ErrorContains(t, err, "holds no Iceberg tables")
}

func TestOpen_read_only_reads_what_a_writer_commits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := lakeAt(t, dir, hooks{})
	tbl := events(t, w)
	r, err := Open(t.Context(), Options{Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	infos, err := r.Tables(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Zero(t, infos[0].Rows)

	_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 1, 4)})
	require.NoError(t, err)
	infos, err = r.Tables(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(4), infos[0].Rows)

	_, _, err = r.Ensure(t.Context(), "default", "spans", otelarrow.Traces)
	require.ErrorIs(t, err, ErrReadOnly)
	_, err = r.db.ExecContext(t.Context(), "DELETE FROM iceberg_tables")
	require.ErrorContains(t, err, "readonly")
}

// The process-wide IO of local files is replaced once and stays; who opened a lake first does not matter.
func TestRegisterIO_is_idempotent(t *testing.T) {
	t.Parallel()
	require.NoError(t, registerIO(t.Context()))
	for _, probe := range []string{"file:///x", "/x"} {
		first, err := iceio.LoadFS(t.Context(), nil, probe)
		require.NoError(t, err)
		require.IsType(t, &syncIO{}, first)
		require.NoError(t, registerIO(t.Context()))
		again, err := iceio.LoadFS(t.Context(), nil, probe)
		require.NoError(t, err)
		require.Same(t, first, again)
	}
}

// synchronous(FULL) and the write-ahead log hold on every connection of the pool.
func TestOpen_every_connection_syncs(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	for range 3 {
		c, err := l.db.Conn(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		var sync int
		var journal string
		var busy int
		require.NoError(t, c.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&sync))
		require.NoError(t, c.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&journal))
		require.NoError(t, c.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&busy))
		require.Equal(t, []any{2, "wal", 15000}, []any{sync, journal, busy})
	}
}
