package walmirror

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/siglakecol/siglakecol/extension/internal/stores"
)

// Config is what a user writes under extensions::walmirror.
type Config struct {
	// BucketURL, Prefix and S3 say where the copies go, as in stores.MirrorConfig. They are not squashed into it: an error
	// would name the key mirrorconfig, which nobody can write.
	BucketURL string          `mapstructure:"bucket_url"`
	Prefix    string          `mapstructure:"prefix"`
	S3        stores.S3Config `mapstructure:"s3"`

	// SweepInterval is how often sealed/ and mirror-pending/ are looked through, the first time at the start. 0: never.
	SweepInterval time.Duration `mapstructure:"sweep_interval"`
	// ActiveInterval is how often open segments are uploaded as far as they are. 0: never.
	ActiveInterval time.Duration `mapstructure:"active_interval"`
	// Concurrency is how many objects are uploaded at a time.
	Concurrency int `mapstructure:"concurrency"`
	// AttemptTimeout bounds one attempt, and a second more for each MiB.
	AttemptTimeout time.Duration `mapstructure:"attempt_timeout"`
	// ShutdownTimeout bounds what is still uploaded at the end.
	ShutdownTimeout time.Duration `mapstructure:"shutdown_timeout"`

	// prevent unkeyed literals
	_ struct{}
}

// mirror is where the copies go.
func (c *Config) mirror() *stores.MirrorConfig {
	return &stores.MirrorConfig{BucketURL: c.BucketURL, Prefix: c.Prefix, S3: c.S3}
}

func createDefaultConfig() component.Config {
	at := stores.DefaultMirror()
	return &Config{
		BucketURL: at.BucketURL, Prefix: at.Prefix, S3: at.S3,
		SweepInterval: 5 * time.Minute, Concurrency: 4, AttemptTimeout: 30 * time.Second, ShutdownTimeout: 10 * time.Second,
	}
}

// minInterval is the least of the durations: a bare number is in nanoseconds.
const minInterval = time.Second

// Validate looks at the text only; confmap calls that of S3.
func (c *Config) Validate() error {
	errs := []error{c.mirror().Validate()}
	for _, d := range []struct {
		key   string
		value time.Duration
		zero  string
	}{
		{"sweep_interval", c.SweepInterval, "0 for never"},
		{"active_interval", c.ActiveInterval, "0 for never"},
		{"attempt_timeout", c.AttemptTimeout, ""},
		{"shutdown_timeout", c.ShutdownTimeout, "0 to leave everything to the next start"},
	} {
		if d.value >= minInterval || d.value == 0 && d.zero != "" {
			continue
		}
		or := ""
		if d.zero != "" {
			or = ", or " + d.zero
		}
		errs = append(errs, fmt.Errorf("%s: %s is below %s; give a duration with its unit, for example 30s%s", d.key, d.value, minInterval, or))
	}
	if c.Concurrency < 1 || c.Concurrency > 64 {
		errs = append(errs, fmt.Errorf("concurrency: %d is not from 1 to 64; give for example 4", c.Concurrency))
	}
	return errors.Join(errs...)
}
