package otelarrow_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

func oneSpan(fill func(ptrace.Span)) ptrace.Traces {
	td := ptrace.NewTraces()
	fill(td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
	return td
}

func TestEncodeTraces_times_and_duration(t *testing.T) {
	t.Parallel()
	const maxNS, maxUS = int64(math.MaxInt64), int64(math.MaxInt64 / 1000)
	for _, tc := range []struct {
		name       string
		start, end pcommon.Timestamp
		want       row
		clamped    int64
	}{
		{"usual", 5_999, 9_000, row{
			"timestamp": int64(5), "timestamp_ns": int64(5_999), "start_time_unix_nano": int64(5_999),
			"end_time_unix_nano": int64(9_000), "end_timestamp": int64(9), "duration_ns": int64(3_001),
		}, 0},
		{"end_before_start", 9_000, 5_000, row{
			"timestamp": int64(9), "timestamp_ns": int64(9_000), "start_time_unix_nano": int64(9_000),
			"end_time_unix_nano": int64(5_000), "end_timestamp": int64(5), "duration_ns": int64(-4_000),
		}, 0},
		{"no_end", 9_000, 0, row{
			"timestamp": int64(9), "timestamp_ns": int64(9_000), "start_time_unix_nano": int64(9_000),
			"end_time_unix_nano": nil, "end_timestamp": nil, "duration_ns": nil,
		}, 0},
		{"no_start", 0, 9_000, row{
			"timestamp": arrivalUS, "timestamp_ns": arrivalNS, "start_time_unix_nano": nil,
			"end_time_unix_nano": int64(9_000), "end_timestamp": int64(9), "duration_ns": nil,
		}, 0},
		{"end_over_int64", 1, math.MaxUint64, row{
			"timestamp": int64(0), "timestamp_ns": int64(1), "start_time_unix_nano": int64(1),
			"end_time_unix_nano": int64(-1), "end_timestamp": maxUS, "duration_ns": maxNS,
		}, 1},
		{"start_over_int64", math.MaxUint64, 1, row{
			"timestamp": maxUS, "timestamp_ns": maxNS, "start_time_unix_nano": int64(-1),
			"end_time_unix_nano": int64(1), "end_timestamp": int64(0), "duration_ns": int64(math.MinInt64),
		}, 1},
		{"both_over_int64", math.MaxUint64 - 10, math.MaxUint64, row{
			"timestamp": maxUS, "timestamp_ns": maxNS, "start_time_unix_nano": int64(-11),
			"end_time_unix_nano": int64(-1), "end_timestamp": maxUS, "duration_ns": int64(10),
		}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rows, b := tableOf(t, oneSpan(func(sp ptrace.Span) {
				sp.SetStartTimestamp(tc.start)
				sp.SetEndTimestamp(tc.end)
			}))
			require.Equal(t, tc.want, rows[0].Only("timestamp", "timestamp_ns", "start_time_unix_nano", "end_time_unix_nano", "end_timestamp", "duration_ns"))
			require.Equal(t, otelarrow.Adjusted{TimesClamped: tc.clamped}, b.Adjusted)
		})
	}
}

func TestEncodeTraces_enum_names(t *testing.T) {
	t.Parallel()
	kinds := map[ptrace.SpanKind]string{
		0: "UNSPECIFIED", 1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER",
		6: "6", 99: "99", -1: "-1", math.MinInt32: "-2147483648",
	}
	for n, want := range kinds {
		rows, _ := tableOf(t, oneSpan(func(sp ptrace.Span) { sp.SetKind(n) }))
		require.Equal(t, want, rows[0]["kind"])
	}
	codes := map[ptrace.StatusCode]string{0: "UNSET", 1: "OK", 2: "ERROR", 3: "3", -1: "-1"}
	for n, want := range codes {
		rows, _ := tableOf(t, oneSpan(func(sp ptrace.Span) { sp.Status().SetCode(n) }))
		require.Equal(t, want, rows[0]["status_code"])
	}
}

func TestEncodeTraces_all_fields(t *testing.T) {
	t.Parallel()
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.SetSchemaUrl("u1")
	rs.Resource().Attributes().PutStr("service.name", "shop")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.SetSchemaUrl("u2")
	ss.Scope().SetName("lib")
	fillSpan(ss.Spans().AppendEmpty())
	rows, b := tableOf(t, td)
	require.Equal(t, row{
		"timestamp": int64(1), "timestamp_ns": int64(1000), "start_time_unix_nano": int64(1000),
		"end_time_unix_nano": int64(3000), "end_timestamp": int64(3), "duration_ns": int64(2000),
		"trace_id": "01000000000000000000000000000000", "span_id": "0200000000000000", "parent_span_id": "0300000000000000",
		"trace_state": "a=b", "flags": int64(0x301), "name": "GET /", "kind": "SERVER", "service_name": "shop",
		"status_code": "ERROR", "status_message": "boom",
		"attributes": map[string]string{"k": "v"}, "attribute_types": nil, "dropped_attributes_count": int64(1),
		"events": []any{
			row{
				"timestamp_ns": int64(2000), "name": "exception", "attributes": map[string]string{"stack": "…", "n": "1"},
				"attribute_types": map[string]string{"n": "int"}, "dropped_attributes_count": int64(4),
			},
			row{
				"timestamp_ns": nil, "name": "", "attributes": map[string]string{},
				"attribute_types": nil, "dropped_attributes_count": int64(0),
			},
			row{
				"timestamp_ns": int64(math.MaxInt64), "name": "late", "attributes": map[string]string{},
				"attribute_types": nil, "dropped_attributes_count": int64(0),
			},
		},
		"dropped_events_count": int64(2),
		"links": []any{row{
			"trace_id": "09000000000000000000000000000000", "span_id": nil, "trace_state": "c=d", "flags": int64(1),
			"attributes": map[string]string{"l": "1.0"}, "attribute_types": map[string]string{"l": "double"}, "dropped_attributes_count": int64(5),
		}},
		"dropped_links_count": int64(3),
		"resource_attributes": map[string]string{"service.name": "shop"}, "resource_attribute_types": nil,
		"resource_dropped_attributes_count": int64(0), "resource_schema_url": "u1", "resource_entity_refs": nil,
		"scope_name": "lib", "scope_version": nil, "scope_attributes": map[string]string{}, "scope_attribute_types": nil,
		"scope_dropped_attributes_count": int64(0), "scope_schema_url": "u2",
		"ingested_at": arrivalUS, "segment_id": "seg", "segment_row": int64(40),
	}, rows[0])
	require.Equal(t, otelarrow.Adjusted{TimesClamped: 1}, b.Adjusted)
}

func fillSpan(sp ptrace.Span) {
	sp.SetStartTimestamp(1000)
	sp.SetEndTimestamp(3000)
	sp.SetTraceID(pcommon.TraceID{1})
	sp.SetSpanID(pcommon.SpanID{2})
	sp.SetParentSpanID(pcommon.SpanID{3})
	sp.TraceState().FromRaw("a=b")
	sp.SetFlags(0x301)
	sp.SetName("GET /")
	sp.SetKind(ptrace.SpanKindServer)
	sp.Status().SetCode(ptrace.StatusCodeError)
	sp.Status().SetMessage("boom")
	sp.Attributes().PutStr("k", "v")
	sp.SetDroppedAttributesCount(1)
	sp.SetDroppedEventsCount(2)
	sp.SetDroppedLinksCount(3)
	ev := sp.Events().AppendEmpty()
	ev.SetTimestamp(2000)
	ev.SetName("exception")
	ev.Attributes().PutStr("stack", "…")
	ev.Attributes().PutInt("n", 1)
	ev.SetDroppedAttributesCount(4)
	sp.Events().AppendEmpty()
	late := sp.Events().AppendEmpty()
	late.SetTimestamp(math.MaxUint64)
	late.SetName("late")
	ln := sp.Links().AppendEmpty()
	ln.SetTraceID(pcommon.TraceID{9})
	ln.TraceState().FromRaw("c=d")
	ln.SetFlags(1)
	ln.Attributes().PutDouble("l", 1)
	ln.SetDroppedAttributesCount(5)
}

func TestEncodeTraces_lists_of_neighbours_stay_apart(t *testing.T) {
	t.Parallel()
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range 5 {
		sp := spans.AppendEmpty()
		for e := range i {
			sp.Events().AppendEmpty().SetDroppedAttributesCount(uint32(10*i + e))
		}
	}
	rows, _ := tableOf(t, td)
	for i, r := range rows {
		require.Equal(t, []any{}, r["links"])
		events := r["events"].([]any)
		require.Len(t, events, i)
		for e, ev := range events {
			require.EqualValues(t, 10*i+e, ev.(row)["dropped_attributes_count"])
		}
	}
}
