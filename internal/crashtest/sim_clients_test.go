package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// The modes beyond the log's own.
const (
	mirrored = "mirrored"
	force    = "force"
)

// asked is one request: what its client knows of it, and what may have become of it.
type asked struct {
	lane    string // tenant
	ids     []int
	old     []int // by row: how many days ago it happened; nil: at the beginning of time
	mode    string
	called  bool
	acked   bool
	receipt wal.Receipt
	life    *proc  // of the writer that has answered
	must    bool   // a power cut may not take it
	gone    string // what may have taken it
}

// ledger is what all clients know together.
type ledger struct {
	mu  sync.Mutex
	all []*asked
	day map[int]time.Time // by row that was sent: when the day ends in which it happened
}

// clients send what the plan says, each in its order, to the writer that runs; who finds none waits.
func (w *sim) clients() *sync.WaitGroup {
	var wg sync.WaitGroup
	row := 0
	for n := range w.plan.clients {
		rng := w.plan.source(simClients + uint64(n))
		var own []*asked
		for range w.plan.requests {
			a := &asked{
				lane: string(rune('a' + rng.IntN(2))),
				mode: []string{"auto", "auto", "wait_for", "wait_for", "wait_for", mirrored, force}[rng.IntN(7)],
			}
			for range 1 + rng.IntN(3) {
				row++
				a.ids = append(a.ids, row)
				if w.plan.days.keep > 0 {
					a.old = append(a.old, max(0, rng.IntN(10)-4))
				}
			}
			own = append(own, a)
			w.ledger.all = append(w.ledger.all, a)
		}
		name := fmt.Sprintf("client %d", n)
		wg.Go(func() {
			for _, a := range own {
				time.Sleep(time.Duration(rng.Int64N(int64(w.plan.think))))
				w.s.client(name)
				w.ask(a, rng.IntN(8) == 0)
			}
		})
	}
	return &wg
}

// ask sends one request to the writer that runs, and seals its lane where an operator does.
func (w *sim) ask(a *asked, seal bool) {
	var p *proc
	var l *wal.Log
	for {
		if p = w.alive(theWriter); p != nil {
			if l = p.log.Load(); l != nil {
				break
			}
		}
		const look = 200 * time.Millisecond
		time.Sleep(look + max(0, time.Until(time.Unix(0, w.rests.Load()))).Truncate(look)) // each client at its own time
	}
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	r := wal.Request{Tenant: a.lane, Index: index, Schema: schema, Rows: len(a.ids), Mode: wal.WaitFor}
	r.Body, r.MinTime, r.MaxTime = w.ledger.happened(a)
	switch a.mode {
	case "auto":
		r.Mode = wal.Auto
	case mirrored:
		r.SealWithin = 100 * time.Millisecond
	case force:
		r.SealWithin = 10 * time.Millisecond
	}
	a.called = true
	receipt, err := l.Append(ctx, r)
	w.ledger.answered(a, p, receipt, err)
	if err != nil {
		return
	}
	switch a.mode {
	case mirrored:
		if p.mirror.Confirmed(ctx, receipt.Segment) == nil && !w.copied(a) {
			w.broken("MIR-1: row %d is acknowledged under mirrored and has no copy", a.ids[0])
		}
	case force:
		if l.Committed(ctx, a.lane, index, receipt.Segment) == nil && !w.ledger.inTable(w.tables, a) {
			w.broken("LAKE-1: row %d is acknowledged under force and is in no table", a.ids[0])
		}
	}
	if seal {
		which := w.ledger.acked(a.lane)
		if l.Seal(ctx, a.lane, index) == nil && !p.dead.Load() {
			w.ledger.sealed(which)
		}
	}
}

// answered notes an answer of the log. One under wait_for is good for every acknowledged row of the lane before it.
func (l *ledger) answered(a *asked, p *proc, r wal.Receipt, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || p.dead.Load() {
		return
	}
	a.acked, a.receipt, a.life, a.must = true, r, p, a.mode != "auto"
	for _, b := range l.all {
		switch {
		case b == a || b.lane != a.lane || !b.acked || b.life != p:
		case a.must && b.mode == "auto" && sameWriter(a, b) && before(b.receipt, r):
			b.must = true
		case b.must && b.mode != "auto" && sameWriter(a, b) && before(r, b.receipt):
			a.must = true // the answer that covers this one was noted first
		}
	}
}

func sameWriter(a, b *asked) bool { return a.receipt.Segment.Writer == b.receipt.Segment.Writer }

// acked returns the acknowledged requests of a lane; "" of all.
func (l *ledger) acked(lane string) (which []*asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if a.acked && (lane == "" || a.lane == lane) {
			which = append(which, a)
		}
	}
	return which
}

// sealed notes that requests are in sealed/, durably.
func (l *ledger) sealed(which []*asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range which {
		a.must = true
	}
}

// power is a power cut: it may take what was acknowledged under auto and not covered by a sync.
func (l *ledger) power(tables *catalog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if a.acked && !a.must && !has(tables, a) {
			a.gone = powerCut
		}
	}
}

// volume is the loss of the volume: it may take what is in no table and in no object. rotten are segments of which a copy is
// damaged.
func (l *ledger) volume(tables *catalog, store *storetest.Store, rotten map[string]bool) {
	objects := store.Objects()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		id := a.receipt.Segment.String()
		_, there := objects[a.lane+"/"+index+"/"+id+".arrow"]
		if there && rotten[id] {
			continue // whoever reads it has to say so
		}
		if a.acked && !has(tables, a) && !copiedIn(objects, a) {
			a.gone = volumeLost
		}
	}
}

func (l *ledger) inTable(tables *catalog, a *asked) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return has(tables, a)
}

// has tells whether a request's rows are in the table, or went with their day, or will be when its catalog is repaired.
func has(tables *catalog, a *asked) bool {
	tables.mu.Lock()
	defer tables.mu.Unlock()
	for t := tables.tables[a.lane+"/"+index]; t != nil; t = t.later {
		if last := a.ids[len(a.ids)-1]; t.dropped[last] != "" || slices.Contains(t.rows[a.receipt.Segment.String()], last) {
			return true
		}
	}
	return false
}

// missing is what the table lacks of a segment's acknowledged rows; "" nothing. The caller holds w.
func (w *sim) missing(lane, id string) string {
	l := &w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if a.acked && a.gone == "" && a.lane+"/"+index == lane && a.receipt.Segment.String() == id && !has(w.tables, a) &&
			slices.ContainsFunc(a.ids, func(row int) bool { return !w.over(row) }) {
			return fmt.Sprintf("row %d", a.ids[0])
		}
	}
	return ""
}

func (w *sim) copied(a *asked) bool {
	return copiedIn(w.store.Objects(), a) || w.ledger.inTable(w.tables, a)
}

// copiedIn tells whether the rows of a request are in an object.
func copiedIn(objects map[string][]byte, a *asked) bool {
	id := a.receipt.Segment
	for key, body := range objects {
		if !strings.Contains(key, id.String()) || path.Base(path.Dir(path.Dir(key))) != a.lane {
			continue
		}
		seg, err := frame.Decode(bytes.NewReader(body), int64(len(body)), frame.DecodeOptions{})
		if err != nil {
			continue
		}
		rows := seg.Rows
		seg.Release()
		if rows >= a.receipt.End {
			return true
		}
	}
	return false
}
