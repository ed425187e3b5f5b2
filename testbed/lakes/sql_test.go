package lakes

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

// The built command line reads tables in S3 through a catalog in PostgreSQL, and the rows in the log beside them, each
// once. Its credentials come from the environment, its private copies of the files are gone afterwards.
func TestSQL(t *testing.T) {
	t.Parallel()
	pg, s3 := servers(t)
	place := overlay(pg.URL(pg.Database), "s3://lake/warehouse", s3.Endpoint, s3.AccessKey, s3.SecretKey)
	h := collector.New(t, traffic.Busy, place)
	h.Catalog, h.S3Root = pg.URL(pg.Database), s3.Root
	temp := t.TempDir()
	siglake := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), append(args, "--data", h.Data)...)
		cmd.Env = append(append(cmd.Environ(), "TMPDIR="+temp, "SIGLAKE_CATALOG="+pg.URL(pg.Database), "SIGLAKE_WAREHOUSE=s3://lake/warehouse"), s3.Env()...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s\n%s", args, stderr.String())
		requireSecret(t, string(out)+stderr.String(), pg.Password, s3.SecretKey)
		return string(out)
	}
	count := func(args ...string) int {
		t.Helper()
		out := siglake(append([]string{"sql", "-o", "csv", "SELECT count(*) AS n, count(DISTINCT (segment_id, segment_row)) AS d FROM events"}, args...)...)
		n, distinct, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(out), "n,d\n"), ",")
		require.True(t, ok, out)
		require.Equal(t, n, distinct)
		rows, err := strconv.Atoi(n)
		require.NoError(t, err)
		return rows
	}
	send := func(p *collector.Process, run string) int {
		t.Helper()
		load := traffic.Plan(p, run, "wait_for", 20)
		load.Records = 2_000
		tr := traffic.Start(t, load)
		tr.Wait(t)
		return tr.Book.Acked()
	}

	p := h.Start()
	first := send(p, "first")
	traffic.Drained(t, h, p)
	h.Stop()
	require.Positive(t, first)
	require.Equal(t, first, count())
	require.Equal(t, first, count("--with-wal"))

	// From now on nothing is drained: what is sent is in the log only.
	h.Overlay = []string{place, "extensions: {lakecompactor: {gate: {age: 1h, bytes: 1099511627776}}}\n"}
	p = h.Start()
	second := send(p, "second")
	require.Equal(t, first, count())
	require.Equal(t, first+second, count("--with-wal"))
	require.Contains(t, siglake("tables"), "events")
	require.Contains(t, siglake("status"), "default/events")
	h.Stop()

	// The command line's own drain takes them.
	siglake("drain", "--once")
	require.Equal(t, first+second, count())
	require.Equal(t, first+second, count("--with-wal"))
	require.Empty(t, filesIn(t, temp))
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
