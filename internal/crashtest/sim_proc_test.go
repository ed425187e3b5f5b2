package crashtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// proc is the life of one process.
type proc struct {
	w      *sim
	name   string
	disk   *simfs.FS
	fs     vfs.FS // disk as its parts see it
	ctx    context.Context
	cancel context.CancelFunc
	dead   atomic.Bool
	run    sync.WaitGroup

	mirror *mirror.Mirror
	log    atomic.Pointer[wal.Log] // once it is open
}

// The processes.
const (
	theWriter   = "writer"
	theDrain    = "drain"
	theStandby  = "standby" // another drain, offered to the same root
	theOperator = "operator"
	nobody      = "nobody" // what is on its way belongs to no process
)

var errDead = errors.New("the process is dead")

func (w *sim) start(name string) *proc {
	p := &proc{w: w, name: name}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	p.disk = w.disk.Process()
	p.disk.SetHook(p.hook)
	p.fs = p.disk
	if w.plant.fs != nil && name == theWriter {
		p.fs = w.plant.fs(p.disk)
	}
	if w.plant.drainFS != nil && (name == theDrain || name == theStandby) {
		p.fs = w.plant.drainFS(p.disk)
	}
	w.procs[name] = p
	return p
}

// die is a kill -9: no operation of the process happens any more.
func (p *proc) die() {
	p.dead.Store(true)
	p.disk.PowerOff()
	p.cancel()
}

// buried ends what a dead process has left running in this test's.
func (p *proc) buried() {
	p.cancel()
	p.run.Wait()
	if l := p.log.Load(); l != nil {
		_ = l.Close(p.ctx)
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	delete(p.w.procs, p.name)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// startWriter starts the log and its mirror; the log is tried until it opens.
func (w *sim) startWriter() *proc {
	p := w.start(theWriter)
	opt := mirror.Options{
		FS: p.fs, Dir: root, Store: w.plant.storeOf(simStore{p}), Concurrency: w.plan.uploads, SweepInterval: w.plan.sweep,
		ActiveInterval: w.plan.active, AttemptTimeout: 5 * time.Second,
		Draw: func(n int64) int64 { return w.k.Load() * 7919 % n },
	}
	m, err := mirror.New(opt)
	if err != nil {
		panic(err)
	}
	p.mirror = m
	p.run.Go(func() { m.Run(p.ctx) })
	p.run.Go(func() {
		for {
			l, err := wal.Open(p.ctx, wal.Options{
				FS: p.fs, Dir: root, MaxEvents: w.plan.maxEvents, MaxAge: w.plan.maxAge, MaxBytes: w.plan.maxBytes(), MinFree: 1, Mirror: m,
			})
			if err == nil {
				p.log.Store(l)
				return
			}
			if !sleep(p.ctx, 500*time.Millisecond) {
				return
			}
		}
	})
	return p
}

// startDrain starts a drain and the retention of the mirror, which waits for drain.lock as all that runs beside a drain.
func (w *sim) startDrain(name string) *proc {
	p := w.start(name)
	p.run.Go(func() {
		if err := drain.Run(p.ctx, w.drainOptions(p)); err != nil && !p.dead.Load() {
			w.broken("LAKE-1: drain: %v", err)
		}
	})
	p.run.Go(func() {
		for w.plan.standby && w.holder() != name {
			if !sleep(p.ctx, time.Second) {
				return
			}
		}
		if w.plan.days.keep > 0 {
			p.run.Go(func() { simCatalog{p}.dropOldDays(w.plan.days.every) })
		}
		w.retainMirror(p)
	})
	if every := w.plan.foreign; every > 0 {
		p.run.Go(func() {
			for sleep(p.ctx, every) {
				simCatalog{p}.foreign()
			}
		})
	}
	return p
}

func (w *sim) drainOptions(p *proc) drain.Options {
	return drain.Options{
		FS: p.fs, WAL: root, Catalog: w.plant.catalogOf(simCatalog{p}), GateAge: w.plan.gateAge, GateBytes: w.plan.gateBytes,
		Retain: w.plan.retain, RetainPartial: w.plan.retainPartial, Grace: 5 * time.Second, Holder: p.name,
		Drop: lake.Retention{Keep: w.plan.days.keep, Settled: settled, Interval: dropEvery},
		Poll: 1007 * time.Millisecond, // never at the time of a look at drain.wake: which of the two came first nobody could reproduce
	}
}

// holder is the process that holds drain.lock; "" if none does.
func (w *sim) holder() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := filepath.Join(root, segment.DrainLockName)
	if held, err := w.disk.Held(name); err != nil || !held {
		return ""
	}
	text, _ := contentOf(w.disk, name)
	return text
}

// retainMirror deletes from the mirror what the tables have.
func (w *sim) retainMirror(p *proc) {
	for {
		r, err := segment.Open(p.fs, root)
		if err == nil {
			ret, err := mirror.NewRetention(mirror.RetentionOptions{Store: w.plant.storeOf(simStore{p}), Keep: w.plan.keepCopies})
			if err != nil {
				panic(err)
			}
			ret.Run(p.ctx, r, w.plant.committedOf(simCatalog{p}))
			return
		}
		if !sleep(p.ctx, time.Second) {
			return
		}
	}
}

// hook lets the scheduler decide when an operation of the disk happens.
func (p *proc) hook(op simfs.Op) error {
	if p.dead.Load() {
		return simfs.ErrOff
	}
	if !op.Kind.Changes() {
		return p.w.fault(op, false)
	}
	if !held(op) {
		return p.w.s.take(op, p.step)
	}
	return p.turn(op)
}

// turn waits for the turn of an operation.
func (p *proc) turn(op simfs.Op) error {
	return p.w.s.wait(&turn{key: fmt.Sprintf("%s %s %s", p.name, op.Kind, p.w.stable(op.Name)), op: op, step: p.step})
}

// step is what comes before an operation: a death, a fault, or nothing.
func (p *proc) step(k int, op simfs.Op) error {
	w := p.w
	if p.dead.Load() {
		return simfs.ErrOff
	}
	w.k.Store(int64(k))
	w.decay(k)
	w.goBack(k)
	w.strike(k)
	if p.dead.Load() {
		return simfs.ErrOff
	}
	err := w.fault(op, true)
	w.note(k, p, op, err)
	if err == nil {
		w.watch(p, op)
		w.meet(p, op)
	}
	return err
}

// maxBytes is the limit of the log's size: far away, or so near that pins are given up and requests refused.
func (p simPlan) maxBytes() int64 {
	if p.roomy {
		return 1 << 40
	}
	return 160 << 10
}

func stateOf(name string) segment.State { return segment.State(filepath.Base(filepath.Dir(name))) }
