// Package recovery starts the built collector on a large write-ahead log and watches its memory.
package recovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// writerOnly leaves the compactor out: what is measured is the exporter's start.
	writerOnly = "exporters: {siglake: {wal: {max_bytes: 1099511627776, segment: {max_age: 1h, max_events: 100000000}}}}\n" +
		"service: {extensions: [ingestparams, walmirror, healthcheckv2]}\n"
	// all drains what is there without waiting.
	all = "exporters: {siglake: {wal: {max_bytes: 1099511627776}}}\nextensions: {lakecompactor: {gate: {age: 100ms}}}\n"

	// startRoom is what recovery may take beyond a start on an empty log, whatever the size of the log: one window of one
	// segment (256 KiB), one buffer to write it again (256 KiB), and what the Go runtime lets garbage grow to before it
	// collects. A single segment of 32 MiB held whole would not fit.
	startRoom = 24 << 20
	// drainRoom is what the whole collector may take while it drains under GOMEMLIMIT=256MiB: the limit, and what it
	// does not count: the binary's own pages and SQLite's.
	drainRoom = 512 << 20
)

// size is how large the log is.
type size struct{ segment, partials, sealed int }

func sizeOf() size {
	if testenv.Soak() {
		return size{segment: 32 << 20, partials: 32, sealed: 32} // 2 GiB
	}
	return size{segment: 4 << 20, partials: 25, sealed: 25} // 200 MiB
}

// A15: a log of many segments, half of them open ones of dead writers. The start holds one of them at a time, the drain
// its budget, and every row reaches the table once; then the log is small again. (The kernel's killer is a kill -9:
// testbed/accounted and testbed/kill.) ACK-1, LAKE-1, BND-1.
func TestA15_memory_is_bounded_by_one_segment(t *testing.T) {
	s := sizeOf()
	h := collector.New(t, writerOnly)
	h.Env = []string{"GOMEMLIMIT=256MiB"}
	empty := peak(t, h)
	source, records := oneSegment(t, h, s.segment)
	info, err := os.Stat(source)
	require.NoError(t, err)
	lay(t, source, s)

	begin := time.Now()
	full := peak(t, h)
	took := time.Since(begin)
	bytes := info.Size() * int64(s.partials+s.sealed)
	t.Logf("%d MiB in %d open and %d sealed segments: start and stop %s, peak memory %d MiB, %d MiB on an empty log",
		bytes>>20, s.partials, s.sealed, took.Round(time.Millisecond), full>>20, empty>>20)
	require.Less(t, full-empty, int64(startRoom))
	entries, err := waldir.List(h.WAL())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"sealed": s.partials + s.sealed}, waldir.Count(entries))

	h.Overlay = []string{all}
	p := h.Start()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, waldir.WaitDrained(ctx, h.WAL()), "last lines:\n%s", p.Tail(20))
	drained, err := load.PeakRSS(p.PID())
	require.NoError(t, err)
	h.Stop()
	t.Logf("drained in %s, peak memory %d MiB", time.Since(begin).Round(time.Millisecond), drained>>20)
	require.Less(t, drained, int64(drainRoom))
	require.Equal(t, records*(s.partials+s.sealed), rows(t, h))
}

// A15: what is sealed costs a start nothing but its name: 10 GiB of it in a full run. The files are hard links of one,
// which only somebody who reads them could tell.
func TestA15_a_start_reads_no_sealed_segment(t *testing.T) {
	s := size{segment: 4 << 20, sealed: 256}
	if testenv.Soak() {
		s = size{segment: 32 << 20, sealed: 320}
	}
	h := collector.New(t, writerOnly)
	h.Env = []string{"GOMEMLIMIT=256MiB"}
	begin := time.Now()
	empty := peak(t, h)
	base := time.Since(begin)
	source, _ := oneSegment(t, h, s.segment)
	for i := range s.sealed {
		require.NoError(t, os.Link(source, filepath.Join(h.WAL(), "default", "events", "sealed", nameOf(i)+".arrow")))
	}
	info, err := os.Stat(source)
	require.NoError(t, err)
	begin = time.Now()
	full := peak(t, h)
	t.Logf("%d MiB in %d sealed segments: start and stop %s, %s on an empty log; peak memory %d MiB, %d MiB on an empty log",
		info.Size()*int64(s.sealed)>>20, s.sealed, time.Since(begin).Round(time.Millisecond), base.Round(time.Millisecond), full>>20, empty>>20)
	require.Less(t, full-empty, int64(startRoom))
	entries, err := waldir.List(h.WAL())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"sealed": s.sealed}, waldir.Count(entries))
}

// nameOf is a segment id of a writer of its own.
func nameOf(n int) string { return fmt.Sprintf("0198c0de-0001-7abc-8def-%012x-%012x-1", n, n+1) }

// peak starts the collector, waits until it is healthy, stops it, and returns the most memory it held.
func peak(t *testing.T, h *collector.Harness) int64 {
	t.Helper()
	p := h.Start()
	n, err := load.PeakRSS(p.PID())
	require.NoError(t, err)
	h.Stop()
	return n
}

// oneSegment has the collector write an open segment of at least so many bytes and kills it. It returns the file, which
// is moved out of the log, and how many records are in it.
func oneSegment(t *testing.T, h *collector.Harness, bytes int) (file string, records int) {
	t.Helper()
	p := h.Start()
	book := &load.Book{Shape: load.Shape{Signal: "logs", Batch: 500, Run: "large", Resources: 2}}
	plan := load.Plan{
		Endpoint: load.Endpoint{Protocol: "grpc", Address: p.GRPC, Mode: "auto"}, Shape: book.Shape,
		Connections: 1, Records: 500, Patient: true, Book: book,
	}
	for {
		_, err := load.Run(t.Context(), plan)
		require.NoError(t, err)
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		require.Equal(t, map[string]int{"active": 1}, waldir.Count(entries))
		if entries[0].Size < int64(bytes)*19/20 { // it must not be sealed at its limit of bytes
			plan.Records = book.Acked() + 500
			continue
		}
		p.Kill()
		file = filepath.Join(h.Dir, "segment")
		require.NoError(t, os.Rename(entries[0].Path, file))
		return file, book.Acked()
	}
}

// lay copies a segment into the log under fresh names, each of a writer of its own.
func lay(t *testing.T, source string, s size) {
	t.Helper()
	lane := filepath.Join(filepath.Dir(source), "data", "wal", "default", "events")
	data, err := os.ReadFile(source)
	require.NoError(t, err)
	for i := range s.partials + s.sealed {
		name := nameOf(i) + ".arrow"
		to := filepath.Join(lane, "sealed", name)
		if i < s.partials {
			to = filepath.Join(lane, "active", name+".partial")
		}
		named, err := waldir.Called(data, nameOf(i))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, named, 0o640))
	}
}

// rows counts what is in the table, by the manifests, which Verify holds against the files.
func rows(t *testing.T, h *collector.Harness) int {
	t.Helper()
	reader, err := tables.Open(h.Data)
	require.NoError(t, err)
	summary, err := reader.Verify(t.Context(), "siglake.events")
	require.NoError(t, err)
	require.Empty(t, summary.Wrong)
	require.NoError(t, reader.Close())
	return summary.Count()
}
