// Package sizes sends what is larger than anybody would send and watches the memory of the built collector.
package sizes

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// hold keeps all segments until the next life, so that one cycle of the drain meets all of them.
	hold = "extensions: {lakecompactor: {gate: {age: 1h, bytes: 1099511627776}}}\n"
	// all drains what is there without waiting, and merges nothing: a merge would begin in a life of ten seconds or more,
	// and what it holds has a bound and a test of its own (internal/lake).
	all = "extensions: {lakecompactor: {gate: {age: 100ms}, maintenance: 'off'}}\n"

	limit = "GOMEMLIMIT=256MiB"
	// room is what the collector may take under that limit, however much it is sent: the limit, and what it does not
	// count, the binary's own pages and SQLite's. Who kept all that the tests send would need more.
	room = 512 << 20
)

// life is one life of the collector: it runs do and returns the most memory that was held.
func life(t *testing.T, h *collector.Harness, overlay string, do func(*collector.Process)) int64 {
	t.Helper()
	h.Overlay, h.Env = []string{overlay}, []string{limit}
	p := h.Start()
	do(p)
	peak, err := load.PeakRSS(p.PID())
	require.NoError(t, err)
	h.Stop()
	return peak
}

func drained(t *testing.T, h *collector.Harness) func(*collector.Process) {
	t.Helper()
	return func(p *collector.Process) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		require.NoError(t, waldir.WaitDrained(ctx, h.WAL()), "last lines:\n%s", p.Tail(20))
	}
}

func post(t *testing.T, p *collector.Process, signal string, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.HTTP+"/v1/"+signal, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// ask returns the answer to a question of one cell and requires that the manifests hold for the files.
func ask(t *testing.T, h *collector.Harness, table string, rows int, sql string) string {
	t.Helper()
	r, err := tables.Open(h.Data)
	require.NoError(t, err)
	s, err := r.Verify(t.Context(), table)
	require.NoError(t, err)
	require.Empty(t, s.Wrong)
	require.Equal(t, rows, s.Count())
	var out string
	require.NoError(t, r.Query(t.Context(), table, sql, func(row []any) error {
		out = fmt.Sprint(row...)
		return nil
	}))
	require.NoError(t, r.Close())
	return out
}

// E13: more text than the offsets of one column reach (2 GiB in a full run), in bodies of 3 MiB, in one cycle of the
// drain: stored, drained, and the memory of a few of them. BND-1, LAKE-1.
func TestE13_bodies_of_three_MiB(t *testing.T) {
	bodies := 150
	if testenv.Soak() {
		bodies = 700
	}
	const size = 3 << 20
	h := collector.New(t)
	begin := time.Now()
	stored := life(t, h, hold, func(p *collector.Process) {
		text := make([]byte, size)
		rng := rand.NewChaCha8([32]byte{})
		for i := range bodies {
			_, _ = rng.Read(text)
			for k, c := range text {
				text[k] = 'a' + c%16
			}
			ld := plog.NewLogs()
			lr := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
			lr.SetTimestamp(pcommon.NewTimestampFromTime(time.Unix(1_700_000_000, int64(i))))
			lr.Body().SetStr(strconv.Itoa(i) + string(text))
			body, err := plogotlp.NewExportRequestFromLogs(ld).MarshalProto()
			require.NoError(t, err)
			post(t, p, "logs", body)
		}
	})
	sent := time.Since(begin)
	taken := life(t, h, all, drained(t, h))
	t.Logf("%d MiB in %d bodies: stored in %s with a peak of %d MiB, drained in %s with a peak of %d MiB", bodies*size>>20, bodies,
		sent.Round(time.Millisecond), stored>>20, (time.Since(begin) - sent).Round(time.Millisecond), taken>>20)
	require.Less(t, stored, int64(room))
	require.Less(t, taken, int64(room))
	require.Equal(t, strconv.Itoa(bodies), ask(t, h, "siglake.events", bodies,
		fmt.Sprintf("SELECT count(DISTINCT md5(body)) FROM t WHERE length(body) BETWEEN %d AND %d", size+1, size+4)))
}

// Records of 10,000 attributes, spans of 10,000 links, points of 1,000 exemplars, values nested as deep as they may be.
func TestSizes_of_lists(t *testing.T) {
	n := 200
	if testenv.Soak() {
		n = 400
	}
	logs, spans, points := logsOf(10_000), spansOf(10_000), pointsOf(1000)
	wire := map[string][]byte{}
	var err error
	wire["logs"], err = plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
	require.NoError(t, err)
	wire["traces"], err = ptraceotlp.NewExportRequestFromTraces(spans).MarshalProto()
	require.NoError(t, err)
	wire["metrics"], err = pmetricotlp.NewExportRequestFromMetrics(points).MarshalProto()
	require.NoError(t, err)
	h := collector.New(t)
	total := 0
	stored := life(t, h, hold, func(p *collector.Process) {
		for range n {
			for signal, body := range wire {
				post(t, p, signal, body)
				total += len(body)
			}
		}
	})
	taken := life(t, h, all, drained(t, h))
	t.Logf("%d MiB: peak memory %d MiB while stored, %d MiB while drained", total>>20, stored>>20, taken>>20)
	require.Less(t, stored, int64(room))
	require.Less(t, taken, int64(room))
	count := strconv.Itoa(n)
	require.Equal(t, count, ask(t, h, "siglake.events", n, "SELECT count(*) FROM t WHERE len(map_keys(attributes)) = 10000 AND attributes['key-9999'] = 'value-9999' AND length(body) > 90"))
	require.Equal(t, count, ask(t, h, "siglake.spans", n, "SELECT count(*) FROM t WHERE len(links) = 10000 AND links[10000].attributes['n'] = '9999'"))
	require.Equal(t, count, ask(t, h, "siglake.metrics", n, "SELECT count(*) FROM t WHERE len(exemplars) = 1000 AND exemplars[1000].value_int = 999"))
}

func logsOf(attributes int) plog.Logs {
	ld := plog.NewLogs()
	lr := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	for i := range attributes {
		lr.Attributes().PutStr(fmt.Sprintf("key-%d", i), fmt.Sprintf("value-%d", i))
	}
	v := lr.Body()
	for range 45 { // each is two messages of the 100 that protobuf allows
		v = v.SetEmptySlice().AppendEmpty()
	}
	v.SetInt(1)
	return ld
}

func spansOf(links int) ptrace.Traces {
	td := ptrace.NewTraces()
	sp := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	sp.SetName("links")
	for i := range links {
		l := sp.Links().AppendEmpty()
		l.SetTraceID(pcommon.TraceID{byte(i), byte(i >> 8), 1})
		l.SetSpanID(pcommon.SpanID{byte(i), byte(i >> 8), 1})
		l.Attributes().PutInt("n", int64(i))
	}
	return td
}

func pointsOf(exemplars int) pmetric.Metrics {
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("exemplars")
	p := m.SetEmptyGauge().DataPoints().AppendEmpty()
	for i := range exemplars {
		e := p.Exemplars().AppendEmpty()
		e.SetIntValue(int64(i))
		e.SetTraceID(pcommon.TraceID{byte(i), byte(i >> 8), 1})
		e.FilteredAttributes().PutStr("user", strconv.Itoa(i))
	}
	return md
}
