package siglakeexporter

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/siglakecol/siglakecol/internal/wal"
)

// Config is what a user writes under exporters::siglake.
type Config struct {
	WAL     WALConfig     `mapstructure:"wal"`
	Commit  CommitConfig  `mapstructure:"commit"`
	Tenancy TenancyConfig `mapstructure:"tenancy"`
	// IndexAttribute names the resource attribute whose value is the index of the resource's rows; empty: none does.
	IndexAttribute string `mapstructure:"index_attribute"`
	// Mirror is the id of the walmirror extension that copies the log; nil for none.
	Mirror *component.ID `mapstructure:"mirror"`
}

// WALConfig says where the write-ahead log is and when it refuses. It is comparable: exporters that share a
// root must have the same.
type WALConfig struct {
	Directory   string        `mapstructure:"directory"`
	Shared      bool          `mapstructure:"shared"` // other collectors that set it too write to the directory
	Segment     SegmentConfig `mapstructure:"segment"`
	MaxBytes    int64         `mapstructure:"max_bytes"`     // bytes below directory; 0 = 75 % of the volume
	MinFree     int64         `mapstructure:"min_free"`      // bytes left free on the volume; 0 = the larger of 5 % and 512 MiB
	MaxInFlight int64         `mapstructure:"max_in_flight"` // bytes of requests being written at once
	MaxWaiting  int           `mapstructure:"max_waiting"`   // requests that wait for their answer at once
	PaceAfter   time.Duration `mapstructure:"pace_after"`    // how far the tables may fall behind until requests wait for the drain; 0 = never
	MaxLanes    int           `mapstructure:"max_lanes"`     // tenants times indexes, those on disk included
	MaxTenants  int           `mapstructure:"max_tenants"`   // those on disk included
}

// SegmentConfig says when an open segment is sealed: when any of the three is reached.
type SegmentConfig struct {
	MaxEvents int           `mapstructure:"max_events"` // rows
	MaxAge    time.Duration `mapstructure:"max_age"`
	MaxBytes  int64         `mapstructure:"max_bytes"`
}

// minMaxAge is the least max_age: below it each request would make a segment of its own, and it is a duration whose
// unit was forgotten.
const minMaxAge = 10 * time.Millisecond

// CommitConfig says what an answer waits for.
type CommitConfig struct {
	Default Mode `mapstructure:"default"` // for requests that name no mode
	// MirroredTimeout is how long an answer under mirrored waits for the copy at most, MirroredSealAfter how long a
	// segment with such rows gathers more of them before it is sealed and copied.
	MirroredTimeout   time.Duration `mapstructure:"mirrored_timeout"`
	MirroredSealAfter time.Duration `mapstructure:"mirrored_seal_after"`
	// ForceTimeout is how long an answer under force waits for the commit to the table at most.
	ForceTimeout time.Duration `mapstructure:"force_timeout"`
}

// Validate checks the keys of this level.
func (c *CommitConfig) Validate() error {
	var errs []error
	for _, t := range []struct {
		key  string
		have time.Duration
	}{{"mirrored_timeout", c.MirroredTimeout}, {"force_timeout", c.ForceTimeout}} {
		if t.have < time.Second {
			errs = append(errs, fmt.Errorf("%s: %s is below 1s; give a duration with its unit, for example 30s", t.key, t.have))
		}
	}
	if c.MirroredSealAfter < minMaxAge {
		errs = append(errs, fmt.Errorf("mirrored_seal_after: %s is below %s; give a duration with its unit, for example 100ms", c.MirroredSealAfter, minMaxAge))
	}
	return errors.Join(errs...)
}

func createDefaultConfig() component.Config {
	return &Config{
		WAL: WALConfig{
			Segment:     SegmentConfig{MaxEvents: 4096, MaxAge: 5 * time.Second, MaxBytes: 32 << 20},
			MaxInFlight: 64 << 20, MaxWaiting: 8192, MaxLanes: 4096, MaxTenants: 1000,
		},
		Commit: CommitConfig{Default: modeWaitFor, MirroredTimeout: 30 * time.Second, MirroredSealAfter: 100 * time.Millisecond, ForceTimeout: 30 * time.Second},
	}
}

// Validate checks the keys of this level; confmap calls the nested ones and names the path.
func (c *WALConfig) Validate() error {
	var errs []error
	if c.PaceAfter != 0 && c.PaceAfter < time.Second {
		errs = append(errs, fmt.Errorf("pace_after: %s is below 1s, less than a commit takes; give a duration with its unit, for example 10s, or 0 for never", c.PaceAfter))
	}
	if c.Directory == "" {
		errs = append(errs, errors.New(`directory: "" names no directory; set it to where the write-ahead log lives, on a disk of its own if you can (an unset ${env:NAME} is empty: write ${env:NAME:-/path})`))
	}
	return errors.Join(append(errs,
		atLeast("max_bytes", c.MaxBytes, 0, "bytes, 0 for 75 % of the volume"),
		atLeast("min_free", c.MinFree, 0, "bytes, 0 for the larger of 5 % of the volume and 512 MiB"),
		atLeast("max_in_flight", c.MaxInFlight, 1, "bytes, for example 67108864"),
		atLeast("max_waiting", int64(c.MaxWaiting), 1, "requests, for example 8192"),
		atLeast("max_lanes", int64(c.MaxLanes), 3, "lanes, three for each tenant, for example 4096"),
		atLeast("max_tenants", int64(c.MaxTenants), 1, "tenants, for example 1000"),
	)...)
}

// Validate checks the keys of this level.
func (c *SegmentConfig) Validate() error {
	var errs []error
	if c.MaxAge < minMaxAge {
		errs = append(errs, fmt.Errorf("max_age: %s is below %s; give a duration with its unit, for example 5s (a bare 5 is 5 nanoseconds)", c.MaxAge, minMaxAge))
	}
	return errors.Join(append(errs,
		atLeast("max_events", int64(c.MaxEvents), 1, "rows, for example 4096"),
		atLeast("max_bytes", c.MaxBytes, 1, "bytes, for example 33554432"),
		atMost("max_bytes", c.MaxBytes, wal.MaxSegmentBytes, "bytes, for example 33554432: a segment is read as a whole"),
	)...)
}

func atMost(key string, value, most int64, want string) error {
	if value <= most {
		return nil
	}
	return fmt.Errorf("%s: %d is above %d; give %s", key, value, most, want)
}

func atLeast(key string, value, least int64, want string) error {
	if value >= least {
		return nil
	}
	return fmt.Errorf("%s: %d is below %d; give %s", key, value, least, want)
}
