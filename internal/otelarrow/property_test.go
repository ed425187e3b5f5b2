package otelarrow_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

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
		return "[" + strings.Join(parts, " ") + "]"
	case pcommon.ValueTypeMap:
		var parts []string
		for k, e := range v.Map().All() {
			parts = append(parts, fmt.Sprintf("%q=%s", k, dump(e)))
		}
		return "{" + strings.Join(parts, " ") + "}"
	default:
		return fmt.Sprintf("%s %q", v.Type(), v.AsString())
	}
}
