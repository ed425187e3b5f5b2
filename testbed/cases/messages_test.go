package cases

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is where logs go.
const table = "siglake.events"

const (
	soon = "exporters: {siglake: {wal: {segment: {max_age: 300ms}}}}\n"
	// quick makes rows appear soon.
	quick = soon + "extensions: {lakecompactor: {gate: {age: 100ms}}}\n"
)

// drained waits until nothing is left on the way to the table.
func drained(t *testing.T, h *collector.Harness, p *collector.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, waldir.WaitDrained(ctx, h.WAL()), "last lines:\n%s", p.Tail(20))
}

// rows counts what is in the table, by the manifests, which Verify holds against the files.
func rows(t *testing.T, h *collector.Harness) int {
	t.Helper()
	reader, err := tables.Open(h.Data)
	require.NoError(t, err)
	summary, err := reader.Verify(t.Context(), table)
	require.NoError(t, err)
	require.Empty(t, summary.Wrong)
	require.NoError(t, reader.Close())
	return summary.Count()
}

// large is an encoded request of n records of 100 KiB.
func large(t *testing.T, n int) []byte {
	t.Helper()
	ld := plog.NewLogs()
	records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for range n {
		records.AppendEmpty().Body().SetStr(strings.Repeat("0123456789abcdef", 6400))
	}
	request, err := plogotlp.NewExportRequestFromLogs(ld).MarshalProto()
	require.NoError(t, err)
	return request
}

// T-21: a message above the stock limit of 4 MiB is taken on both transports by the shipped configuration. A client of
// gRPC drops what meets that limit.
func TestT21_large_messages_are_taken(t *testing.T) {
	h := collector.New(t, quick)
	p := h.Start()
	request := large(t, 60)
	require.Greater(t, len(request), 5<<20)
	for _, to := range []load.Endpoint{{Protocol: "grpc", Address: p.GRPC}, {Protocol: "http", Address: p.HTTP}} {
		client, err := load.Dial(to, "logs")
		require.NoError(t, err)
		require.NoError(t, client.Send(t.Context(), request), to.Protocol)
		require.NoError(t, client.Close())
	}
	drained(t, h, p)
	h.Stop()
	require.Equal(t, 120, rows(t, h))
}
