package accounted

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/measure"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

const (
	sharing = "exporters: {siglake: {wal: {shared: true}}}\n"
	// ingester never seals by itself and has no compactor: what it has acknowledged depends on whoever adopts it.
	ingester = `
exporters: {siglake: {wal: {segment: {max_events: 10000000, max_age: 1h}}}}
service: {extensions: [ingestparams, walmirror, healthcheckv2]}
`
)

// TestSharedVolume_T07_G4 runs two collectors on one volume, both under load, started at once on an empty one. One is
// stopped for a while, which is no death: its open segment is left alone. Then it is killed with -9, and the other one
// adopts what it had acknowledged, while it goes on itself.
func TestSharedVolume_T07_G4(t *testing.T) {
	a := collector.New(t, sharing, ingester)
	b := collector.New(t, sharing, traffic.Busy)
	b.Data = a.Data
	pa, pb := a.Launch(), b.Launch()
	require.NoError(t, pa.WaitHealthy(t.Context()))
	require.NoError(t, pb.WaitHealthy(t.Context()))
	gone, stays := traffic.Plan(pa, "gone", "auto", 20), traffic.Plan(pb, "stays", "wait_for", 20)
	gone.Rate, stays.Rate = 1_000, 1_000
	ta, tb := traffic.Start(t, gone), traffic.Start(t, stays)
	ta.Acked(t, 2_000)
	tb.Acked(t, 2_000)
	mine := openOf(t, a.WAL(), pa.PID())
	require.Len(t, mine, 1)

	require.NoError(t, pa.Freeze(t.Context()))
	tb.Acked(t, 6_000) // several looks of the other one
	require.FileExists(t, mine[0].Path)
	require.NoError(t, syscall.Kill(pa.PID(), syscall.SIGCONT))
	ta.Acked(t, 1_000)

	pa.Kill()
	killed := time.Now()
	require.Eventually(t, func() bool {
		_, err := os.Stat(mine[0].Path)
		return os.IsNotExist(err)
	}, time.Minute, 10*time.Millisecond, "the living one adopts")
	t.Logf("adopted %s after the kill", time.Since(killed).Round(time.Millisecond))
	adopted, err := measure.Sum(t.Context(), pb.Metrics, func(name string) bool { return name == "siglake_wal_partials_adopted_total" })
	require.NoError(t, err)
	require.InDelta(t, 1, adopted, 0)
	ta.End(t)
	tb.Acked(t, 1_000)
	tb.End(t)
	traffic.Drained(t, b, pb)
	b.Stop()
	traffic.Judge(t, b, ta.Book)
	traffic.Judge(t, b, tb.Book)
	left, err := os.ReadDir(filepath.Join(a.WAL(), "leases"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// openOf are the open segments of a process, known by the text of its leases.
func openOf(t *testing.T, wal string, pid int) []waldir.Entry {
	t.Helper()
	leases, err := filepath.Glob(filepath.Join(wal, "leases", "*.lock"))
	require.NoError(t, err)
	entries, err := waldir.List(wal)
	require.NoError(t, err)
	var out []waldir.Entry
	for _, lease := range leases {
		text, err := os.ReadFile(lease)
		require.NoError(t, err)
		if !strings.Contains(string(text), fmt.Sprintf("pid %d,", pid)) {
			continue
		}
		writer := strings.TrimSuffix(filepath.Base(lease), ".lock")
		for _, e := range waldir.In(entries, "active") {
			if strings.Contains(e.Name, "-"+writer+"-") {
				out = append(out, e)
			}
		}
	}
	return out
}
