package ingestparams

import "go.opentelemetry.io/collector/component"

// Config is what a user writes under extensions::ingestparams.
type Config struct {
	// AllowBrokenAck starts pipelines that answer before rows are on disk, with a warning for each.
	AllowBrokenAck bool `mapstructure:"allow_broken_ack"`
}

func createDefaultConfig() component.Config {
	return &Config{}
}
