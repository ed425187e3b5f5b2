package walmirror

import (
	"fmt"
	"net/url"

	"go.opentelemetry.io/collector/component"
)

// defaultPrefix is the directory of the mirror beneath the bucket, as the reference system names it.
const defaultPrefix = "wal-mirror"

// Config is what a user writes under extensions::walmirror.
type Config struct {
	// BucketURL names the bucket that would hold the copies, credentials never in it. Empty: no mirror.
	BucketURL string `mapstructure:"bucket_url"`
	// Prefix is the directory of the copies in the bucket.
	Prefix string `mapstructure:"prefix"`
}

func createDefaultConfig() component.Config {
	return &Config{Prefix: defaultPrefix}
}

// Validate refuses a bucket: a Collector that ran with one and copied nothing would be believed.
func (c *Config) Validate() error {
	if c.BucketURL == "" {
		return nil
	}
	return fmt.Errorf("bucket_url: %q: mirroring is not built in this version; remove the key (rows are then on the local volume only, until the compactor commits them)",
		redact(c.BucketURL))
}

// redact keeps scheme and host: a query or user part may hold a secret.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return "(not a URL)"
	}
	return u.Scheme + "://" + u.Host
}
