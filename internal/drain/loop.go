package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// loop looks at every lane each Poll, and at those whose drain is woken at once, and starts a pass where none runs, until
// ctx ends; then it waits for the passes. Commits in hand get Grace, after that their context ends too. With the lock lost it
// calls end, and returns errLockLost.
func (d *drain) loop(ctx context.Context, end func()) (lost error) {
	work, done := graceful(ctx, d.opt.Grace)
	defer done()
	tick := time.NewTicker(d.opt.Poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := d.held.check(); errors.Is(err, errLockLost) {
			lost = err
			end()
			break
		}
		err := d.scan(ctx, work, anyLane)
		d.publish(err)
		for d.awaitWake(ctx, tick.C) {
			_ = d.scan(ctx, work, (*lane).isWoken) // the next one of all lanes tells its trouble
		}
	}
	d.passes.Wait()
	return lost
}

// awaitWake waits until drain.wake is touched; false when ctx ended or tick came first.
func (d *drain) awaitWake(ctx context.Context, tick <-chan time.Time) bool {
	look := time.NewTicker(min(wakePoll, d.opt.Poll))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return false
		case <-look.C:
		}
		if at, err := d.root.Woken(); err == nil && !at.Equal(d.woken) {
			d.woken = at
			return true
		}
	}
}

// graceful returns a context that outlives ctx by grace. The function ends it for good.
func graceful(ctx context.Context, grace time.Duration) (context.Context, func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if sleep(work, grace) {
			cancel()
		}
	})
	return work, func() {
		stop()
		cancel()
	}
}

func anyLane(*lane) bool { return true }

// scan starts a pass in every lane that is wanted and has none running.
func (d *drain) scan(ctx, work context.Context, wanted func(*lane) bool) error {
	found, strangers, err := d.root.Lanes()
	d.tellStrangers(strangers)
	if err != nil {
		return fmt.Errorf("list lanes of %s: %w", d.opt.WAL, err)
	}
	here := make(map[string]bool, len(found))
	for _, dir := range found {
		key := dir.Dir("") // not Key: a legacy directory has the key of the one beside it
		here[key] = true
		l := d.lanes[key]
		if l == nil {
			l = newLane(d, dir)
			d.lanes[key] = l
		}
		if !wanted(l) || !l.busy.CompareAndSwap(false, true) {
			continue
		}
		d.passes.Go(func() {
			defer l.busy.Store(false)
			l.pass(ctx, work)
		})
	}
	for key, l := range d.lanes {
		if !here[key] && !l.busy.Load() {
			d.lates.leave(l)
			delete(d.lanes, key) // the directory is gone, and with it what its gauges counted
		}
	}
	return nil
}

// tellStrangers names once what lies in the root and is no lane.
func (d *drain) tellStrangers(names []string) {
	for _, name := range names {
		if !d.told[name] {
			d.told[name] = true
			d.log.Warn("not a lane, left alone", zap.String("dir", d.opt.WAL), zap.String("name", name))
		}
	}
}

// publish sets the gauges to what the last passes saw and tells what is wrong now.
func (d *drain) publish(scan error) {
	var sum laneView
	var failing []string
	var dirty, stalled int
	behind, now := false, wall(d.opt.Now())
	errs := make(map[string]error)
	for _, l := range d.lanes {
		v := l.view()
		sum.pending += v.pending
		sum.orphansHeld += v.orphansHeld
		sum.newerHeld += v.newerHeld
		sum.retireHeld += v.retireHeld
		sum.poison += v.poison
		sum.stale += v.stale
		if v.pending > 0 && (sum.oldest.IsZero() || v.oldest.Before(sum.oldest)) {
			sum.oldest = v.oldest
		}
		if v.pending > 0 {
			dirty++
			behind = behind || v.err == nil && !v.due.IsZero() && now.Sub(v.due) > behindAfter
		}
		err := l.stalled()
		if err != nil {
			stalled++
		} else {
			err = v.err
		}
		if err != nil {
			failing = append(failing, l.dir.Key())
			errs[l.dir.Key()] = err
		}
	}
	ctx := context.Background()
	d.m.pending.Record(ctx, int64(sum.pending))
	d.m.orphansHeld.Record(ctx, int64(sum.orphansHeld))
	d.m.newerHeld.Record(ctx, int64(sum.newerHeld))
	d.m.retireHeld.Record(ctx, int64(sum.retireHeld))
	d.m.inPoison.Record(ctx, int64(sum.poison))
	d.m.inStale.Record(ctx, int64(sum.stale))
	d.m.lanesFailing.Record(ctx, int64(len(failing)))
	d.m.lanesStalled.Record(ctx, int64(stalled))
	d.stretch(dirty)
	age := 0.0
	if !sum.oldest.IsZero() {
		age = max(0, now.Sub(sum.oldest).Seconds())
	}
	d.opt.Behind(behind)
	d.m.pendingAge.Record(ctx, age)
	if lake := d.lakeTrouble(); lake != nil {
		d.status.set("lake: "+root(lake), errors.Join(scan, lake)) // the lanes' trouble is the same
		return
	}
	err := errors.Join(scan, summarize(failing, errs))
	if len(failing) > 0 {
		first := slices.Min(failing)
		d.status.set(first+": "+root(errs[first]), err)
		return
	}
	d.status.set("", err)
}

// root is the text of the error that all began with. What is around it may have a name in it that is another each time, and
// who is told of the same trouble again takes it for a new one.
func root(err error) string {
	for {
		next := errors.Unwrap(err)
		if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 0 {
			next = several.Unwrap()[0]
		}
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// summarize makes one error of the lanes' errors: the first by name, and how many more there are.
func summarize(failing []string, errs map[string]error) error {
	if len(failing) == 0 {
		return nil
	}
	slices.Sort(failing)
	first := fmt.Errorf("lane %s: %w", failing[0], errs[failing[0]])
	if n := len(failing) - 1; n > 0 {
		return fmt.Errorf("%w (and %d more lanes)", first, n)
	}
	return first
}
