package otelarrow_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// promoteAll promotes columns for all rows of a request, and checks that nothing is left allocated.
func promoteAll(tb testing.TB, data any, list ...otelarrow.Promotion) (map[string][]any, map[string]otelarrow.MisfitCounts) {
	tb.Helper()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(tb, 0)
	sig, b := encode(tb, data, mem)
	rec := roundTrip(tb, b.Record, mem)
	b.Record.Release()
	defer rec.Release()
	promotions, err := otelarrow.NewPromotions(list)
	require.NoError(tb, err)
	refs := make([]otelarrow.RowRef, b.Rows)
	for i := range refs {
		refs[i].Row = int32(i)
	}
	columns := promotions.Columns(sig)
	out, counts, err := otelarrow.Promote(sig, []otelarrow.Source{{SegmentID: "seg", Record: rec}}, refs, columns, mem)
	require.NoError(tb, err)
	values, misfits := map[string][]any{}, map[string]otelarrow.MisfitCounts{}
	for i, a := range out {
		require.True(tb, arrow.TypeEqual(columns[i].Field().Type, a.DataType()))
		require.Equal(tb, len(refs), a.Len())
		one := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{columns[i].Field()}, nil), []arrow.Array{a}, int64(a.Len()))
		for _, r := range rowsOf(tb, one) {
			values[columns[i].Name] = append(values[columns[i].Name], r[columns[i].Name])
		}
		one.Release()
		misfits[columns[i].Name] = counts[i]
		a.Release()
	}
	return values, misfits
}

func anyValue(tb testing.TB, v pcommon.Value, raw any) {
	tb.Helper()
	require.NoError(tb, v.FromRaw(raw))
}

// What each kind of value becomes in a column of each type. A miss names its reason; nil is NULL.
func TestPromote_values(t *testing.T) {
	t.Parallel()
	type miss otelarrow.Misfit
	const (
		kind     = miss(otelarrow.MisfitType)
		fraction = miss(otelarrow.MisfitFraction)
		beyond   = miss(otelarrow.MisfitRange)
	)
	at := time.Date(2026, 5, 17, 10, 0, 0, 123456789, time.UTC)
	list := []any{"a", int64(1)}
	for _, tc := range []struct {
		sent any
		want map[string]any
	}{
		{"abc", map[string]any{"string": "abc", "int": kind, "long": kind, "double": kind, "bool": kind, "timestamp": kind}},
		{"", map[string]any{"string": "", "int": kind, "long": kind, "double": kind, "bool": kind, "timestamp": kind}},
		{"200", map[string]any{"string": "200", "int": int64(200), "long": int64(200), "double": 200.0, "bool": kind, "timestamp": kind}},
		{"-7", map[string]any{"int": int64(-7), "long": int64(-7), "double": -7.0}},
		{" 7", map[string]any{"int": kind, "long": kind, "double": kind}},
		{"1_000", map[string]any{"int": kind, "long": kind, "double": kind}},
		{"0x10", map[string]any{"int": kind, "long": kind, "double": kind}},
		{"1.5", map[string]any{"int": kind, "long": kind, "double": 1.5}},
		{"1e400", map[string]any{"double": beyond}},
		{"1e-400", map[string]any{"double": 0.0}},
		{"Infinity", map[string]any{"double": math.Inf(1)}},
		{"2147483648", map[string]any{"int": beyond, "long": int64(1 << 31)}},
		{"9223372036854775808", map[string]any{"int": beyond, "long": beyond, "double": 9223372036854775808.0}},
		{strings.Repeat("x", 5000), map[string]any{"string": strings.Repeat("x", 5000), "int": kind}},
		{int64(200), map[string]any{"string": "200", "int": int64(200), "long": int64(200), "double": 200.0, "bool": kind, "timestamp": int64(0)}},
		{int64(1 << 31), map[string]any{"int": beyond, "long": int64(1 << 31)}},
		{int64(math.MinInt32), map[string]any{"int": int64(math.MinInt32)}},
		{int64(math.MinInt64), map[string]any{"long": int64(math.MinInt64), "timestamp": int64(-9223372036854776)}},
		{at.UnixNano(), map[string]any{"timestamp": at.UnixMicro()}},
		{int64(-1), map[string]any{"timestamp": int64(-1)}},
		{1.5, map[string]any{"string": "1.5", "int": fraction, "long": fraction, "double": 1.5, "bool": kind, "timestamp": kind}},
		{200.0, map[string]any{"string": "200.0", "int": int64(200), "long": int64(200), "double": 200.0}},
		{1e18, map[string]any{"int": beyond, "long": int64(1e18)}},
		{9223372036854775808.0, map[string]any{"long": beyond}},
		{-9223372036854775808.0, map[string]any{"long": int64(math.MinInt64)}},
		{math.NaN(), map[string]any{"string": `{"$double":"NaN"}`, "int": beyond, "long": beyond, "double": "NaN"}},
		{math.Inf(-1), map[string]any{"int": beyond, "double": math.Inf(-1)}},
		{true, map[string]any{"string": "true", "int": kind, "double": kind, "bool": true, "timestamp": kind}},
		{false, map[string]any{"bool": false}},
		{"TRUE", map[string]any{"bool": true}},
		{"False", map[string]any{"bool": false}},
		{"1", map[string]any{"bool": kind}},
		{"2026-05-17T12:00:00.123456789+02:00", map[string]any{"timestamp": at.UnixMicro()}},
		{"1969-12-31T23:59:59.9999999Z", map[string]any{"timestamp": int64(-1)}},
		{"2026-05-17", map[string]any{"timestamp": kind}},
		{"2026-05-17T12:00:00", map[string]any{"timestamp": kind}},
		{"0000-05-17T12:00:00Z", map[string]any{"timestamp": beyond}},
		{"9999-12-31T23:59:59-01:00", map[string]any{"timestamp": beyond}},
		{[]byte{0, 255}, map[string]any{"string": `{"$bytes":"AP8="}`, "int": kind, "bool": kind, "timestamp": kind}},
		{list, map[string]any{"string": `["a",1]`, "int": kind, "double": kind}},
		{map[string]any{"k": "v"}, map[string]any{"string": `{"k":"v"}`, "long": kind}},
		{nil, map[string]any{"string": nil, "int": nil, "long": nil, "double": nil, "bool": nil, "timestamp": nil}},
	} {
		logs := oneLog(func(lr plog.LogRecord) { anyValue(t, lr.Attributes().PutEmpty("k"), tc.sent) })
		for typ, want := range tc.want {
			var counts otelarrow.MisfitCounts
			if m, ok := want.(miss); ok {
				counts[m]++
				want = nil
			}
			values, misfits := promoteAll(t, logs, otelarrow.Promotion{Attribute: "k", Type: typ})
			got := values["k"][0]
			if f, ok := got.(float64); ok && math.IsNaN(f) {
				got = "NaN"
			}
			require.Equal(t, want, got, "%v as %s", tc.sent, typ)
			require.Equal(t, counts, misfits["k"], "%v as %s", tc.sent, typ)
		}
	}
}

// Rows find their own attributes whatever the order of keys, also those of the resource and the scope they share.
func TestPromote_origins(t *testing.T) {
	t.Parallel()
	ld := plog.NewLogs()
	for _, res := range []string{"a", "b", ""} {
		rl := ld.ResourceLogs().AppendEmpty()
		if res != "" {
			rl.Resource().Attributes().PutStr("k", "res-"+res)
		}
		for _, scope := range []string{"x", ""} {
			sl := rl.ScopeLogs().AppendEmpty()
			if scope != "" {
				sl.Scope().Attributes().PutStr("k", "scope-"+scope)
			}
			sl.LogRecords().AppendEmpty().Attributes().PutStr("k", "first")
			m := sl.LogRecords().AppendEmpty().Attributes()
			m.PutStr("other", "o")
			m.PutStr("k", "second")
			m.PutStr("last", "l")
			m = sl.LogRecords().AppendEmpty().Attributes()
			m.PutStr("last", "l")
			m.PutStr("q", "o")
			m = sl.LogRecords().AppendEmpty().Attributes()
			m.PutStr("last", "l")
			m.PutStr("x", "o")
			m.PutStr("k", "fourth")
		}
	}
	values, _ := promoteAll(t, ld,
		otelarrow.Promotion{Attribute: "k"},
		otelarrow.Promotion{Attribute: "k", From: "resource", Column: "res"},
		otelarrow.Promotion{Attribute: "k", From: "scope", Column: "scope"},
		otelarrow.Promotion{Attribute: "absent", Type: "long"},
		otelarrow.Promotion{Attribute: "k", Column: "any"},
		otelarrow.Promotion{Attribute: "k", From: "scope", Column: "any"},
		otelarrow.Promotion{Attribute: "k", From: "resource", Column: "any"})
	want := map[string][]any{}
	for _, res := range []any{"res-a", "res-b", nil} {
		for _, scope := range []any{"scope-x", nil} {
			for _, own := range []any{"first", "second", nil, "fourth"} {
				want["k"] = append(want["k"], own)
				want["res"] = append(want["res"], res)
				want["scope"] = append(want["scope"], scope)
				want["absent"] = append(want["absent"], nil)
				first := own
				for _, next := range []any{scope, res} {
					if first == nil {
						first = next
					}
				}
				want["any"] = append(want["any"], first)
			}
		}
	}
	require.Equal(t, want, values)
}

// A column of two attributes, the newer name and the older: what does not fit is counted, and the other one is taken.
func TestPromote_takes_the_first_that_fits(t *testing.T) {
	t.Parallel()
	logs := oneLog(func(lr plog.LogRecord) {
		lr.Attributes().PutStr("new", "abc")
		lr.Attributes().PutInt("old", 7)
	})
	values, misfits := promoteAll(t, logs,
		otelarrow.Promotion{Attribute: "new", Type: "int", Column: "code"},
		otelarrow.Promotion{Attribute: "old", Type: "int", Column: "code"})
	require.Equal(t, []any{int64(7)}, values["code"])
	require.Equal(t, otelarrow.MisfitCounts{otelarrow.MisfitType: 1}, misfits["code"])
}

// What many rows share is counted for each of them: so many cells are NULL.
func TestPromote_counts_rows(t *testing.T) {
	t.Parallel()
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("k", "abc")
	for range 5 {
		rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	}
	_, misfits := promoteAll(t, ld, otelarrow.Promotion{Attribute: "k", From: "resource", Type: "bool"})
	require.Equal(t, otelarrow.MisfitCounts{otelarrow.MisfitType: 5}, misfits["k"])
}

func TestPromote_spans_and_points(t *testing.T) {
	t.Parallel()
	values, _ := promoteAll(t, oneSpan(func(sp ptrace.Span) { sp.Attributes().PutInt("http.status", 404) }),
		otelarrow.Promotion{Attribute: "http.status", Type: "int"})
	require.Equal(t, map[string][]any{"http_status": {int64(404)}}, values)
	values, _ = promoteAll(t, oneMetric(func(m pmetric.Metric) {
		m.SetEmptyGauge().DataPoints().AppendEmpty().Attributes().PutStr("cpu", "3")
	}), otelarrow.Promotion{Attribute: "cpu", Type: "long", Signals: []string{"metrics"}})
	require.Equal(t, map[string][]any{"cpu": {int64(3)}}, values)
}

// Everything that is wrong is said at once, with its place, key, value and the way out.
func TestNewPromotions_refuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		list []otelarrow.Promotion
		want []string
	}{
		{"no_attribute", []otelarrow.Promotion{{}}, []string{`promote::0::attribute: "" is no attribute; give its key`}},
		{"from", []otelarrow.Promotion{{Attribute: "a", From: "span"}}, []string{`promote::0::from: "span" is not one of attributes, resource, scope`}},
		{"type", []otelarrow.Promotion{{Attribute: "a", Type: "decimal"}}, []string{`promote::0::type: "decimal" is not one of string, int, long, double, bool, timestamp`}},
		{"signal", []otelarrow.Promotion{{Attribute: "a", Signals: []string{"profiles"}}}, []string{`promote::0::signals: "profiles" is not one of logs, traces, metrics`}},
		{"signal_twice", []otelarrow.Promotion{{Attribute: "a", Signals: []string{"logs", "logs"}}}, []string{`promote::0::signals: "logs" is listed twice`}},
		{"column", []otelarrow.Promotion{{Attribute: "a", Column: "a-b"}}, []string{`promote::0::column: "a-b" cannot be a column`, "give the key column"}},
		{"default_column", []otelarrow.Promotion{{Attribute: "1st"}}, []string{`promote::0::column: "1st" cannot be a column`}},
		{"long_column", []otelarrow.Promotion{{Attribute: strings.Repeat("a", 129)}}, []string{"cannot be a column"}},
		{"own_column", []otelarrow.Promotion{{Attribute: "body"}}, []string{`promote::0::column: "body" is a column of logs already (body); give another column, or the key signals without logs`}},
		{"own_column_in_capitals", []otelarrow.Promotion{{Attribute: "Duration.ns"}}, []string{`"Duration_ns" is a column of traces already (duration_ns)`}},
		{"reserved", []otelarrow.Promotion{{Attribute: "timestamp.day"}}, []string{`promote::0::column: "timestamp_day" is reserved`}},
		{"two_types", []otelarrow.Promotion{{Attribute: "a", Type: "int"}, {Attribute: "b", Column: "a"}}, []string{`promote::1::type: "string", but another promotion to column "a" has type "int"`}},
		{"twins", []otelarrow.Promotion{{Attribute: "Key"}, {Attribute: "key"}}, []string{`promote::1::column: "key" and "Key" differ in letter case only`}},
		{"twice", []otelarrow.Promotion{{Attribute: "a"}, {Attribute: "a"}}, []string{`promote::1::attribute: "a" of attributes is promoted to column "a" twice`}},
		{"all_at_once", []otelarrow.Promotion{{}, {Attribute: "a"}, {Attribute: "b", Type: "x"}}, []string{"promote::0::attribute", "promote::2::type"}},
		{"too_many", make([]otelarrow.Promotion, 201), []string{"promote: 201 promotions are more than 200"}},
	} {
		_, err := otelarrow.NewPromotions(tc.list)
		for _, want := range tc.want {
			require.ErrorContains(t, err, want, tc.name)
		}
	}
	p, err := otelarrow.NewPromotions([]otelarrow.Promotion{
		{Attribute: "name", Signals: []string{"logs"}}, // a column of spans, and not of logs
		{Attribute: "http.größe", Type: "double", From: "scope"},
	})
	require.NoError(t, err)
	require.Len(t, p.Columns(otelarrow.Logs), 2)
	require.Equal(t, []otelarrow.PromotedColumn{
		{Name: "http_gr__e", Type: "double", Origins: []otelarrow.Origin{{From: "scope", Attribute: "http.größe"}}},
	}, p.Columns(otelarrow.Traces))
}

// BenchmarkPromote is the cost of promoted columns beside that of Gather (BenchmarkGather, the same rows).
func BenchmarkPromote(b *testing.B) {
	srcs, rows := benchSources(b, 16, 500)
	promotions, err := otelarrow.NewPromotions([]otelarrow.Promotion{
		{Attribute: "http.response.status_code", Type: "int"},
		{Attribute: "user.id"},
		{Attribute: "k8s.pod.name", From: "resource"},
		{Attribute: "absent", Type: "long"},
	})
	require.NoError(b, err)
	for n := range 5 {
		columns := promotions.Columns(otelarrow.Logs)[:n]
		b.Run(string(rune('0'+n))+"_columns", func(b *testing.B) {
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				out, _, err := otelarrow.Promote(otelarrow.Logs, srcs, rows, columns, memory.DefaultAllocator)
				if err != nil {
					b.Fatal(err)
				}
				for _, a := range out {
					a.Release()
				}
			}
			reportRate(b, before, len(rows))
		})
	}
}
