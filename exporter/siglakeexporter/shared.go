package siglakeexporter

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// appender is what the exporter needs of a *wal.Log.
type appender interface {
	Enter(tenant string) error
	Leave(tenant string)
	Reserve(tenant, index, holds string) error
	Append(ctx context.Context, r wal.Request) (wal.Receipt, error)
	Drained() error
	Committed(ctx context.Context, tenant, index string, id segment.ID) error
	Close(ctx context.Context) error
}

// opener opens a log; wal.Open but in tests.
type opener func(ctx context.Context, opt wal.Options) (appender, error)

func openWAL(ctx context.Context, opt wal.Options) (appender, error) {
	log, err := wal.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	return log, nil
}

// registry holds the open logs of one factory, one per root, counted by who uses them. A log that nobody uses
// any more is closed, so that the next configuration of the same process can open its root again.
type registry struct {
	open opener

	mu   sync.Mutex
	logs map[string]*sharedLog // by absolute root
}

type sharedLog struct {
	appender

	mirror   confirmer // nil: none
	awaiting places    // of requests that wait for more than the disk

	id    component.ID
	cfg   WALConfig
	users int

	mu       sync.Mutex
	standing error // what the log said last
	healths  []*health
}

// stand tells all users what stands in the way of every request, nil when nothing does.
func (l *sharedLog) stand(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standing = err
	for _, h := range l.healths {
		h.stands(err)
	}
}

// join makes h hear what the log says from now on, beginning with what it said last.
func (l *sharedLog) join(h *health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healths = append(l.healths, h)
	h.stands(l.standing)
}

func (l *sharedLog) leave(h *health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healths = slices.DeleteFunc(l.healths, func(o *health) bool { return o == h })
}

func newRegistry(open opener) *registry {
	return &registry{open: open, logs: map[string]*sharedLog{}}
}

// acquire returns the log of cfg's root, opened with opt when this is its first user; first tells so. An
// exporter of another id, or with other settings, is refused: one of the two would not get what it asks for.
func (r *registry) acquire(ctx context.Context, id component.ID, cfg WALConfig, mirrors mirrors, opt wal.Options) (log *sharedLog, first bool, err error) {
	root, err := filepath.Abs(cfg.Directory)
	if err != nil {
		return nil, false, fmt.Errorf("find wal::directory %s: %w", cfg.Directory, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if log, ok := r.logs[root]; ok {
		if log.id != id || log.cfg != cfg {
			return nil, false, fmt.Errorf("wal::directory: %q is in use by exporter %q; list that exporter in all pipelines, or give %q a directory of its own",
				cfg.Directory, log.id, id)
		}
		log.users++
		return log, false, nil
	}
	log = &sharedLog{id: id, cfg: cfg, users: 1}
	opt.Health = log.stand
	if mirrors != nil {
		m, err := mirrors.Attach(root)
		if err != nil {
			return nil, false, fmt.Errorf("mirror: %w", err)
		}
		if m != nil { // an idle extension has none
			opt.Mirror, log.mirror = m, m
		}
	}
	if log.appender, err = r.open(ctx, opt); err != nil {
		return nil, false, fmt.Errorf("wal::directory: %q: %w", cfg.Directory, err) // wal names the holder of a lock and the way out
	}
	r.logs[root] = log
	return log, true, nil
}

// release gives log back; the last user closes it, which seals what is open and frees the lock.
func (r *registry) release(ctx context.Context, log *sharedLog) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	log.users--
	if log.users > 0 {
		return nil
	}
	for root, l := range r.logs {
		if l == log {
			delete(r.logs, root)
		}
	}
	if err := log.Close(ctx); err != nil {
		return fmt.Errorf("close wal %s: %w", log.cfg.Directory, err)
	}
	return nil
}
