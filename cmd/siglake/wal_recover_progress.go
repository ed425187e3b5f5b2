package main

import (
	"fmt"
	"sync"
	"time"
)

// quiet is how long a store may be silent before a line says so.
const quiet = 5 * time.Second

// recoverProgress shows how far a recovery is, and that it waits. Times that nothing else depends on are the machine's.
type recoverProgress struct {
	from string
	stop chan struct{}
	over sync.WaitGroup

	mu    sync.Mutex
	bar   progress
	lines seldomLine
	asked string
	since time.Time // of the last that was heard
}

func (a *app) showRecover(from string) *recoverProgress {
	p := &recoverProgress{
		from: from, stop: make(chan struct{}), since: time.Now(),
		bar:   progress{w: a.stderr, on: a.terminal, now: a.now, text: "read %d of %d segments, %s"},
		lines: seldomLine{app: a, last: a.now()},
	}
	p.over.Go(func() {
		tick := time.NewTicker(quiet)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.waiting()
			case <-p.stop:
				return
			}
		}
	})
	return p
}

func (p *recoverProgress) step(asked string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.since = asked, time.Now()
}

func (p *recoverProgress) progress(done, of int, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	p.bar.total = of
	p.bar.draw(done, size)
	p.lines.draw(done, of, size)
}

// waiting writes a line where nothing was heard of the store for a while.
func (p *recoverProgress) waiting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := time.Since(p.since)
	if silent < quiet-time.Second || p.asked == "" { // a tick may come early
		return
	}
	p.bar.clear()
	_, _ = fmt.Fprintf(p.bar.w, "waiting for %s: %s, %s without an answer\n", p.from, oneLine(p.asked), humanAge(silent)) // an ornament
}

func (p *recoverProgress) end() {
	close(p.stop)
	p.over.Wait()
	p.bar.clear()
}

// seldomLine tells how far a long recovery is where no bar can be drawn.
type seldomLine struct {
	app  *app
	last time.Time
}

func (l *seldomLine) draw(done, of int, size int64) {
	if l.app.terminal || l.app.now().Sub(l.last) < 5*time.Second {
		return
	}
	l.last = l.app.now()
	_, _ = fmt.Fprintf(l.app.stderr, "read %d of %d segments, %s\n", done, of, humanBytes(size)) // an ornament
}
