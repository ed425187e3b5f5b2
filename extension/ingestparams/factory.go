package ingestparams

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

const (
	typeName  = "ingestparams"
	scopeName = "github.com/siglakecol/siglakecol/extension/ingestparams"
)

// NewFactory returns the factory of the ingestparams extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(component.MustNewType(typeName), createDefaultConfig, create, component.StabilityLevelAlpha)
}

func create(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	c, ok := cfg.(*Config)
	if !ok {
		return nil, fmt.Errorf("create ingestparams: configuration is a %T", cfg)
	}
	m, err := newMetrics(set.MeterProvider.Meter(scopeName))
	if err != nil {
		return nil, fmt.Errorf("create ingestparams metrics: %w", err)
	}
	return &params{cfg: *c, logger: set.Logger, metrics: m}, nil
}
