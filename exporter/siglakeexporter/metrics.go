package siglakeexporter

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Why a metric makes no row; the closed set of the attribute reason of rowless.
const (
	reasonNoPoints = "no_points"
	reasonNoType   = "no_type"
)

// metrics are the instruments of metadata.yaml.
type metrics struct {
	adjusted, rowless, tenantRefused, indexRefused, waitTimeouts metric.Int64Counter

	wait metric.Float64Histogram
}

func newMetrics(m metric.Meter) (*metrics, error) {
	adjusted, err := m.Int64Counter("siglake_values_adjusted_total",
		metric.WithDescription("Values that could not be stored exactly as sent and were stored as docs/tables.md says."),
		metric.WithUnit("{value}"))
	if err != nil {
		return nil, err
	}
	rowless, err := m.Int64Counter("siglake_metrics_rowless_total",
		metric.WithDescription("Metrics that hold no data point and therefore make no row."),
		metric.WithUnit("{metric}"))
	if err != nil {
		return nil, err
	}
	tenantRefused, err := m.Int64Counter("siglake_ingest_tenant_refused_total",
		metric.WithDescription("Requests refused for the tenant they name, or do not name, by reason."),
		metric.WithUnit("{request}"))
	if err != nil {
		return nil, err
	}
	indexRefused, err := m.Int64Counter("siglake_ingest_index_refused_total",
		metric.WithDescription("Requests refused for the index they name, by reason."),
		metric.WithUnit("{request}"))
	if err != nil {
		return nil, err
	}
	waitTimeouts, err := m.Int64Counter("siglake_commit_wait_timeouts_total",
		metric.WithDescription("Requests whose rows were stored and whose further promise was not confirmed in time, by commit mode."),
		metric.WithUnit("{request}"))
	if err != nil {
		return nil, err
	}
	wait, err := m.Float64Histogram("siglake_commit_wait_seconds",
		metric.WithDescription("Time from rows on the disk to what the commit mode promises beyond that, or to giving up, by commit mode."),
		metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 30, 60))
	if err != nil {
		return nil, err
	}
	ms := &metrics{
		adjusted: adjusted, rowless: rowless, tenantRefused: tenantRefused, indexRefused: indexRefused, waitTimeouts: waitTimeouts, wait: wait,
	}
	for _, mode := range [...]Mode{modeMirrored, modeForce} {
		ms.waitTimeouts.Add(context.Background(), 0, byMode(mode))
	}
	for _, reason := range [...]string{indexBadName, indexOtherSignal} {
		ms.indexRefused.Add(context.Background(), 0, byReason(reason))
	}
	for _, reason := range tenantReasons() {
		ms.tenantRefused.Add(context.Background(), 0, byReason(reason))
	}
	for reason := range (otelarrow.Adjusted{}).All() {
		ms.adjusted.Add(context.Background(), 0, byReason(reason))
	}
	for _, reason := range [...]string{reasonNoPoints, reasonNoType} {
		ms.rowless.Add(context.Background(), 0, byReason(reason))
	}
	return ms, nil
}

// waited records a wait for the mirror or a commit.
func (m *metrics) waited(ctx context.Context, mode Mode, took time.Duration, err error) {
	m.wait.Record(ctx, took.Seconds(), byMode(mode))
	if errors.Is(err, context.DeadlineExceeded) {
		m.waitTimeouts.Add(ctx, 1, byMode(mode))
	}
}

// stored counts what an acknowledged request holds, so that a client's retries are not counted.
func (m *metrics) stored(ctx context.Context, b *otelarrow.Batch) {
	for reason, n := range b.Adjusted.All() {
		add(ctx, m.adjusted, reason, n)
	}
	add(ctx, m.rowless, reasonNoPoints, int64(b.PointlessMetrics))
	add(ctx, m.rowless, reasonNoType, int64(b.TypelessMetrics))
}

func add(ctx context.Context, c metric.Int64Counter, reason string, n int64) {
	if n > 0 {
		c.Add(ctx, n, byReason(reason))
	}
}

func byMode(mode Mode) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("mode", string(mode))))
}

func byReason(reason string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", reason)))
}
