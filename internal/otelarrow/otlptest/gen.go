package otlptest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"
)

// Gen makes random requests that reach every field of OTLP and the edges of each.
type Gen struct {
	*rand.Rand

	// Dirty also makes what cannot be stored as sent: bad UTF-8 and attributes with one key twice.
	Dirty bool
	// Texts and Times, where there are any, are all of the strings and most of the times.
	Texts []string
	Times []pcommon.Timestamp
	twice int
}

// New returns a generator that makes the same requests for the same seed.
func New(seed uint64, dirty bool) *Gen {
	return &Gen{Rand: rand.New(rand.NewPCG(seed, 0)), Dirty: dirty}
}

func pick[T any](g *Gen, from ...T) T { return from[g.IntN(len(from))] }

// one in n times.
func (g *Gen) one(n int) bool { return g.IntN(n) == 0 }

// Text is a string: most are short, some longer than what Iceberg and Parquet keep of a bound.
func (g *Gen) Text() string {
	if len(g.Texts) > 0 {
		return pick(g, g.Texts...)
	}
	parts := []string{"a", "b", "$", "$bytes", "$kvlist", "\"", "\\", "\x00", "\n", "\r\t", "\x1f", "\x7f", "é", "漢", "\U0001F600", "\U0010FFFF", "{", "}", "null", " ", "\u2028", "\uFEFF"}
	if g.Dirty {
		parts = append(parts, "\xff", "\xc3", "\xa9", "\xed\xa0\x80", "\xf0\x9f")
	}
	n := g.IntN(6)
	switch g.IntN(60) {
	case 0:
		return strings.Repeat(pick(g, "z", "漢", "\U0010FFFF"), 4097)
	case 1:
		n = 12 + g.IntN(10)
	}
	var s strings.Builder
	for range n {
		s.WriteString(pick(g, parts...))
	}
	return s.String()
}

// Uint is a number of 64 bits: edges more often than by chance.
func (g *Gen) Uint() uint64 {
	if g.one(3) {
		return pick(g, uint64(0), 0, 1, math.MaxInt64, 1<<63, math.MaxUint64, 1<<53+1)
	}
	return g.Uint64() >> g.IntN(64)
}

// Time is a time of a few days, to the nanosecond around midnight, not set, or at an edge of its 64 bits.
func (g *Gen) Time() pcommon.Timestamp {
	if len(g.Times) > 0 && !g.one(4) {
		return pick(g, g.Times...)
	}
	midnight := time.Date(2026, 5, 17, 0, 0, 0, 0, time.UTC).AddDate(0, 0, g.IntN(3))
	switch g.IntN(8) {
	case 0:
		return 0
	case 1:
		return pick(g, pcommon.Timestamp(1), 999, 1000, math.MaxInt64, 1<<63, math.MaxUint64)
	case 2, 3:
		return pcommon.Timestamp(midnight.UnixNano() + pick(g, int64(-1001), -1000, -1, 0, 1, 999, 1000))
	default:
		return pcommon.Timestamp(midnight.UnixNano() + g.Int64N(int64(24*time.Hour)))
	}
}

// Double is any double, edges more often than by chance.
func (g *Gen) Double() float64 {
	switch g.IntN(3) {
	case 0:
		return float64(g.IntN(100)) / 4
	case 1:
		return pick(g, 0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64,
			math.SmallestNonzeroFloat64, 1e21, 1e-7, 9007199254740993, math.Float64frombits(0x7ff0000000000001))
	default:
		return math.Float64frombits(g.Uint64())
	}
}

// value sets v, nested at most depth deep or, rarely, far deeper.
func (g *Gen) value(v pcommon.Value, depth int) {
	if depth > 0 && g.one(100) {
		for range 12 { // protobuf ends at a depth of 100 messages, these are 60
			v = v.SetEmptySlice().AppendEmpty()
			v = v.SetEmptyMap().PutEmpty(g.key())
		}
		depth = 0
	}
	kinds := 8
	if depth <= 0 {
		kinds = 6
	}
	switch g.IntN(kinds) {
	case 0:
		v.SetStr(g.Text())
	case 1:
		v.SetInt(pick(g, int64(g.Uint()), math.MinInt64, -1))
	case 2:
		v.SetDouble(g.Double())
	case 3:
		v.SetBool(g.one(2))
	case 4:
		v.SetEmptyBytes().FromRaw([]byte(g.Text()))
	case 5: // empty
	case 6:
		s := v.SetEmptySlice()
		for range g.IntN(4) {
			g.value(s.AppendEmpty(), depth-1)
		}
	case 7:
		g.attributes(v.SetEmptyMap(), depth-1)
	}
}

// twin marks keys that become one key in settle; pdata makes no key twice by itself.
const twin = "twin-%06d"

func (g *Gen) key() string {
	if g.Dirty && g.one(4) {
		g.twice++
		return fmt.Sprintf(twin, g.twice%1_000_000)
	}
	return pick(g, g.Text(), g.Text(), "service.name", "k")
}

func (g *Gen) attributes(m pcommon.Map, depth int) {
	n := g.IntN(5)
	if g.one(80) {
		n = 50 // more than are compared one by one
	}
	for range n {
		g.value(m.PutEmpty(g.key()), depth)
	}
}

// settle makes all twins one key, which in protobuf is a matter of bytes of the same length.
func settle(wire []byte) []byte {
	mark := []byte(twin[:5])
	for at := 0; ; {
		i := bytes.Index(wire[at:], mark)
		if i < 0 {
			return wire
		}
		at += i + len(mark)
		if end := at + 6; end <= len(wire) && bytes.Trim(wire[at:end], "0123456789") == nil {
			copy(wire[at:end], "xxxxxx")
		}
	}
}

func (g *Gen) id(b []byte) {
	if g.IntN(3) > 0 {
		for i := range b {
			b[i] = byte(g.Uint32())
		}
	}
}

func (g *Gen) ids() (trace pcommon.TraceID, span pcommon.SpanID) {
	g.id(trace[:])
	g.id(span[:])
	return trace, span
}

func (g *Gen) dropped() uint32 { return pick(g, 0, 1, g.Uint32(), math.MaxUint32) }

func (g *Gen) resource(r pcommon.Resource) {
	if g.one(4) {
		r.Attributes().PutStr("service.name", g.Text())
	}
	g.attributes(r.Attributes(), 2)
	r.SetDroppedAttributesCount(g.dropped())
	if g.one(4) {
		for range 1 + g.IntN(3) {
			ref := entity.ResourceEntityRefs(r).AppendEmpty()
			ref.SetSchemaUrl(g.Text())
			ref.SetType(g.Text())
			for range g.IntN(3) {
				ref.IdKeys().Append(g.Text())
				ref.DescriptionKeys().Append(g.Text())
			}
		}
	}
}

func (g *Gen) scope(s pcommon.InstrumentationScope) {
	s.SetName(g.Text())
	s.SetVersion(g.Text())
	g.attributes(s.Attributes(), 1)
	s.SetDroppedAttributesCount(g.dropped())
}

// Logs makes a request of log records.
func (g *Gen) Logs() (plog.Logs, error) {
	ld := plog.NewLogs()
	for range g.IntN(4) {
		rl := ld.ResourceLogs().AppendEmpty()
		g.resource(rl.Resource())
		rl.SetSchemaUrl(g.Text())
		for range g.IntN(3) {
			sl := rl.ScopeLogs().AppendEmpty()
			g.scope(sl.Scope())
			sl.SetSchemaUrl(g.Text())
			for range g.IntN(5) {
				g.record(sl.LogRecords().AppendEmpty())
			}
			if g.one(4) {
				sl.CopyTo(rl.ScopeLogs().AppendEmpty())
			}
		}
		if g.one(4) {
			rl.CopyTo(ld.ResourceLogs().AppendEmpty())
		}
	}
	wire, err := (&plog.ProtoMarshaler{}).MarshalLogs(ld)
	if err != nil {
		return ld, err
	}
	return (&plog.ProtoUnmarshaler{}).UnmarshalLogs(settle(wire))
}

func (g *Gen) record(lr plog.LogRecord) {
	lr.SetTimestamp(g.Time())
	lr.SetObservedTimestamp(g.Time())
	trace, span := g.ids()
	lr.SetTraceID(trace)
	lr.SetSpanID(span)
	lr.SetFlags(plog.LogRecordFlags(g.dropped()))
	lr.SetSeverityNumber(plog.SeverityNumber(pick(g, g.IntN(30)-2, math.MinInt32, math.MaxInt32)))
	lr.SetSeverityText(g.Text())
	lr.SetEventName(g.Text())
	g.value(lr.Body(), 4)
	g.attributes(lr.Attributes(), 3)
	lr.SetDroppedAttributesCount(g.dropped())
}

// Traces makes a request of spans.
func (g *Gen) Traces() (ptrace.Traces, error) {
	td := ptrace.NewTraces()
	for range g.IntN(4) {
		rs := td.ResourceSpans().AppendEmpty()
		g.resource(rs.Resource())
		rs.SetSchemaUrl(g.Text())
		for range g.IntN(3) {
			ss := rs.ScopeSpans().AppendEmpty()
			g.scope(ss.Scope())
			ss.SetSchemaUrl(g.Text())
			for range g.IntN(5) {
				g.span(ss.Spans().AppendEmpty())
			}
		}
		if g.one(4) {
			rs.CopyTo(td.ResourceSpans().AppendEmpty())
		}
	}
	wire, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		return td, err
	}
	return (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(settle(wire))
}

func (g *Gen) span(sp ptrace.Span) {
	sp.SetStartTimestamp(g.Time())
	sp.SetEndTimestamp(g.Time())
	trace, span := g.ids()
	_, parent := g.ids()
	sp.SetTraceID(trace)
	sp.SetSpanID(span)
	sp.SetParentSpanID(parent)
	sp.TraceState().FromRaw(g.Text())
	sp.SetFlags(g.dropped())
	sp.SetName(g.Text())
	sp.SetKind(ptrace.SpanKind(pick(g, g.IntN(8), -1, math.MaxInt32)))
	sp.Status().SetCode(ptrace.StatusCode(pick(g, g.IntN(4), -1)))
	sp.Status().SetMessage(g.Text())
	g.attributes(sp.Attributes(), 2)
	sp.SetDroppedAttributesCount(g.dropped())
	sp.SetDroppedEventsCount(g.dropped())
	sp.SetDroppedLinksCount(g.dropped())
	for range g.IntN(4) {
		ev := sp.Events().AppendEmpty()
		ev.SetTimestamp(g.Time())
		ev.SetName(g.Text())
		g.attributes(ev.Attributes(), 2)
		ev.SetDroppedAttributesCount(g.dropped())
	}
	for range g.IntN(3) {
		ln := sp.Links().AppendEmpty()
		trace, span := g.ids()
		ln.SetTraceID(trace)
		ln.SetSpanID(span)
		ln.TraceState().FromRaw(g.Text())
		ln.SetFlags(g.dropped())
		g.attributes(ln.Attributes(), 2)
		ln.SetDroppedAttributesCount(g.dropped())
	}
}
