// Package drill has the parts of a rehearsal of disaster: a collector that mirrors its log to an S3 server, the loss of the
// volume, and siglake wal-recover.
package drill

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

// StartS3 is an S3 server that ends with the test.
func StartS3(t testing.TB) *services.S3 {
	t.Helper()
	s3, err := services.StartS3()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s3.Close()) })
	return s3
}

// Mirror is the overlay of a collector that copies its log to the bucket.
func Mirror(s3 *services.S3) string {
	return fmt.Sprintf(
		"extensions: {walmirror: {bucket_url: 's3://%s', s3: {endpoint: '%s', region: %s, access_key_id: %s, secret_access_key: %s}}}\n",
		s3.Bucket, s3.Endpoint, s3.Region, s3.AccessKey, s3.SecretKey)
}

// Mirrored is a busy collector that copies its log to the bucket, and looks every second for what it has missed.
func Mirrored(t testing.TB, s3 *services.S3, overlay ...string) *collector.Harness {
	t.Helper()
	return collector.New(t, append([]string{traffic.Busy, Mirror(s3), "extensions: {walmirror: {sweep_interval: 1s}}\n"}, overlay...)...)
}

// Recover runs siglake wal-recover into the log of h, with further arguments, and returns what it printed.
func Recover(t testing.TB, h *collector.Harness, s3 *services.S3, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI),
		append([]string{"wal-recover", "--from", "s3://" + s3.Bucket + "/wal-mirror", "--to", h.WAL()}, args...)...)
	cmd.Env = append(cmd.Environ(), s3.Env()...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// Pins counts the names in mirror-pending/ of all lanes: what waits to be copied.
func Pins(t testing.TB, h *collector.Harness) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(h.WAL(), "*", "*", "mirror-pending", "*"))
	require.NoError(t, err)
	return len(names)
}
