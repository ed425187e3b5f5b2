package otelarrow_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

var (
	arrivalNS = arrival.UnixNano()
	arrivalUS = arrival.UnixMicro()
)

func TestEncodeLogs_effective_time_T16(t *testing.T) {
	t.Parallel()
	const maxNS, maxUS = math.MaxInt64, math.MaxInt64 / 1000
	for _, tc := range []struct {
		name           string
		time, observed pcommon.Timestamp
		want           row
		adjusted       otelarrow.Adjusted
	}{
		{"own_time", 1_700_000_000_000_001_999, 5_000, row{
			"timestamp": int64(1_700_000_000_000_001), "timestamp_ns": int64(1_700_000_000_000_001_999), "time_unix_nano": int64(1_700_000_000_000_001_999),
			"observed_timestamp": int64(5), "observed_time_unix_nano": int64(5_000),
		}, otelarrow.Adjusted{}},
		{"else_observed", 0, 2_999, row{
			"timestamp": int64(2), "timestamp_ns": int64(2_999), "time_unix_nano": nil,
			"observed_timestamp": int64(2), "observed_time_unix_nano": int64(2_999),
		}, otelarrow.Adjusted{}},
		{"else_arrival", 0, 0, row{
			"timestamp": arrivalUS, "timestamp_ns": arrivalNS, "time_unix_nano": nil,
			"observed_timestamp": nil, "observed_time_unix_nano": nil,
		}, otelarrow.Adjusted{}},
		{"just_fits", math.MaxInt64, 1, row{
			"timestamp": int64(maxUS), "timestamp_ns": int64(maxNS), "time_unix_nano": int64(maxNS),
			"observed_timestamp": int64(0), "observed_time_unix_nano": int64(1),
		}, otelarrow.Adjusted{}},
		{"clamped_and_raw_kept", 1 << 63, math.MaxUint64, row{
			"timestamp": int64(maxUS), "timestamp_ns": int64(maxNS), "time_unix_nano": int64(math.MinInt64),
			"observed_timestamp": int64(maxUS), "observed_time_unix_nano": int64(-1),
		}, otelarrow.Adjusted{TimesClamped: 2}},
		{"observed_clamped", 0, math.MaxUint64, row{
			"timestamp": int64(maxUS), "timestamp_ns": int64(maxNS), "time_unix_nano": nil,
			"observed_timestamp": int64(maxUS), "observed_time_unix_nano": int64(-1),
		}, otelarrow.Adjusted{TimesClamped: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rows, b := tableOf(t, oneLog(func(lr plog.LogRecord) {
				lr.SetTimestamp(tc.time)
				lr.SetObservedTimestamp(tc.observed)
			}))
			require.Equal(t, tc.want, rows[0].Only("timestamp", "timestamp_ns", "time_unix_nano", "observed_timestamp", "observed_time_unix_nano"))
			require.Equal(t, tc.adjusted, b.Adjusted)
			require.Equal(t, arrivalUS, rows[0]["ingested_at"])
			require.Equal(t, rows[0]["timestamp_ns"], b.MinTime)
			require.Equal(t, rows[0]["timestamp_ns"], b.MaxTime)
		})
	}
}

func TestEncodeLogs_floors_before_1970(t *testing.T) {
	t.Parallel()
	b, err := otelarrow.NewEncoder().EncodeLogs(time.Unix(0, -1), oneLog(func(plog.LogRecord) {}))
	require.NoError(t, err)
	defer b.Record.Release()
	require.Equal(t, row{"timestamp": int64(-1), "timestamp_ns": int64(-1), "ingested_at": int64(-1)},
		gatherAll(t, otelarrow.Logs, b.Record)[0].Only("timestamp", "timestamp_ns", "ingested_at"))
}

func TestEncodeLogs_time_range_of_the_batch(t *testing.T) {
	t.Parallel()
	ld := plog.NewLogs()
	lrs := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for _, ts := range []pcommon.Timestamp{500, 100, 900} {
		lrs.AppendEmpty().SetTimestamp(ts)
	}
	_, b := tableOf(t, ld)
	require.Equal(t, []int64{100, 900}, []int64{b.MinTime, b.MaxTime})
}

func TestEncodeLogs_all_fields(t *testing.T) {
	t.Parallel()
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.SetSchemaUrl("https://schema/res")
	ref := entity.ResourceEntityRefs(rl.Resource()).AppendEmpty()
	ref.SetType("service")
	ref.IdKeys().Append("service.name", "a\"b")
	rl.Resource().Attributes().PutStr("service.name", "shop")
	rl.Resource().Attributes().PutInt("n", 1)
	rl.Resource().SetDroppedAttributesCount(math.MaxUint32)
	sl := rl.ScopeLogs().AppendEmpty()
	sl.SetSchemaUrl("https://schema/scope")
	sl.Scope().SetName("lib")
	sl.Scope().SetVersion("1.2")
	sl.Scope().Attributes().PutBool("s", true)
	sl.Scope().SetDroppedAttributesCount(2)
	lr := sl.LogRecords().AppendEmpty()
	lr.SetTimestamp(1000)
	lr.SetTraceID(pcommon.TraceID{0xAB, 15: 1})
	lr.SetSpanID(pcommon.SpanID{0xCD, 7: 2})
	lr.SetFlags(math.MaxUint32)
	lr.SetSeverityNumber(17)
	lr.SetSeverityText("ERROR")
	lr.SetEventName("login")
	lr.SetDroppedAttributesCount(3)
	rows, b := tableOf(t, ld)
	require.Equal(t, row{
		"timestamp": int64(1), "timestamp_ns": int64(1000), "time_unix_nano": int64(1000),
		"observed_timestamp": nil, "observed_time_unix_nano": nil, "ingested_at": arrivalUS,
		"trace_id": "ab000000000000000000000000000001", "span_id": "cd00000000000002", "trace_flags": int64(math.MaxUint32),
		"severity_number": int64(17), "severity_text": "ERROR", "service_name": "shop", "event_name": "login",
		"body": nil, "body_type": "empty",
		"attributes": map[string]string{}, "attribute_types": nil, "dropped_attributes_count": int64(3),
		"resource_attributes":               map[string]string{"service.name": "shop", "n": "1"},
		"resource_attribute_types":          map[string]string{"n": "int"},
		"resource_dropped_attributes_count": int64(math.MaxUint32), "resource_schema_url": "https://schema/res",
		"resource_entity_refs": `[{"schemaUrl":"","type":"service","idKeys":["service.name","a\"b"],"descriptionKeys":[]}]`,
		"scope_name":           "lib", "scope_version": "1.2", "scope_attributes": map[string]string{"s": "true"},
		"scope_attribute_types": map[string]string{"s": "bool"}, "scope_dropped_attributes_count": int64(2),
		"scope_schema_url": "https://schema/scope", "segment_id": "seg", "segment_row": int64(40),
	}, rows[0])
	require.Zero(t, b.Adjusted)
}

func TestEncodeLogs_nothing_set(t *testing.T) {
	t.Parallel()
	rows, _ := tableOf(t, oneLog(func(plog.LogRecord) {}))
	require.Equal(t, row{
		"timestamp": arrivalUS, "timestamp_ns": arrivalNS, "time_unix_nano": nil,
		"observed_timestamp": nil, "observed_time_unix_nano": nil, "ingested_at": arrivalUS,
		"trace_id": nil, "span_id": nil, "trace_flags": int64(0),
		"severity_number": int64(0), "severity_text": nil, "service_name": nil, "event_name": nil,
		"body": nil, "body_type": "empty",
		"attributes": map[string]string{}, "attribute_types": nil, "dropped_attributes_count": int64(0),
		"resource_attributes": map[string]string{}, "resource_attribute_types": nil,
		"resource_dropped_attributes_count": int64(0), "resource_schema_url": nil, "resource_entity_refs": nil,
		"scope_name": nil, "scope_version": nil, "scope_attributes": map[string]string{}, "scope_attribute_types": nil,
		"scope_dropped_attributes_count": int64(0), "scope_schema_url": nil, "segment_id": "seg", "segment_row": int64(40),
	}, rows[0])
}

func TestEncodeLogs_service_name_is_the_attribute_as_stored(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		set  func(pcommon.Map)
		want any
	}{
		{"absent", func(pcommon.Map) {}, nil},
		{"empty", func(m pcommon.Map) { m.PutStr("service.name", "") }, ""},
		{"a_number", func(m pcommon.Map) { m.PutInt("service.name", 7) }, "7"},
		{"bad_utf8", func(m pcommon.Map) { m.PutStr("service.name", "a\xff") }, "a\uFFFD"},
	} {
		ld := plog.NewLogs()
		rl := ld.ResourceLogs().AppendEmpty()
		tc.set(rl.Resource().Attributes())
		rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		rows, _ := tableOf(t, ld)
		require.Equal(t, tc.want, rows[0]["service_name"], tc.name)
	}
}

func TestEncodeLogs_severity_out_of_range_is_kept(t *testing.T) {
	t.Parallel()
	for _, n := range []int32{-1, 0, 25, math.MaxInt32, math.MinInt32} {
		rows, _ := tableOf(t, oneLog(func(lr plog.LogRecord) { lr.SetSeverityNumber(plog.SeverityNumber(n)) }))
		require.EqualValues(t, n, rows[0]["severity_number"])
	}
}

// Each row must carry its own resource and scope, also around those without records.
func TestEncodeLogs_rows_keep_their_resource_and_scope(t *testing.T) {
	t.Parallel()
	ld := plog.NewLogs()
	var want []row
	for r, scopes := range [][]int{{}, {2, 0, 1}, {0}, {3}, {1, 1}} {
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("service.name", fmt.Sprintf("r%d", r))
		for s, n := range scopes {
			sl := rl.ScopeLogs().AppendEmpty()
			sl.Scope().SetName(fmt.Sprintf("s%d-%d", r, s))
			for range n {
				sl.LogRecords().AppendEmpty().Body().SetInt(int64(len(want)))
				want = append(want, row{"service_name": fmt.Sprintf("r%d", r), "scope_name": fmt.Sprintf("s%d-%d", r, s), "body": strconv.Itoa(len(want))})
			}
		}
	}
	rows, _ := tableOf(t, ld)
	require.Len(t, rows, len(want))
	for i := range rows {
		require.Equal(t, want[i], rows[i].Only("service_name", "scope_name", "body"))
	}
}

func TestEncode_an_empty_request_is_an_empty_batch(t *testing.T) {
	t.Parallel()
	noRecords := plog.NewLogs()
	noRecords.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	for _, ld := range []plog.Logs{plog.NewLogs(), noRecords} {
		rows, b := tableOf(t, ld)
		require.Empty(t, rows)
		require.Equal(t, []int64{0, 0}, []int64{b.MinTime, b.MaxTime})
	}
}

// One big attribute of a resource is stored once, not once per record.
func TestEncodeLogs_size_grows_with_the_request_not_with_rows_times_resource(t *testing.T) {
	t.Parallel()
	const big, records, scopes = 1 << 20, 2000, 50
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("blob", string(make([]byte, big)))
	for range scopes {
		sl := rl.ScopeLogs().AppendEmpty()
		for range records / scopes {
			sl.LogRecords().AppendEmpty()
		}
	}
	b, err := otelarrow.NewEncoder().EncodeLogs(arrival, ld)
	require.NoError(t, err)
	defer b.Record.Release()
	var total int64
	for _, c := range b.Record.Columns() {
		total += textBytes(c.Data())
	}
	require.Less(t, total, int64(big+big/10))
	sizes, err := otelarrow.RowBytes(b.Record)
	require.NoError(t, err)
	for _, n := range sizes {
		require.Greater(t, n, int64(big), "each table row repeats the resource")
	}
}
