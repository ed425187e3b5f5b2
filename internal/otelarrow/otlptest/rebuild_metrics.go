package otlptest

import (
	"errors"
	"fmt"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// RebuildMetrics is RebuildLogs for the metrics table.
func RebuildMetrics(rows []Row) (*metricspb.MetricsData, error) {
	out := &metricspb.MetricsData{}
	return out, each(rows, func(r *reading) {
		addMetric(out, r.resource(), r.text("resource_schema_url"), r.scope(), r.text("scope_schema_url"), r.metric())
	})
}

// absent are the columns that are NULL in a row of each metric type.
var absent = map[string][]string{
	"gauge":                 concat(temporal, monotonic, distribution, sum, extremes, buckets, exponential, quantiles),
	"sum":                   concat(distribution, sum, extremes, buckets, exponential, quantiles),
	"histogram":             concat(monotonic, values, exponential, quantiles),
	"exponential_histogram": concat(monotonic, values, buckets, quantiles),
	"summary":               concat(temporal, monotonic, values, extremes, buckets, exponential),
}

var (
	temporal     = []string{"aggregation_temporality"}
	monotonic    = []string{"is_monotonic"}
	values       = []string{"value_double", "value_int"}
	distribution = []string{"count"}
	sum          = []string{"sum"}
	extremes     = []string{"min", "max"}
	buckets      = []string{"bucket_counts", "explicit_bounds"}
	exponential  = []string{"scale", "zero_count", "zero_threshold", "positive_offset", "positive_bucket_counts", "negative_offset", "negative_bucket_counts"}
	quantiles    = []string{"quantiles"}
)

func concat(parts ...[]string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// metric is a metric of the row's one point.
func (r *reading) metric() *metricspb.Metric {
	m := &metricspb.Metric{
		Name: must[string](r, "metric_name"), Unit: r.text("unit"), Description: r.text("description"),
		Metadata: r.attributes("metadata", "metadata_types"),
	}
	r.effective(r.rawTime("time_unix_nano"))
	kind := must[string](r, "metric_type")
	for _, column := range absent[kind] {
		if r.row[column] != nil {
			r.fail(column, fmt.Errorf("not NULL in a %s", kind))
		}
	}
	switch kind {
	case "gauge":
		m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: []*metricspb.NumberDataPoint{r.number()}}}
	case "sum":
		m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{
			AggregationTemporality: r.temporality(), IsMonotonic: must[bool](r, "is_monotonic"),
			DataPoints: []*metricspb.NumberDataPoint{r.number()},
		}}
	case "histogram":
		m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
			AggregationTemporality: r.temporality(), DataPoints: []*metricspb.HistogramDataPoint{r.histogram()},
		}}
	case "exponential_histogram":
		m.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{
			AggregationTemporality: r.temporality(), DataPoints: []*metricspb.ExponentialHistogramDataPoint{r.exponential()},
		}}
	case "summary":
		m.Data = &metricspb.Metric_Summary{Summary: &metricspb.Summary{DataPoints: []*metricspb.SummaryDataPoint{r.summary()}}}
	default:
		r.fail("metric_type", fmt.Errorf("unknown type %q", kind))
	}
	return m
}

func (r *reading) temporality() metricspb.AggregationTemporality {
	return metricspb.AggregationTemporality(r.enum("aggregation_temporality", "UNSPECIFIED", "DELTA", "CUMULATIVE"))
}

func (r *reading) number() *metricspb.NumberDataPoint {
	p := &metricspb.NumberDataPoint{
		TimeUnixNano: r.rawTime("time_unix_nano"), StartTimeUnixNano: r.rawTime("start_time_unix_nano"), Flags: r.uint32("flags"),
		Attributes: r.attributes("attributes", "attribute_types"), Exemplars: r.exemplars(),
	}
	double, isDouble := maybe[float64](r, "value_double")
	whole, isInt := maybe[int64](r, "value_int")
	switch {
	case isDouble && isInt:
		r.fail("value_int", errors.New("there beside value_double"))
	case isDouble:
		p.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: oneNaN(double)}
	case isInt:
		p.Value = &metricspb.NumberDataPoint_AsInt{AsInt: whole}
	}
	return p
}

func (r *reading) exemplars() []*metricspb.Exemplar {
	var out []*metricspb.Exemplar
	r.structs("exemplars", func(e *reading) {
		x := &metricspb.Exemplar{
			TimeUnixNano: e.rawTime("timestamp_ns"), TraceId: e.id("trace_id", 16), SpanId: e.id("span_id", 8),
			FilteredAttributes: e.attributes("filtered_attributes", "filtered_attribute_types"),
		}
		if f, ok := maybe[float64](e, "value_double"); ok {
			x.Value = &metricspb.Exemplar_AsDouble{AsDouble: oneNaN(f)}
		}
		if n, ok := maybe[int64](e, "value_int"); ok {
			if x.Value != nil {
				e.fail("value_int", errors.New("there beside value_double"))
			}
			x.Value = &metricspb.Exemplar_AsInt{AsInt: n}
		}
		out = append(out, x)
	})
	return out
}

func (r *reading) optional(column string) *float64 {
	f, ok := maybe[float64](r, column)
	return optional(ok, f)
}

// list reads a list without NULLs.
func list[T any](r *reading, column string) []T {
	var out []T
	for _, e := range must[[]any](r, column) {
		v, ok := e.(T)
		if !ok {
			r.fail(column, fmt.Errorf("element %v of type %T", e, e))
		}
		out = append(out, v)
	}
	return out
}

func (r *reading) counts(column string) []uint64 {
	var out []uint64
	for _, n := range list[int64](r, column) {
		if n < 0 {
			r.fail(column, fmt.Errorf("%d is negative", n))
		}
		out = append(out, uint64(n))
	}
	return out
}

func (r *reading) histogram() *metricspb.HistogramDataPoint {
	p := &metricspb.HistogramDataPoint{
		TimeUnixNano: r.rawTime("time_unix_nano"), StartTimeUnixNano: r.rawTime("start_time_unix_nano"), Flags: r.uint32("flags"),
		Attributes: r.attributes("attributes", "attribute_types"), Exemplars: r.exemplars(), Count: r.count("count"),
		Sum: r.optional("sum"), Min: r.optional("min"), Max: r.optional("max"), BucketCounts: r.counts("bucket_counts"),
	}
	for _, f := range list[float64](r, "explicit_bounds") {
		p.ExplicitBounds = append(p.ExplicitBounds, oneNaN(f))
	}
	return p
}

func (r *reading) exponential() *metricspb.ExponentialHistogramDataPoint {
	return &metricspb.ExponentialHistogramDataPoint{
		TimeUnixNano: r.rawTime("time_unix_nano"), StartTimeUnixNano: r.rawTime("start_time_unix_nano"), Flags: r.uint32("flags"),
		Attributes: r.attributes("attributes", "attribute_types"), Exemplars: r.exemplars(), Count: r.count("count"),
		Sum: r.optional("sum"), Min: r.optional("min"), Max: r.optional("max"),
		Scale: int32(must[int64](r, "scale")), ZeroCount: r.count("zero_count"), ZeroThreshold: oneNaN(must[float64](r, "zero_threshold")),
		Positive: r.buckets("positive"), Negative: r.buckets("negative"),
	}
}

func (r *reading) buckets(side string) *metricspb.ExponentialHistogramDataPoint_Buckets {
	return &metricspb.ExponentialHistogramDataPoint_Buckets{
		Offset: int32(must[int64](r, side+"_offset")), BucketCounts: r.counts(side + "_bucket_counts"),
	}
}

func (r *reading) summary() *metricspb.SummaryDataPoint {
	p := &metricspb.SummaryDataPoint{
		TimeUnixNano: r.rawTime("time_unix_nano"), StartTimeUnixNano: r.rawTime("start_time_unix_nano"), Flags: r.uint32("flags"),
		Attributes: r.attributes("attributes", "attribute_types"), Count: r.count("count"), Sum: oneNaN(must[float64](r, "sum")),
	}
	r.structs("quantiles", func(q *reading) {
		p.QuantileValues = append(p.QuantileValues, &metricspb.SummaryDataPoint_ValueAtQuantile{
			Quantile: oneNaN(must[float64](q, "quantile")), Value: oneNaN(must[float64](q, "value")),
		})
	})
	return p
}
