package lake

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// spansAt makes a second table, at a place in the warehouse, in as many commits.
func spansAt(tb testing.TB, l *Lake, place string, commits int) (id table.Identifier, metadata string) {
	tb.Helper()
	id = table.Identifier{"siglake", "spans"}
	b, err := l.birth(id, otelarrow.Traces)
	require.NoError(tb, err)
	b.location = l.home + "/" + place
	_, _, err = l.cat.CommitTable(tb.Context(), id, []table.Requirement{table.AssertCreate()}, b.updates())
	require.NoError(tb, err)
	for range commits - 1 {
		setProperty(tb, l, "spans", "n", time.Now().String())
	}
	t, err := l.open(tb.Context(), id)
	require.NoError(tb, err)
	at, err := plain(t.MetadataLocation())
	require.NoError(tb, err)
	return id, at
}

func truncate(tb testing.TB, paths ...string) {
	tb.Helper()
	require.NotEmpty(tb, paths)
	for _, p := range paths {
		require.NoError(tb, os.Truncate(p, 100))
	}
}

func beside(tb testing.TB, metadata string) []string {
	tb.Helper()
	all, err := filepath.Glob(filepath.Dir(metadata) + "/*" + metadataSuffix)
	require.NoError(tb, err)
	return all
}

func everyFile(tb testing.TB, dir string) (out []string) {
	tb.Helper()
	require.NoError(tb, filepath.WalkDir(filepath.Join(dir, "warehouse"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, name)
		}
		return err
	}))
	return out
}

// One table that cannot be read does not keep others from being collected, and no file goes that may be one of its own.
func TestCollect_beside_a_table_that_cannot_be_read(t *testing.T) {
	t.Parallel()
	const born = "siglake.db/spans"
	for name, tc := range map[string]struct {
		place  string // of the table that cannot be read
		spoil  func(t *testing.T, l *Lake, metadata string)
		refuse string // why the other table is refused; empty: it is collected
		at     string // where the report says that it is
	}{
		"truncated": {place: born, at: born, spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			truncate(t, metadata)
		}},
		"gone": {place: born, at: born, spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			require.NoError(t, os.Remove(metadata))
		}},
		"not allowed to be read": {place: born, at: born, spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			require.NoError(t, os.Remove(metadata))
			require.NoError(t, os.Mkdir(metadata, 0o750)) // root may read everything but a directory
		}},
		"all its metadata": {place: born, at: born, spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			truncate(t, beside(t, metadata)...)
		}},
		"elsewhere, and its earlier metadata says so": {place: "other/place", at: "other/place", spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			truncate(t, metadata)
		}},
		"elsewhere, and nothing says so": {place: "other/place", refuse: "does not tell where its files are", spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			truncate(t, beside(t, metadata)...)
		}},
		"its earlier metadata cannot be asked": {place: born, refuse: "does not tell where its files are", spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			truncate(t, metadata)
			require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(metadata), "00009-x"+metadataSuffix), 0o750))
			require.NoError(t, os.Symlink("00009-x"+metadataSuffix, filepath.Join(filepath.Dir(metadata), "00008-x"+metadataSuffix)))
		}},
		"inside the other": {place: "siglake.db/events/data/spans", at: "siglake.db/events/data/spans", refuse: "are inside one another", spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			truncate(t, metadata)
		}},
		"around the other": {place: "siglake.db", at: "siglake.db", refuse: "are inside one another", spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			truncate(t, metadata)
		}},
		"at the same place": {place: "siglake.db/events", at: "siglake.db/events", refuse: "are inside one another", spoil: func(t *testing.T, _ *Lake, metadata string) {
			t.Helper()
			truncate(t, metadata)
		}},
		"its data inside the other": {place: born, at: born, refuse: "are inside one another", spoil: func(t *testing.T, l *Lake, _ string) {
			t.Helper()
			setProperty(t, l, "spans", table.WriteDataPathKey, l.home+"/siglake.db/events/data")
			setProperty(t, l, "spans", "n", "1")
			tbl, err := l.open(t.Context(), table.Identifier{"siglake", "spans"})
			require.NoError(t, err)
			at, err := plain(tbl.MetadataLocation())
			require.NoError(t, err)
			truncate(t, at)
		}},
		"its metadata elsewhere": {place: born, refuse: "does not tell where its files are", spoil: func(t *testing.T, l *Lake, _ string) {
			t.Helper()
			setProperty(t, l, "spans", table.WriteMetadataPathKey, l.home+"/all/metadata")
			setProperty(t, l, "spans", "n", "1")
			setProperty(t, l, "spans", "n", "2")
			tbl, err := l.open(t.Context(), table.Identifier{"siglake", "spans"})
			require.NoError(t, err)
			at, err := plain(tbl.MetadataLocation())
			require.NoError(t, err)
			require.Contains(t, at, "/all/metadata/")
			truncate(t, at)
		}},
		"the catalog does not tell": {place: born, refuse: "does not tell where its files are", spoil: func(t *testing.T, l *Lake, _ string) {
			t.Helper()
			_, err := l.db.ExecContext(t.Context(), "UPDATE iceberg_tables SET metadata_location = NULL WHERE table_name = 'spans'")
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := lakeAt(t, dir, hooks{})
			segs := commitEach(t, events(t, l), 3)
			orphans, _ := plant(t, l)
			id, metadata := spansAt(t, l, tc.place, 3)
			home := filepath.Join(dir, "warehouse", tc.place)
			require.NoError(t, os.WriteFile(filepath.Join(home, "metadata", "needed.parquet"), []byte("x"), 0o600))
			tc.spoil(t, l, metadata)
			agedBy(t, dir, 48*time.Hour)
			before := everyFile(t, dir)

			out, err := lakeAt(t, dir, hooks{}).Collect(t.Context(), nil, GC{MinAge: LeastOrphanAge, Apply: true})
			require.NoError(t, err)
			require.Equal(t, []string{"siglake.events", strings.Join(id, ".")}, []string{out[0].Table, out[1].Table})
			require.ErrorContains(t, out[1].Err, "the table cannot be read")
			require.Zero(t, out[1].Deleted)
			require.Equal(t, tc.at != "", out[1].Location != "")
			if tc.at != "" {
				require.Equal(t, filepath.Join(dir, "warehouse", tc.at), out[1].Location)
			}
			gone := len(before) - len(everyFile(t, dir))
			if tc.refuse != "" {
				require.ErrorContains(t, out[0].Err, tc.refuse)
				require.ErrorContains(t, out[0].Err, "siglake.spans")
				require.Zero(t, gone)
			} else {
				require.NoError(t, out[0].Err)
				require.Equal(t, len(orphans), out[0].Deleted)
				require.Equal(t, len(orphans), gone, "and nothing of the other")
			}
			requireExactly(t, l, segs...)
		})
	}
}
