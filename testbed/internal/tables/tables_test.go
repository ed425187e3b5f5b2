package tables

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/services"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestErrorsOfTheReaderComeBack(t *testing.T) {
	t.Parallel()
	r, err := Open(t.TempDir())
	require.NoError(t, err)
	_, err = r.Summarise(t.Context(), "siglake.events")
	require.ErrorContains(t, err, "catalog.db: no such file")
	err = r.Query(t.Context(), "siglake.events", "SELECT 1", func([]any) error { return nil })
	require.ErrorContains(t, err, "no such file", "it answers on")
	require.NoError(t, r.Close())
}

func TestAReaderEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r, err := Open(t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Summarise(ctx, "siglake.events")
	require.Error(t, err)
	require.Error(t, r.Close(), "it was killed")
}

// A catalog may be a database, and the objects of an S3 server are found below its folder.
func TestPostgresAndS3(t *testing.T) {
	t.Parallel()
	pg, err := services.StartPostgres()
	require.NoError(t, err)
	defer func() { require.NoError(t, pg.Close()) }()
	root := t.TempDir()
	r, err := OpenAt(Place{Catalog: pg.URL(pg.Database), S3Root: root})
	require.NoError(t, err)
	s, err := r.Summarise(t.Context(), "siglake.events")
	require.NoError(t, err)
	require.True(t, s.Missing)
	_, err = pg.SQL(pg.Database, `CREATE TABLE iceberg_tables (table_namespace text, table_name text, metadata_location text, previous_metadata_location text);
		INSERT INTO iceberg_tables VALUES ('siglake', 'events', 's3://lake/some/metadata.json', NULL)`)
	require.NoError(t, err)
	_, err = r.Summarise(t.Context(), "siglake.events")
	require.ErrorContains(t, err, filepath.Join(root, "lake/some/metadata.json"))
	require.NoError(t, r.Close())
}
