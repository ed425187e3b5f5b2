package crashtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// requeue puts back what is in poison/ and in orphans/, as an operator does while no drain runs.
func (w *sim) requeue() {
	p := w.start(theOperator)
	for _, from := range []segment.State{segment.Poison, segment.Orphans} {
		_, _ = drain.RequeueSegments(p.ctx, drain.RequeueOptions{
			Selection: drain.Selection{FS: p.fs, WAL: root, From: from, Holder: theOperator, Logger: zap.NewNop(), Now: time.Now},
			Salvage:   true,
		})
	}
	p.die()
	p.buried()
}

// settle starts everything again without faults, brings all to its end and looks at what there is.
func (w *sim) settle() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.landing.Wait()
	w.mend()
	w.repair()
	// All that the mirror has comes back: what the tables have they do not take twice, and what a power cut took from the
	// log before it was promised may be there.
	if !w.recovered(false) {
		w.broken("MIR-1: not recovered from the mirror")
	}
	p := w.startWriter()
	for range 50 {
		if p.log.Load() != nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if p.log.Load() == nil {
		w.broken("ACK-1: the log does not open")
		p.buried()
		return
	}
	time.Sleep(max(w.plan.sweep, 3*time.Second) + time.Second)
	w.stop()
	for range 3 {
		w.requeue()
		w.drainOnce()
	}
	w.mirrorAll()
	time.Sleep(w.plan.retainPartial + w.plan.retain + time.Second)
	w.drainOnce()
	w.forget()
	w.check()
}

// drainOnce drains what there is; nothing fails.
func (w *sim) drainOnce() {
	p := w.start(theDrain)
	r, err := drain.Once(p.ctx, w.drainOptions(p))
	if err != nil {
		w.broken("LAKE-1: drain: %v", err)
	}
	for lane, err := range r.Failures {
		w.broken("LAKE-1: drain of %s: %v", lane, err)
	}
	if r.Remaining+r.OrphansHeld > 0 {
		w.broken("LAKE-1: %d segments and %d orphans are not drained", r.Remaining, r.OrphansHeld)
	}
	p.buried()
}

// mirrorAll uploads what has no copy, and lets the pins go.
func (w *sim) mirrorAll() {
	p := w.startWriter()
	time.Sleep(max(w.plan.sweep, 40*time.Second) + time.Second)
	ctx, cancel := context.WithTimeout(p.ctx, 2*time.Minute)
	defer cancel()
	if left := p.mirror.Flush(ctx); left > 0 {
		w.broken("PIN-1: %d segments are not uploaded", left)
	}
	w.stop()
}

// forget is the retention of the mirror, until nothing is due any more.
func (w *sim) forget() {
	p := w.start(theDrain)
	p.run.Go(func() { w.retainMirror(p) })
	time.Sleep(3*w.plan.keepCopies - 61*time.Second) // not at the time of a run
	p.buried()
}

// check holds what there is against what was promised.
func (w *sim) check() {
	v := &w.wrong
	w.setAside()
	for _, bad := range w.tables.bad {
		v.add("ACK-2: %s", bad)
	}
	times, dropped := map[int]int{}, w.tables.dropped()
	owners := map[int]*asked{}
	for _, a := range w.ledger.all {
		for _, id := range a.ids {
			owners[id] = a
		}
	}
	for lane, segs := range w.tables.all() {
		for id, rows := range segs {
			for i, row := range rows {
				if row == gone {
					continue
				}
				times[row]++
				a := owners[row]
				switch {
				case a == nil || !a.called || a.lane+"/"+index != lane:
					v.add("ACK-2: row %d is in %s and was not sent there", row, lane)
				case a.acked && (a.receipt.Segment.String() != id || a.ids[0]+i-int(a.receipt.First) != row):
					v.add("ORD-1: row %d is row %d of %s, receipt %v", row, i, id, a.receipt)
				}
			}
		}
	}
	for _, a := range w.ledger.all {
		for _, id := range a.ids {
			n := times[id]
			if dropped[id] != "" || n == 0 && w.over(id) {
				continue
			}
			if segment := a.receipt.Segment; n == 0 && a.acked && a.gone == "" {
				switch {
				case !w.rotten[segment.String()]:
					v.add("ACK-1: row %d, %s, of %s is lost", id, a.mode, w.stable(segment.FileName()))
				case !w.told[segment.String()]:
					v.add("LOUD-1: row %d, %s, of %s has rotted, and nobody says so", id, a.mode, w.stable(segment.FileName()))
				}
			}
			if n > 1 {
				v.add("LAKE-1: row %d is there %d times", id, n)
			}
			if first := a.ids[0]; !w.over(first) && n > 0 != (times[first] > 0 || dropped[first] != "") {
				v.add("ACK-2: of request %v only a part is there", a.ids)
			}
		}
	}
	w.checkRest(v)
}

// checkRest looks at what is left at rest: BND-1, PIN-1, ONE-1.
func (w *sim) checkRest(v *violations) {
	m := &machine{disk: w.disk}
	m.checkRest(v, w.keptRotten)
	if temps := m.files(vfs.IsTemp); len(temps) > 0 {
		v.add("ONE-1: temporary files %v", temps)
	}
	for key := range w.store.Objects() {
		if key != marker && !w.inPoison(key) && !w.rotten[idIn(key)] && !w.unproved(idIn(key)) {
			v.add("BND-1: %s is left in the mirror", w.stable(key))
		}
	}
}

// inPoison tells whether the segment of an object is set aside: its rows are in no table, so the object stays.
func (w *sim) inPoison(key string) bool {
	m := &machine{disk: w.disk}
	in := m.files(func(base string) bool { return strings.Contains(key, strings.SplitN(base, ".arrow", 2)[0]) })
	return slices.ContainsFunc(in, func(name string) bool { return stateOf(name) == segment.Poison })
}
