package walmirror

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"
)

// mirror is the idle extension.
type mirror struct {
	component.ShutdownFunc

	logger *zap.Logger
}

// Start says once what an operator without a mirror has to know.
func (m *mirror) Start(context.Context, component.Host) error {
	m.logger.Warn("no mirror: rows that are acknowledged and not yet committed exist on the volume of the WAL only, and are lost with it",
		zap.String("until", "the compactor has committed them"))
	return nil
}
