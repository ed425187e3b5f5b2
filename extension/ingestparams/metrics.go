package ingestparams

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// reason is why a request was refused; the closed set of the attribute reason.
type reason string

const (
	reasonCommit reason = "commit"
	reasonIndex  reason = "index"
	reasonTenant reason = "tenant"
	reasonQuery  reason = "query"
)

func reasons() []reason { return []reason{reasonCommit, reasonIndex, reasonTenant, reasonQuery} }

// metrics are the instruments of metadata.yaml.
type metrics struct {
	refused metric.Int64Counter
}

func newMetrics(m metric.Meter) (*metrics, error) {
	refused, err := m.Int64Counter("siglake_ingest_refused_total",
		metric.WithDescription("Requests refused for their parameters before they were decoded."),
		metric.WithUnit("{request}"))
	if err != nil {
		return nil, err
	}
	ms := &metrics{refused: refused}
	for _, r := range reasons() {
		ms.addRefused(context.Background(), r, 0)
	}
	return ms, nil
}

func (m *metrics) addRefused(ctx context.Context, r reason, n int64) {
	m.refused.Add(ctx, n, metric.WithAttributes(attribute.String("reason", string(r))))
}
