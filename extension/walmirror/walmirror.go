package walmirror

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// walmirror runs the mirror of the root that its exporter attaches.
type walmirror struct {
	cfg  Config
	set  extension.Settings
	host component.Host

	mu     sync.Mutex
	store  objstore.Store // nil: idle or not started
	root   string         // attached
	mirror *mirror.Mirror
	stop   context.CancelFunc
	done   chan struct{} // closed when the mirror has ended
}

var (
	_ extension.Extension                         = (*walmirror)(nil)
	_ extensioncapabilities.ConfigSnapshotWatcher = (*walmirror)(nil)
)

// Start opens the store. It sends nothing: a store that is away holds up nobody.
func (w *walmirror) Start(ctx context.Context, host component.Host) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = host
	if w.cfg.mirror().Idle() {
		key := "bucket_url"
		if w.cfg.BucketURL != "" {
			key = "prefix"
		}
		w.set.Logger.Warn("no mirror: rows that are acknowledged and not yet committed exist on the volume of the WAL only, and are lost with it",
			zap.String("until", "the compactor has committed them"), zap.String("empty", "extensions::"+w.set.ID.String()+"::"+key))
		return nil
	}
	at, err := w.cfg.mirror().Location()
	if err != nil {
		return fmt.Errorf("extensions::%s::bucket_url: %w", w.set.ID, err)
	}
	if w.store, err = objstore.Open(ctx, at.String(), objstore.Options{S3: w.cfg.S3.Options()}); err != nil {
		return fmt.Errorf("extensions::%s::bucket_url: %w", w.set.ID, err)
	}
	return nil
}

// Attach begins to mirror the WAL root at dir, an absolute path, and returns who is told of its segments; nil while
// there is no mirror. One root: a second is refused.
func (w *walmirror) Attach(dir string) (*mirror.Mirror, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store == nil {
		return nil, nil //nolint:nilnil // idle, and nothing wrong
	}
	if w.mirror != nil {
		return nil, fmt.Errorf("extensions::%s mirrors %s already; give each WAL root a mirror of its own, with a prefix of its own", w.set.ID, w.root)
	}
	at, err := w.cfg.mirror().Location()
	if err != nil {
		return nil, err
	}
	if root := (objstore.Location{Scheme: "file", Path: dir}); root.Overlaps(at) {
		return nil, fmt.Errorf("extensions::%s::bucket_url: %s and the WAL root %s are inside one another; the copies belong on another volume", w.set.ID, at, dir)
	}
	m, err := mirror.New(w.options(dir))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background()) // ends with Shutdown
	w.root, w.mirror, w.stop, w.done = dir, m, stop, make(chan struct{})
	go func() {
		defer close(w.done)
		m.Run(ctx)
	}()
	w.set.Logger.Info("mirroring", zap.String("dir", dir), zap.String("to", at.String()))
	return m, nil
}

func (w *walmirror) options(dir string) mirror.Options {
	sweep := w.cfg.SweepInterval
	if sweep == 0 {
		sweep = -1 // never
	}
	return mirror.Options{
		FS: vfs.OS(), Dir: dir, Store: w.store,
		Concurrency: w.cfg.Concurrency, SweepInterval: sweep, ActiveInterval: w.cfg.ActiveInterval,
		AttemptTimeout: w.cfg.AttemptTimeout,
		Logger:         w.set.Logger, Meter: w.set.MeterProvider.Meter(scopeName), Status: w.report,
	}
}

// report passes on that uploads fail for long, and that they work again.
func (w *walmirror) report(err error) {
	if err == nil {
		componentstatus.ReportStatus(w.host, componentstatus.NewEvent(componentstatus.StatusOK))
		return
	}
	componentstatus.ReportStatus(w.host, componentstatus.NewRecoverableErrorEvent(err))
}

// Shutdown uploads what is left, at most for shutdown_timeout and as long as ctx. Exporters have stopped by then: the
// last seal is in the queue. What is not uploaded has its pin, and the next start goes on.
func (w *walmirror) Shutdown(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store == nil {
		return nil
	}
	if w.mirror != nil {
		flushing, cancel := context.WithTimeout(ctx, w.cfg.ShutdownTimeout)
		left := w.mirror.Flush(flushing)
		cancel()
		w.stop()
		<-w.done
		if left > 0 {
			w.set.Logger.Warn("segments not uploaded before the end; they stay on the volume and the next start uploads them", zap.Int("segments", left))
		}
	}
	err := w.store.Close()
	w.store, w.mirror = nil, nil
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the mirror's store: %w", err)
	}
	return nil
}
