package main

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// The data that the queries of docs/tables.md are run over, small enough to answer them by hand. All of it arrived at
// testNow, 12:00:00.

var (
	traceA = pcommon.TraceID{0x5b, 0x8e, 0xff, 0xf7, 0x98, 0x03, 0x81, 0x03, 0xd2, 0x69, 0xb6, 0x33, 0x81, 0x3f, 0xc6, 0x0c}
	traceB = pcommon.TraceID{0xbb}
)

func ago(d time.Duration) pcommon.Timestamp { return pcommon.NewTimestampFromTime(testNow.Add(-d)) }

// exampleLogs are seven records of two services, the oldest first.
func exampleLogs() plog.Logs {
	ld := plog.NewLogs()
	scopes := map[string]plog.LogRecordSlice{}
	for _, name := range []string{"shop", "cart"} {
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("service.name", name)
		scopes[name] = rl.ScopeLogs().AppendEmpty().LogRecords()
	}
	add := func(service string, age time.Duration, severity plog.SeverityNumber, text, body string) plog.LogRecord {
		r := scopes[service].AppendEmpty()
		r.SetTimestamp(ago(age))
		r.SetSeverityNumber(severity)
		r.SetSeverityText(text)
		r.Body().SetStr(body)
		return r
	}
	request := func(r plog.LogRecord, path string, status int64) {
		r.Attributes().PutStr("url.path", path)
		r.Attributes().PutInt("http.response.status_code", status)
	}
	structured := func(r plog.LogRecord, user string) {
		r.Body().SetEmptyMap().PutStr("user", user)
		r.Body().Map().PutInt("n", 1)
	}
	structured(add("shop", 90*time.Minute, plog.SeverityNumberInfo, "INFO", ""), "u1")
	r := add("shop", 50*time.Minute, plog.SeverityNumberError, "ERROR", "timeout calling cart")
	r.SetTraceID(traceA)
	r.SetSpanID(pcommon.SpanID{0xa1})
	request(r, "/pay", 503)
	r = add("shop", 49*time.Minute, plog.SeverityNumberInfo, "INFO", "paid")
	r.SetTraceID(traceA)
	r.SetSpanID(pcommon.SpanID{0xa1})
	request(r, "/pay", 200)
	add("cart", 30*time.Minute+10*time.Second, plog.SeverityNumberInfo, "INFO", "checking")
	request(add("cart", 30*time.Minute, plog.SeverityNumberError, "ERROR", "Timeout in store"), "/cart", 500)
	structured(add("shop", 20*time.Minute, plog.SeverityNumberInfo, "INFO", ""), "u2")
	structured(add("shop", 19*time.Minute, plog.SeverityNumberInfo, "INFO", ""), "u1")
	return ld
}

// exampleTraces are one trace of three spans over two services, and one span alone.
func exampleTraces() ptrace.Traces {
	td := ptrace.NewTraces()
	scopes := map[string]ptrace.SpanSlice{}
	for _, name := range []string{"shop", "cart"} {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", name)
		scopes[name] = rs.ScopeSpans().AppendEmpty().Spans()
	}
	add := func(service, name string, trace pcommon.TraceID, id, parent byte, age, took time.Duration, kind ptrace.SpanKind) ptrace.Span {
		s := scopes[service].AppendEmpty()
		s.SetName(name)
		s.SetTraceID(trace)
		s.SetSpanID(pcommon.SpanID{id})
		s.SetParentSpanID(pcommon.SpanID{parent})
		s.SetStartTimestamp(ago(age))
		s.SetEndTimestamp(ago(age - took))
		s.SetKind(kind)
		return s
	}
	const ms = time.Millisecond
	root := add("shop", "POST /pay", traceA, 0xa1, 0, 50*time.Minute, 100*ms, ptrace.SpanKindServer)
	root.Status().SetCode(ptrace.StatusCodeError)
	root.Attributes().PutStr("http.route", "/pay")
	add("shop", "call cart", traceA, 0xa2, 0xa1, 50*time.Minute-10*ms, 80*ms, ptrace.SpanKindClient)
	get := add("cart", "GET /cart", traceA, 0xa3, 0xa2, 50*time.Minute-20*ms, 50*ms, ptrace.SpanKindServer)
	get.Attributes().PutStr("http.route", "/cart")
	e := get.Events().AppendEmpty()
	e.SetName("exception")
	e.SetTimestamp(ago(50*time.Minute - 60*ms))
	e.Attributes().PutStr("exception.type", "TimeoutError")
	add("cart", "GET /cart", traceB, 0xb1, 0, 10*time.Minute, 10*ms, ptrace.SpanKindServer).Attributes().PutStr("http.route", "/cart")
	return td
}

// exampleMetrics are points of each type.
func exampleMetrics() pmetric.Metrics {
	md := pmetric.NewMetrics()
	scopes := map[string]pmetric.MetricSlice{}
	for _, name := range []string{"shop", "cart"} {
		rm := md.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutStr("service.name", name)
		scopes[name] = rm.ScopeMetrics().AppendEmpty().Metrics()
	}
	add := func(service, name string) pmetric.Metric {
		m := scopes[service].AppendEmpty()
		m.SetName(name)
		return m
	}
	g := add("shop", "system.memory.utilization").SetEmptyGauge().DataPoints()
	for i, v := range []float64{0.5, 0.7} {
		p := g.AppendEmpty()
		p.SetTimestamp(ago(time.Duration(2-i) * time.Minute))
		p.SetDoubleValue(v)
	}
	p := add("cart", "system.memory.utilization").SetEmptyGauge().DataPoints().AppendEmpty()
	p.SetTimestamp(ago(time.Minute))
	p.SetDoubleValue(0.3)

	sum := add("shop", "http.server.requests").SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	for i, v := range []int64{100, 160, 12, 72} { // a reset before the third
		p := sum.DataPoints().AppendEmpty()
		p.SetStartTimestamp(ago(time.Hour))
		if i >= 2 {
			p.SetStartTimestamp(ago(4 * time.Minute))
		}
		p.SetTimestamp(ago(time.Duration(5-i) * time.Minute))
		p.SetIntValue(v)
		p.Attributes().PutStr("http.route", "/pay")
	}

	h := add("shop", "http.server.request.duration").SetEmptyHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	hp := h.DataPoints().AppendEmpty()
	hp.SetTimestamp(ago(time.Minute))
	hp.SetCount(100)
	hp.ExplicitBounds().FromRaw([]float64{0.1, 0.5, 1, 2})
	hp.BucketCounts().FromRaw([]uint64{10, 20, 50, 20, 0})
	x := hp.Exemplars().AppendEmpty()
	x.SetTimestamp(ago(time.Minute))
	x.SetDoubleValue(1.5)
	x.SetTraceID(traceA)
	x.SetSpanID(pcommon.SpanID{0xa1})

	eh := add("cart", "rpc.server.duration").SetEmptyExponentialHistogram()
	eh.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	ep := eh.DataPoints().AppendEmpty()
	ep.SetTimestamp(ago(time.Minute))
	ep.SetCount(100)
	ep.SetScale(0)
	ep.Positive().BucketCounts().FromRaw([]uint64{10, 30, 60}) // up to 2, 4 and 8

	sp := add("cart", "gc.pause").SetEmptySummary().DataPoints().AppendEmpty()
	sp.SetTimestamp(ago(time.Minute))
	sp.SetCount(2)
	q := sp.QuantileValues().AppendEmpty()
	q.SetQuantile(0.5)
	q.SetValue(3)
	return md
}

// exampleTables is a site with the example data in its tables.
func exampleTables(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	l, err := wal.Open(t.Context(), wal.Options{FS: s.fs, Dir: s.walDir()})
	require.NoError(t, err)
	for _, signal := range []otelarrow.Signal{otelarrow.Logs, otelarrow.Traces, otelarrow.Metrics} {
		var b otelarrow.Batch
		switch signal {
		case otelarrow.Logs:
			b, err = otelarrow.EncodeLogs(exampleLogs(), testNow, memory.DefaultAllocator)
		case otelarrow.Traces:
			b, err = otelarrow.EncodeTraces(exampleTraces(), testNow, memory.DefaultAllocator)
		case otelarrow.Metrics:
			b, err = otelarrow.EncodeMetrics(exampleMetrics(), testNow, memory.DefaultAllocator)
		}
		require.NoError(t, err)
		enc, err := frame.NewEncoder(otelarrow.WALSchema(signal))
		require.NoError(t, err)
		body, err := enc.Append(nil, b.Record)
		require.NoError(t, err)
		_, err = l.Append(t.Context(), wal.Request{
			Tenant: "default", Index: signal.Table(), Schema: otelarrow.WALSchema(signal), Body: body, Rows: int(b.Record.NumRows()),
			MinTime: b.MinTime, MaxTime: b.MaxTime, Mode: wal.WaitFor,
		})
		require.NoError(t, err)
	}
	require.NoError(t, l.Close(t.Context()))
	s.ok("drain", "--once")
	return s
}
