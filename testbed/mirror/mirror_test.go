// Package mirror loses the volume of the write-ahead log under load and rebuilds it from an S3 server, and takes that
// server away.
package mirror

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// startS3 is an S3 server for one test.
func startS3(t *testing.T) *services.S3 {
	t.Helper()
	s3, err := services.StartS3()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s3.Close()) })
	return s3
}

// mirrored is a busy collector that copies its log there.
func mirrored(t *testing.T, s3 *services.S3) *collector.Harness {
	t.Helper()
	return collector.New(t, traffic.Busy, fmt.Sprintf(
		"extensions: {walmirror: {bucket_url: 's3://%s', sweep_interval: 1s, s3: {endpoint: '%s', region: %s, access_key_id: %s, secret_access_key: %s}}}\n",
		s3.Bucket, s3.Endpoint, s3.Region, s3.AccessKey, s3.SecretKey))
}

// walRecover runs siglake wal-recover into the log of h and returns what it printed.
func walRecover(t *testing.T, h *collector.Harness, s3 *services.S3) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), "wal-recover", "--from", "s3://"+s3.Bucket+"/wal-mirror", "--to", h.WAL())
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL_S3="+s3.Endpoint, "AWS_REGION="+s3.Region,
		"AWS_ACCESS_KEY_ID="+s3.AccessKey, "AWS_SECRET_ACCESS_KEY="+s3.SecretKey)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Run(), out.String())
	return out.String()
}

// pins counts the names in mirror-pending/ of all lanes.
func pins(t *testing.T, h *collector.Harness) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(h.WAL(), "*", "*", "mirror-pending", "*"))
	require.NoError(t, err)
	return len(names)
}

// F8: the volume of the log is lost under load, twice, while the drain commits. wal-recover rebuilds it from the bucket, and
// every row acknowledged under mirrored is in the table exactly once. PIN-1, MIR-1, LAKE-1.
func TestF8_the_volume_is_lost(t *testing.T) {
	s3 := startS3(t)
	h := mirrored(t, s3)
	p := h.Start()
	plan := traffic.Plan(p, "f8", "mirrored", 20)
	tr := traffic.Start(t, plan)
	for life := range 2 {
		tr.Acked(t, 2000)
		require.NoError(t, os.Rename(h.WAL(), filepath.Join(h.Dir, fmt.Sprintf("lost-%d", life)))) // the process does not know yet
		p.Kill()
		tr.Settle(t)
		t.Log(strings.TrimSpace(walRecover(t, h, s3)))
		require.Contains(t, walRecover(t, h, s3), "0 segments, 0 rows, 0 B restored", "a second time there is nothing to do")
		p = h.Start()
	}
	tr.Acked(t, 1000)
	tr.End(t)
	traffic.Drained(t, h, p)
	h.Stop()
	require.Zero(t, pins(t, h))
	traffic.Judge(t, h, tr.Book)
}

// F6: the store is away for a while. Acknowledgements go on, nothing is dropped, and all of it is copied when it is back: a
// root that is rebuilt from the bucket alone has every row.
func TestF6_the_store_is_away(t *testing.T) {
	s3 := startS3(t)
	h := mirrored(t, s3)
	p := h.Start()
	plan := traffic.Plan(p, "f6", "wait_for", 20)
	tr := traffic.Start(t, plan)
	tr.Acked(t, 1000)
	require.NoError(t, s3.Kill())
	tr.Acked(t, 5000)
	require.Positive(t, pins(t, h), "what is not copied is pinned")
	require.NoError(t, s3.Start())
	tr.Acked(t, 1000)
	res := tr.End(t)
	require.Empty(t, res.Errors, "a store that is away refuses nobody")
	require.Eventually(t, func() bool { return pins(t, h) == 0 }, time.Minute, 20*time.Millisecond, "%s", p.Tail(20))
	traffic.Drained(t, h, p)
	h.Stop()
	require.Zero(t, pins(t, h))
	require.NotContains(t, h.Logs(), s3.SecretKey)

	// The bucket has all of it; and to restore what is in the tables already doubles nothing.
	require.NoError(t, os.RemoveAll(h.WAL()))
	out := walRecover(t, h, s3)
	t.Log(strings.TrimSpace(out))
	require.Contains(t, strings.ReplaceAll(out, ",", ""), fmt.Sprintf(" %d rows ", tr.Book.Acked()))
	p = h.Start()
	traffic.Drained(t, h, p)
	h.Stop()
	traffic.Judge(t, h, tr.Book)
}
