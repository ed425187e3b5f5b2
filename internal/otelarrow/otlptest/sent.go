package otlptest

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// The rules by which a table may differ from what was sent, named as siglake_values_adjusted_total counts them.
const (
	// DuplicateKey: of attributes with one key the first stays. Within a kvlist all stay.
	DuplicateKey = "duplicate_key"
	// InvalidUTF8: each run of bad bytes is one U+FFFD. Counted for each string that has any, once.
	InvalidUTF8 = "invalid_utf8"
	// TimeClamped: a time over 2^63-1 is counted. It is kept where a column ends in _unix_nano; those of span events and
	// of exemplars are clamped.
	TimeClamped = "time_clamped"
	// CountClamped: a count over 2^63-1 is that.
	CountClamped = "count_clamped"
)

// Adjusted is how often each rule was applied; those that were not are not in it.
type Adjusted map[string]int64

// SentLogs is what a table must give back for requests, and what must have been counted.
func SentLogs(requests ...plog.Logs) (*logspb.LogsData, Adjusted) {
	s := sent{}
	out := &logspb.LogsData{}
	for _, ld := range requests {
		for _, rl := range ld.ResourceLogs().All() {
			records := 0
			for _, sl := range rl.ScopeLogs().All() {
				records += sl.LogRecords().Len()
			}
			if records == 0 {
				continue
			}
			res, resURL := s.resource(rl.Resource()), s.text(rl.SchemaUrl())
			for _, sl := range rl.ScopeLogs().All() {
				if sl.LogRecords().Len() == 0 {
					continue
				}
				sc, scURL := s.scope(sl.Scope()), s.text(sl.SchemaUrl())
				for _, lr := range sl.LogRecords().All() {
					addRecord(out, res, resURL, sc, scURL, s.record(lr))
				}
			}
		}
	}
	return out, Adjusted(s)
}

// SentTraces is SentLogs for spans.
func SentTraces(requests ...ptrace.Traces) (*tracepb.TracesData, Adjusted) {
	s := sent{}
	out := &tracepb.TracesData{}
	for _, td := range requests {
		for _, rs := range td.ResourceSpans().All() {
			spans := 0
			for _, ss := range rs.ScopeSpans().All() {
				spans += ss.Spans().Len()
			}
			if spans == 0 {
				continue
			}
			res, resURL := s.resource(rs.Resource()), s.text(rs.SchemaUrl())
			for _, ss := range rs.ScopeSpans().All() {
				if ss.Spans().Len() == 0 {
					continue
				}
				sc, scURL := s.scope(ss.Scope()), s.text(ss.SchemaUrl())
				for _, sp := range ss.Spans().All() {
					addSpan(out, res, resURL, sc, scURL, s.span(sp))
				}
			}
		}
	}
	return out, Adjusted(s)
}

// sent applies the rules and counts them.
type sent map[string]int64

func (s sent) text(v string) string {
	var b strings.Builder
	bad, run := false, false
	for i := 0; i < len(v); {
		r, n := utf8.DecodeRuneInString(v[i:])
		if r == utf8.RuneError && n == 1 {
			if !run {
				b.WriteRune(utf8.RuneError)
			}
			bad, run = true, true
		} else {
			b.WriteString(v[i : i+n])
			run = false
		}
		i += n
	}
	if bad {
		s[InvalidUTF8]++
	}
	return b.String()
}

func (s sent) time(t pcommon.Timestamp) uint64 {
	if t > math.MaxInt64 {
		s[TimeClamped]++
	}
	return uint64(t)
}

func (s sent) clampedTime(t pcommon.Timestamp) uint64 { return min(s.time(t), math.MaxInt64) }

func (s sent) count(n uint64) uint64 {
	if n > math.MaxInt64 {
		s[CountClamped]++
	}
	return min(n, math.MaxInt64)
}

func (s sent) counts(from pcommon.UInt64Slice) []uint64 {
	var out []uint64
	for _, n := range from.All() {
		out = append(out, s.count(n))
	}
	return out
}

// attributes keeps the first of each key and sorts by key.
func (s sent) attributes(m pcommon.Map) []*commonpb.KeyValue {
	var out []*commonpb.KeyValue
	seen := map[string]bool{}
	for k, v := range m.All() {
		if k = s.text(k); seen[k] {
			s[DuplicateKey]++
			continue
		}
		seen[k] = true
		out = append(out, &commonpb.KeyValue{Key: k, Value: s.value(v)})
	}
	sortByKey(out)
	return out
}

func sortByKey(kvs []*commonpb.KeyValue) {
	slices.SortFunc(kvs, func(a, b *commonpb.KeyValue) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
}

func (s sent) value(v pcommon.Value) *commonpb.AnyValue {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return stringValue(s.text(v.Str()))
	case pcommon.ValueTypeInt:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.Int()}}
	case pcommon.ValueTypeDouble:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: oneNaN(v.Double())}}
	case pcommon.ValueTypeBool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.Bool()}}
	case pcommon.ValueTypeBytes:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: v.Bytes().AsRaw()}}
	case pcommon.ValueTypeSlice:
		a := &commonpb.ArrayValue{}
		for _, e := range v.Slice().All() {
			a.Values = append(a.Values, s.value(e))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: a}}
	case pcommon.ValueTypeMap:
		l := &commonpb.KeyValueList{}
		for k, e := range v.Map().All() {
			l.Values = append(l.Values, &commonpb.KeyValue{Key: s.text(k), Value: s.value(e)})
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: l}}
	default:
		return &commonpb.AnyValue{}
	}
}

func stringValue(v string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
}

func oneNaN(f float64) float64 {
	if math.IsNaN(f) {
		return math.NaN()
	}
	return f
}

func oneNaNs(from pcommon.Float64Slice) []float64 {
	var out []float64
	for _, f := range from.All() {
		out = append(out, oneNaN(f))
	}
	return out
}

// id is nil for an id of zeros.
func id(b []byte) []byte {
	if strings.Trim(string(b), "\x00") == "" {
		return nil
	}
	return b
}

func traceID(t pcommon.TraceID) []byte { return id(t[:]) }
func spanID(t pcommon.SpanID) []byte   { return id(t[:]) }

func (s sent) resource(r pcommon.Resource) *resourcepb.Resource {
	out := &resourcepb.Resource{Attributes: s.attributes(r.Attributes()), DroppedAttributesCount: r.DroppedAttributesCount()}
	for _, ref := range entity.ResourceEntityRefs(r).All() {
		out.EntityRefs = append(out.EntityRefs, &commonpb.EntityRef{
			SchemaUrl: s.text(ref.SchemaUrl()), Type: s.text(ref.Type()),
			IdKeys: s.texts(ref.IdKeys()), DescriptionKeys: s.texts(ref.DescriptionKeys()),
		})
	}
	return out
}

func (s sent) texts(from pcommon.StringSlice) []string {
	var out []string
	for _, v := range from.All() {
		out = append(out, s.text(v))
	}
	return out
}

func (s sent) scope(sc pcommon.InstrumentationScope) *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{
		Name: s.text(sc.Name()), Version: s.text(sc.Version()),
		Attributes: s.attributes(sc.Attributes()), DroppedAttributesCount: sc.DroppedAttributesCount(),
	}
}

func (s sent) record(lr plog.LogRecord) *logspb.LogRecord {
	return &logspb.LogRecord{
		TimeUnixNano: s.time(lr.Timestamp()), ObservedTimeUnixNano: s.time(lr.ObservedTimestamp()),
		SeverityNumber: logspb.SeverityNumber(lr.SeverityNumber()), SeverityText: s.text(lr.SeverityText()), EventName: s.text(lr.EventName()),
		Body: s.value(lr.Body()), Attributes: s.attributes(lr.Attributes()), DroppedAttributesCount: lr.DroppedAttributesCount(),
		Flags: uint32(lr.Flags()), TraceId: traceID(lr.TraceID()), SpanId: spanID(lr.SpanID()),
	}
}

func (s sent) span(sp ptrace.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId: traceID(sp.TraceID()), SpanId: spanID(sp.SpanID()), ParentSpanId: spanID(sp.ParentSpanID()),
		TraceState: s.text(sp.TraceState().AsRaw()), Flags: sp.Flags(), Name: s.text(sp.Name()), Kind: tracepb.Span_SpanKind(sp.Kind()),
		StartTimeUnixNano: s.time(sp.StartTimestamp()), EndTimeUnixNano: s.time(sp.EndTimestamp()),
		Attributes: s.attributes(sp.Attributes()), DroppedAttributesCount: sp.DroppedAttributesCount(),
		DroppedEventsCount: sp.DroppedEventsCount(), DroppedLinksCount: sp.DroppedLinksCount(),
		Status: &tracepb.Status{Code: tracepb.Status_StatusCode(sp.Status().Code()), Message: s.text(sp.Status().Message())},
	}
	for _, ev := range sp.Events().All() {
		out.Events = append(out.Events, &tracepb.Span_Event{
			TimeUnixNano: s.clampedTime(ev.Timestamp()), Name: s.text(ev.Name()),
			Attributes: s.attributes(ev.Attributes()), DroppedAttributesCount: ev.DroppedAttributesCount(),
		})
	}
	for _, ln := range sp.Links().All() {
		out.Links = append(out.Links, &tracepb.Span_Link{
			TraceId: traceID(ln.TraceID()), SpanId: spanID(ln.SpanID()), TraceState: s.text(ln.TraceState().AsRaw()), Flags: ln.Flags(),
			Attributes: s.attributes(ln.Attributes()), DroppedAttributesCount: ln.DroppedAttributesCount(),
		})
	}
	return out
}
