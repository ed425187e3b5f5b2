package crashtest

import (
	"path/filepath"
	"strings"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// back is a catalog that is restored from a backup: the tables of then show what they had then. What was added since is in
// metadata files that no catalog names, until an operator repairs it.
type back struct {
	saved, restored int // operations
}

// goBack takes the backup, and restores it, when it is time. The caller holds the steps.
func (w *sim) goBack(k int) {
	b := w.plan.back
	if b.restored == 0 {
		return
	}
	w.mu.Lock()
	calm := w.calm
	w.mu.Unlock()
	switch {
	case calm:
	case k == b.saved:
		w.saved = w.tables.clone()
	case k == b.restored && w.saved != nil:
		w.say("%d ===== the catalog goes back", k)
		w.mu.Lock()
		w.away = true
		w.mu.Unlock()
		w.tables.restore(w.saved)
	}
}

// restore makes tables what they were.
func (c *catalog) restore(saved *catalog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for lane, was := range saved.tables {
		t := c.tables[lane]
		if t.sequence == was.sequence {
			continue
		}
		t.later = &table{sequence: t.sequence, rows: t.rows, dropped: t.dropped}
		t.sequence, t.rows, t.dropped = was.sequence, was.rows, was.dropped
	}
}

// repair is catalog-repair, of which the simulated catalog carries the first way: a table that shows less than the log
// remembers is set to the later state. One that shows as much is left alone: nobody knows of another.
func (w *sim) repair() {
	w.operate(func(p *proc, l segment.Lane, lane string) bool {
		head, _, err := l.Head()
		if err != nil || p.dead.Load() {
			return false
		}
		w.tables.forward(lane, head.Sequence)
		return true
	})
}

// operate is an operator at work on one lane after the other while no drain runs, until do returns false.
func (w *sim) operate(do func(p *proc, l segment.Lane, lane string) bool) {
	p := w.start(theOperator)
	defer p.buried()
	defer p.die()
	lock, err := p.fs.Lock(filepath.Join(root, segment.DrainLockName), theOperator)
	if err != nil {
		return // a drain works
	}
	defer func() { _ = lock.Close() }()
	r, err := segment.Open(p.fs, root)
	if err != nil {
		return
	}
	lanes, _, err := r.Lanes()
	if err != nil {
		return
	}
	for _, l := range lanes {
		if !do(p, l, strings.TrimSuffix(strings.TrimPrefix(l.Dir(""), root+"/"), "/")) {
			return
		}
	}
}

func (c *catalog) forward(lane string, known int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tables[lane]
	if t == nil || t.later == nil {
		return
	}
	if known > t.sequence {
		t.sequence, t.rows, t.dropped = t.later.sequence, t.later.rows, t.later.dropped
	}
	t.later = nil
}
