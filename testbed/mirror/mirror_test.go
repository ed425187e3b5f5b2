// Package mirror loses the volume of the write-ahead log under load and rebuilds it from an S3 server, and takes that
// server away.
package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/drill"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// F8: the volume of the log is lost under load, twice, while the drain commits. wal-recover rebuilds it from the bucket, and
// every row acknowledged under mirrored is in the table exactly once. PIN-1, MIR-1, LAKE-1.
func TestF8_the_volume_is_lost(t *testing.T) {
	s3 := drill.StartS3(t)
	h := drill.Mirrored(t, s3)
	p := h.Start()
	plan := traffic.Plan(p, "f8", "mirrored", 20)
	tr := traffic.Start(t, plan)
	for life := range 2 {
		tr.Acked(t, 2000)
		require.NoError(t, os.Rename(h.WAL(), filepath.Join(h.Dir, fmt.Sprintf("lost-%d", life)))) // the process does not know yet
		p.Kill()
		tr.Settle(t)
		t.Log(strings.TrimSpace(drill.Recover(t, h, s3)))
		require.Contains(t, drill.Recover(t, h, s3), "0 segments, 0 rows, 0 B restored", "a second time there is nothing to do")
		p = h.Start()
	}
	tr.Acked(t, 1000)
	tr.End(t)
	traffic.Drained(t, h, p)
	h.Stop()
	require.Zero(t, drill.Pins(t, h))
	traffic.Judge(t, h, tr.Book)
}

// F6: the store is away for a while. Acknowledgements go on, nothing is dropped, and all of it is copied when it is back: a
// root that is rebuilt from the bucket alone has every row.
func TestF6_the_store_is_away(t *testing.T) {
	s3 := drill.StartS3(t)
	h := drill.Mirrored(t, s3)
	p := h.Start()
	plan := traffic.Plan(p, "f6", "wait_for", 20)
	tr := traffic.Start(t, plan)
	tr.Acked(t, 1000)
	require.NoError(t, s3.Kill())
	tr.Acked(t, 5000)
	require.Positive(t, drill.Pins(t, h), "what is not copied is pinned")
	require.NoError(t, s3.Start())
	tr.Acked(t, 1000)
	res := tr.End(t)
	require.Empty(t, res.Errors, "a store that is away refuses nobody")
	require.Eventually(t, func() bool { return drill.Pins(t, h) == 0 }, time.Minute, 20*time.Millisecond, "%s", p.Tail(20))
	traffic.Drained(t, h, p)
	h.Stop()
	require.Zero(t, drill.Pins(t, h))
	require.NotContains(t, h.Logs(), s3.SecretKey)

	// The bucket has all of it; and to restore what is in the tables already doubles nothing.
	require.NoError(t, os.RemoveAll(h.WAL()))
	out := drill.Recover(t, h, s3)
	t.Log(strings.TrimSpace(out))
	require.Contains(t, strings.ReplaceAll(out, ",", ""), fmt.Sprintf(" %d rows ", tr.Book.Acked()))
	p = h.Start()
	traffic.Drained(t, h, p)
	h.Stop()
	traffic.Judge(t, h, tr.Book)
}
