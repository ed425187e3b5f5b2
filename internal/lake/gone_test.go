package lake

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// LAKE-1: what is committed into a catalog file that has lost its name is gone with the process, so it is not
// committed.
func TestCommit_into_a_deleted_catalog_is_no_commit(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, path string){
		"deleted": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Remove(path))
		},
		"replaced": func(t *testing.T, path string) {
			t.Helper()
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+".restored", raw, 0o600))
			require.NoError(t, os.Rename(path+".restored", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "catalog.db")
			l, err := Open(t.Context(), Options{Catalog: "sqlite://" + path, Warehouse: filepath.Join(dir, "warehouse")})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			tbl, _, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
			require.NoError(t, err)
			require.NoError(t, tbl.InPlace())
			lose(t, path)
			require.ErrorIs(t, tbl.InPlace(), ErrCatalogGone)
			_, err = tbl.Commit(t.Context(), nil)
			require.NoError(t, err, "nothing was asked for")
			_, err = tbl.Lookup(t.Context(), []string{"x"})
			require.ErrorIs(t, err, ErrCatalogGone)
			_, _, err = l.Ensure(t.Context(), "default", "spans", otelarrow.Traces)
			require.ErrorIs(t, err, ErrCatalogGone)
		})
	}
}
