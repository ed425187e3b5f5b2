package otlptest

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Metrics makes a request of data points.
func (g *Gen) Metrics() (pmetric.Metrics, error) {
	md := pmetric.NewMetrics()
	for range g.IntN(3) {
		rm := md.ResourceMetrics().AppendEmpty()
		g.resource(rm.Resource())
		rm.SetSchemaUrl(g.Text())
		for range g.IntN(3) {
			sm := rm.ScopeMetrics().AppendEmpty()
			g.scope(sm.Scope())
			sm.SetSchemaUrl(g.Text())
			for range g.IntN(6) {
				g.metric(sm.Metrics().AppendEmpty())
			}
		}
	}
	wire, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(md)
	if err != nil {
		return md, err
	}
	return (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(settle(wire))
}

func (g *Gen) temporality() pmetric.AggregationTemporality {
	return pmetric.AggregationTemporality(pick(g, g.IntN(3), 3, -1))
}

func (g *Gen) metric(m pmetric.Metric) {
	m.SetName(g.Text())
	m.SetUnit(g.Text())
	m.SetDescription(g.Text())
	g.attributes(m.Metadata(), 1)
	n := g.IntN(4)
	switch g.IntN(6) {
	case 0:
		g.numbers(m.SetEmptyGauge().DataPoints(), n)
	case 1:
		s := m.SetEmptySum()
		s.SetIsMonotonic(g.one(2))
		s.SetAggregationTemporality(g.temporality())
		g.numbers(s.DataPoints(), n)
	case 2:
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(g.temporality())
		for range n {
			g.histogram(h.DataPoints().AppendEmpty())
		}
	case 3:
		h := m.SetEmptyExponentialHistogram()
		h.SetAggregationTemporality(g.temporality())
		for range n {
			g.exponential(h.DataPoints().AppendEmpty())
		}
	case 4:
		s := m.SetEmptySummary()
		for range n {
			g.summary(s.DataPoints().AppendEmpty())
		}
	case 5: // no type
	}
}

// point is what the data points of all types have.
type point interface {
	SetTimestamp(pcommon.Timestamp)
	SetStartTimestamp(pcommon.Timestamp)
	SetFlags(pmetric.DataPointFlags)
	Attributes() pcommon.Map
}

func (g *Gen) point(p point) {
	p.SetTimestamp(g.Time())
	p.SetStartTimestamp(g.Time())
	p.SetFlags(pmetric.DataPointFlags(g.dropped()))
	g.attributes(p.Attributes(), 1)
}

func (g *Gen) numbers(points pmetric.NumberDataPointSlice, n int) {
	for range n {
		p := points.AppendEmpty()
		g.point(p)
		g.exemplars(p.Exemplars())
		switch g.IntN(3) {
		case 0:
			p.SetDoubleValue(g.Double())
		case 1:
			p.SetIntValue(int64(g.Uint()))
		}
	}
}

func (g *Gen) exemplars(to pmetric.ExemplarSlice) {
	for range g.IntN(3) {
		e := to.AppendEmpty()
		e.SetTimestamp(g.Time())
		trace, span := g.ids()
		e.SetTraceID(trace)
		e.SetSpanID(span)
		g.attributes(e.FilteredAttributes(), 1)
		switch g.IntN(3) {
		case 0:
			e.SetDoubleValue(g.Double())
		case 1:
			e.SetIntValue(int64(g.Uint()))
		}
	}
}

// maybe calls one of the setters of an optional field, or not.
func (g *Gen) maybe(set func(float64)) {
	if g.one(2) {
		set(g.Double())
	}
}

func (g *Gen) counts(to pcommon.UInt64Slice) {
	for range g.IntN(4) {
		to.Append(g.Uint())
	}
}

func (g *Gen) histogram(p pmetric.HistogramDataPoint) {
	g.point(p)
	g.exemplars(p.Exemplars())
	p.SetCount(g.Uint())
	g.maybe(p.SetSum)
	g.maybe(p.SetMin)
	g.maybe(p.SetMax)
	g.counts(p.BucketCounts())
	for range g.IntN(4) {
		p.ExplicitBounds().Append(g.Double())
	}
}

func (g *Gen) exponential(p pmetric.ExponentialHistogramDataPoint) {
	g.point(p)
	g.exemplars(p.Exemplars())
	p.SetCount(g.Uint())
	g.maybe(p.SetSum)
	g.maybe(p.SetMin)
	g.maybe(p.SetMax)
	p.SetScale(pick(g, int32(0), 20, -10, math.MinInt32, math.MaxInt32))
	p.SetZeroCount(g.Uint())
	p.SetZeroThreshold(g.Double())
	p.Positive().SetOffset(pick(g, int32(0), 7, math.MinInt32))
	g.counts(p.Positive().BucketCounts())
	p.Negative().SetOffset(pick(g, int32(0), -7, math.MaxInt32))
	g.counts(p.Negative().BucketCounts())
}

func (g *Gen) summary(p pmetric.SummaryDataPoint) {
	g.point(p)
	p.SetCount(g.Uint())
	p.SetSum(g.Double())
	for range g.IntN(4) {
		q := p.QuantileValues().AppendEmpty()
		q.SetQuantile(g.Double())
		q.SetValue(g.Double())
	}
}
