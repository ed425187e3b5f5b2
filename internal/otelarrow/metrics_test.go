package otelarrow_test

import (
	"maps"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

func oneMetric(fill func(pmetric.Metric)) pmetric.Metrics {
	md := pmetric.NewMetrics()
	fill(md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty())
	return md
}

// distributionColumns are those that only some metric types fill.
var distributionColumns = []string{
	"metric_type", "aggregation_temporality", "is_monotonic", "value_double", "value_int",
	"count", "sum", "min", "max", "bucket_counts", "explicit_bounds", "scale", "zero_count", "zero_threshold",
	"positive_offset", "positive_bucket_counts", "negative_offset", "negative_bucket_counts", "quantiles",
}

// typed is the row of distributionColumns, NULL but for what is given.
func typed(given row) row {
	want := row{}.Only(distributionColumns...)
	maps.Copy(want, given)
	return want
}

func TestEncodeMetrics_each_type_fills_its_columns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		fill func(pmetric.Metric)
		want row
	}{
		{
			"gauge_double", func(m pmetric.Metric) { m.SetEmptyGauge().DataPoints().AppendEmpty().SetDoubleValue(1.5) },
			row{"metric_type": "gauge", "value_double": 1.5},
		},
		{
			"gauge_int", func(m pmetric.Metric) { m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(math.MinInt64) },
			row{"metric_type": "gauge", "value_int": int64(math.MinInt64)},
		},
		{
			"gauge_no_value", func(m pmetric.Metric) { m.SetEmptyGauge().DataPoints().AppendEmpty() },
			row{"metric_type": "gauge"},
		},
		{"sum", func(m pmetric.Metric) {
			s := m.SetEmptySum()
			s.SetIsMonotonic(true)
			s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
			s.DataPoints().AppendEmpty().SetIntValue(0)
		}, row{"metric_type": "sum", "value_int": int64(0), "is_monotonic": true, "aggregation_temporality": "CUMULATIVE"}},
		{"sum_unknown_temporality", func(m pmetric.Metric) {
			s := m.SetEmptySum()
			s.SetAggregationTemporality(9)
			s.DataPoints().AppendEmpty()
		}, row{"metric_type": "sum", "is_monotonic": false, "aggregation_temporality": "9"}},
		{"histogram", fillHistogram, row{
			"metric_type": "histogram", "aggregation_temporality": "DELTA", "count": int64(6), "sum": -2.5, "min": -1.0, "max": 9.0,
			"bucket_counts": []any{int64(1), int64(2), int64(3)}, "explicit_bounds": []any{0.5, 1.0},
		}},
		{"histogram_bare", func(m pmetric.Metric) { m.SetEmptyHistogram().DataPoints().AppendEmpty() }, row{
			"metric_type": "histogram", "aggregation_temporality": "UNSPECIFIED", "count": int64(0),
			"bucket_counts": []any{}, "explicit_bounds": []any{},
		}},
		{"exponential_histogram", fillExponential, row{
			"metric_type": "exponential_histogram", "aggregation_temporality": "CUMULATIVE", "count": int64(7), "sum": 1.0, "min": nil, "max": 3.0,
			"scale": int64(-11), "zero_count": int64(2), "zero_threshold": 0.25,
			"positive_offset": int64(math.MinInt32), "positive_bucket_counts": []any{int64(1), int64(4)},
			"negative_offset": int64(math.MaxInt32), "negative_bucket_counts": []any{},
		}},
		{"summary", fillSummary, row{
			"metric_type": "summary", "count": int64(3), "sum": 4.5,
			"quantiles": []any{row{"quantile": 0.5, "value": 1.0}, row{"quantile": 2.0, "value": -1.0}},
		}},
		{
			"summary_bare", func(m pmetric.Metric) { m.SetEmptySummary().DataPoints().AppendEmpty() },
			row{"metric_type": "summary", "count": int64(0), "sum": 0.0, "quantiles": []any{}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rows, b := tableOf(t, oneMetric(tc.fill))
			require.Len(t, rows, 1)
			require.Equal(t, typed(tc.want), rows[0].Only(distributionColumns...))
			require.Zero(t, b.Adjusted)
		})
	}
}

func fillHistogram(m pmetric.Metric) {
	h := m.SetEmptyHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	p := h.DataPoints().AppendEmpty()
	p.SetCount(6)
	p.SetSum(-2.5)
	p.SetMin(-1)
	p.SetMax(9)
	p.BucketCounts().FromRaw([]uint64{1, 2, 3})
	p.ExplicitBounds().FromRaw([]float64{0.5, 1})
}

func fillExponential(m pmetric.Metric) {
	h := m.SetEmptyExponentialHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	p := h.DataPoints().AppendEmpty()
	p.SetCount(7)
	p.SetSum(1)
	p.SetMax(3)
	p.SetScale(-11)
	p.SetZeroCount(2)
	p.SetZeroThreshold(0.25)
	p.Positive().SetOffset(math.MinInt32)
	p.Positive().BucketCounts().FromRaw([]uint64{1, 4})
	p.Negative().SetOffset(math.MaxInt32)
}

func fillSummary(m pmetric.Metric) {
	p := m.SetEmptySummary().DataPoints().AppendEmpty()
	p.SetCount(3)
	p.SetSum(4.5)
	for _, q := range [][2]float64{{0.5, 1}, {2, -1}} {
		v := p.QuantileValues().AppendEmpty()
		v.SetQuantile(q[0])
		v.SetValue(q[1])
	}
}

// Rows of all types in one batch: what one type leaves out must not shift another's.
func TestEncodeMetrics_types_side_by_side(t *testing.T) {
	t.Parallel()
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	fills := []func(pmetric.Metric){
		func(m pmetric.Metric) { m.SetEmptyGauge().DataPoints().AppendEmpty().SetDoubleValue(1) },
		fillHistogram, fillSummary, fillExponential, fillHistogram,
		func(m pmetric.Metric) { m.SetEmptySum().DataPoints().AppendEmpty().SetIntValue(2) },
		fillExponential,
	}
	var want []row
	for i, fill := range fills {
		m := ms.AppendEmpty()
		m.SetName(strconv.Itoa(i))
		fill(m)
		single, _ := tableOf(t, oneMetric(fill))
		want = append(want, single[0].Only(distributionColumns...))
	}
	rows, _ := tableOf(t, md)
	require.Len(t, rows, len(want))
	for i, r := range rows {
		require.Equal(t, strconv.Itoa(i), r["metric_name"])
		require.Equal(t, want[i], r.Only(distributionColumns...))
	}
}

func TestEncodeMetrics_all_other_fields(t *testing.T) {
	t.Parallel()
	md := oneMetric(func(m pmetric.Metric) {
		m.SetName("http.requests")
		m.SetUnit("1")
		m.SetDescription("text")
		m.Metadata().PutStr("a", "b")
		m.Metadata().PutInt("c", 1)
		p := m.SetEmptyGauge().DataPoints().AppendEmpty()
		p.SetTimestamp(2_500)
		p.SetStartTimestamp(math.MaxUint64)
		p.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		p.Attributes().PutStr("k", "v")
		ex := p.Exemplars().AppendEmpty()
		ex.SetTimestamp(7)
		ex.SetDoubleValue(0.5)
		ex.SetTraceID(pcommon.TraceID{1})
		ex.FilteredAttributes().PutBool("f", true)
		ex = p.Exemplars().AppendEmpty()
		ex.SetIntValue(-3)
		ex.SetSpanID(pcommon.SpanID{2})
		p.Exemplars().AppendEmpty()
	})
	md.ResourceMetrics().At(0).Resource().Attributes().PutStr("service.name", "shop")
	md.ResourceMetrics().At(0).SetSchemaUrl("u1")
	rows, b := tableOf(t, md)
	want := typed(row{"metric_type": "gauge"})
	maps.Copy(want, (row{
		"timestamp": int64(2), "timestamp_ns": int64(2_500), "time_unix_nano": int64(2_500), "start_time_unix_nano": int64(-1),
		"metric_name": "http.requests", "unit": "1", "description": "text",
		"metadata": map[string]string{"a": "b", "c": "1"}, "metadata_types": map[string]string{"c": "int"},
		"service_name": "shop", "flags": int64(1), "attributes": map[string]string{"k": "v"}, "attribute_types": nil,
		"exemplars": []any{
			row{
				"timestamp_ns": int64(7), "value_double": 0.5, "value_int": nil, "trace_id": "01000000000000000000000000000000", "span_id": nil,
				"filtered_attributes": map[string]string{"f": "true"}, "filtered_attribute_types": map[string]string{"f": "bool"},
			},
			row{
				"timestamp_ns": nil, "value_double": nil, "value_int": int64(-3), "trace_id": nil, "span_id": "0200000000000000",
				"filtered_attributes": map[string]string{}, "filtered_attribute_types": nil,
			},
			row{
				"timestamp_ns": nil, "value_double": nil, "value_int": nil, "trace_id": nil, "span_id": nil,
				"filtered_attributes": map[string]string{}, "filtered_attribute_types": nil,
			},
		},
		"resource_attributes": map[string]string{"service.name": "shop"}, "resource_attribute_types": nil,
		"resource_dropped_attributes_count": int64(0), "resource_schema_url": "u1", "resource_entity_refs": nil,
		"scope_name": nil, "scope_version": nil, "scope_attributes": map[string]string{}, "scope_attribute_types": nil,
		"scope_dropped_attributes_count": int64(0), "scope_schema_url": nil,
		"ingested_at": arrivalUS, "segment_id": "seg", "segment_row": int64(40),
	}))
	require.Equal(t, want, rows[0])
	require.Equal(t, otelarrow.Adjusted{TimesClamped: 1}, b.Adjusted)
}

func TestEncodeMetrics_time_else_arrival(t *testing.T) {
	t.Parallel()
	rows, b := tableOf(t, oneMetric(func(m pmetric.Metric) {
		dps := m.SetEmptyGauge().DataPoints()
		dps.AppendEmpty().SetStartTimestamp(5)
		dps.AppendEmpty().SetTimestamp(1 << 63)
	}))
	require.Equal(t, row{"timestamp": arrivalUS, "timestamp_ns": arrivalNS, "time_unix_nano": nil, "start_time_unix_nano": int64(5)},
		rows[0].Only("timestamp", "timestamp_ns", "time_unix_nano", "start_time_unix_nano"))
	require.Equal(t, row{"timestamp_ns": int64(math.MaxInt64), "time_unix_nano": int64(math.MinInt64)}, rows[1].Only("timestamp_ns", "time_unix_nano"))
	require.Equal(t, otelarrow.Adjusted{TimesClamped: 1}, b.Adjusted)
}

func TestEncodeMetrics_counts_over_int64_are_clamped_and_never_negative(t *testing.T) {
	t.Parallel()
	const big = math.MaxUint64
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	h := ms.AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty()
	h.SetCount(big)
	h.BucketCounts().FromRaw([]uint64{1, big, math.MaxInt64})
	e := ms.AppendEmpty().SetEmptyExponentialHistogram().DataPoints().AppendEmpty()
	e.SetCount(big)
	e.SetZeroCount(big)
	e.Positive().BucketCounts().FromRaw([]uint64{big})
	e.Negative().BucketCounts().FromRaw([]uint64{big})
	ms.AppendEmpty().SetEmptySummary().DataPoints().AppendEmpty().SetCount(1 << 63)
	rows, b := tableOf(t, md)
	const top = int64(math.MaxInt64)
	require.Equal(t, row{"count": top, "bucket_counts": []any{int64(1), top, top}}, rows[0].Only("count", "bucket_counts"))
	require.Equal(t, row{"count": top, "zero_count": top, "positive_bucket_counts": []any{top}, "negative_bucket_counts": []any{top}},
		rows[1].Only("count", "zero_count", "positive_bucket_counts", "negative_bucket_counts"))
	require.Equal(t, row{"count": top}, rows[2].Only("count"))
	require.Equal(t, otelarrow.Adjusted{CountsClamped: 7}, b.Adjusted)
}

func TestEncodeMetrics_without_points_make_no_row_and_are_counted(t *testing.T) {
	t.Parallel()
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	ms.AppendEmpty().SetName("no type")
	ms.AppendEmpty().SetEmptyGauge()
	ms.AppendEmpty().SetEmptySum()
	kept := ms.AppendEmpty()
	kept.SetName("kept")
	kept.SetEmptyGauge().DataPoints().AppendEmpty()
	ms.AppendEmpty().SetEmptyHistogram()
	ms.AppendEmpty().SetEmptyExponentialHistogram()
	ms.AppendEmpty().SetEmptySummary()
	rows, b := tableOf(t, md)
	require.Len(t, rows, 1)
	require.Equal(t, "kept", rows[0]["metric_name"])
	require.Equal(t, []int{5, 1}, []int{b.PointlessMetrics, b.TypelessMetrics})
}

// A description of a metric with many points is stored once.
func TestEncodeMetrics_size_does_not_grow_with_points_times_description(t *testing.T) {
	t.Parallel()
	const big = 1 << 20
	md := oneMetric(func(m pmetric.Metric) {
		m.SetDescription(string(make([]byte, big)))
		dps := m.SetEmptyGauge().DataPoints()
		for range 2000 {
			dps.AppendEmpty()
		}
	})
	b, err := otelarrow.NewEncoder().EncodeMetrics(arrival, md)
	require.NoError(t, err)
	defer b.Record.Release()
	var total int64
	for _, c := range b.Record.Columns() {
		total += textBytes(c.Data())
	}
	require.Less(t, total, int64(big+big/10))
}
