package otelarrow

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// endMetric writes what the points of one metric share.
func (w *metricsWriters) endMetric(m pmetric.Metric) {
	w.name.add(m.Name())
	w.unit.add(m.Unit())
	w.description.add(m.Description())
	w.s.attributes(w.metadata, m.Metadata())
	monotonic, isSum := uint8(0), false
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		w.kind.add("gauge")
		w.temporality.addMaybe(0, false)
	case pmetric.MetricTypeSum:
		isSum = true
		if m.Sum().IsMonotonic() {
			monotonic = 1
		}
		w.kind.add("sum")
		w.temporality.addMaybe(int32(m.Sum().AggregationTemporality()), true)
	case pmetric.MetricTypeHistogram:
		w.kind.add("histogram")
		w.temporality.addMaybe(int32(m.Histogram().AggregationTemporality()), true)
	case pmetric.MetricTypeExponentialHistogram:
		w.kind.add("exponential_histogram")
		w.temporality.addMaybe(int32(m.ExponentialHistogram().AggregationTemporality()), true)
	case pmetric.MetricTypeSummary:
		w.kind.add("summary")
		w.temporality.addMaybe(0, false)
	case pmetric.MetricTypeEmpty:
		panic("otelarrow: a metric without a type has no points")
	}
	w.monotonic.addMaybe(monotonic, isSum)
	w.metric.end(w.rows)
}

// point is what the data points of all types have.
type point interface {
	Timestamp() pcommon.Timestamp
	StartTimestamp() pcommon.Timestamp
	Attributes() pcommon.Map
}

// endPoint writes what all types have; what one type has was written before.
func (w *metricsWriters) endPoint(p point, exemplars pmetric.ExemplarSlice, flags uint32, arrival int64) {
	sent := w.s.rawTime(p.Timestamp())
	at := arrival
	if sent != 0 {
		at = clampTime(sent)
	}
	w.times.add(at, w.rows == 0)
	w.timestamp.add(at)
	w.time.add(sent)
	w.start.add(w.s.rawTime(p.StartTimestamp()))
	w.flags.add(flags)
	w.s.attributes(w.attrs, p.Attributes())
	w.exemplars.write(w.s, exemplars)
	w.rows++
}

func (w *metricsWriters) writeNumbers(points pmetric.NumberDataPointSlice, arrival int64) {
	for _, p := range points.All() {
		w.addValue(p.ValueType(), p)
		w.distribution.add(false)
		w.histogram.add(false)
		w.exponential.add(false)
		w.summary.add(false)
		w.endPoint(p, p.Exemplars(), uint32(p.Flags()), arrival)
	}
}

func (w *metricsWriters) addValue(t pmetric.NumberDataPointValueType, p pmetric.NumberDataPoint) {
	isDouble, isInt := t == pmetric.NumberDataPointValueTypeDouble, t == pmetric.NumberDataPointValueTypeInt
	w.valueDouble.addMaybe(p.DoubleValue(), isDouble)
	w.valueInt.addMaybe(p.IntValue(), isInt)
}

// noValue leaves the columns of gauges and sums empty.
func (w *metricsWriters) noValue() {
	w.valueDouble.addMaybe(0, false)
	w.valueInt.addMaybe(0, false)
}

func (w *metricsWriters) writeHistogram(p pmetric.HistogramDataPoint) {
	w.noValue()
	w.count.add(w.s.count(p.Count()))
	w.sum.addMaybe(p.Sum(), p.HasSum())
	w.min.addMaybe(p.Min(), p.HasMin())
	w.max.addMaybe(p.Max(), p.HasMax())
	w.distribution.add(true)
	w.bucketCounts.write(w.s, p.BucketCounts())
	for _, b := range p.ExplicitBounds().All() {
		w.bounds.values.add(b)
	}
	w.bounds.end(len(w.bounds.values.v))
	w.histogram.add(true)
	w.exponential.add(false)
	w.summary.add(false)
}

func (w *metricsWriters) writeExponential(p pmetric.ExponentialHistogramDataPoint) {
	w.noValue()
	w.count.add(w.s.count(p.Count()))
	w.sum.addMaybe(p.Sum(), p.HasSum())
	w.min.addMaybe(p.Min(), p.HasMin())
	w.max.addMaybe(p.Max(), p.HasMax())
	w.distribution.add(true)
	w.histogram.add(false)
	w.scale.add(p.Scale())
	w.zeroCount.add(w.s.count(p.ZeroCount()))
	w.zeroThreshold.add(p.ZeroThreshold())
	w.posOffset.add(p.Positive().Offset())
	w.posBuckets.write(w.s, p.Positive().BucketCounts())
	w.negOffset.add(p.Negative().Offset())
	w.negBuckets.write(w.s, p.Negative().BucketCounts())
	w.exponential.add(true)
	w.summary.add(false)
}

func (w *metricsWriters) writeSummary(p pmetric.SummaryDataPoint) {
	w.noValue()
	w.count.add(w.s.count(p.Count()))
	w.sum.addMaybe(p.Sum(), true)
	w.min.addMaybe(0, false)
	w.max.addMaybe(0, false)
	w.distribution.add(true)
	w.histogram.add(false)
	w.exponential.add(false)
	for _, q := range p.QuantileValues().All() {
		w.quantile.add(q.Quantile())
		w.value.add(q.Value())
		w.quantiles.rec.end()
	}
	w.quantiles.end(w.quantiles.rec.n)
	w.summary.add(true)
}

func (l longs) write(s *scratch, counts pcommon.UInt64Slice) {
	for _, n := range counts.All() {
		l.values.add(s.count(n))
	}
	l.end(len(l.values.v))
}

func (w *exemplarWriters) write(s *scratch, exemplars pmetric.ExemplarSlice) {
	if exemplars != (pmetric.ExemplarSlice{}) {
		for _, ex := range exemplars.All() {
			t := ex.ValueType()
			w.time.add(s.rawTime(ex.Timestamp()))
			w.valueDouble.addMaybe(ex.DoubleValue(), t == pmetric.ExemplarValueTypeDouble)
			w.valueInt.addMaybe(ex.IntValue(), t == pmetric.ExemplarValueTypeInt)
			traceID, spanID := ex.TraceID(), ex.SpanID()
			w.traceID.add(traceID[:])
			w.spanID.add(spanID[:])
			s.attributes(w.attrs, ex.FilteredAttributes())
			w.rec.end()
		}
	}
	w.end(w.rec.n)
}
