package otlptest

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// SentMetrics is SentLogs for data points; rowless is how many metrics have none and so are in no row.
func SentMetrics(requests ...pmetric.Metrics) (md *metricspb.MetricsData, adjusted Adjusted, rowless int) {
	s := sent{}
	out := &metricspb.MetricsData{}
	for _, md := range requests {
		for _, rm := range md.ResourceMetrics().All() {
			n := 0
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					if points(m) == 0 {
						rowless++
					}
				}
				n += pointsOf(sm)
			}
			if n == 0 {
				continue
			}
			res, resURL := s.resource(rm.Resource()), s.text(rm.SchemaUrl())
			for _, sm := range rm.ScopeMetrics().All() {
				if pointsOf(sm) == 0 {
					continue
				}
				sc, scURL := s.scope(sm.Scope()), s.text(sm.SchemaUrl())
				for _, m := range sm.Metrics().All() {
					if points(m) > 0 {
						addMetric(out, res, resURL, sc, scURL, s.metric(m))
					}
				}
			}
		}
	}
	return out, Adjusted(s), rowless
}

func pointsOf(sm pmetric.ScopeMetrics) int {
	n := 0
	for _, m := range sm.Metrics().All() {
		n += points(m)
	}
	return n
}

func points(m pmetric.Metric) int {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints().Len()
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		return m.ExponentialHistogram().DataPoints().Len()
	case pmetric.MetricTypeSummary:
		return m.Summary().DataPoints().Len()
	default:
		return 0
	}
}

func (s sent) metric(m pmetric.Metric) *metricspb.Metric {
	out := &metricspb.Metric{
		Name: s.text(m.Name()), Unit: s.text(m.Unit()), Description: s.text(m.Description()), Metadata: s.attributes(m.Metadata()),
	}
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		out.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: s.numbers(m.Gauge().DataPoints())}}
	case pmetric.MetricTypeSum:
		out.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{
			AggregationTemporality: temporality(m.Sum().AggregationTemporality()), IsMonotonic: m.Sum().IsMonotonic(),
			DataPoints: s.numbers(m.Sum().DataPoints()),
		}}
	case pmetric.MetricTypeHistogram:
		h := &metricspb.Histogram{AggregationTemporality: temporality(m.Histogram().AggregationTemporality())}
		for _, p := range m.Histogram().DataPoints().All() {
			h.DataPoints = append(h.DataPoints, s.histogram(p))
		}
		out.Data = &metricspb.Metric_Histogram{Histogram: h}
	case pmetric.MetricTypeExponentialHistogram:
		h := &metricspb.ExponentialHistogram{AggregationTemporality: temporality(m.ExponentialHistogram().AggregationTemporality())}
		for _, p := range m.ExponentialHistogram().DataPoints().All() {
			h.DataPoints = append(h.DataPoints, s.exponential(p))
		}
		out.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: h}
	case pmetric.MetricTypeSummary:
		d := &metricspb.Summary{}
		for _, p := range m.Summary().DataPoints().All() {
			d.DataPoints = append(d.DataPoints, s.summary(p))
		}
		out.Data = &metricspb.Metric_Summary{Summary: d}
	}
	return out
}

func temporality(t pmetric.AggregationTemporality) metricspb.AggregationTemporality {
	return metricspb.AggregationTemporality(t)
}

func (s sent) numbers(points pmetric.NumberDataPointSlice) []*metricspb.NumberDataPoint {
	var out []*metricspb.NumberDataPoint
	for _, p := range points.All() {
		to := &metricspb.NumberDataPoint{
			TimeUnixNano: s.time(p.Timestamp()), StartTimeUnixNano: s.time(p.StartTimestamp()), Flags: uint32(p.Flags()),
			Attributes: s.attributes(p.Attributes()), Exemplars: s.exemplars(p.Exemplars()),
		}
		switch p.ValueType() {
		case pmetric.NumberDataPointValueTypeDouble:
			to.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: oneNaN(p.DoubleValue())}
		case pmetric.NumberDataPointValueTypeInt:
			to.Value = &metricspb.NumberDataPoint_AsInt{AsInt: p.IntValue()}
		}
		out = append(out, to)
	}
	return out
}

func (s sent) exemplars(from pmetric.ExemplarSlice) []*metricspb.Exemplar {
	var out []*metricspb.Exemplar
	for _, e := range from.All() {
		to := &metricspb.Exemplar{
			TimeUnixNano: s.clampedTime(e.Timestamp()), TraceId: traceID(e.TraceID()), SpanId: spanID(e.SpanID()),
			FilteredAttributes: s.attributes(e.FilteredAttributes()),
		}
		switch e.ValueType() {
		case pmetric.ExemplarValueTypeDouble:
			to.Value = &metricspb.Exemplar_AsDouble{AsDouble: oneNaN(e.DoubleValue())}
		case pmetric.ExemplarValueTypeInt:
			to.Value = &metricspb.Exemplar_AsInt{AsInt: e.IntValue()}
		}
		out = append(out, to)
	}
	return out
}

func (s sent) histogram(p pmetric.HistogramDataPoint) *metricspb.HistogramDataPoint {
	return &metricspb.HistogramDataPoint{
		TimeUnixNano: s.time(p.Timestamp()), StartTimeUnixNano: s.time(p.StartTimestamp()), Flags: uint32(p.Flags()),
		Attributes: s.attributes(p.Attributes()), Exemplars: s.exemplars(p.Exemplars()), Count: s.count(p.Count()),
		Sum: optional(p.HasSum(), p.Sum()), Min: optional(p.HasMin(), p.Min()), Max: optional(p.HasMax(), p.Max()),
		BucketCounts: s.counts(p.BucketCounts()), ExplicitBounds: oneNaNs(p.ExplicitBounds()),
	}
}

func optional(there bool, f float64) *float64 {
	if !there {
		return nil
	}
	f = oneNaN(f)
	return &f
}

func (s sent) exponential(p pmetric.ExponentialHistogramDataPoint) *metricspb.ExponentialHistogramDataPoint {
	return &metricspb.ExponentialHistogramDataPoint{
		TimeUnixNano: s.time(p.Timestamp()), StartTimeUnixNano: s.time(p.StartTimestamp()), Flags: uint32(p.Flags()),
		Attributes: s.attributes(p.Attributes()), Exemplars: s.exemplars(p.Exemplars()), Count: s.count(p.Count()),
		Sum: optional(p.HasSum(), p.Sum()), Min: optional(p.HasMin(), p.Min()), Max: optional(p.HasMax(), p.Max()),
		Scale: p.Scale(), ZeroCount: s.count(p.ZeroCount()), ZeroThreshold: oneNaN(p.ZeroThreshold()),
		Positive: s.buckets(p.Positive().Offset(), p.Positive().BucketCounts()),
		Negative: s.buckets(p.Negative().Offset(), p.Negative().BucketCounts()),
	}
}

func (s sent) buckets(offset int32, counts pcommon.UInt64Slice) *metricspb.ExponentialHistogramDataPoint_Buckets {
	return &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: offset, BucketCounts: s.counts(counts)}
}

func (s sent) summary(p pmetric.SummaryDataPoint) *metricspb.SummaryDataPoint {
	out := &metricspb.SummaryDataPoint{
		TimeUnixNano: s.time(p.Timestamp()), StartTimeUnixNano: s.time(p.StartTimestamp()), Flags: uint32(p.Flags()),
		Attributes: s.attributes(p.Attributes()), Count: s.count(p.Count()), Sum: oneNaN(p.Sum()),
	}
	for _, q := range p.QuantileValues().All() {
		out.QuantileValues = append(out.QuantileValues, &metricspb.SummaryDataPoint_ValueAtQuantile{Quantile: oneNaN(q.Quantile()), Value: oneNaN(q.Value())})
	}
	return out
}
