package crashtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// live is the simulation: processes live and die while clients ask, then all is settled and checked.
func (w *sim) live() {
	rng := w.plan.source(simDirector)
	clients := w.clients()
	for n, d := range w.plan.deaths {
		w.rest(n)
		life := w.boot()
		w.arm(d)
		select {
		case d = <-w.struck:
		case <-time.After(20 * time.Second):
			w.s.steps.Lock()
			w.at = 0
			w.strike(int(w.k.Load()))
			w.s.steps.Unlock()
			d = <-w.struck
		}
		if d.kind == stopped {
			life.Wait()
			w.stop()
		}
		w.bury()
		life.Wait()
		if d.kind == volumeLost && w.plan.lateRecovery {
			if w.alive(theDrain) == nil { // or the boot that the death came into has started it
				w.startDrain(theDrain)
			}
			if w.alive(theWriter) == nil {
				w.startWriter()
			}
			time.Sleep(2*mirror.LeastKeep + time.Minute)
			w.stop()
		}
		time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
	}
	w.rest(len(w.plan.deaths))
	life := w.boot()
	clients.Wait()
	life.Wait()
	time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second))))
	w.stop()
	w.bury()
	w.settle()
}

// boot starts what does not run, after what an operator does first.
func (w *sim) boot() *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() {
		if w.owes() && !w.plan.onlineRecovery && !w.recovered(false) {
			return
		}
		if w.alive(theDrain) == nil {
			if w.plan.operator {
				w.mend()
				w.repair()
				w.requeue()
			}
			if w.fell() {
				return
			}
			w.startDrain(theDrain)
		}
		if w.plan.standby && w.alive(theStandby) == nil {
			if w.fell() {
				return
			}
			w.startDrain(theStandby)
		}
		if w.alive(theWriter) == nil {
			if w.fell() {
				return
			}
			w.startWriter()
		}
		if w.owes() {
			w.recovered(true)
		}
	})
	return &wg
}

func (w *sim) alive(name string) *proc {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.procs[name]
}

func (w *sim) owes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owed
}

// fell tells whether a death came while a life began.
func (w *sim) fell() bool { return len(w.struck) > 0 }

// recovered restores from the mirror what a lost volume had, as an operator does who comes again until it works.
func (w *sim) recovered(online bool) bool {
	for range 20 {
		p := w.start(theOperator)
		rep, err := mirror.Restore(p.ctx, mirror.RestoreOptions{
			FS: p.fs, Dir: root, Store: w.plant.storeOf(simStore{p}), Online: online, Concurrency: 1,
		})
		w.reported(rep)
		died := p.dead.Load()
		p.die()
		p.buried()
		var none *mirror.NoMirrorError
		if errors.As(err, &none) && none.Segments == 0 || err == nil && len(rep.Failed) == 0 {
			if died {
				return false
			}
			w.mu.Lock()
			w.owed = false
			w.mu.Unlock()
			return true
		}
		if died {
			return false
		}
		time.Sleep(time.Second)
	}
	return false
}

// arm has a death come after so many operations.
func (w *sim) arm(d death) {
	w.s.steps.Lock()
	defer w.s.steps.Unlock()
	w.armed, w.at = &d, int(w.k.Load())+d.after
}

// strike lets an armed death come if it is its time. The caller holds the steps.
func (w *sim) strike(k int) {
	if w.armed == nil || k < w.at {
		return
	}
	d := *w.armed
	w.armed = nil
	if d.kind == drainKilled && w.holder() == theStandby {
		d.kind = standbyKilled // it is the one that works
	}
	w.say("%d ===== %s", k, d.kind)
	w.mu.Lock()
	procs := make([]*proc, 0, len(w.procs))
	for _, p := range w.procs {
		switch d.kind {
		case stopped:
			continue
		case writerKilled, drainKilled, standbyKilled:
			if p.name != strings.TrimPrefix(d.kind, killed+" ") {
				continue
			}
		}
		procs = append(procs, p)
	}
	switch d.kind {
	case powerCut:
		w.ledger.power(w.tables)
		w.disk = w.disk.Crash(d.policy, w.plan.source(simDisk+uint64(k)<<8))
	case volumeLost:
		w.ledger.volume(w.tables, w.store, w.rotten)
		w.disk = simfs.New(nil)
		w.disk.NoLog()
		w.owed = true
	}
	w.mu.Unlock()
	for _, p := range procs {
		p.die()
	}
	w.struck <- d
}

// bury waits until nothing is left of the dead.
func (w *sim) bury() {
	for _, name := range []string{theWriter, theDrain, theStandby} {
		if p := w.alive(name); p != nil && p.dead.Load() {
			p.buried()
		}
	}
}

// stop ends all processes in order, the writer first.
func (w *sim) stop() {
	if p := w.alive(theWriter); p != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if l := p.log.Load(); l != nil {
			which := w.ledger.acked("")
			if l.Close(ctx) == nil && !p.dead.Load() {
				w.ledger.sealed(which)
			}
		}
		p.mirror.Flush(ctx)
		cancel()
		p.buried()
	}
	for _, name := range []string{theDrain, theStandby} {
		if p := w.alive(name); p != nil {
			p.buried()
		}
	}
}

// say adds a line to the trace, of which the last are kept.
func (w *sim) say(format string, args ...any) {
	if len(w.trace) == w.kept {
		w.trace = append(w.trace[:0], w.trace[1:]...)
	}
	w.trace = append(w.trace, fmt.Sprintf("%s "+format, append([]any{time.Now().Format("04:05.000")}, args...)...))
}

func (w *sim) note(k int, p *proc, op simfs.Op, err error) {
	line := fmt.Sprintf("%d %s %s %s", k, p.name, op.Kind, w.stable(op.Name))
	if op.To != "" {
		line += " -> " + w.stable(op.To)
	}
	if err != nil {
		line += ": " + err.Error()
	}
	w.say("%s", line)
}

// broken notes a promise that was not kept.
func (w *sim) broken(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong.add(format, args...)
}

// stable is a path with a short name in place of what is random: each segment, and the writer of a void number.
func (w *sim) stable(path string) string {
	base := filepath.Base(path)
	letter, cut := "S", strings.Index(base, ".arrow")
	if strings.HasSuffix(base, ".void") {
		letter, cut = "W", strings.Index(base, "-")
	}
	if cut < 0 {
		return path
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	short, ok := w.names[base[:cut]]
	if !ok {
		short = fmt.Sprintf("%s%03d", letter, len(w.names))
		w.names[base[:cut]] = short
	}
	return filepath.Join(filepath.Dir(path), short+base[cut:])
}

// short is a text with those short names. The longest ids come first: a writer's is a part of those of its segments.
func (w *sim) short(text string) string {
	ids := slices.SortedFunc(maps.Keys(w.names), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	for _, id := range ids {
		text = strings.ReplaceAll(text, id, w.names[id])
	}
	return text
}

// fault is what the faults of the time make of an operation.
func (w *sim) fault(op simfs.Op, changes bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm {
		return nil
	}
	k := int(w.k.Load())
	for i := range w.faults {
		e := &w.faults[i]
		if k < e.from || k >= e.from+e.count {
			continue
		}
		if e.since.IsZero() {
			e.since = time.Now()
		}
		if time.Since(e.since) > episodeTime {
			continue
		}
		if err := e.of(op); err != nil && (!changes || w.rng.IntN(e.odds) == 0) {
			return err
		}
	}
	return nil
}

// watch looks at an operation that is about to happen: RET-1.
func (w *sim) watch(p *proc, op simfs.Op) {
	if p.name == theOperator && vfs.IsTemp(op.Name) && (op.Kind == simfs.Link || op.Kind == simfs.Rename) {
		w.mu.Lock()
		w.late[idIn(op.To)] = true // the mirror brings it back
		w.mu.Unlock()
	}
	if op.Kind != simfs.Remove || stateOf(op.Name) != segment.Committed {
		return
	}
	base := filepath.Base(op.Name)
	lane := strings.TrimPrefix(filepath.Dir(filepath.Dir(op.Name)), root+"/")
	w.mu.Lock()
	defer w.mu.Unlock()
	id := strings.TrimSuffix(base, ".arrow")
	if missing := w.missing(lane, id); missing != "" && !w.rotten[id] { // what rotted, and was salvaged, is looked for at the end
		w.wrong.add("RET-1: %s removes %s, and the table lacks %s", p.name, op.Name, missing)
	}
	in := func(st segment.State) bool {
		_, err := w.disk.Stat(filepath.Join(root, lane, string(st), base))
		return err == nil
	}
	// The beginning that was salvaged goes when the whole segment has been brought back into sealed/.
	if in(segment.MirrorPending) && !in(segment.Sealed) {
		w.wrong.add("RET-1: %s removes %s, which is pinned", p.name, op.Name)
	}
}
