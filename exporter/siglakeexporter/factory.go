package siglakeexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

const (
	typeName  = "siglake"
	scopeName = "github.com/siglakecol/siglakecol/exporter/siglakeexporter"
)

// NewFactory returns the factory of the siglake exporter. The exporters it makes share open logs; two
// factories share nothing.
func NewFactory() exporter.Factory {
	return newFactory(openWAL)
}

func newFactory(open opener) exporter.Factory {
	shared := newRegistry(open)
	return exporter.NewFactory(component.MustNewType(typeName), createDefaultConfig,
		exporter.WithLogs(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
			e, err := newLogs(set, cfg, shared)
			if err != nil {
				return nil, err
			}
			return exporterhelper.NewLogs(ctx, set, cfg, e.push, e.options()...)
		}, component.StabilityLevelAlpha),
		exporter.WithTraces(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
			e, err := newTraces(set, cfg, shared)
			if err != nil {
				return nil, err
			}
			return exporterhelper.NewTraces(ctx, set, cfg, e.push, e.options()...)
		}, component.StabilityLevelAlpha),
		exporter.WithMetrics(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Metrics, error) {
			e, err := newMetricsExporter(set, cfg, shared)
			if err != nil {
				return nil, err
			}
			return exporterhelper.NewMetrics(ctx, set, cfg, e.push, e.options()...)
		}, component.StabilityLevelAlpha),
	)
}

// options: the helper's spans and counters, and nothing that waits. Without WithTimeout it would cut a slow
// fsync off after 5 s; disabled WithQueue and WithRetry would advise in every error to switch them on.
func (e *siglake[T]) options() []exporterhelper.Option {
	return []exporterhelper.Option{
		exporterhelper.WithStart(e.start),
		exporterhelper.WithShutdown(e.shutdown),
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{Timeout: 0}),
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
	}
}
