package wal

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// leastBacklog is a backlog, in bytes, that holds nobody up however slow the drain is: what the drain takes in four
	// of its largest batches.
	leastBacklog = 256 << 20
	// leastShare is how much of what the drain takes out may come in at least. The backlog then shrinks by a tenth of the
	// drain's work, and a load that the drain keeps up with is not held up by what an outage has left.
	leastShare = 0.9
	// mostShare is where nothing is held up any more.
	mostShare = 2
	// mostHeld is how long a batch is held up at most: clients give up after some seconds.
	mostHeld = time.Second
	// paceSlack is how much of the time in which nothing came may be caught up with: timers are late.
	paceSlack = 20 * time.Millisecond
)

// pace keeps what comes in at what the drain takes out, while more is sealed than the drain takes in a given time: else
// ingest, which has many goroutines, takes the cores from the drain, and the backlog grows until a limit refuses all.
// Where the drain takes nothing out, because its catalog is away or none runs, nothing is held up: that is what the
// log is for.
type pace struct {
	after  time.Duration // the time that the drain may need for what is sealed; 0: whatever it is
	least  int64         // leastBacklog
	opened time.Time

	rate atomic.Int64 // bytes/s that may come in; 0: nothing is held up
	next atomic.Int64 // ns from opened until when the rate is used up
}

func newPace(after time.Duration) *pace {
	return &pace{after: after, least: leastBacklog, opened: time.Now()}
}

// set decides on the rate, and which lanes it is for: those with at least an equal part of the backlog, so that one
// tenant's flood holds up nobody else.
func (p *pace) set(b *backlog, lanes []*lane) {
	p.rate.Store(p.decide(b))
	for _, ln := range lanes {
		own := b.lanes[ln.seg.Dir("")]
		ln.paced.Store(p.rate.Load() > 0 && own > 0 && own >= b.bytes/int64(len(b.lanes)))
	}
}

func (p *pace) decide(b *backlog) int64 {
	drained := b.rate()
	if p.after == 0 || b.bytes < p.least || drained == 0 {
		return 0
	}
	share := p.after.Seconds() / (float64(b.bytes) / drained)
	if share >= mostShare {
		return 0
	}
	return max(1, int64(drained*max(leastShare, share)))
}

// take claims n bytes of the rate and returns how long to wait for them.
func (p *pace) take(n int64) time.Duration {
	rate := p.rate.Load()
	if rate == 0 {
		return 0
	}
	for {
		now, used := int64(time.Since(p.opened)), p.next.Load()
		from := min(max(used, now-int64(paceSlack)), now+int64(mostHeld))
		if p.next.CompareAndSwap(used, from+int64(float64(n)/float64(rate)*1e9)) {
			return time.Duration(from - now)
		}
	}
}

// hold waits until n bytes of a paced lane may come in. ctx ends the wait, and then nothing was written.
func (l *Log) hold(ctx context.Context, ln *lane, n int64) error {
	if !ln.paced.Load() {
		return nil
	}
	wait := l.pace.take(n)
	if wait <= 0 {
		return nil
	}
	l.met.paced.Add(context.Background(), 1)
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.closing:
	case <-ctx.Done():
		return fmt.Errorf("append to %s: %w", ln.seg.Key(), ctx.Err())
	}
	return nil
}
