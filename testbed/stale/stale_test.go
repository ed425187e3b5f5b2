// Package stale loses the catalog of a built collector, starts it on an empty one, and brings the rows that were written for
// the old table into the new one by the built command.
package stale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
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
	// small makes a segment of every request.
	small = "exporters: {siglake: {wal: {segment: {max_events: 5}}}}\n"
	// draining leaves what is committed in the log for the length of the test.
	draining = small + "extensions: {lakecompactor: {gate: {age: 100ms}, retention: {wal: 1h}}}\n"
	// writing is the exporter alone.
	writing = small + "service: {extensions: [ingestparams, walmirror, healthcheckv2]}\n"
)

// The catalog file is lost and a collector starts on an empty one. What it had not drained was written for the old table
// and is set aside. The command refuses beside that collector, is killed at any moment and run again, and in the end each
// row is in the new table once, by the independent reader. LAKE-1.
func TestLostCatalog(t *testing.T) {
	h := collector.New(t, draining)
	drained := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		require.NoError(t, waldir.WaitEmpty(ctx, h.WAL()))
	}
	send(t, h.Start(), "before the tables were known", 20) // these segments name no table
	drained()
	h.Stop()
	h.Overlay = []string{writing}
	send(t, h.Start(), "written for the old table", 300)
	h.Stop()
	files, err := filepath.Glob(filepath.Join(h.Data, "catalog.db*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		require.NoError(t, exec.Command("mv", name, h.Dir).Run())
	}

	h.Overlay = []string{draining}
	p := h.Start()
	send(t, p, "after the loss", 40)
	drained()
	list := staleList(t, h)
	require.GreaterOrEqual(t, len(list.Segments), 60)
	require.Len(t, list.Lanes, 1)
	table := list.Lanes[0].Table
	require.NotEqual(t, table, list.Segments[0].For)
	args := []string{"stale", "requeue", "--all", "--into-table", table}
	out, code := siglake(t, h, args...)
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "a drain runs, and beside it nothing can be moved back")
	require.Contains(t, out, "lakecompactor")
	require.Equal(t, list, staleList(t, h))
	h.Stop()

	killed := 0
	for left := len(list.Segments); left > 10; left = len(staleList(t, h).Segments) {
		if killAmid(t, h, 1+rand.IntN(8), args...) {
			killed++
		}
	}
	t.Logf("killed %d times with -9 while it brought %d segments back", killed, len(list.Segments))
	require.Positive(t, killed)
	out, code = siglake(t, h, args...)
	require.Zero(t, code, out)
	out, code = siglake(t, h, args...)
	require.Zero(t, code, out)
	require.Contains(t, out, "No segments in stale/.")

	h.Start()
	drained()
	h.Stop()
	require.Equal(t, map[string]int{"rows": 360, "different": 360}, counted(t, h))
	require.Empty(t, staleList(t, h).Segments)
	out, code = siglake(t, h, "wal", "verify")
	require.Zero(t, code, out)
	require.Contains(t, out, "0 damaged, 0 torn, 0 of a newer format, 0 gaps")
}

// send has logs acknowledged.
func send(t *testing.T, p *collector.Process, run string, records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	res, err := load.Run(ctx, load.Plan{
		Endpoint: load.Endpoint{Protocol: "grpc", Address: p.GRPC, Mode: "wait_for"},
		Shape:    load.Shape{Signal: "logs", Batch: 5, Run: run, Resources: 1}, Records: records, Patient: true,
	})
	require.NoError(t, err)
	require.Equal(t, records, res.Records, "last lines:\n%s", p.Tail(20))
}

// listing is what siglake stale list -o json says.
type listing struct {
	Segments []struct {
		ID  string `json:"id"`
		For string `json:"for"`
	} `json:"segments"`
	Lanes []struct {
		Table string `json:"table"`
	} `json:"lanes"`
}

func staleList(t *testing.T, h *collector.Harness) (l listing) {
	t.Helper()
	out, code := siglake(t, h, "stale", "list", "-o", "json")
	require.Zero(t, code, out)
	require.NoError(t, json.Unmarshal([]byte(out), &l), out)
	return l
}

func command(t *testing.T, h *collector.Harness, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), append(args, "--data", h.Data)...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, out
}

// siglake runs the built command to its end.
func siglake(t *testing.T, h *collector.Harness, args ...string) (string, int) {
	t.Helper()
	cmd, out := command(t, h, args...)
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, err)
		return out.String(), exit.ExitCode()
	}
	return out.String(), 0
}

// killAmid kills the command with -9 when so many further segments are in sealed/, and tells whether it was still running.
func killAmid(t *testing.T, h *collector.Harness, further int, args ...string) bool {
	t.Helper()
	sealed := func() int {
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		return len(waldir.In(entries, "sealed"))
	}
	cmd, out := command(t, h, args...)
	before := sealed()
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			exit, ok := errors.AsType[*exec.ExitError](err)
			if ok && !exit.Exited() {
				return true
			}
			require.NoError(t, err, out.String())
			return false
		case <-time.After(time.Millisecond):
			if sealed() >= before+further {
				_ = cmd.Process.Kill() // an error means it has ended
			}
		}
	}
}

// counted are the rows of the table and how many different ones there are, by the independent reader.
func counted(t *testing.T, h *collector.Harness) map[string]int {
	t.Helper()
	reader, err := tables.Open(h.Data)
	require.NoError(t, err)
	summary, err := reader.Verify(t.Context(), "siglake.events")
	require.NoError(t, err)
	require.Empty(t, summary.Wrong)
	different := 0
	require.NoError(t, reader.Query(t.Context(), "siglake.events",
		"SELECT CAST(count(DISTINCT (segment_id, segment_row)) AS VARCHAR) FROM t", func(row []any) (err error) {
			different, err = strconv.Atoi(row[0].(string))
			return err
		}))
	require.NoError(t, reader.Close())
	return map[string]int{"rows": summary.Count(), "different": different}
}
