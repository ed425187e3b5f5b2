package lakecompactor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/extension"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// compactor runs one drain, and what keeps its tables small, until Shutdown.
type compactor struct {
	cfg  Config
	set  extension.Settings
	stop context.CancelFunc
	done chan struct{} // closed by the goroutine
	host component.Host
	err  error // of the drain; read after done
}

// Start looks at the directories and starts the drain. What a person must correct is an error here; what may
// pass (a log the exporter has not made yet, another drain on it, a catalog that is away) is a status.
func (c *compactor) Start(starting context.Context, host component.Host) error {
	if err := c.check(starting, vfs.OS()); err != nil {
		return fmt.Errorf("extensions::%s::%w", c.set.ID, err)
	}
	ctx, stop := context.WithCancel(context.Background()) // ends with Shutdown, not with Start
	c.stop, c.done, c.host = stop, make(chan struct{}), host
	go func() {
		defer close(c.done)
		c.err = c.run(ctx)
		if c.err != nil {
			c.set.Logger.Error("drain ended", zap.Error(c.err))
			componentstatus.ReportStatus(host, componentstatus.NewPermanentErrorEvent(c.err))
		}
	}()
	return nil
}

// Shutdown ends the claiming and waits for the commit in hand, at most as long as ctx. What is not committed by
// then is back in sealed/, or is found in processing/ by the next start.
func (c *compactor) Shutdown(ctx context.Context) error {
	if c.stop == nil {
		return nil
	}
	c.stop()
	select {
	case <-c.done:
		return nil // c.err has been logged and reported
	case <-ctx.Done():
		return fmt.Errorf("wait for the drain: %w", ctx.Err())
	}
}

// compactInterval is how often tables are looked through for small files to merge. One that no commit has changed costs
// nothing.
const compactInterval = 10 * time.Second

// dropInterval is how often tables are looked through for days whose time is over.
const dropInterval = 10 * time.Minute

func (c *compactor) run(ctx context.Context) error {
	meter := c.set.MeterProvider.Meter(scopeName)
	promote, err := c.cfg.promotions()
	if err != nil {
		return err
	}
	opt := drain.Options{
		FS:  vfs.OS(),
		WAL: c.cfg.WALDirectory,
		OpenLake: func(ctx context.Context) (*lake.Lake, error) {
			opt, err := c.cfg.withTLS(ctx)
			if err != nil {
				return nil, err
			}
			opt.Promote, opt.Logger, opt.Meter = promote, c.set.Logger, meter
			return lake.Open(ctx, opt)
		},
		GateBytes:        c.cfg.Gate.Bytes,
		GateAge:          c.cfg.Gate.Age,
		Poll:             c.cfg.PollInterval,
		MaxBytesInFlight: c.cfg.MaxBytesInFlight,
		Retain:           c.cfg.Retention.WAL,
		Drop:             c.cfg.Retention.drop(),
		Logger:           c.set.Logger,
		Meter:            meter,
		Holder:           holder(c.set.ID, time.Now()),
		Status:           c.report,
	}
	retention, closeMirror, err := c.retention(ctx, meter)
	if err != nil {
		return err
	}
	var behind atomic.Bool
	opt.Behind = behind.Store
	opt.Beside = func(ctx context.Context, l *lake.Lake) {
		var beside sync.WaitGroup
		defer beside.Wait()
		if keep := c.cfg.Snapshots; keep.RetainLast > 0 && c.cfg.Maintenance == maintenanceAuto {
			beside.Go(func() { l.Maintain(ctx, lake.Upkeep{RetainLast: keep.RetainLast, Interval: keep.Interval}) })
		}
		if c.cfg.Maintenance == maintenanceAuto {
			beside.Go(func() { l.Compact(ctx, lake.Compaction{Interval: compactInterval, Behind: behind.Load}) })
		}
		if opt.Drop.Keep > 0 {
			beside.Go(func() { l.DropOldDays(ctx, opt.Drop) })
		}
		if retention != nil {
			beside.Go(func() { c.retain(ctx, l, retention) })
		}
	}
	return errors.Join(drain.Run(ctx, opt), closeMirror())
}

// report passes on what keeps the drain from its work; the drain has logged it.
func (c *compactor) report(err error) {
	if err == nil {
		componentstatus.ReportStatus(c.host, componentstatus.NewEvent(componentstatus.StatusOK))
		return
	}
	componentstatus.ReportStatus(c.host, componentstatus.NewRecoverableErrorEvent(err))
}

// check looks for what the text of the configuration does not show. It asks no server: one that is away is waited for.
func (c *compactor) check(ctx context.Context, fsys vfs.FS) error {
	if _, err := c.cfg.withTLS(ctx); err != nil {
		return err
	}
	abs := c.cfg
	var err error
	if abs.WALDirectory, err = filepath.Abs(c.cfg.WALDirectory); err != nil {
		return fmt.Errorf("wal_directory: %q: %w", c.cfg.WALDirectory, err)
	}
	file, hasFile := catalogFile(string(c.cfg.Catalog))
	if hasFile {
		if file, err = filepath.Abs(file); err != nil {
			return fmt.Errorf("catalog: %q: %w", file, err)
		}
		abs.Catalog = configopaque.String("sqlite://" + file)
	}
	dir, hasDir := warehouseDir(c.cfg.Warehouse)
	if hasDir {
		if dir, err = filepath.Abs(dir); err != nil {
			return fmt.Errorf("warehouse: %q: %w", dir, err)
		}
		abs.Warehouse = dir
	}
	if err := abs.apart(); err != nil {
		return err
	}
	if err := checkWAL(fsys, c.cfg.WALDirectory); err != nil {
		return err
	}
	// Nothing is made before all else is right: the warehouse may be the very directory the catalog lacks.
	if hasFile {
		if err := checkDir(fsys, string(c.cfg.Catalog), filepath.Dir(file)); err != nil {
			return err
		}
	}
	if hasDir {
		return makeWarehouse(fsys, c.cfg.Warehouse, dir)
	}
	return nil
}

// checkWAL refuses a directory that holds something else. One that is missing or empty may become a root: extensions
// start before the exporter that makes it, and the drain waits.
func checkWAL(fsys vfs.FS, dir string) error {
	if _, err := segment.Open(fsys, dir); !errors.Is(err, segment.ErrNotRoot) {
		return nil // a root, or trouble that the drain reports and waits for
	}
	if err := segment.Vacant(fsys, dir); err != nil {
		return fmt.Errorf("wal_directory: %q: %w; name the directory that the siglake exporter writes to (exporters::siglake::wal::directory)", dir, err)
	}
	return nil
}

func checkDir(fsys vfs.FS, value, dir string) error {
	_, err := fsys.Stat(dir + "/.") // through a symbolic link too
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("catalog: %q: the directory %s does not exist; make it, or name a file in one that exists", value, dir)
	}
	if err != nil {
		return fmt.Errorf("catalog: %q: look at its directory: %w", value, err)
	}
	return nil
}

func makeWarehouse(fsys vfs.FS, value, dir string) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return fmt.Errorf("warehouse: %q cannot be made: %w; make the directory writable, or name another", value, err)
	}
	return nil
}

// holder is the text in the lock file for whoever is refused.
func holder(id component.ID, now time.Time) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s on %s, pid %d, since %s", id, host, os.Getpid(), now.UTC().Format(time.RFC3339))
}
