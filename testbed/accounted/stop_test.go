package accounted

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

// TestSIGTERMUnderLoadLosesAndDoublesNothing_C10 stops the collector while requests are under way: exit code 0, in bounded
// time, and what was answered is in the table once after the next start.
func TestSIGTERMUnderLoadLosesAndDoublesNothing_C10(t *testing.T) {
	h := collector.New(t, traffic.Busy)
	p := h.Start()
	pl := traffic.Plan(p, "term", "", 50)
	pl.Patient = false
	tr := traffic.Start(t, pl)
	for range 3 {
		tr.Acked(t, 3_000)
		took := h.Stop()
		t.Logf("stopped in %s", took.Round(time.Millisecond))
		require.Less(t, took, 30*time.Second, "a stop must not take for ever")
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		require.Empty(t, waldir.In(entries, "active"), "everything is sealed on the way out")
		require.Empty(t, waldir.In(entries, "processing"), "what was claimed is committed or given back")
		p = h.Start()
	}
	tr.End(t)
	traffic.Drained(t, h, p)
	h.Stop()
	traffic.Judge(t, h, tr.Book)
}

// TestRestartWithoutTrafficDrainsEverything_A13 kills the collector before anything was sealed by time or size, and starts
// it again without sending a thing: the rows must appear all the same.
func TestRestartWithoutTrafficDrainsEverything_A13(t *testing.T) {
	h := collector.New(t, "exporters: {siglake: {wal: {segment: {max_age: 10m}}}}\nextensions: {lakecompactor: {gate: {age: 100ms}}}\n")
	p := h.Start()
	pl := traffic.Plan(p, "idle", "wait_for", 25)
	pl.Records = 2_000
	tr := traffic.Start(t, pl)
	tr.Wait(t)
	entries, err := waldir.List(h.WAL())
	require.NoError(t, err)
	require.NotEmpty(t, waldir.In(entries, "active"), "the rows are in an open segment")
	p.Kill()
	p = h.Start()
	traffic.Drained(t, h, p)
	h.Stop()
	traffic.Judge(t, h, tr.Book)
}
