package otelarrow_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

const rounds = 40

// From the table alone the values that were sent can be rebuilt, all but the
// order of attributes.
func TestProperty_logs_can_be_rebuilt(t *testing.T) {
	t.Parallel()
	g := newGen(t, false)
	for range rounds {
		ld := g.logs()
		rows, b := tableOf(t, ld)
		require.Len(t, rows, ld.LogRecordCount())
		require.Zero(t, b.Adjusted.InvalidUTF8+b.Adjusted.DuplicateKeys)
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, lr := range sl.LogRecords().All() {
					r := rows[0]
					rows = rows[1:]
					sameAttrs(t, rl.Resource().Attributes(), r, "resource_attributes", "resource_attribute_types")
					sameAttrs(t, sl.Scope().Attributes(), r, "scope_attributes", "scope_attribute_types")
					sameAttrs(t, lr.Attributes(), r, "attributes", "attribute_types")
					sameBody(t, lr.Body(), r)
					sameLog(t, lr, r)
				}
			}
		}
	}
}

func sameLog(t *testing.T, lr plog.LogRecord, r row) {
	t.Helper()
	trace, span := lr.TraceID(), lr.SpanID()
	want := row{
		"time_unix_nano": nonZero(uint64(lr.Timestamp())), "observed_time_unix_nano": nonZero(uint64(lr.ObservedTimestamp())),
		"trace_id": hexID(trace[:]), "span_id": hexID(span[:]), "trace_flags": int64(lr.Flags()),
		"severity_number": int64(lr.SeverityNumber()), "severity_text": nonEmpty(lr.SeverityText()), "event_name": nonEmpty(lr.EventName()),
		"dropped_attributes_count": int64(lr.DroppedAttributesCount()),
	}
	names := make([]string, 0, len(want))
	for n := range want {
		names = append(names, n)
	}
	require.Equal(t, want, r.only(names...))
	ns := r["timestamp_ns"].(int64)
	require.Equal(t, ns/1000, r["timestamp"])
}

func nonZero(u uint64) any {
	if u == 0 {
		return nil
	}
	return int64(u)
}

func nonEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func hexID(id []byte) any {
	if s := hex.EncodeToString(id); strings.Trim(s, "0") != "" {
		return s
	}
	return nil
}

func TestProperty_spans_can_be_rebuilt(t *testing.T) {
	t.Parallel()
	g := newGen(t, false)
	for range rounds {
		td := g.traces()
		rows, _ := tableOf(t, td)
		require.Len(t, rows, td.SpanCount())
		for _, rs := range td.ResourceSpans().All() {
			for _, sp := range rs.ScopeSpans().At(0).Spans().All() {
				r := rows[0]
				rows = rows[1:]
				require.Equal(t, sp.Name(), r["name"])
				sameAttrs(t, sp.Attributes(), r, "attributes", "attribute_types")
				events, links := r["events"].([]any), r["links"].([]any)
				require.Len(t, events, sp.Events().Len())
				require.Len(t, links, sp.Links().Len())
				for i, ev := range sp.Events().All() {
					require.Equal(t, ev.Name(), events[i].(row)["name"])
					sameAttrs(t, ev.Attributes(), events[i].(row), "attributes", "attribute_types")
				}
				for i, ln := range sp.Links().All() {
					trace := ln.TraceID()
					require.Equal(t, hexID(trace[:]), links[i].(row)["trace_id"])
					sameAttrs(t, ln.Attributes(), links[i].(row), "attributes", "attribute_types")
				}
			}
		}
	}
}

func TestProperty_metrics_one_row_for_each_point(t *testing.T) {
	t.Parallel()
	g := newGen(t, false)
	for range rounds {
		md := g.metrics()
		rows, b := tableOf(t, md)
		require.Len(t, rows, md.DataPointCount())
		empty := 0
		for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
			n := pointsOf(m)
			if n == 0 {
				empty++
			}
			for _, r := range rows[:n] {
				require.Equal(t, m.Name(), r["metric_name"])
				sameAttrs(t, m.Metadata(), r, "metadata", "metadata_types")
			}
			rows = rows[n:]
		}
		require.Equal(t, empty, b.PointlessMetrics+b.TypelessMetrics)
	}
}

func pointsOf(m pmetric.Metric) int {
	one := pmetric.NewMetrics()
	m.CopyTo(one.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty())
	return one.DataPointCount()
}

// tableOf checks that all text is UTF-8, that rows are complete and that no map has a key twice.
func TestProperty_any_bytes_in_strings(t *testing.T) {
	t.Parallel()
	g := newGen(t, true)
	for range rounds {
		ld, td, md := g.logs(), g.traces(), g.metrics()
		logs, _ := tableOf(t, ld)
		require.Len(t, logs, ld.LogRecordCount())
		spans, _ := tableOf(t, td)
		require.Len(t, spans, td.SpanCount())
		points, _ := tableOf(t, md)
		require.Len(t, points, md.DataPointCount())
	}
}

// sameAttrs rebuilds attributes from a map and its types and compares.
func sameAttrs(t *testing.T, want pcommon.Map, r row, attrs, types string) {
	t.Helper()
	texts := r[attrs].(map[string]string)
	names, _ := r[types].(map[string]string)
	require.Len(t, texts, want.Len())
	for k, v := range want.All() {
		require.Contains(t, texts, k)
		require.Equal(t, dump(v), dump(rebuild(t, texts[k], names[k])), "%s of %q", attrs, k)
	}
}

func sameBody(t *testing.T, want pcommon.Value, r row) {
	t.Helper()
	if r["body"] == nil {
		require.Equal(t, "empty", r["body_type"])
		require.Equal(t, pcommon.ValueTypeEmpty, want.Type())
		return
	}
	typ, _ := r["body_type"].(string)
	require.Equal(t, dump(want), dump(rebuild(t, r["body"].(string), typ)))
}

// rebuild is the reader's side of the rules in docs/tables.md: a value from its text and type.
func rebuild(t *testing.T, text, typ string) pcommon.Value {
	t.Helper()
	v := pcommon.NewValueEmpty()
	if typ == "" {
		v.SetStr(text)
		return v
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	rebuildJSON(t, dec, v)
	_, err := dec.Token()
	require.ErrorIs(t, err, io.EOF, "%s", text)
	got := map[pcommon.ValueType]string{
		pcommon.ValueTypeInt: "int", pcommon.ValueTypeDouble: "double", pcommon.ValueTypeBool: "bool", pcommon.ValueTypeBytes: "bytes",
		pcommon.ValueTypeSlice: "array", pcommon.ValueTypeMap: "kvlist", pcommon.ValueTypeEmpty: "empty",
	}[v.Type()]
	require.Equal(t, typ, got, "type of %s", text)
	return v
}

func rebuildJSON(t *testing.T, dec *json.Decoder, v pcommon.Value) {
	t.Helper()
	tok, err := dec.Token()
	require.NoError(t, err)
	switch tok := tok.(type) {
	case nil:
	case bool:
		v.SetBool(tok)
	case string:
		v.SetStr(tok)
	case json.Number:
		if strings.ContainsAny(tok.String(), ".e") {
			f, err := tok.Float64()
			require.NoError(t, err)
			v.SetDouble(f)
			return
		}
		n, err := tok.Int64()
		require.NoError(t, err)
		v.SetInt(n)
	case json.Delim:
		if tok == '[' {
			s := v.SetEmptySlice()
			for dec.More() {
				rebuildJSON(t, dec, s.AppendEmpty())
			}
		} else {
			rebuildObject(t, dec, v)
		}
		_, err := dec.Token()
		require.NoError(t, err)
	}
}

func rebuildObject(t *testing.T, dec *json.Decoder, v pcommon.Value) {
	t.Helper()
	m := v.SetEmptyMap()
	for dec.More() {
		tok, err := dec.Token()
		require.NoError(t, err)
		switch key := tok.(string); key {
		case "$bytes":
			text, err := dec.Token()
			require.NoError(t, err)
			b, err := base64.StdEncoding.DecodeString(text.(string))
			require.NoError(t, err)
			v.SetEmptyBytes().FromRaw(b)
			return
		case "$double":
			text, err := dec.Token()
			require.NoError(t, err)
			f, err := strconv.ParseFloat(text.(string), 64)
			require.NoError(t, err)
			v.SetDouble(f)
			return
		case "$kvlist":
			pairs := pcommon.NewValueEmpty()
			rebuildJSON(t, dec, pairs)
			for _, p := range pairs.Slice().All() {
				p.Slice().At(1).CopyTo(m.PutEmpty(p.Slice().At(0).Str()))
			}
			return
		default:
			rebuildJSON(t, dec, m.PutEmpty(key))
		}
	}
}

// dump spells a value so that equal text means an equal value; all NaN are one.
func dump(v pcommon.Value) string {
	switch v.Type() {
	case pcommon.ValueTypeDouble:
		if math.IsNaN(v.Double()) {
			return "double NaN"
		}
		return fmt.Sprintf("double %x", math.Float64bits(v.Double()))
	case pcommon.ValueTypeSlice:
		var parts []string
		for _, e := range v.Slice().All() {
			parts = append(parts, dump(e))
		}
		return fmt.Sprintf("[%s]", strings.Join(parts, " "))
	case pcommon.ValueTypeMap:
		var parts []string
		for k, e := range v.Map().All() {
			parts = append(parts, fmt.Sprintf("%q=%s", k, dump(e)))
		}
		return fmt.Sprintf("{%s}", strings.Join(parts, " "))
	default:
		return fmt.Sprintf("%s %q", v.Type(), v.AsString())
	}
}
