package walmirror

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

const typeName = "walmirror"

// NewFactory returns the factory of the walmirror extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(component.MustNewType(typeName), createDefaultConfig, create, component.StabilityLevelDevelopment)
}

func create(_ context.Context, set extension.Settings, _ component.Config) (extension.Extension, error) {
	return &mirror{logger: set.Logger}, nil
}
