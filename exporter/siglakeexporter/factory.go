package siglakeexporter

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
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
			return exporterhelper.NewLogs(ctx, quieter(set), cfg, e.push, e.options()...)
		}, component.StabilityLevelAlpha),
		exporter.WithTraces(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
			e, err := newTraces(set, cfg, shared)
			if err != nil {
				return nil, err
			}
			return exporterhelper.NewTraces(ctx, quieter(set), cfg, e.push, e.options()...)
		}, component.StabilityLevelAlpha),
		exporter.WithMetrics(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Metrics, error) {
			e, err := newMetricsExporter(set, cfg, shared)
			if err != nil {
				return nil, err
			}
			return exporterhelper.NewMetrics(ctx, quieter(set), cfg, e.push, e.options()...)
		}, component.StabilityLevelAlpha),
	)
}

// quieter is for the helper, which logs every request that is refused as an error. Ten lines in ten seconds say it, and one
// of a hundred after them: clients send again, each refusal is counted, and the exporter logs where a limit begins and ends.
func quieter(set exporter.Settings) exporter.Settings {
	set.Logger = set.Logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, 10*time.Second, 10, 100)
	}))
	return set
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
