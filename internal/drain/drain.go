package drain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// drain is one life of the loop: from the lock to its release.
type drain struct {
	opt     Options
	tables  Catalog
	root    *segment.Root
	held    *held // drain.lock, and opt.FS while it is held
	m       *metrics
	log     *zap.Logger
	status  *status
	born    time.Time // names older than this life are looked up in the table before their rows are written
	started time.Time // monotonic; see since
	once    bool      // one pass: no gate, no waiting

	bytes *semaphore.Weighted // segment bytes in flight
	heavy *semaphore.Weighted // batches in flight
	lates lateTurns           // of them those of late segments
	scans *semaphore.Weighted // lanes being listed
	reads chan struct{}       // segments being decoded

	mu         sync.Mutex
	lakeErr    error         // why the lake is not open
	commitTime time.Duration // of the last commits that were not of late segments
	stretched  time.Duration // the gate's age where that is above GateAge (gate.go)

	passes sync.WaitGroup   // and the opening of the lake, and what runs beside
	lanes  map[string]*lane // by key; the loop's own
	told   map[string]bool  // strangers named once; the loop's own
	woken  time.Time        // of drain.wake as last seen; the loop's own
}

// Run drains one root until ctx ends, and then returns nil; an error means that opt cannot work at all.
//
//	waits   for the root (the exporter makes it), then for drain.lock as a standby: both are told to Status
//	lost    when drain.lock is removed or replaced under it: it stops changing names, and stands by
//	start   under the lock, per lane: names resolved, processing/ → orphans/, orphans disposed of
//	loop    per lane: claim, read, commit, mark, retire (see the package comment)
//	ctx     ends the claiming. The commit in hand goes on for at most Grace; what is not committed then goes
//	        back to sealed/.
//
// Trouble with the catalog, a table or a directory never ends Run: the lane waits and Status hears it.
// Idempotent across crashes: whatever the last life left, this one finishes. Holds LAKE-1, LOUD-1, RET-1.
func Run(ctx context.Context, opt Options) error {
	opt, err := opt.withDefaults()
	if err != nil {
		return err
	}
	tables, done := opt.catalog()
	return errors.Join(run(ctx, opt, tables), done())
}

func run(ctx context.Context, opt Options, tables Catalog) error {
	d, err := newDrain(opt, tables)
	if err != nil {
		return err
	}
	if o, ok := tables.(*opener); ok {
		opening, stop := context.WithCancel(ctx)
		d.passes.Go(func() { o.run(opening, d.backoff, d.opened) })
		defer d.passes.Wait()
		defer stop()
	}
	if err := d.awaitRoot(ctx); err != nil || d.root == nil {
		return err
	}
	for {
		lock, ok := d.awaitLock(ctx)
		if !ok {
			return nil
		}
		if err := d.under(ctx, lock); !errors.Is(err, errLockLost) {
			return err
		}
		d.lanes = make(map[string]*lane) // what another drain may have done meanwhile is found as at a start
	}
}

// under drains while the lock is held, and gives it back: when ctx ends, or with errLockLost.
func (d *drain) under(ctx context.Context, lock *held) error {
	d.held, d.opt.FS = lock, lock
	defer func() { d.held, d.opt.FS = nil, lock.FS }()
	d.root = nil // it is seen through the lock from here on
	if err := d.awaitRoot(ctx); err != nil || d.root == nil {
		return errors.Join(err, lock.Close())
	}
	d.status.set("", nil)
	d.log.Info("drain started", zap.String("dir", d.opt.WAL))
	ctx, end := context.WithCancel(ctx)
	defer end()
	if d.opt.Beside != nil {
		d.passes.Go(func() { d.beside(ctx) })
	}
	lost := d.loop(ctx, end)
	if lost != nil {
		d.log.Error("drain stopped, and stands by for the lock of another file", zap.String("dir", d.opt.WAL), zap.Error(lost))
		d.m.lockLost.add(1)
	} else {
		d.log.Info("drain stopped", zap.String("dir", d.opt.WAL))
	}
	return errors.Join(lost, lock.Close())
}

func newDrain(opt Options, tables Catalog) (*drain, error) {
	m, err := newMetrics(opt.Meter)
	if err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return &drain{
		opt:     opt,
		tables:  tables,
		m:       m,
		log:     opt.Logger,
		status:  &status{tell: opt.Status},
		born:    wall(opt.Now()),
		started: time.Now(),
		bytes:   semaphore.NewWeighted(opt.MaxBytesInFlight),
		heavy:   semaphore.NewWeighted(lanesAtOnce),
		scans:   semaphore.NewWeighted(scansAtOnce),
		// All cores but one: on two, decoding four at a time took the 99th percentile of an answer beside it from 13 ms
		// to 100 ms (docs/performance.md).
		reads: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)),
		lanes: make(map[string]*lane),
		told:  make(map[string]bool),
	}, nil
}

// awaitRoot waits until the directory is a root; d.root stays nil when ctx ended first. A root of another
// format does not become ours by waiting: that is the error.
func (d *drain) awaitRoot(ctx context.Context) error {
	for {
		root, err := segment.Open(d.opt.FS, d.opt.WAL)
		if err == nil {
			d.root = root
			return nil
		}
		if errors.Is(err, segment.ErrFormat) {
			return err
		}
		if d.status.set("root", fmt.Errorf("wait for the write-ahead log: %w", err)) {
			d.log.Info("waiting for the write-ahead log", zap.Error(err))
		}
		if !sleep(ctx, min(standbyPoll, d.opt.Poll)) {
			return nil
		}
	}
}

// awaitLock waits as a standby until no other drain holds the root. False: ctx ended first.
func (d *drain) awaitLock(ctx context.Context) (*held, bool) {
	for {
		lock, err := hold(d.opt.FS, d.opt.WAL, d.opt.Holder)
		if err == nil {
			d.born = wall(d.opt.Now()) // what appeared while another drain worked is not ours to vouch for
			return lock, true
		}
		if _, ok := errors.AsType[*vfs.LockedError](err); ok {
			if d.status.set("standby", fmt.Errorf("stand by: %w", err)) {
				d.log.Info("standing by", zap.Error(err))
			}
		} else if d.status.set("lock", fmt.Errorf("take the lock of the drain: %w", err)) {
			d.log.Error("nothing is drained: the lock of the drain cannot be taken; it is tried again, and rows wait in the log", zap.Error(err))
		}
		if !sleep(ctx, min(standbyPoll, d.opt.Poll)) {
			return nil, false
		}
	}
}

// opened hears how the opening of the lake goes.
func (d *drain) opened(err error) {
	if err != nil {
		d.log.Warn("lake does not open; it is tried again", zap.Error(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lakeErr = err
}

func (d *drain) lakeTrouble() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lakeErr
}

// since is the monotonic time of this life. It does not move when the wall clock is set.
func (d *drain) since() time.Duration { return time.Since(d.started) }

// wall strips the monotonic reading, so that differences show what was done to the clock.
func wall(t time.Time) time.Time { return t.Round(0) }

// sleep waits for t. False: ctx ended first.
func sleep(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// status passes trouble on, each text once.
type status struct {
	tell func(error)
	last string
}

// set tells err unless it says what was told last. what is the kind of trouble when its text varies (the
// holder of a lock, say) and only the kind is worth telling; "" for the text itself. True: it was news.
func (s *status) set(what string, err error) bool {
	text := what
	if err != nil && what == "" {
		text = err.Error()
	}
	if text == s.last {
		return false
	}
	s.last = text
	s.tell(err)
	return true
}
