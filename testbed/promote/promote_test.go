// Package promote drives the built collector with promoted columns and user indexes, and reads what it made with the
// independent reader.
package promote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for a busy machine.
const patience = 90 * time.Second

const (
	promotions = `extensions:
  lakecompactor:
    promote:
      - {attribute: s}
      - {attribute: i, type: int}
      - {attribute: l, type: long}
      - {attribute: d, type: double}
      - {attribute: b, type: bool}
      - {attribute: t, type: timestamp, column: happened}
      - {attribute: env, from: resource, column: environment}
`
	byAttribute = "exporters: {siglake: {index_attribute: siglake.index}}\n"
	// kept keeps rows in the open segment, soon brings them to their tables, sealed leaves them to who drains by hand.
	kept   = "exporters: {siglake: {wal: {segment: {max_age: 1h}}}}\n"
	soon   = "exporters: {siglake: {wal: {segment: {max_age: 100ms}}}}\nextensions: {lakecompactor: {gate: {age: 100ms}}}\n"
	sealed = "exporters: {siglake: {wal: {segment: {max_age: 100ms}}}}\nextensions: {lakecompactor: {gate: {age: 1h}}}\n"
)

// record adds a log record with attributes of every type; the values fit when n is even.
func record(ld plog.Logs, index, body string, n int) {
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("env", "prod")
	if index != "" {
		rl.Resource().Attributes().PutStr("siglake.index", index)
	}
	lr := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	lr.Body().SetStr(body)
	a := lr.Attributes()
	a.PutStr("s", "text")
	a.PutInt("i", 404)
	a.PutInt("l", 1<<40)
	a.PutDouble("d", 1.5)
	a.PutBool("b", true)
	a.PutStr("t", "2026-05-17T12:00:00.000001Z")
	if n%2 == 1 {
		for _, key := range []string{"i", "l", "d", "b", "t"} {
			a.PutStr(key, "abc")
		}
	}
}

func logs(body string, n int) plog.Logs {
	ld := plog.NewLogs()
	record(ld, "", body, n)
	return ld
}

func post(t *testing.T, url string, ld plog.Logs, header ...string) (code int, answer string) {
	t.Helper()
	body, err := plogotlp.NewExportRequestFromLogs(ld).MarshalProto()
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(raw)
}

// rowsOf are rows of a table as the reader shows them, in order. A table or a column that is not there yet is an error.
func rowsOf(t *testing.T, data, table, columns string) (out []string, err error) {
	t.Helper()
	r, err := tables.Open(data)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	err = r.Query(t.Context(), table, "SELECT "+columns+" FROM t ORDER BY ALL", func(row []any) error {
		out = append(out, fmt.Sprintf("%q", row))
		return nil
	})
	return out, err
}

func eventually(t *testing.T, data, table, columns string, want []string) {
	t.Helper()
	var got []string
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if got, err = rowsOf(t, data, table, columns); len(got) == len(want) {
			break
		}
	}
	require.NoError(t, err, table)
	require.Equal(t, want, got, table)
}

func verify(t *testing.T, data string, counts map[string]int) {
	t.Helper()
	r, err := tables.Open(data)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for table, want := range counts {
		sum, err := r.Verify(t.Context(), table)
		require.NoError(t, err, table)
		require.Equal(t, want, sum.Count(), table)
	}
}

// Columns of every type come with the first rows, those before are NULL, a kill -9 in between loses nothing, and
// siglake drain --once fills the columns that the tables remember. Indexes come by query, header, metadata and resource.
func TestPromotion_and_indexes_E14(t *testing.T) {
	t.Parallel()
	h := collector.New(t, soon)
	p := h.Start()
	url := func() string { return "http://" + p.HTTP + "/v1/logs" }
	send := func(body string, n int, query string, header ...string) {
		code, answer := post(t, url()+query, logs(body, n), header...)
		require.Equal(t, http.StatusOK, code, answer)
	}
	send("0 before", 0, "")
	eventually(t, h.Data, "siglake.events", "body", []string{row("0 before")})
	h.Stop()

	h.Overlay = []string{promotions, byAttribute, kept}
	p = h.Start()
	send("1 fits", 0, "")
	send("2 does not", 1, "")
	send("query", 0, "?index=audit")
	send("header", 1, "", "X-Siglake-Index", "audit")
	overGRPC(t, p.GRPC, "audit", "metadata")
	mixed := plog.NewLogs()
	record(mixed, "app-1", "of app-1", 0)
	record(mixed, "", "3 of none", 0)
	record(mixed, "app-2", "of app-2", 0)
	record(mixed, "app-1", "again of app-1", 0)
	code, answer := post(t, url(), mixed)
	require.Equal(t, http.StatusOK, code, answer)
	refused(t, url(), p.GRPC)
	p.Kill()

	h.Overlay = []string{promotions, byAttribute, soon}
	p = h.Start()
	const columns = "body, s, i, l, d, b, CAST(happened AS VARCHAR), environment"
	events := []string{
		row("0 before", nil, nil, nil, nil, nil, nil, nil),
		row("1 fits", "text", "404", "1099511627776", "1.5", true, "2026-05-17 12:00:00.000001+00", "prod"),
		row("2 does not", "text", nil, nil, nil, nil, nil, "prod"),
		row("3 of none", "text", "404", "1099511627776", "1.5", true, "2026-05-17 12:00:00.000001+00", "prod"),
	}
	eventually(t, h.Data, "siglake.events", columns, events)
	eventually(t, h.Data, "siglake.audit", "body, i", []string{row("header", nil), row("metadata", "404"), row("query", "404")})
	eventually(t, h.Data, `siglake.app-1`, "body, environment", []string{row("again of app-1", "prod"), row("of app-1", "prod")})
	eventually(t, h.Data, `siglake.app-2`, "body", []string{row("of app-2")})
	refused(t, url(), p.GRPC)
	h.Stop()

	h.Overlay = []string{promotions, byAttribute, sealed}
	p = h.Start()
	send("4 by hand", 0, "")
	send("by hand", 0, "?index=audit")
	h.Stop()
	out, err := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), "drain", "--once", "--data", h.Data).CombinedOutput()
	require.NoError(t, err, string(out))
	events = append(events, row("4 by hand", "text", "404", "1099511627776", "1.5", true, "2026-05-17 12:00:00.000001+00", "prod"))
	eventually(t, h.Data, "siglake.events", columns, events)
	eventually(t, h.Data, "siglake.audit", "body, i", []string{row("by hand", "404"), row("header", nil), row("metadata", "404"), row("query", "404")})
	verify(t, h.Data, map[string]int{"siglake.events": 5, "siglake.audit": 4, "siglake.app-1": 2, "siglake.app-2": 1})
}

func row(values ...any) string { return fmt.Sprintf("%q", values) }

func overGRPC(t *testing.T, target, index, body string) {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-siglake-index", index), patience)
	defer cancel()
	_, err = plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(logs(body, 0)))
	require.NoError(t, err)
}

// refused sends what no table may get: nothing of it is stored.
func refused(t *testing.T, url, target string) {
	t.Helper()
	for query, header := range map[string]string{
		"?index=spans": "", "?index=Audit": "", "?index=": "", "?index=a&index=a": "", "?index=a": "b",
	} {
		var kv []string
		if header != "" {
			kv = []string{"X-Siglake-Index", header}
		}
		code, answer := post(t, url+query, logs("refused", 0), kv...)
		require.Equal(t, http.StatusBadRequest, code, "%s: %s", query, answer)
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-siglake-index", "audit"), patience)
	defer cancel()
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID([16]byte{1})
	span.SetSpanID([8]byte{1})
	_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequestFromTraces(td))
	require.ErrorContains(t, err, `index "audit" holds logs, not traces`)
}
