package walmirror

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

const (
	typeName  = "walmirror"
	scopeName = "github.com/siglakecol/siglakecol/extension/walmirror"
)

// NewFactory returns the factory of the walmirror extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(component.MustNewType(typeName), createDefaultConfig, create, component.StabilityLevelAlpha)
}

func create(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	c, ok := cfg.(*Config)
	if !ok {
		return nil, fmt.Errorf("create walmirror: configuration is a %T", cfg)
	}
	return &walmirror{cfg: *c, set: set}, nil
}
