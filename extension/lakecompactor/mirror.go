package lakecompactor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/extension/internal/stores"
	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

var _ extensioncapabilities.ConfigSnapshotWatcher = (*compactor)(nil)

// retention is what deletes the copies of committed segments; nil where there is no mirror or they stay for ever. The
// function closes its store.
func (c *compactor) retention(ctx context.Context, meter metric.Meter) (r *mirror.Retention, done func() error, err error) {
	if c.cfg.Mirror.Idle() || c.cfg.Retention.Mirror == 0 {
		return nil, func() error { return nil }, nil
	}
	at, err := c.cfg.Mirror.Location()
	if err != nil {
		return nil, nil, err
	}
	store, err := objstore.Open(ctx, at.String(), objstore.Options{S3: c.cfg.Mirror.S3.Options()})
	if err != nil {
		return nil, nil, fmt.Errorf("mirror::bucket_url: %w", err)
	}
	r, err = mirror.NewRetention(mirror.RetentionOptions{
		Store: store, Keep: c.cfg.Retention.Mirror, Logger: c.set.Logger, Meter: meter,
	})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return r, store.Close, nil
}

// retain runs a retention beside the drain, which holds the root.
func (c *compactor) retain(ctx context.Context, l *lake.Lake, r *mirror.Retention) {
	root, err := segment.Open(vfs.OS(), c.cfg.WALDirectory)
	if err != nil {
		c.set.Logger.Error("nothing is deleted from the mirror until the next start", zap.Error(err))
		return
	}
	r.Run(ctx, root, func(ctx context.Context, tenant, index string, ids []segment.ID) (map[segment.ID]int64, error) {
		return drain.Committed(ctx, l, root, tenant, index, ids)
	})
}

// mirrorApart refuses a mirror that shares its directory with the log or the tables.
func (c *Config) mirrorApart(at objstore.Location) error {
	apart := func(key string, l objstore.Location) error {
		l, err := l.Absolute()
		if err != nil || !l.Overlaps(at) {
			return nil //nolint:nilerr // what has no place contains nothing
		}
		return fmt.Errorf("mirror: %s and %s %s are inside one another; give the mirror a directory beside it", at, key, l)
	}
	errs := []error{apart("wal_directory", objstore.Location{Scheme: "file", Path: filepath.Clean(c.WALDirectory)})}
	if dir, local := warehouseDir(c.Warehouse); local {
		errs = append(errs, apart("warehouse", objstore.Location{Scheme: "file", Path: dir}))
	} else if house, err := objstore.ParseURL(c.Warehouse); err == nil {
		errs = append(errs, apart("warehouse", house))
	}
	return errors.Join(errs...)
}

// others is what the check below reads of the Collector's configuration.
type others struct {
	Exporters map[string]struct {
		Mirror string `mapstructure:"mirror"`
		WAL    struct {
			Directory string `mapstructure:"directory"`
		} `mapstructure:"wal"`
	} `mapstructure:"exporters"`
	Extensions map[string]map[string]any `mapstructure:"extensions"`
	Service    struct {
		Extensions []string `mapstructure:"extensions"`
	} `mapstructure:"service"`
}

// NotifyConfigSnapshot runs after the extensions have started and before any pipeline does. An error ends the start of
// the Collector with its text. The mirror whose copies are deleted is the one that the exporter of this log has, or
// nothing is ever deleted and nobody would notice.
func (c *compactor) NotifyConfigSnapshot(_ context.Context, snapshot extensioncapabilities.ConfigSnapshot) error {
	conf := snapshot.Effective()
	if conf == nil {
		return nil
	}
	var cfg others
	if err := conf.Unmarshal(&cfg, confmap.WithIgnoreUnused()); err != nil {
		return fmt.Errorf("read the effective configuration: %w", err)
	}
	for id, exporter := range cfg.Exporters {
		if typeOf(id) != "siglake" || exporter.Mirror == "" || !sameDir(exporter.WAL.Directory, c.cfg.WALDirectory) {
			continue
		}
		if err := c.compare(exporter.Mirror, cfg.Extensions[exporter.Mirror]); err != nil {
			return err
		}
	}
	return nil
}

// compare holds the mirror of the compactor against that of the walmirror extension id.
func (c *compactor) compare(id string, section map[string]any) error {
	theirs := struct {
		stores.MirrorConfig `mapstructure:",squash"`
		SweepInterval       time.Duration `mapstructure:"sweep_interval"`
	}{MirrorConfig: stores.DefaultMirror()}
	if err := confmap.NewFromStringMap(section).Unmarshal(&theirs, confmap.WithIgnoreUnused()); err != nil {
		return fmt.Errorf("read extensions::%s: %w", id, err)
	}
	mine := c.cfg.Mirror
	switch {
	case mine.Idle() && theirs.Idle():
		return nil
	case mine.Idle():
		c.set.Logger.Warn("nothing deletes the copies of committed segments from the mirror; set bucket_url and prefix here as there",
			zap.String("here", "extensions::"+c.set.ID.String()+"::mirror"), zap.String("there", "extensions::"+id))
		return nil
	case theirs.Idle():
		return fmt.Errorf("extensions::%s::mirror: it names a mirror and extensions::%s copies nothing; give both the same bucket_url and prefix", c.set.ID, id)
	}
	here, err := mine.Location()
	if err != nil {
		return err
	}
	there, err := theirs.Location()
	if err != nil {
		return nil //nolint:nilerr // the mirror says so
	}
	if here != there || mine.S3.Endpoint != theirs.S3.Endpoint {
		return fmt.Errorf("extensions::%s::mirror: %s is not the mirror of extensions::%s, %s; give both the same bucket_url, prefix and s3::endpoint",
			c.set.ID, name(here, mine.S3.Endpoint), id, name(there, theirs.S3.Endpoint))
	}
	// What is deleted sooner may be uploaded again from what the uploader knows of the volume.
	keep := c.cfg.Retention
	if least := keep.WAL + theirs.SweepInterval; keep.Mirror != 0 && keep.Mirror <= least {
		return fmt.Errorf("extensions::%s::retention::mirror: %s is not more than retention::wal (%s) and extensions::%s::sweep_interval (%s) together; give for example %s, or 0 for never",
			c.set.ID, keep.Mirror, keep.WAL, id, theirs.SweepInterval, 2*least)
	}
	return nil
}

func name(l objstore.Location, endpoint string) string {
	if endpoint == "" {
		return l.String()
	}
	return l.String() + " at " + endpoint
}

// sameDir compares two directories as they are written; one behind a link is another.
func sameDir(a, b string) bool {
	a, errA := filepath.Abs(strings.TrimSpace(a))
	b, errB := filepath.Abs(strings.TrimSpace(b))
	return errA == nil && errB == nil && a == b
}

func typeOf(id string) string {
	var parsed component.ID
	if err := parsed.UnmarshalText([]byte(id)); err != nil {
		return ""
	}
	return parsed.Type().String()
}
