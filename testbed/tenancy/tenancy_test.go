// Package tenancy drives the built collector as several tenants do, and as the operator of a full log sees it.
package tenancy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for a busy machine.
const patience = 90 * time.Second

func logs(text string) plog.Logs {
	ld := plog.NewLogs()
	ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr(text)
	return ld
}

func traces() ptrace.Traces {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName("s")
	span.SetTraceID([16]byte{1})
	span.SetSpanID([8]byte{1})
	return td
}

func metrics() pmetric.Metrics {
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("m")
	m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(1)
	return md
}

// post sends one request and returns the status and the body of its answer.
func post(t *testing.T, url string, body []byte, kv ...string) (code int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(kv); i += 2 {
		req.Header.Set(kv[i], kv[i+1])
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(raw)
}

func bodies(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for path, marshal := range map[string]func() ([]byte, error){
		"/v1/logs":    plogotlp.NewExportRequestFromLogs(logs("http")).MarshalJSON,
		"/v1/traces":  ptraceotlp.NewExportRequestFromTraces(traces()).MarshalJSON,
		"/v1/metrics": pmetricotlp.NewExportRequestFromMetrics(metrics()).MarshalJSON,
	} {
		body, err := marshal()
		require.NoError(t, err)
		out[path] = body
	}
	return out
}

// rows are the tables as the operator's command line lists them.
func rows(t *testing.T, data string) map[string]int64 {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), "tables", "--data", data, "-o", "json").Output()
	if err != nil {
		return nil // no catalog yet
	}
	var tables []struct {
		Namespace, Name string
		Rows            int64
	}
	require.NoError(t, json.Unmarshal(out, &tables))
	got := map[string]int64{}
	for _, table := range tables {
		got[table.Namespace+"."+table.Name] = table.Rows
	}
	return got
}

// C6: three signals of two tenants over both transports, a kill -9 before anything is drained, and each tenant's rows
// are in its own tables, also for SQL. Whoever names no tenant, or another one, is refused and is nowhere.
func TestTenants_C6(t *testing.T) {
	t.Parallel()
	h := collector.New(t, "exporters: {siglake: {wal: {segment: {max_age: 1h}}, tenancy: {enabled: true, allowed: [team-a, default]}}}\n")
	p := h.Start()
	for path, body := range bodies(t) {
		url := "http://" + p.HTTP + path
		for _, send := range []struct {
			query  string
			header []string
			want   int
		}{
			{query: "?tenant=team-a", want: 200},
			{header: []string{"X-Siglake-Tenant", "team-a"}, want: 200},
			{query: "?tenant=default", want: 200},
			{want: 400},
			{query: "?tenant=", want: 400},
			{query: "?tenant=SEALED", want: 400},
			{query: "?tenant=team-a", header: []string{"X-Siglake-Tenant", "default"}, want: 400},
			{query: "?tenant=team-b", want: 403},
			{query: "?index=X&tenant=team-a", want: 400},
		} {
			code, answer := post(t, url+send.query, body, send.header...)
			require.Equal(t, send.want, code, "%s%s: %s", path, send.query, answer)
		}
	}
	overGRPC(t, p.GRPC)
	p.Kill()

	h.Overlay = []string{"exporters: {siglake: {wal: {segment: {max_age: 100ms}}, tenancy: {enabled: true}}}\nextensions: {lakecompactor: {gate: {age: 100ms}}}\n"}
	h.Start()
	want := map[string]int64{}
	for _, index := range []string{"events", "spans", "metrics"} {
		want["tenant_team-a."+index], want["siglake."+index] = 3, 1
	}
	require.Eventually(t, func() bool { return len(rows(t, h.Data)) == len(want) }, patience, 200*time.Millisecond)
	require.Eventually(t, func() bool { return rows(t, h.Data)["tenant_team-a.events"] == 3 }, patience, 200*time.Millisecond)
	h.Stop()
	require.Equal(t, want, rows(t, h.Data))
	out, err := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), "sql", "--data", h.Data, "-o", "csv",
		`SELECT count(*) AS n, count(DISTINCT body) AS bodies FROM "tenant_team-a".events`).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "3,2")
}

// overGRPC sends each signal once as team-a, and as nobody and as somebody else.
func overGRPC(t *testing.T, target string) {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	for tenant, want := range map[string]codes.Code{"team-a": codes.OK, "": codes.InvalidArgument, "team-b": codes.PermissionDenied} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if tenant != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-siglake-tenant", tenant)
		}
		_, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(logs("grpc")))
		require.Equal(t, want, status.Code(err), "%q: %v", tenant, err)
		_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequestFromTraces(traces()))
		require.Equal(t, want, status.Code(err), "%q: %v", tenant, err)
		_, err = pmetricotlp.NewGRPCClient(conn).Export(ctx, pmetricotlp.NewExportRequestFromMetrics(metrics()))
		require.Equal(t, want, status.Code(err), "%q: %v", tenant, err)
		cancel()
	}
}

// B4: a log at its hard mark is unready, says so in one line of its log, and is ready again when the segments are
// gone, without a restart and without a request.
func TestReadiness_follows_the_hard_mark_B4(t *testing.T) {
	t.Parallel()
	h := collector.New(t, "exporters: {siglake: {wal: {max_bytes: 100000, min_free: 1, segment: {max_age: 100ms}}}}\n"+
		"service: {extensions: [ingestparams, walmirror, healthcheckv2]}\n")
	p := h.Start()
	body, err := plogotlp.NewExportRequestFromLogs(logs(strings.Repeat("x", 9000))).MarshalJSON()
	require.NoError(t, err)
	var code int
	var answer string
	for range 100 {
		if code, answer = post(t, "http://"+p.HTTP+"/v1/logs", body); code != http.StatusOK {
			break
		}
	}
	require.Equal(t, http.StatusTooManyRequests, code)
	require.Contains(t, answer, "of 100000 bytes of max_bytes in use")
	health := func(want int) func() bool {
		return func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Health+"/?pipeline=logs", http.NoBody)
			require.NoError(t, err)
			resp, err := (&http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode == want
		}
	}
	require.Eventually(t, health(http.StatusInternalServerError), patience, 200*time.Millisecond)
	require.Equal(t, 1, strings.Count(p.Output(), "a limit refuses requests; clients are told when to send again"))

	sealed, err := filepath.Glob(filepath.Join(h.WAL(), "default", "events", "sealed", "*.arrow"))
	require.NoError(t, err)
	require.NotEmpty(t, sealed)
	for _, name := range sealed { // as a drain would
		require.NoError(t, os.Remove(name))
	}
	require.Eventually(t, health(http.StatusOK), patience, 200*time.Millisecond)
	code, answer = post(t, "http://"+p.HTTP+"/v1/logs", body)
	require.Equal(t, http.StatusOK, code, answer)
	h.Stop()
}
