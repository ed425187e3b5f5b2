package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

const (
	// lookEvery is how often committed/ is asked for a segment that somebody waits for, lookLateEvery the same once it
	// has taken longer than lookLateAfter.
	lookEvery     = 10 * time.Millisecond
	lookLateAfter = time.Second
	lookLateEvery = 100 * time.Millisecond
	// wakeEvery is how often the drain is woken for a segment that stays in sealed/: another drain may run by now, or
	// the segment may have come back.
	wakeEvery = time.Second

	// askDrain is how often drain.lock is asked for its holder, askNoDrain the same while it has none. A drain is believed
	// to run for drainKept after it was last seen, so that nobody is refused while another one takes over; and for as long
	// after the start one may be about to.
	askDrain   = time.Second
	askNoDrain = 100 * time.Millisecond
	drainKept  = 10 * time.Second
)

// Committed waits until the drain has put a segment of this log into committed/: all its rows are in a published snapshot
// of its table. That alone counts. That the segment has left sealed/ says nothing: it may be on its way, in poison/,
// orphans/ or stale/, and come back from there. While it waits in sealed/ the drain is woken for it.
//
//	errors  ErrClosed when the log was closed first; ctx's. The rows are on the disk all the same
//	ctx     ends the wait
//
// Safe for many goroutines.
func (l *Log) Committed(ctx context.Context, tenant, index string, id segment.ID) error {
	ln, err := l.root.Lane(tenant, index)
	if err != nil {
		return err
	}
	a, err := l.awaitCommitted(ln, id)
	if err != nil {
		return err
	}
	defer l.committing.leave(a)
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the commit of %s: %w", id, ctx.Err())
	}
}

func (l *Log) awaitCommitted(ln segment.Lane, id segment.ID) (*awaited, error) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed {
		return nil, ErrClosed
	}
	a, first := l.committing.join(ln, id)
	if first {
		l.work.Go(l.watchCommitted)
	}
	return a, nil
}

// committing knows which segments are waited for.
type committing struct {
	mu       sync.Mutex
	segments map[segment.ID]*awaited
	watched  bool // a goroutine looks
}

// awaited is one segment that somebody waits for.
type awaited struct {
	lane    segment.Lane
	id      segment.ID
	waiters int           // guarded by committing.mu
	done    chan struct{} // closed once it is committed, or with err
	err     error

	since, looked, woken time.Time // the watcher's own
}

// join begins to wait. first: nobody looks yet, and the caller has to see to it.
func (c *committing) join(ln segment.Lane, id segment.ID) (a *awaited, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a = c.segments[id]
	if a == nil {
		if c.segments == nil {
			c.segments = map[segment.ID]*awaited{}
		}
		a = &awaited{lane: ln, id: id, done: make(chan struct{}), since: time.Now()}
		c.segments[id] = a
	}
	a.waiters++
	first = !c.watched
	c.watched = true
	return a, first
}

func (c *committing) leave(a *awaited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.waiters--; a.waiters == 0 && c.segments[a.id] == a {
		delete(c.segments, a.id)
	}
}

// finish ends the wait for a.
func (c *committing) finish(a *awaited, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.err = err
	delete(c.segments, a.id)
	close(a.done)
}

// due are the segments to look for, or all, the oldest first; more is false, and watched with it, when nobody waits any more.
func (c *committing) due(now time.Time, all bool) (due []*awaited, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.segments {
		if all || now.Sub(a.since) < lookLateAfter || now.Sub(a.looked) >= lookLateEvery {
			due = append(due, a)
		}
	}
	slices.SortFunc(due, func(a, b *awaited) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.id.String(), b.id.String()))
	})
	c.watched = len(c.segments) > 0
	return due, c.watched
}

// watchCommitted looks for what is waited for until nobody waits or the log closes.
func (l *Log) watchCommitted() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		now, closing := time.Now(), l.isClosing()
		due, more := l.committing.due(now, closing)
		if !more {
			return
		}
		for _, a := range due {
			a.looked = now
			switch {
			case closing:
				l.committing.finish(a, ErrClosed)
			case l.isIn(a, segment.Committed):
				l.committing.finish(a, nil)
			case now.Sub(a.woken) >= wakeEvery && l.isIn(a, segment.Sealed):
				a.woken = now
				if err := a.lane.Wake(l.opt.Now()); err != nil {
					l.opt.Logger.Warn("the drain cannot be woken; it comes by itself", zap.Error(err))
				}
			}
		}
		select {
		case <-tick.C:
		case <-l.closing:
		}
	}
}

// isIn tells whether the name of a segment is in a state's directory. What cannot be looked at is not known to be there.
func (l *Log) isIn(a *awaited, st segment.State) bool {
	_, err := l.fs.Stat(a.lane.Path(st, a.id.FileName()))
	return err == nil
}

// drainSeen is what is known of the drain of the root.
type drainSeen struct {
	mu     sync.Mutex
	asked  time.Time
	held   bool      // then
	seen   time.Time // when it was last held
	opened time.Time // the log
}

// Errors of Drained.
var (
	ErrNoDrain    = errors.New("no drain runs on this write-ahead log")
	ErrNoDrainYet = errors.New("no drain runs on this write-ahead log yet")
)

// Drained returns nil when a drain runs on the root, or did some seconds ago; ErrNoDrainYet while the log has just been
// opened, ErrNoDrain otherwise.
func (l *Log) Drained() error {
	d := &l.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if since := now.Sub(d.asked); since >= askDrain || !d.held && since >= askNoDrain {
		// What cannot be asked is not held: a drain needs the lock too.
		d.held, _ = l.fs.Held(filepath.Join(l.opt.Dir, segment.DrainLockName))
		if d.asked = now; d.held {
			d.seen = now
		}
	}
	switch {
	case now.Sub(d.seen) < drainKept:
		return nil
	case now.Sub(d.opened) < drainKept:
		return ErrNoDrainYet
	default:
		return ErrNoDrain
	}
}
