package otlptest

import (
	"fmt"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Same tells whether two messages are the same to the bit.
func Same(a, b proto.Message) bool { return wire(a) == wire(b) }

// wire is the message in bytes that are the same for the same message, which proto.Equal is not for -0.
func wire(m proto.Message) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("otlptest: %v", err)) // all text in these messages is valid
	}
	return string(b)
}

func addRecord(d *logspb.LogsData, res *resourcepb.Resource, resURL string, sc *commonpb.InstrumentationScope, scURL string, lr *logspb.LogRecord) {
	var rl *logspb.ResourceLogs
	if n := len(d.ResourceLogs); n > 0 {
		rl = d.ResourceLogs[n-1]
	}
	if rl == nil || rl.SchemaUrl != resURL || rl.Resource != res && !Same(rl.Resource, res) {
		rl = &logspb.ResourceLogs{Resource: res, SchemaUrl: resURL}
		d.ResourceLogs = append(d.ResourceLogs, rl)
	}
	var sl *logspb.ScopeLogs
	if n := len(rl.ScopeLogs); n > 0 {
		sl = rl.ScopeLogs[n-1]
	}
	if sl == nil || sl.SchemaUrl != scURL || sl.Scope != sc && !Same(sl.Scope, sc) {
		sl = &logspb.ScopeLogs{Scope: sc, SchemaUrl: scURL}
		rl.ScopeLogs = append(rl.ScopeLogs, sl)
	}
	sl.LogRecords = append(sl.LogRecords, lr)
}

func addSpan(d *tracepb.TracesData, res *resourcepb.Resource, resURL string, sc *commonpb.InstrumentationScope, scURL string, sp *tracepb.Span) {
	var rs *tracepb.ResourceSpans
	if n := len(d.ResourceSpans); n > 0 {
		rs = d.ResourceSpans[n-1]
	}
	if rs == nil || rs.SchemaUrl != resURL || rs.Resource != res && !Same(rs.Resource, res) {
		rs = &tracepb.ResourceSpans{Resource: res, SchemaUrl: resURL}
		d.ResourceSpans = append(d.ResourceSpans, rs)
	}
	var ss *tracepb.ScopeSpans
	if n := len(rs.ScopeSpans); n > 0 {
		ss = rs.ScopeSpans[n-1]
	}
	if ss == nil || ss.SchemaUrl != scURL || ss.Scope != sc && !Same(ss.Scope, sc) {
		ss = &tracepb.ScopeSpans{Scope: sc, SchemaUrl: scURL}
		rs.ScopeSpans = append(rs.ScopeSpans, ss)
	}
	ss.Spans = append(ss.Spans, sp)
}

func addMetric(d *metricspb.MetricsData, res *resourcepb.Resource, resURL string, sc *commonpb.InstrumentationScope, scURL string, m *metricspb.Metric) {
	var rm *metricspb.ResourceMetrics
	if n := len(d.ResourceMetrics); n > 0 {
		rm = d.ResourceMetrics[n-1]
	}
	if rm == nil || rm.SchemaUrl != resURL || rm.Resource != res && !Same(rm.Resource, res) {
		rm = &metricspb.ResourceMetrics{Resource: res, SchemaUrl: resURL}
		d.ResourceMetrics = append(d.ResourceMetrics, rm)
	}
	var sm *metricspb.ScopeMetrics
	if n := len(rm.ScopeMetrics); n > 0 {
		sm = rm.ScopeMetrics[n-1]
	}
	if sm == nil || sm.SchemaUrl != scURL || sm.Scope != sc && !Same(sm.Scope, sc) {
		sm = &metricspb.ScopeMetrics{Scope: sc, SchemaUrl: scURL}
		rm.ScopeMetrics = append(rm.ScopeMetrics, sm)
	}
	if n := len(sm.Metrics); n > 0 && sameMetric(sm.Metrics[n-1], m) {
		appendPoints(sm.Metrics[n-1], m)
		return
	}
	sm.Metrics = append(sm.Metrics, m)
}

// sameMetric tells whether two metrics differ in their points only.
func sameMetric(a, b *metricspb.Metric) bool { return Same(pointless(a), pointless(b)) }

func pointless(m *metricspb.Metric) *metricspb.Metric {
	out := &metricspb.Metric{Name: m.GetName(), Unit: m.GetUnit(), Description: m.GetDescription(), Metadata: m.GetMetadata()}
	switch d := m.GetData().(type) {
	case *metricspb.Metric_Gauge:
		out.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{}}
	case *metricspb.Metric_Sum:
		out.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{
			AggregationTemporality: d.Sum.GetAggregationTemporality(), IsMonotonic: d.Sum.GetIsMonotonic(),
		}}
	case *metricspb.Metric_Histogram:
		out.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{AggregationTemporality: d.Histogram.GetAggregationTemporality()}}
	case *metricspb.Metric_ExponentialHistogram:
		out.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{
			AggregationTemporality: d.ExponentialHistogram.GetAggregationTemporality(),
		}}
	case *metricspb.Metric_Summary:
		out.Data = &metricspb.Metric_Summary{Summary: &metricspb.Summary{}}
	}
	return out
}

// appendPoints moves the points of one metric behind those of the same metric.
func appendPoints(to, from *metricspb.Metric) {
	switch d := to.GetData().(type) {
	case *metricspb.Metric_Gauge:
		d.Gauge.DataPoints = append(d.Gauge.DataPoints, from.GetGauge().GetDataPoints()...)
	case *metricspb.Metric_Sum:
		d.Sum.DataPoints = append(d.Sum.DataPoints, from.GetSum().GetDataPoints()...)
	case *metricspb.Metric_Histogram:
		d.Histogram.DataPoints = append(d.Histogram.DataPoints, from.GetHistogram().GetDataPoints()...)
	case *metricspb.Metric_ExponentialHistogram:
		d.ExponentialHistogram.DataPoints = append(d.ExponentialHistogram.DataPoints, from.GetExponentialHistogram().GetDataPoints()...)
	case *metricspb.Metric_Summary:
		d.Summary.DataPoints = append(d.Summary.DataPoints, from.GetSummary().GetDataPoints()...)
	}
}
