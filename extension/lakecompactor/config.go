package lakecompactor

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"

	"github.com/siglakecol/siglakecol/extension/internal/stores"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Config is what a user writes under extensions::lakecompactor.
type Config struct {
	// WALDirectory is the directory the siglake exporter writes to (its key wal::directory).
	WALDirectory string `mapstructure:"wal_directory"`
	// Catalog is sqlite:///absolute/path of a file (or sqlite://./relative/path), postgres://user@host/database, or
	// rest+https://host/path. It may hold a password.
	Catalog configopaque.String `mapstructure:"catalog"`
	// Warehouse is where new tables go: a directory as a path or a file:// URL, s3://bucket/prefix, gs://bucket/prefix or
	// azblob://container/prefix.
	Warehouse string `mapstructure:"warehouse"`
	// S3 says how s3:// is reached.
	S3 stores.S3Config `mapstructure:"s3"`
	// REST says how rest+https:// is spoken to.
	REST RESTConfig `mapstructure:"rest"`
	// Gate says when sealed segments are worth a commit.
	Gate GateConfig `mapstructure:"gate"`
	// PollInterval is how often the directories are looked at.
	PollInterval time.Duration `mapstructure:"poll_interval"`
	// Retention says how long drained segments stay.
	Retention RetentionConfig `mapstructure:"retention"`
	// Maintenance is auto or off: whether tables are changed beyond what rows need.
	Maintenance string `mapstructure:"maintenance"`
	// Snapshots says how many snapshots of a table stay.
	Snapshots SnapshotsConfig `mapstructure:"snapshots"`
	// Mirror is where the copies of the log are that Retention.Mirror is about: the keys of the walmirror extension.
	Mirror stores.MirrorConfig `mapstructure:"mirror"`
	// MaxBytesInFlight bounds the bytes of segments being drained at a time, and with it memory.
	MaxBytesInFlight int64 `mapstructure:"max_bytes_in_flight"`
	// Promote lists attributes that get columns of their own.
	Promote []PromoteConfig `mapstructure:"promote"`

	// prevent unkeyed literals
	_ struct{}
}

// The values of Config.Maintenance.
const (
	maintenanceAuto = "auto"
	maintenanceOff  = "off"
)

// GateConfig opens a lane when either is reached.
type GateConfig struct {
	Bytes int64         `mapstructure:"bytes"`
	Age   time.Duration `mapstructure:"age"`

	// prevent unkeyed literals
	_ struct{}
}

// RetentionConfig says how long what is drained stays.
type RetentionConfig struct {
	// WAL is for segments in committed/, counted from their commit.
	WAL time.Duration `mapstructure:"wal"`
	// Mirror is for their copies in the mirror, counted from when they were found committed and gone from the volume.
	// 0: they stay.
	Mirror time.Duration `mapstructure:"mirror"`
	// Table is for rows in the tables: a day, UTC, by the rows' timestamp, goes as a whole when it ended that long ago.
	// 0: they stay.
	Table time.Duration `mapstructure:"table"`

	// prevent unkeyed literals
	_ struct{}
}

// SnapshotsConfig says how the history of the tables is kept short.
type SnapshotsConfig struct {
	// RetainLast snapshots of each table stay. 0: all.
	RetainLast int `mapstructure:"retain_last"`
	// Interval is the time from one look at the tables to the next.
	Interval time.Duration `mapstructure:"interval"`

	// prevent unkeyed literals
	_ struct{}
}

// PromoteConfig is an attribute and the column it gets.
type PromoteConfig struct {
	Attribute string   `mapstructure:"attribute"`
	From      string   `mapstructure:"from"`    // attributes, resource or scope; empty: attributes
	Type      string   `mapstructure:"type"`    // string, int, long, double, bool or timestamp; empty: string
	Column    string   `mapstructure:"column"`  // empty: the attribute with _ for what is no word character
	Signals   []string `mapstructure:"signals"` // logs, traces, metrics; empty: all

	// prevent unkeyed literals
	_ struct{}
}

// promotions are what the keys promote say.
func (c *Config) promotions() (*otelarrow.Promotions, error) {
	list := make([]otelarrow.Promotion, len(c.Promote))
	for i, p := range c.Promote {
		list[i] = otelarrow.Promotion{Attribute: p.Attribute, From: p.From, Type: p.Type, Column: p.Column, Signals: p.Signals}
	}
	return otelarrow.NewPromotions(list)
}

func createDefaultConfig() component.Config {
	return &Config{
		S3:               stores.Default(),
		Gate:             GateConfig{Bytes: 32 << 20, Age: 10 * time.Second},
		PollInterval:     time.Second,
		Maintenance:      maintenanceAuto,
		Snapshots:        SnapshotsConfig{RetainLast: 100, Interval: time.Minute},
		Retention:        RetentionConfig{WAL: time.Minute, Mirror: 24 * time.Hour},
		Mirror:           stores.DefaultMirror(),
		MaxBytesInFlight: 64 << 20,
	}
}

// Validate looks at the text only: no disk, no network. Start looks at the directories.
func (c *Config) Validate() error {
	var errs []error
	if c.WALDirectory == "" {
		errs = append(errs, errors.New(`wal_directory: "" names no directory; give the one the siglake exporter writes to (exporters::siglake::wal::directory)`))
	}
	placeErr := c.place().Validate()
	errs = append(errs, placeErr, c.restErr())
	if c.WALDirectory != "" && placeErr == nil {
		errs = append(errs, c.apart())
	}
	if c.MaxBytesInFlight <= 0 {
		errs = append(errs, fmt.Errorf("max_bytes_in_flight: %d is not a size; give bytes above 0, for example 67108864", c.MaxBytesInFlight))
	}
	if c.PollInterval < 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("poll_interval: %s is too short; give at least 10ms, for example 1s", c.PollInterval))
	}
	if c.Maintenance != maintenanceAuto && c.Maintenance != maintenanceOff {
		errs = append(errs, fmt.Errorf("maintenance: %q is neither auto nor off; off leaves small files and old snapshots to another program", c.Maintenance))
	}
	if at, err := c.Mirror.Location(); err == nil && !c.Mirror.Idle() && c.WALDirectory != "" && placeErr == nil {
		errs = append(errs, c.mirrorApart(at))
	}
	_, promoteErr := c.promotions()
	return errors.Join(append(errs, promoteErr)...)
}

// Validate is called for the section by itself.
func (c *GateConfig) Validate() error {
	var errs []error
	if c.Bytes <= 0 {
		errs = append(errs, fmt.Errorf("bytes: %d is not a size; give bytes above 0: 33554432, or 1 to commit whatever is there", c.Bytes))
	}
	if c.Age <= 0 {
		errs = append(errs, fmt.Errorf("age: %s is not a duration; give one above 0, for example 10s", c.Age))
	}
	return errors.Join(errs...)
}

// Validate is called for the section by itself.
func (c *RetentionConfig) Validate() error {
	var errs []error
	if c.WAL <= 0 {
		errs = append(errs, fmt.Errorf("wal: %s is not a duration; give one above 0, for example 60s", c.WAL))
	}
	if c.Mirror != 0 && c.Mirror < mirror.LeastKeep {
		errs = append(errs, fmt.Errorf("mirror: %s is below %s, within which an upload may still be on its way; give for example 24h, or 0 for never", c.Mirror, mirror.LeastKeep))
	}
	if c.Table != 0 && c.Table < leastTableRetention {
		errs = append(errs, fmt.Errorf("table: %s is below %s, the size of a day partition; give for example 720h for 30 days, or 0 for never", c.Table, leastTableRetention))
	}
	return errors.Join(errs...)
}

// leastTableRetention is a day, which is what goes at a time.
const leastTableRetention = 24 * time.Hour

// drop is what deletes old days; nothing without a Keep. Until the newest segment of a day is so old the drain, after a restart, or
// the mirror's retention may ask the table whether it is committed.
func (c *RetentionConfig) drop() lake.Retention {
	return lake.Retention{Keep: c.Table, Settled: 24*time.Hour + max(24*time.Hour, c.Mirror), Interval: dropInterval}
}

// Validate is called for the section by itself.
func (c *SnapshotsConfig) Validate() error {
	var errs []error
	if c.RetainLast < 0 {
		errs = append(errs, fmt.Errorf("retain_last: %d is not a number of snapshots; give 1 or more, for example 100, or 0 to keep all", c.RetainLast))
	}
	if c.Interval < time.Second {
		errs = append(errs, fmt.Errorf("interval: %s is too short; give at least 1s, for example 60s", c.Interval))
	}
	return errors.Join(errs...)
}

// apart refuses a catalog or a warehouse inside the write-ahead log: the exporter would take their files for
// damage, and a retention of the one could delete the other.
func (c *Config) apart() error {
	var errs []error
	if dir, ok := warehouseDir(c.Warehouse); ok && within(dir, c.WALDirectory) {
		errs = append(errs, fmt.Errorf("warehouse: %q is inside wal_directory %q; give the warehouse a directory of its own", c.Warehouse, c.WALDirectory))
	}
	if file, ok := catalogFile(string(c.Catalog)); ok && within(file, c.WALDirectory) {
		errs = append(errs, fmt.Errorf("catalog: %q is inside wal_directory %q; put the catalog file beside the log, not into it", string(c.Catalog), c.WALDirectory))
	}
	return errors.Join(errs...)
}

// within tells whether a path is dir or below it. A relative and an absolute path are compared by Start only,
// when the working directory is known.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// catalogFile is the path of the catalog, as written, if it is a file.
func catalogFile(value string) (string, bool) {
	path, ok := strings.CutPrefix(value, "sqlite://")
	if strings.HasPrefix(path, "/./") || strings.HasPrefix(path, "/../") {
		path = path[1:] // how other programs write a relative path
	}
	return filepath.Clean(path), ok
}

// warehouseDir is the directory of the warehouse, as written, if it is on a local disk.
func warehouseDir(value string) (string, bool) {
	path, isURL := strings.CutPrefix(value, "file://")
	switch {
	case value == "", !isURL && strings.Contains(value, "://"):
		return "", false
	case !isURL, strings.HasPrefix(path, "./"), strings.HasPrefix(path, "../"):
		return filepath.Clean(path), true
	}
	u, err := url.Parse(value)
	if err != nil {
		return "", false
	}
	return filepath.Clean(u.Path), true
}
