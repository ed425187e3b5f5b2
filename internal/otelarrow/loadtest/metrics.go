package loadtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// pointsPerMetric is how many series of a metric a request has.
const pointsPerMetric = 8

// kinds are what a service reports, in turn: gauges and sums of both number types more often than the three
// distributions.
var kinds = [...]func(rng *rand.Rand, at pcommon.Timestamp, points int, m pmetric.Metric){
	gauge, counter, histogram, gauge, updown, exponential, counter, summary,
}

// Metrics are data points of all five types, of a request scraped at one moment shortly before at: eight series to a
// metric, three attributes each; every other histogram point has an exemplar.
func Metrics(rng *rand.Rand, at time.Time, points int) pmetric.Metrics {
	md := pmetric.NewMetrics()
	ts := pcommon.NewTimestampFromTime(at.Add(-time.Duration(rng.IntN(5e8))))
	for i := range min(services, points) {
		rm := md.ResourceMetrics().AppendEmpty()
		resource(i, rm.Resource().Attributes())
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName("io.opentelemetry.runtime-telemetry-java17")
		sm.Scope().SetVersion("2.17.0-alpha")
		left := share(points, i)
		for n := 0; left > 0; n++ {
			m := sm.Metrics().AppendEmpty()
			m.SetName(fmt.Sprintf("jvm.pool%d.measure.%d", n%len(kinds), n))
			m.SetDescription("What the pool has used of its limit since the last collection.")
			m.SetUnit("By")
			kinds[n%len(kinds)](rng, ts, min(left, pointsPerMetric), m)
			left -= pointsPerMetric
		}
	}
	return md
}

// labels of series i.
func labels(i int, a pcommon.Map) {
	a.PutStr("jvm.memory.type", "heap")
	a.PutStr("jvm.memory.pool.name", fmt.Sprintf("G1 Old Gen %d", i))
	a.PutInt("cpu.id", int64(i))
}

func began(at pcommon.Timestamp) pcommon.Timestamp { return at - 3_600_000_000_000 }

func gauge(rng *rand.Rand, at pcommon.Timestamp, points int, m pmetric.Metric) {
	g := m.SetEmptyGauge()
	for i := range points {
		p := g.DataPoints().AppendEmpty()
		labels(i, p.Attributes())
		p.SetTimestamp(at)
		p.SetDoubleValue(rng.Float64() * 100)
	}
}

func counter(rng *rand.Rand, at pcommon.Timestamp, points int, m pmetric.Metric) {
	s := m.SetEmptySum()
	s.SetIsMonotonic(true)
	s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	for i := range points {
		p := s.DataPoints().AppendEmpty()
		labels(i, p.Attributes())
		p.SetStartTimestamp(began(at))
		p.SetTimestamp(at)
		p.SetIntValue(rng.Int64N(1e9))
	}
}

func updown(rng *rand.Rand, at pcommon.Timestamp, points int, m pmetric.Metric) {
	s := m.SetEmptySum()
	s.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	for i := range points {
		p := s.DataPoints().AppendEmpty()
		labels(i, p.Attributes())
		p.SetStartTimestamp(began(at))
		p.SetTimestamp(at)
		p.SetDoubleValue(math.Round(rng.NormFloat64() * 1e4))
	}
}

func exemplar(rng *rand.Rand, at pcommon.Timestamp, e pmetric.Exemplar) {
	e.SetTimestamp(at - pcommon.Timestamp(rng.IntN(1e9)))
	e.SetDoubleValue(rng.Float64() * 1e3)
	e.SetTraceID(traceID(rng))
	e.SetSpanID(spanID(rng))
	e.FilteredAttributes().PutStr("user.id", fmt.Sprintf("%016x", rng.Uint64()))
}

func histogram(rng *rand.Rand, at pcommon.Timestamp, points int, m pmetric.Metric) {
	h := m.SetEmptyHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	for i := range points {
		p := h.DataPoints().AppendEmpty()
		labels(i, p.Attributes())
		p.SetStartTimestamp(began(at))
		p.SetTimestamp(at)
		p.ExplicitBounds().FromRaw([]float64{0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000})
		var total uint64
		for range 16 {
			n := uint64(rng.ExpFloat64() * 20)
			p.BucketCounts().Append(n)
			total += n
		}
		p.SetCount(total)
		p.SetSum(float64(total) * 100 * rng.Float64())
		p.SetMin(rng.Float64())
		p.SetMax(9000 + rng.Float64())
		if i%2 == 0 {
			exemplar(rng, at, p.Exemplars().AppendEmpty())
		}
	}
}

func exponential(rng *rand.Rand, at pcommon.Timestamp, points int, m pmetric.Metric) {
	h := m.SetEmptyExponentialHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	for i := range points {
		p := h.DataPoints().AppendEmpty()
		labels(i, p.Attributes())
		p.SetStartTimestamp(began(at))
		p.SetTimestamp(at)
		p.SetScale(3)
		p.SetZeroCount(uint64(rng.IntN(3)))
		p.Positive().SetOffset(int32(rng.IntN(40)))
		total := p.ZeroCount()
		for range 24 {
			n := uint64(rng.ExpFloat64() * 5)
			p.Positive().BucketCounts().Append(n)
			total += n
		}
		p.SetCount(total)
		p.SetSum(float64(total) * 50 * rng.Float64())
	}
}

func summary(rng *rand.Rand, at pcommon.Timestamp, points int, m pmetric.Metric) {
	s := m.SetEmptySummary()
	for i := range points {
		p := s.DataPoints().AppendEmpty()
		labels(i, p.Attributes())
		p.SetStartTimestamp(began(at))
		p.SetTimestamp(at)
		p.SetCount(uint64(rng.IntN(1e4)))
		p.SetSum(rng.Float64() * 1e6)
		for _, q := range []float64{0.5, 0.9, 0.99} {
			v := p.QuantileValues().AppendEmpty()
			v.SetQuantile(q)
			v.SetValue(rng.Float64() * 1e3)
		}
	}
}
