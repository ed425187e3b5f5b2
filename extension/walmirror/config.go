package walmirror

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/siglakecol/siglakecol/extension/internal/stores"
	"github.com/siglakecol/siglakecol/internal/objstore"
)

// defaultPrefix is the directory of the mirror beneath the bucket, as the reference system names it.
const defaultPrefix = "wal-mirror"

// Config is what a user writes under extensions::walmirror.
type Config struct {
	// BucketURL names the store, credentials never in it. Empty: no mirror.
	BucketURL string `mapstructure:"bucket_url"`
	// Prefix is the directory of the copies in it. Empty: no mirror.
	Prefix string `mapstructure:"prefix"`
	// S3 says how s3:// is reached.
	S3 stores.S3Config `mapstructure:"s3"`
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

func createDefaultConfig() component.Config {
	return &Config{
		Prefix: defaultPrefix, S3: stores.Default(),
		SweepInterval: 5 * time.Minute, Concurrency: 4, AttemptTimeout: 30 * time.Second, ShutdownTimeout: 10 * time.Second,
	}
}

// idle tells that nothing is to be copied.
func (c *Config) idle() bool { return c.BucketURL == "" || c.Prefix == "" }

// location is where the copies go.
func (c *Config) location() (objstore.Location, error) {
	l, err := objstore.ParseURL(c.BucketURL)
	if err != nil {
		return objstore.Location{}, err
	}
	return l.Join(c.Prefix), nil
}

// minInterval is the least of the durations: a bare number is in nanoseconds.
const minInterval = time.Second

// Validate looks at the text only; confmap calls the one of S3.
func (c *Config) Validate() error {
	var errs []error
	if c.BucketURL != "" {
		if _, err := objstore.ParseURL(c.BucketURL); err != nil {
			errs = append(errs, fmt.Errorf("bucket_url: %w", err))
		}
	}
	if c.Prefix != "" && !cleanPrefix(c.Prefix) {
		errs = append(errs, fmt.Errorf("prefix: %q is no path of plain names; write for example wal-mirror, or \"\" for no mirror", c.Prefix))
	}
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

// cleanPrefix accepts names that mean themselves in every store and in the path of a URL.
func cleanPrefix(prefix string) bool {
	for name := range strings.SplitSeq(prefix, "/") {
		if name == "" || name == "." || name == ".." || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=") != "" {
			return false
		}
	}
	return true
}
