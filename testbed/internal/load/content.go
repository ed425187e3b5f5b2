package load

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// maker writes the contents of one request: an HTTP service's access log, its server spans, its metrics.
type maker struct {
	Shape
	*rand.Rand
}

func encode(shape Shape, rng *rand.Rand) ([]byte, error) {
	m := maker{shape, rng}
	switch shape.Signal {
	case "logs":
		return (&plog.ProtoMarshaler{}).MarshalLogs(m.logs())
	case "traces":
		return (&ptrace.ProtoMarshaler{}).MarshalTraces(m.traces())
	case "metrics":
		return (&pmetric.ProtoMarshaler{}).MarshalMetrics(m.metrics())
	}
	return nil, fmt.Errorf("build request: signal %q is not one of logs, traces, metrics", shape.Signal)
}

func one[T any](m maker, of ...T) T { return of[m.IntN(len(of))] }

var syllables = strings.Fields("ka lo mi tu re sa vo ne pi da zu fe go ri ba xo")

func (m maker) word() string {
	var b strings.Builder
	for range 2 + m.IntN(3) {
		b.WriteString(one(m, syllables...))
	}
	return b.String()
}

// text is about n bytes of words.
func (m maker) text(n int) string {
	n = int(float64(n) * (0.6 + 0.8*m.Float64()))
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(m.word())
		b.WriteByte(' ')
	}
	return b.String()[:max(n, 0)]
}

func (m maker) resource(r pcommon.Resource) {
	a := r.Attributes()
	service := m.IntN(12)
	a.PutStr("service.name", fmt.Sprintf("shop-%02d", service))
	a.PutStr("service.version", fmt.Sprintf("2.%d.1", service%5))
	a.PutStr("host.name", fmt.Sprintf("node-%03d.example.internal", m.IntN(60)))
	a.PutStr("k8s.namespace.name", one(m, "shop", "billing"))
	a.PutStr("k8s.pod.name", fmt.Sprintf("shop-%02d-%08x", service, m.Uint32()))
	a.PutStr("deployment.environment.name", "production")
}

func (m maker) request(a pcommon.Map, record int) {
	a.EnsureCapacity(7)
	a.PutStr(IDKey, m.ID(uint64(record)))
	a.PutStr("http.request.method", one(m, "GET", "GET", "POST", "PUT"))
	a.PutStr("url.path", "/api/"+m.word()+"/"+m.word())
	a.PutInt("http.response.status_code", one[int64](m, 200, 200, 200, 201, 404, 500))
	a.PutStr("client.address", fmt.Sprintf("10.%d.%d.%d", m.IntN(4), m.IntN(256), m.IntN(256)))
	a.PutStr("user_agent.original", one(m, "curl/8.9.1", "Mozilla/5.0 (X11; Linux x86_64)", "Go-http-client/2.0"))
	a.PutDouble("http.server.request.duration", m.ExpFloat64()*0.04)
}

// spread calls open before the first record of each resource and add for every record.
func (m maker) spread(open func(), add func(record int)) {
	for record := range m.Batch {
		if r := record * m.Resources / m.Batch; record == 0 || r != (record-1)*m.Resources/m.Batch {
			open()
		}
		add(record)
	}
}

// placeholders: not zero, so that they are encoded; Fill overwrites them.
var (
	someTrace = pcommon.TraceID{1, 2, 3}
	someSpan  = pcommon.SpanID{1, 2, 3}
)

const fixedLog, fixedSpan = 330, 330 // encoded bytes of a record without its text

func (m maker) logs() plog.Logs {
	out := plog.NewLogs()
	var records plog.LogRecordSlice
	m.spread(func() {
		rl := out.ResourceLogs().AppendEmpty()
		m.resource(rl.Resource())
		sl := rl.ScopeLogs().AppendEmpty()
		sl.Scope().SetName("shop.http.access")
		sl.Scope().SetVersion("1.4.0")
		records = sl.LogRecords()
	}, func(record int) {
		r := records.AppendEmpty()
		r.SetTimestamp(1)
		r.SetObservedTimestamp(1)
		severity := one(m, plog.SeverityNumberInfo, plog.SeverityNumberInfo, plog.SeverityNumberWarn, plog.SeverityNumberError)
		r.SetSeverityNumber(severity)
		r.SetSeverityText(strings.ToUpper(severity.String()))
		r.SetTraceID(someTrace)
		r.SetSpanID(someSpan)
		r.SetFlags(1)
		r.Body().SetStr(m.text(m.RecordBytes - fixedLog))
		m.request(r.Attributes(), record)
	})
	return out
}

func (m maker) traces() ptrace.Traces {
	out := ptrace.NewTraces()
	var spans ptrace.SpanSlice
	m.spread(func() {
		rs := out.ResourceSpans().AppendEmpty()
		m.resource(rs.Resource())
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("shop.http.server")
		spans = ss.Spans()
	}, func(record int) {
		s := spans.AppendEmpty()
		s.SetTraceID(someTrace)
		s.SetSpanID(someSpan)
		s.SetStartTimestamp(1)
		s.SetEndTimestamp(1)
		s.SetName("GET /api/" + m.word())
		s.SetKind(one(m, ptrace.SpanKindServer, ptrace.SpanKindClient))
		if m.IntN(16) == 0 {
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Status().SetMessage("deadline exceeded")
		}
		m.request(s.Attributes(), record)
		s.Attributes().PutStr("db.query.text", "SELECT "+m.text(m.RecordBytes-fixedSpan))
	})
	return out
}

func (m maker) metrics() pmetric.Metrics {
	out := pmetric.NewMetrics()
	var metrics pmetric.MetricSlice
	m.spread(func() {
		rm := out.ResourceMetrics().AppendEmpty()
		m.resource(rm.Resource())
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName("shop.runtime")
		metrics = sm.Metrics()
	}, func(record int) {
		metric := metrics.AppendEmpty()
		switch record % 3 {
		case 0:
			metric.SetName("queue.depth")
			m.number(metric.SetEmptyGauge().DataPoints().AppendEmpty(), record)
		case 1:
			metric.SetName("http.server.requests")
			s := metric.SetEmptySum()
			s.SetIsMonotonic(true)
			s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
			m.number(s.DataPoints().AppendEmpty(), record)
		default:
			metric.SetName("http.server.request.duration")
			h := metric.SetEmptyHistogram()
			h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
			m.histogram(h.DataPoints().AppendEmpty(), record)
		}
		metric.SetUnit(one(m, "1", "s", "By"))
	})
	return out
}

func (m maker) point(a pcommon.Map, record int) {
	a.PutStr(IDKey, m.ID(uint64(record)))
	a.PutStr("http.route", "/api/"+m.word())
	a.PutInt("http.response.status_code", one[int64](m, 200, 404, 500))
}

func (m maker) number(p pmetric.NumberDataPoint, record int) {
	p.SetStartTimestamp(1)
	p.SetTimestamp(1)
	p.SetDoubleValue(m.ExpFloat64())
	m.point(p.Attributes(), record)
}

func (m maker) histogram(p pmetric.HistogramDataPoint, record int) {
	p.SetStartTimestamp(1)
	p.SetTimestamp(1)
	bounds := []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}
	counts := make([]uint64, len(bounds)+1)
	var total uint64
	for i := range counts {
		counts[i] = m.Uint64N(500)
		total += counts[i]
	}
	p.SetCount(total)
	p.SetSum(m.ExpFloat64() * 100)
	p.ExplicitBounds().FromRaw(bounds)
	p.BucketCounts().FromRaw(counts)
	m.point(p.Attributes(), record)
}
