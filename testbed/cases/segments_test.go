package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

// nameOf is a segment id of a writer of its own.
func nameOf(n int) string { return fmt.Sprintf("0198c0de-0001-7abc-8def-%012x-%012x-1", n, n+1) }

// openSegment has the collector write three requests into one open segment and kills it. It returns the bytes and where
// each request ends.
func openSegment(t *testing.T, h *collector.Harness) (bytes []byte, ends []int) {
	t.Helper()
	h.Overlay = []string{holding}
	p := h.Start()
	for range 3 {
		_, err := load.Run(t.Context(), load.Plan{
			Endpoint: load.Endpoint{Protocol: "grpc", Address: p.GRPC, Mode: "wait_for"},
			Shape:    load.Shape{Signal: "logs", Batch: 2, Run: "a1", Resources: 1}, Records: 2,
		})
		require.NoError(t, err)
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		require.Len(t, entries, 1)
		ends = append(ends, int(entries[0].Size))
	}
	p.Kill()
	entries, err := waldir.List(h.WAL())
	require.NoError(t, err)
	bytes, err = os.ReadFile(entries[0].Path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(entries[0].Path))
	return bytes, ends
}

// called is a segment under another id.
func called(t *testing.T, data []byte, id string) []byte {
	t.Helper()
	b, err := waldir.Called(data, id)
	require.NoError(t, err)
	return b
}

// drainedBut waits until nothing is on its way to a table; what is set aside is no matter.
func drainedBut(t *testing.T, h *collector.Harness) {
	t.Helper()
	require.Eventually(t, func() bool {
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		n := waldir.Count(entries)
		return n["active"]+n["sealed"]+n["processing"]+n["orphans"] == 0
	}, 5*time.Minute, 50*time.Millisecond, "what is undrained stays so")
}

// A1: the open segment of a killed collector, cut at every 61st byte (at every 23rd in a full run), each cut under a name
// of its own. The next start is healthy, the whole requests before each cut are in the table, each torn tail is told
// once, and the exit code is 0. internal/wal has every byte of a smaller one. ACK-2, LOUD-1.
func TestA1_cut_segments_are_drained(t *testing.T) {
	h := collector.New(t)
	whole, ends := openSegment(t, h)
	step := 61
	if testenv.Soak() {
		step = 23
	}
	active := filepath.Join(h.WAL(), "default", "events", "active")
	want := map[string]int{}
	torn := map[string]bool{}
	for cut, n := 0, 0; cut <= len(whole); cut, n = cut+step, n+1 {
		require.NoError(t, os.WriteFile(filepath.Join(active, nameOf(n)+".arrow.partial"), called(t, whole, nameOf(n))[:cut], 0o600))
		for _, end := range ends {
			if cut >= end {
				want[nameOf(n)] += 2
				torn[nameOf(n)] = cut > end
			}
		}
	}
	h.Overlay = []string{draining}
	h.Start()
	drainedBut(t, h)
	h.Stop()
	reader, err := tables.Open(h.Data)
	require.NoError(t, err)
	got := map[string]int{}
	require.NoError(t, reader.Query(t.Context(), table, "SELECT segment_id, CAST(count(*) AS VARCHAR) FROM t GROUP BY 1", func(row []any) error {
		n, err := strconv.Atoi(row[1].(string))
		got[row[0].(string)] = n
		return err
	}))
	require.NoError(t, reader.Close())
	require.Equal(t, want, got)
	lines := strings.Split(h.Logs(), "\n")
	for id, is := range torn {
		told := 0
		for _, line := range lines {
			if strings.Contains(line, "torn tail") && strings.Contains(line, id) {
				told++
				require.Contains(t, line, "offset")
				require.Contains(t, line, "dropped_bytes")
			}
		}
		if is {
			require.Equal(t, 1, told, id)
		} else {
			require.Zero(t, told, id)
		}
	}
}

// A7: SIGTERM while damaged segments are being read ends the collector in time and with code 0. Each is read three times
// and then set aside, also over two lives, and the good one among them is drained. LOUD-1.
func TestA7_stop_among_damaged_segments(t *testing.T) {
	const damagedOnes = 150
	h := collector.New(t)
	whole, ends := openSegment(t, h)
	sealed := filepath.Join(h.WAL(), "default", "events", "sealed")
	bad := append([]byte{}, whole...)
	bad[ends[1]-100] ^= 0x40
	poison := func() []waldir.Entry {
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		return waldir.In(entries, "poison")
	}
	h.Overlay = []string{draining}
	p := h.Start()
	send(t, p) // the upstream Collector takes signals a moment after it is healthy
	require.NoError(t, os.WriteFile(filepath.Join(sealed, nameOf(0)+".arrow"), called(t, whole, nameOf(0)), 0o600))
	for n := range damagedOnes {
		require.NoError(t, os.WriteFile(filepath.Join(sealed, nameOf(n+1)+".arrow"), called(t, bad, nameOf(n+1)), 0o600))
	}
	require.Eventually(t, func() bool { return len(poison()) > 0 }, time.Minute, time.Millisecond, "last lines:\n%s", p.Tail(20))
	h.Stop() // code 0, within its limit
	p = h.Start()
	require.Eventually(t, func() bool { return len(poison()) == 2*damagedOnes }, 2*time.Minute, 20*time.Millisecond, "last lines:\n%s", p.Tail(20))
	drainedBut(t, h)
	h.Stop()
	for _, e := range poison() {
		if !strings.HasSuffix(e.Name, ".json") {
			continue
		}
		var note struct {
			Reason   string `json:"reason"`
			Attempts int    `json:"attempts"`
		}
		b, err := os.ReadFile(e.Path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &note))
		require.LessOrEqual(t, note.Attempts, 3, e.Name)
		require.Contains(t, note.Reason, "CRC")
	}
	require.Equal(t, 6+perLane, rows(t, h))
}
