package otelarrow

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

type metricsWriters struct {
	sharedWriters
	rows  int
	times timeRange

	metric                        *runs
	name, kind, unit, description *text
	metadata                      attrs
	temporality                   *fixed[int32]
	monotonic                     *fixed[uint8]

	timestamp, time, start *fixed[int64]
	flags                  *fixed[uint32]
	valueDouble            *fixed[float64]
	valueInt               *fixed[int64]
	attrs                  attrs
	exemplars              exemplarWriters

	distribution, histogram, exponential, summary optional

	count                  *fixed[int64]
	sum, min, max          *fixed[float64]
	bucketCounts           longs
	bounds                 doubles
	scale                  *fixed[int32]
	zeroCount              *fixed[int64]
	zeroThreshold          *fixed[float64]
	posOffset, negOffset   *fixed[int32]
	posBuckets, negBuckets longs
	quantiles              optional // a list of structs
	quantile, value        *fixed[float64]
}

type exemplarWriters struct {
	*list
	rec             *record
	time            *fixed[int64]
	valueDouble     *fixed[float64]
	valueInt        *fixed[int64]
	traceID, spanID *idents
	attrs           attrs
}

// optional is a list of structs, most often of none or one.
type optional struct {
	*list
	rec *record
}

// add closes the row: with one more struct, or with none.
func (o optional) add(there bool) {
	if there {
		o.rec.end()
	}
	o.end(o.rec.n)
}

type longs struct {
	*list
	values *fixed[int64]
}

type doubles struct {
	*list
	values *fixed[float64]
}

func newMetricsWriters(s *scratch) *metricsWriters {
	w := &metricsWriters{
		sharedWriters: newSharedWriters(s),
		metric:        find[*runs](s, "metric"),
		name:          find[*text](s, "metric.metric_name"),
		kind:          find[*text](s, "metric.metric_type"),
		unit:          find[*text](s, "metric.unit"),
		description:   find[*text](s, "metric.description"),
		metadata:      newAttrs(s, "metric.metadata"),
		temporality:   find[*fixed[int32]](s, "metric.aggregation_temporality"),
		monotonic:     find[*fixed[uint8]](s, "metric.is_monotonic"),
		timestamp:     find[*fixed[int64]](s, "timestamp_ns"),
		time:          find[*fixed[int64]](s, "time_unix_nano"),
		start:         find[*fixed[int64]](s, "start_time_unix_nano"),
		flags:         find[*fixed[uint32]](s, "flags"),
		valueDouble:   find[*fixed[float64]](s, "value_double"),
		valueInt:      find[*fixed[int64]](s, "value_int"),
		attrs:         newAttrs(s, "attributes"),
		exemplars: exemplarWriters{
			list:        find[*list](s, "exemplars"),
			rec:         find[*record](s, "exemplars.[]"),
			time:        find[*fixed[int64]](s, "exemplars.time_unix_nano"),
			valueDouble: find[*fixed[float64]](s, "exemplars.value_double"),
			valueInt:    find[*fixed[int64]](s, "exemplars.value_int"),
			traceID:     find[*idents](s, "exemplars.trace_id"),
			spanID:      find[*idents](s, "exemplars.span_id"),
			attrs:       newAttrs(s, "exemplars.filtered_attributes"),
		},
	}
	w.findDistributions(s)
	return w
}

func (w *metricsWriters) findDistributions(s *scratch) {
	opt := func(path string) optional {
		return optional{find[*list](s, path), find[*record](s, path+".[]")}
	}
	longsAt := func(path string) longs {
		return longs{find[*list](s, path), find[*fixed[int64]](s, path+".[]")}
	}
	w.distribution, w.histogram = opt("distribution"), opt("histogram")
	w.exponential, w.summary = opt("exponential"), opt("summary")
	w.count = find[*fixed[int64]](s, "distribution.count")
	w.sum = find[*fixed[float64]](s, "distribution.sum")
	w.min = find[*fixed[float64]](s, "distribution.min")
	w.max = find[*fixed[float64]](s, "distribution.max")
	w.bucketCounts = longsAt("histogram.bucket_counts")
	w.bounds = doubles{find[*list](s, "histogram.explicit_bounds"), find[*fixed[float64]](s, "histogram.explicit_bounds.[]")}
	w.scale = find[*fixed[int32]](s, "exponential.scale")
	w.zeroCount = find[*fixed[int64]](s, "exponential.zero_count")
	w.zeroThreshold = find[*fixed[float64]](s, "exponential.zero_threshold")
	w.posOffset = find[*fixed[int32]](s, "exponential.positive_offset")
	w.posBuckets = longsAt("exponential.positive_bucket_counts")
	w.negOffset = find[*fixed[int32]](s, "exponential.negative_offset")
	w.negBuckets = longsAt("exponential.negative_bucket_counts")
	w.quantiles = opt("summary.quantiles")
	w.quantile = find[*fixed[float64]](s, "summary.quantiles.quantile")
	w.value = find[*fixed[float64]](s, "summary.quantiles.value")
}

func (s *scratch) encodeMetrics(arrival time.Time, requests ...pmetric.Metrics) (Batch, error) {
	return s.run(func() Batch { return s.metrics.write(arrival.UnixNano(), requests) })
}

func (w *metricsWriters) write(arrival int64, requests []pmetric.Metrics) Batch {
	var b Batch
	w.rows, w.times = 0, timeRange{}
	for _, md := range requests {
		w.writeRequest(md, arrival, &b)
	}
	b.Rows, b.MinTime, b.MaxTime = w.rows, w.times.lo, w.times.hi
	return b
}

// writeRequest counts in b what makes no row.
func (w *metricsWriters) writeRequest(md pmetric.Metrics, arrival int64, b *Batch) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				before := w.rows
				w.writePoints(m, arrival)
				switch {
				case w.rows > before:
					w.endMetric(m)
				case m.Type() == pmetric.MetricTypeEmpty:
					b.TypelessMetrics++
				default:
					b.PointlessMetrics++
				}
			}
			w.endScope(sm.Scope(), sm.SchemaUrl(), w.rows)
		}
		w.endResource(rm.Resource(), rm.SchemaUrl(), arrival, w.rows)
	}
}

// writePoints writes a row for each data point of the metric.
func (w *metricsWriters) writePoints(m pmetric.Metric, arrival int64) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		w.writeNumbers(m.Gauge().DataPoints(), arrival)
	case pmetric.MetricTypeSum:
		w.writeNumbers(m.Sum().DataPoints(), arrival)
	case pmetric.MetricTypeHistogram:
		for _, p := range m.Histogram().DataPoints().All() {
			w.writeHistogram(p)
			w.endPoint(p, p.Exemplars(), uint32(p.Flags()), arrival)
		}
	case pmetric.MetricTypeExponentialHistogram:
		for _, p := range m.ExponentialHistogram().DataPoints().All() {
			w.writeExponential(p)
			w.endPoint(p, p.Exemplars(), uint32(p.Flags()), arrival)
		}
	case pmetric.MetricTypeSummary:
		for _, p := range m.Summary().DataPoints().All() {
			w.writeSummary(p)
			w.endPoint(p, pmetric.ExemplarSlice{}, uint32(p.Flags()), arrival)
		}
	case pmetric.MetricTypeEmpty:
	}
}
