package otelarrow_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// gen makes random OTLP.
type gen struct {
	*rand.Rand
	bad bool // strings may hold bad UTF-8
}

func newGen(t *testing.T, bad bool) gen {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return gen{rand.New(rand.NewPCG(seed, 0)), bad}
}

func (g gen) str() string {
	alphabet := []string{"a", "b", "$", "$bytes", "\"", "\\", "\x00", "\n", "\x7f", "é", "漢", "\U0001F600", "{", "}", "null", " "}
	if g.bad {
		alphabet = append(alphabet, "\xff", "\xc3", "\xa9", "\xed\xa0\x80")
	}
	var s strings.Builder
	for range g.IntN(6) {
		s.WriteString(alphabet[g.IntN(len(alphabet))])
	}
	return s.String()
}

func (g gen) u64() uint64 {
	edges := []uint64{0, 0, 1, math.MaxInt64, 1 << 63, math.MaxUint64}
	if g.IntN(3) == 0 {
		return edges[g.IntN(len(edges))]
	}
	return g.Uint64() >> g.IntN(64)
}

func (g gen) f64() float64 {
	if g.IntN(2) == 0 {
		return float64(g.IntN(100)) / 4
	}
	return math.Float64frombits(g.Uint64())
}

func (g gen) value(v pcommon.Value, depth int) {
	n := 8
	if depth == 0 {
		n = 6
	}
	switch g.IntN(n) {
	case 0:
		v.SetStr(g.str())
	case 1:
		v.SetInt(int64(g.u64()))
	case 2:
		v.SetDouble(g.f64())
	case 3:
		v.SetBool(g.IntN(2) == 0)
	case 4:
		v.SetEmptyBytes().FromRaw([]byte(g.str()))
	case 5: // empty
	case 6:
		s := v.SetEmptySlice()
		for range g.IntN(4) {
			g.value(s.AppendEmpty(), depth-1)
		}
	case 7:
		g.attrs(v.SetEmptyMap(), depth-1)
	}
}

func (g gen) attrs(m pcommon.Map, depth int) {
	for range g.IntN(5) {
		g.value(m.PutEmpty(g.str()), depth)
	}
}

func (g gen) id(b []byte) {
	if g.IntN(3) > 0 {
		for i := range b {
			b[i] = byte(g.Uint32())
		}
	}
}

func (g gen) ids() (trace pcommon.TraceID, span pcommon.SpanID) {
	g.id(trace[:])
	g.id(span[:])
	return trace, span
}

func (g gen) logs() plog.Logs {
	ld := plog.NewLogs()
	for range g.IntN(4) {
		rl := ld.ResourceLogs().AppendEmpty()
		g.attrs(rl.Resource().Attributes(), 2)
		rl.SetSchemaUrl(g.str())
		for range g.IntN(3) {
			sl := rl.ScopeLogs().AppendEmpty()
			sl.Scope().SetName(g.str())
			g.attrs(sl.Scope().Attributes(), 1)
			for range g.IntN(5) {
				lr := sl.LogRecords().AppendEmpty()
				lr.SetTimestamp(pcommon.Timestamp(g.u64()))
				lr.SetObservedTimestamp(pcommon.Timestamp(g.u64()))
				trace, span := g.ids()
				lr.SetTraceID(trace)
				lr.SetSpanID(span)
				lr.SetFlags(plog.LogRecordFlags(g.Uint32()))
				lr.SetSeverityNumber(plog.SeverityNumber(g.IntN(30) - 2))
				lr.SetSeverityText(g.str())
				lr.SetEventName(g.str())
				g.value(lr.Body(), 4)
				g.attrs(lr.Attributes(), 3)
				lr.SetDroppedAttributesCount(g.Uint32())
			}
		}
	}
	return ld
}

func (g gen) traces() ptrace.Traces {
	td := ptrace.NewTraces()
	for range g.IntN(3) {
		rs := td.ResourceSpans().AppendEmpty()
		g.attrs(rs.Resource().Attributes(), 1)
		ss := rs.ScopeSpans().AppendEmpty()
		for range g.IntN(6) {
			sp := ss.Spans().AppendEmpty()
			sp.SetStartTimestamp(pcommon.Timestamp(g.u64()))
			sp.SetEndTimestamp(pcommon.Timestamp(g.u64()))
			sp.SetName(g.str())
			sp.SetKind(ptrace.SpanKind(g.IntN(8)))
			g.attrs(sp.Attributes(), 2)
			for range g.IntN(4) {
				ev := sp.Events().AppendEmpty()
				ev.SetName(g.str())
				ev.SetTimestamp(pcommon.Timestamp(g.u64()))
				g.attrs(ev.Attributes(), 2)
			}
			for range g.IntN(3) {
				ln := sp.Links().AppendEmpty()
				trace, span := g.ids()
				ln.SetTraceID(trace)
				ln.SetSpanID(span)
				g.attrs(ln.Attributes(), 2)
			}
		}
	}
	return td
}

func (g gen) metrics() pmetric.Metrics {
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for range g.IntN(8) {
		m := ms.AppendEmpty()
		m.SetName(g.str())
		g.attrs(m.Metadata(), 1)
		switch g.IntN(6) {
		case 0:
			g.numbers(m.SetEmptyGauge().DataPoints())
		case 1:
			g.numbers(m.SetEmptySum().DataPoints())
		case 2:
			h := m.SetEmptyHistogram()
			for range g.IntN(3) {
				p := h.DataPoints().AppendEmpty()
				p.SetCount(g.u64())
				for range g.IntN(4) {
					p.BucketCounts().Append(g.u64())
					p.ExplicitBounds().Append(g.f64())
				}
				g.attrs(p.Attributes(), 1)
			}
		case 3:
			h := m.SetEmptyExponentialHistogram()
			for range g.IntN(3) {
				p := h.DataPoints().AppendEmpty()
				p.SetMin(g.f64())
				p.Negative().BucketCounts().Append(g.u64(), g.u64())
			}
		case 4:
			s := m.SetEmptySummary()
			for range g.IntN(3) {
				s.DataPoints().AppendEmpty().QuantileValues().AppendEmpty().SetValue(g.f64())
			}
		case 5: // no type
		}
	}
	return md
}

func (g gen) numbers(points pmetric.NumberDataPointSlice) {
	for range g.IntN(3) {
		p := points.AppendEmpty()
		p.SetTimestamp(pcommon.Timestamp(g.u64()))
		switch g.IntN(3) {
		case 0:
			p.SetDoubleValue(g.f64())
		case 1:
			p.SetIntValue(int64(g.u64()))
		}
		for range g.IntN(3) {
			g.attrs(p.Exemplars().AppendEmpty().FilteredAttributes(), 1)
		}
	}
}
