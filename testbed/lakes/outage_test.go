// Package lakes drives the built collector with its tables in PostgreSQL and S3.
package lakes

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// overlay puts the tables into a database and a bucket.
func overlay(catalog, warehouse, endpoint, key, secret string) string {
	return fmt.Sprintf(`
extensions: {lakecompactor: {catalog: %q, warehouse: %q, s3: {endpoint: %q, region: us-east-1, access_key_id: %q, secret_access_key: %q}}}
`, catalog, warehouse, endpoint, key, secret)
}

func servers(t *testing.T) (*services.Postgres, *services.S3) {
	t.Helper()
	pg, err := services.StartPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	s3, err := services.StartS3()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s3.Close()) })
	return pg, s3
}

// The collector starts while database and store are away, acknowledges all the same, drains when they come, and again
// after each was killed under load and came back: every acknowledged row is in the table once.
func TestOutage(t *testing.T) {
	t.Parallel()
	pg, s3 := servers(t)
	require.NoError(t, pg.Kill())
	require.NoError(t, s3.Kill())
	h := collector.New(t, traffic.Busy, overlay(pg.URL(pg.Database), "s3://lake/warehouse", s3.Endpoint, s3.AccessKey, s3.SecretKey))
	h.Catalog, h.S3Root = pg.URL(pg.Database), s3.Root
	p := h.Launch() // never healthy before the catalog is there
	load := traffic.Plan(p, "outage", "wait_for", 20)
	load.Rate = 1_000
	tr := traffic.Start(t, load)
	tr.Acked(t, 2_000)
	require.Eventually(t, func() bool { return p.Output() != "" && contains(p, "connection refused") }, time.Minute, 20*time.Millisecond,
		"it says that the catalog is away")
	require.NoError(t, s3.Start())
	require.NoError(t, pg.Start())
	require.NoError(t, p.WaitHealthy(t.Context()))
	tr.Acked(t, 2_000)
	for range 2 {
		require.NoError(t, pg.Kill())
		tr.Acked(t, 2_000)
		require.NoError(t, pg.Start())
		require.NoError(t, s3.Kill())
		tr.Acked(t, 2_000)
		require.NoError(t, s3.Start())
		tr.Acked(t, 1_000)
	}
	tr.End(t)
	traffic.Drained(t, h, p)
	h.Stop()
	traffic.Judge(t, h, tr.Book)

	// The operator's command line finds the same rows, with credentials from its environment only.
	cmd := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), "tables", "-o", "json")
	cmd.Env = append(append(cmd.Environ(), "SIGLAKE_CATALOG="+pg.URL(pg.Database)), s3.Env()...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), `"events"`)
}
