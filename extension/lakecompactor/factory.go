package lakecompactor

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

const (
	typeName  = "lakecompactor"
	scopeName = "github.com/siglakecol/siglakecol/extension/lakecompactor"
)

// NewFactory returns the factory of the lakecompactor extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(component.MustNewType(typeName), createDefaultConfig, create, component.StabilityLevelAlpha)
}

func create(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	c, ok := cfg.(*Config)
	if !ok {
		return nil, fmt.Errorf("create lakecompactor: configuration is a %T", cfg)
	}
	return &compactor{cfg: *c, set: set}, nil
}
