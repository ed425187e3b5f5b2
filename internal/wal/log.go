package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	tempSuffix = ".tmp"

	// sealsAtOnce bounds the seals of all lanes that wait for the disk at one time; each holds a thread.
	sealsAtOnce = 16
)

// Log is an open write-ahead log: the only writer of its root, or with Options.Shared of its own segments.
type Log struct {
	opt   Options
	fs    vfs.FS
	root  *segment.Root
	lock  io.Closer // owned by Open, then by the watcher
	met   *metrics
	space *space
	pace  *pace

	lockInode uint64      // of what lock holds; owned like it
	lockLost  atomic.Bool // nothing is accepted
	refusals  refusals

	schemas    schemaCache
	pending    sync.Pool
	unsealed   unsealedSet
	committing committing
	drain      drainSeen
	sealSlots  chan struct{}

	lanesMu sync.RWMutex
	lanes   map[laneKey]*lane
	tenants map[string]struct{} // of lanes

	gate   sync.RWMutex // held for reading while a request is handed to a lane
	closed bool         // guarded by gate

	closing chan struct{}  // closed by Close: lanes finish
	giveUp  chan struct{}  // closed when Close's ctx ends: nothing is retried any more
	ended   chan struct{}  // closed when Close has done all
	work    sync.WaitGroup // lanes and sealers
	watch   sync.WaitGroup // the watcher
	stop    context.CancelFunc

	stranded []stranded          // owned by Open, then by the watcher
	released map[segment.ID]bool // pins given up, until their segments have gone; the watcher's

	adoptMu sync.Mutex      // held while lanes are looked at
	told    map[string]bool // paths of segments not recovered that the log has named

	silence *silence     // set where the volume has no locks
	peers   atomic.Int64 // lanes in which another process was at work when last looked

	leasesMu sync.Mutex
	leases   map[[6]byte]*segment.Lease // of this process's writers, where the root is shared

	leftMu sync.Mutex
	left   []error // what Close could not seal
}

type laneKey struct{ tenant, index string }

// Open locks dir for this process, makes it a WAL root if it is empty, and recovers every open segment of every
// lane: when it returns, all that an earlier process promised is in sealed/, durably. Safe to call again after
// Close, in the same process too. ctx ends the recovery.
//
//	errors  *vfs.LockedError when another process has it and not both share it; segment.ErrNotEmpty when dir holds something else;
//	        else what is wrong with dir. A segment that cannot be recovered is no error of Open: it stays where
//	        it is, is logged and counted, and is tried again while the log runs
//	shared  only what dead writers left is recovered, now and while the log runs
//	holds   SEE-1, ONE-1
func Open(ctx context.Context, opt Options) (*Log, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	opt.Dir = filepath.Clean(opt.Dir)
	met, err := newMetrics(opt.Meter)
	if err != nil {
		return nil, err
	}
	l := &Log{
		opt: opt, fs: meteredFS{opt.FS, met}, met: met,
		schemas:   schemaCache{seen: map[*arrow.Schema]*schemaMessage{}},
		pending:   sync.Pool{New: func() any { return &pending{done: make(chan error, 1)} }},
		unsealed:  unsealedSet{open: map[*openSegment]time.Time{}},
		sealSlots: make(chan struct{}, sealsAtOnce),
		lanes:     map[laneKey]*lane{}, tenants: map[string]struct{}{}, released: map[segment.ID]bool{},
		told: map[string]bool{}, leases: map[[6]byte]*segment.Lease{}, refusals: refusals{log: opt.Logger},
		closing: make(chan struct{}), giveUp: make(chan struct{}), ended: make(chan struct{}),
	}
	l.space, l.pace = newSpace(&opt, l.fs), newPace(opt.PaceAfter)
	if err := l.take(ctx); err != nil {
		return nil, explain(&opt, err)
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(explain(&opt, err), l.lock.Close())
	}
	l.drain.opened = time.Now()
	return l, nil
}

// take locks the directory and makes it a root.
func (l *Log) take(ctx context.Context) (err error) {
	dir := l.opt.Dir
	if err := refuseForeign(l.fs, dir); err != nil {
		return err
	}
	if err := l.fs.MkdirAll(dir); err != nil {
		return err
	}
	if l.opt.Shared {
		return l.join(ctx)
	}
	if l.lock, err = l.fs.Lock(filepath.Join(dir, segment.LockName), l.opt.lockText()); err != nil {
		return err
	}
	if l.root, err = segment.Create(l.fs, dir); err != nil {
		return errors.Join(err, l.lock.Close())
	}
	l.tellMended(l.root)
	return nil
}

func (l *Log) tellMended(root *segment.Root) {
	if root.Remade() {
		l.opt.Logger.Error("the file that makes the directory a WAL root was gone; it is made anew and the root has a new UUID",
			zap.String("dir", root.Dir()), zap.Stringer("uuid", root.UUID()))
	}
	if aside := root.Aside(); aside != "" {
		l.opt.Logger.Error("the file that makes the directory a WAL root was damaged; it is kept under another name and the root has a new UUID",
			zap.String("dir", root.Dir()), zap.String("kept", aside), zap.Stringer("uuid", root.UUID()))
	}
}

// refuseForeign keeps our lock file out of a directory that is not ours and not empty.
func refuseForeign(fsys vfs.FS, dir string) error {
	if _, err := segment.Open(fsys, dir); !errors.Is(err, segment.ErrNotRoot) {
		return nil // a root, or trouble that the next step reports
	}
	return segment.Vacant(fsys, dir)
}

// start recovers, measures, and then watches.
func (l *Log) start(ctx context.Context) error {
	if err := l.recoverAll(ctx); err != nil {
		return err
	}
	if err := l.space.measure(ctx); err != nil {
		return err
	}
	l.keepReserve()
	if err := l.met.observe(l); err != nil {
		return err
	}
	if err := l.rememberLock(); err != nil {
		return err
	}
	l.opt.Health(l.health())
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.watch.Go(func() { l.watchLoop(watching) })
	if l.silence != nil {
		l.watch.Go(func() { l.beatLoop(watching) })
	}
	return nil
}

// watchLoop measures the disk, looks for lanes whose table has changed, and tries again what recovery had to
// leave. It ends with ctx.
func (l *Log) watchLoop(ctx context.Context) {
	t := time.NewTimer(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		start := time.Now()
		if err := l.space.measure(ctx); err != nil && ctx.Err() == nil {
			l.opt.Logger.Warn("disk not measured, limits use the last figures", zap.Error(err))
		}
		l.pace.set(l.space.behind(), l.allLanes())
		l.keepReserve()
		l.releasePins()
		for _, ln := range l.allLanes() {
			ln.rebind.Store(true)
			signal(ln.wake)
		}
		if l.opt.Shared {
			l.adopt(ctx)
		} else {
			l.recoverStranded(ctx)
		}
		l.refusals.settle(l.opt.Now())
		l.opt.Health(l.health())
		t.Reset(max(watchEvery, watchShare*time.Since(start)))
	}
}

// lane returns the lane of a tenant and an index, made on first use. A new one is refused with a *LimitError when
// there are as many as may be.
func (l *Log) lane(tenant, index string) (*lane, error) {
	l.lanesMu.RLock()
	ln, ok := l.lanes[laneKey{tenant, index}]
	full := l.lanesFull(tenant)
	l.lanesMu.RUnlock()
	if ok {
		return ln, nil
	}
	if full != nil {
		return nil, full
	}
	return l.addLane(tenant, index, true)
}

// addLane makes a lane in memory. Those found on disk are let in whatever their number.
func (l *Log) addLane(tenant, index string, limited bool) (*lane, error) {
	seg, err := l.root.Lane(tenant, index) // outside the lock: it looks at the directory
	if err != nil {
		return nil, err
	}
	l.lanesMu.Lock()
	defer l.lanesMu.Unlock()
	key := laneKey{tenant, index}
	if ln, ok := l.lanes[key]; ok {
		return ln, nil
	}
	if full := l.lanesFull(tenant); full != nil && limited {
		return nil, full
	}
	ln := &lane{
		log: l, seg: seg,
		wake: make(chan struct{}, 1), sealWake: make(chan struct{}, 1),
	}
	l.lanes[key] = ln
	l.tenants[tenant] = struct{}{}
	return ln, nil
}

// lanesFull tells which limit a new lane of tenant would pass. The caller holds lanesMu.
func (l *Log) lanesFull(tenant string) *LimitError {
	if n := len(l.lanes); n >= l.opt.MaxLanes {
		return &LimitError{Limit: limitLanes, Used: int64(n), Max: int64(l.opt.MaxLanes)}
	}
	if _, known := l.tenants[tenant]; !known && len(l.tenants) >= l.opt.MaxTenants {
		return &LimitError{Limit: limitTenants, Used: int64(len(l.tenants)), Max: int64(l.opt.MaxTenants)}
	}
	return nil
}

func (l *Log) laneCounts() (lanes, tenants int) {
	l.lanesMu.RLock()
	defer l.lanesMu.RUnlock()
	return len(l.lanes), len(l.tenants)
}

func (l *Log) allLanes() []*lane {
	l.lanesMu.RLock()
	defer l.lanesMu.RUnlock()
	return slices.Collect(maps.Values(l.lanes))
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *Log) isClosing() bool { return isDone(l.closing) }

func (l *Log) givenUp() bool { return isDone(l.giveUp) }

// leave notes what stays in active/ after Close.
func (l *Log) leave(err error) {
	l.leftMu.Lock()
	defer l.leftMu.Unlock()
	l.left = append(l.left, err)
}

// Close refuses new requests, answers those that were admitted, seals everything and releases the lock. What
// the disk refuses to seal stays in active/, as durable as it was promised, for the next Open; the error names
// it. Safe to call twice and at once: each call returns when all is done, the first with the verdict.
//
//	ctx  ends the retries of refused seals. A write or sync under way is waited for: the lock is never
//	     released while this process may still write
func (l *Log) Close(ctx context.Context) error {
	l.gate.Lock()
	first := !l.closed
	l.closed = true
	l.gate.Unlock()
	if !first {
		<-l.ended
		return nil
	}
	stopWaiting := context.AfterFunc(ctx, func() { close(l.giveUp) })
	defer stopWaiting()
	l.stop()
	l.watch.Wait()
	close(l.closing)
	for _, ln := range l.allLanes() {
		signal(ln.wake)
		signal(ln.sealWake)
	}
	l.work.Wait()
	err := errors.Join(l.met.stopObserving(), l.endLeases(), l.lock.Close(), errors.Join(l.left...))
	close(l.ended)
	if err != nil {
		return fmt.Errorf("close wal %s: %w", l.opt.Dir, err)
	}
	return nil
}
