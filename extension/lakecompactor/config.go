package lakecompactor

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Config is what a user writes under extensions::lakecompactor.
type Config struct {
	// WALDirectory is the directory the siglake exporter writes to (its key wal::directory).
	WALDirectory string `mapstructure:"wal_directory"`
	// Catalog is sqlite:///absolute/path of the catalog file, or sqlite://./relative/path.
	Catalog string `mapstructure:"catalog"`
	// Warehouse is the directory of the tables, as a path or a file:// URL.
	Warehouse string `mapstructure:"warehouse"`
	// Gate says when sealed segments are worth a commit.
	Gate GateConfig `mapstructure:"gate"`
	// PollInterval is how often the directories are looked at.
	PollInterval time.Duration `mapstructure:"poll_interval"`
	// Retention says how long drained segments stay.
	Retention RetentionConfig `mapstructure:"retention"`
	// MaxBytesInFlight bounds the bytes of segments being drained at a time, and with it memory.
	MaxBytesInFlight int64 `mapstructure:"max_bytes_in_flight"`
	// Promote lists attributes that get columns of their own.
	Promote []PromoteConfig `mapstructure:"promote"`

	// prevent unkeyed literals
	_ struct{}
}

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
		Gate:             GateConfig{Bytes: 32 << 20, Age: 10 * time.Second},
		PollInterval:     time.Second,
		Retention:        RetentionConfig{WAL: time.Minute},
		MaxBytesInFlight: 64 << 20,
	}
}

// Validate looks at the text only: no disk, no network. Start looks at the directories.
func (c *Config) Validate() error {
	var errs []error
	if c.WALDirectory == "" {
		errs = append(errs, errors.New(`wal_directory: "" names no directory; give the one the siglake exporter writes to (exporters::siglake::wal::directory)`))
	}
	_, catalogErr := catalogFile(c.Catalog)
	_, warehouseErr := warehouseDir(c.Warehouse)
	errs = append(errs, catalogErr, warehouseErr)
	if c.WALDirectory != "" && catalogErr == nil && warehouseErr == nil {
		errs = append(errs, c.apart())
	}
	if c.MaxBytesInFlight <= 0 {
		errs = append(errs, fmt.Errorf("max_bytes_in_flight: %d is not a size; give bytes above 0, for example 67108864", c.MaxBytesInFlight))
	}
	if c.PollInterval < 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("poll_interval: %s is too short; give at least 10ms, for example 1s", c.PollInterval))
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
	if c.WAL <= 0 {
		return fmt.Errorf("wal: %s is not a duration; give one above 0, for example 60s", c.WAL)
	}
	return nil
}

// apart refuses a catalog or a warehouse inside the write-ahead log: the exporter would take their files for
// damage, and a retention of the one could delete the other.
func (c *Config) apart() error {
	file, err := catalogFile(c.Catalog)
	if err != nil {
		return err
	}
	dir, err := warehouseDir(c.Warehouse)
	if err != nil {
		return err
	}
	var errs []error
	if within(dir, c.WALDirectory) {
		errs = append(errs, fmt.Errorf("warehouse: %q is inside wal_directory %q; give the warehouse a directory of its own", c.Warehouse, c.WALDirectory))
	}
	if within(file, c.WALDirectory) {
		errs = append(errs, fmt.Errorf("catalog: %q is inside wal_directory %q; put the catalog file beside the log, not into it", c.Catalog, c.WALDirectory))
	}
	return errors.Join(errs...)
}

// within tells whether a path is dir or below it. A relative and an absolute path are compared by Start only,
// when the working directory is known.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// catalogFile is the path of the catalog, as written.
func catalogFile(value string) (string, error) {
	path, ok := strings.CutPrefix(value, "sqlite://")
	if !ok || path == "" || strings.HasSuffix(path, "/") {
		return "", fmt.Errorf("catalog: %q names no SQLite file; write sqlite:///absolute/path/catalog.db or sqlite://./relative/path/catalog.db", value)
	}
	if strings.HasPrefix(path, "/./") || strings.HasPrefix(path, "/../") {
		path = path[1:] // how other programs write a relative path
	}
	return filepath.Clean(path), nil
}

// warehouseDir is the directory of the warehouse, as written.
func warehouseDir(value string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("warehouse: %q %s; write a directory or file:///absolute/path", value, why)
	}
	path, isURL := strings.CutPrefix(value, "file://")
	switch {
	case path == "":
		return bad("names no directory")
	case !isURL && strings.Contains(path, "://"):
		return bad("is a store that this version cannot write to")
	case !isURL, strings.HasPrefix(path, "./"), strings.HasPrefix(path, "../"):
		return filepath.Clean(path), nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Path == "" || u.Host != "" && u.Host != "localhost" {
		return bad("is not a local file URL")
	}
	return filepath.Clean(u.Path), nil
}
