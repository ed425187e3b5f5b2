package crashtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// simCatalog is the catalog as one process reaches it. It commits as the lake does: each transaction is pinned to the
// head from which it was made, and lands while that is the head, or never. Its proof remembers nothing.
type simCatalog struct{ p *proc }

func (c simCatalog) read() error {
	if c.p.dead.Load() {
		return errDead
	}
	return c.p.w.fault(simfs.Op{Kind: catalogRead}, false)
}

// Ensure implements drain.Catalog.
func (c simCatalog) Ensure(ctx context.Context, tenant, index string, s otelarrow.Signal) (drain.Table, bool, error) {
	if err := c.read(); err != nil {
		return nil, false, err
	}
	t, made, err := c.p.w.tables.Ensure(ctx, tenant, index, s)
	if err != nil {
		return nil, false, err
	}
	known := t.(*table)
	known.c.mu.Lock()
	defer known.c.mu.Unlock()
	return simTable{table: known, of: c, seen: &seen{at: known.sequence}}, made, nil
}

// known is a table as somebody sees it who knows what was committed to it from the log.
func (c simCatalog) known(ctx context.Context, tenant, index string) (drain.Table, error) {
	r, err := segment.Open(c.p.fs, root)
	if err != nil {
		return nil, err
	}
	known, err := drain.Seen(r, tenant, index)
	if err != nil {
		return nil, err
	}
	t, _, err := c.Ensure(ctx, tenant, index, otelarrow.Logs)
	if err == nil {
		t.Expect(known.Sequence, known.Metadata)
	}
	return t, err
}

// committed tells the retention how many rows of segments the table has.
func (c simCatalog) committed(ctx context.Context, tenant, index string, ids []segment.ID) (map[segment.ID]int64, error) {
	t, err := c.known(ctx, tenant, index)
	if err != nil {
		return nil, err
	}
	out := map[segment.ID]int64{}
	for _, id := range ids {
		found, err := t.Lookup(ctx, []string{id.String()})
		if err != nil {
			return nil, err
		}
		if n := found[id.String()]; n > 0 {
			out[id] = n
		}
	}
	return out, nil
}

// foreign is a commit of somebody else to each table: a compaction, an expiry. It moves the head and no row.
func (c simCatalog) foreign() {
	all := c.p.w.tables
	all.mu.Lock()
	lanes := names(all.tables)
	all.mu.Unlock()
	for _, lane := range lanes {
		if c.p.turn(simfs.Op{Kind: otherCommit, Name: lane}) == nil {
			all.land(&tx{lane: lane, base: -1})
		}
	}
}

// tx is a transaction.
type tx struct {
	lane  string
	base  int64            // the head it is made from; -1: whatever it is
	rows  map[string][]int // to write, by segment
	drop  map[int]bool     // rows to take away
	whole map[string][]int // what the table is before that, whatever came since; nil: what it is
	again func(id string)  // is told of each segment of which rows come that a drop has taken away
}

// land applies a transaction unless the head has moved. The compare-and-swap of a catalog.
func (c *catalog) land(x *tx) bool {
	landed, again := c.apply(x)
	for _, id := range again {
		x.again(id)
	}
	return landed
}

func (c *catalog) apply(x *tx) (landed bool, again []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tables[x.lane]
	if x.base < 0 && t.later != nil {
		return false, nil // whoever works on the table beside the drain sees that it went back, too
	}
	if x.base >= 0 && t.sequence != x.base {
		return false, nil
	}
	for id, rows := range x.rows {
		t.rows[id] = append(slices.Clip(t.rows[id]), rows...)
		if t.back(rows) {
			again = append(again, id)
		}
	}
	if x.whole != nil {
		t.rows = x.whole
	}
	t.take(x.drop)
	t.sequence++
	return true, again
}

type simTable struct {
	*table

	of    simCatalog
	blind bool // it commits on whatever head there is
	seen  *seen
}

// seen is the newest state of a table that one who has opened it knows.
type seen struct {
	mu sync.Mutex
	at int64
}

func (s *seen) newest(at int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = max(s.at, at)
	return s.at
}

// Head implements drain.Table.
func (t simTable) Head() (sequence int64, metadata string) {
	at := t.seen.newest(0)
	return at, fmt.Sprintf("v%d.metadata.json", at)
}

// Expect implements drain.Table.
func (t simTable) Expect(sequence int64, _ string) { t.seen.newest(sequence) }

// fits refuses a table that shows less than was seen of it. The caller holds its catalog.
func (t simTable) fits() error {
	if want := t.seen.newest(t.sequence); want > t.sequence {
		return &lake.GoneBackError{Table: t.lane, WantSequence: want, HaveSequence: t.sequence}
	}
	return nil
}

// InPlace implements drain.Table.
func (t simTable) InPlace() error { return t.of.read() }

// Lookup implements drain.Table.
func (t simTable) Lookup(ctx context.Context, ids []string) (map[string]int64, error) {
	if err := t.of.read(); err != nil {
		return nil, err
	}
	t.c.mu.Lock()
	err := t.fits()
	t.c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return t.table.Lookup(ctx, ids)
}

// Commit implements drain.Table.
func (t simTable) Commit(ctx context.Context, segs []lake.Segment) (lake.Outcome, error) {
	const attempts = 4
	for attempt := range attempts {
		if err := t.of.read(); err != nil {
			return lake.Outcome{}, err
		}
		x, out, err := t.load(segs, attempt > 0)
		if err != nil {
			return lake.Outcome{}, err
		}
		if len(x.rows) == 0 {
			return out, nil
		}
		landed, err := t.send(ctx, commitKind, x)
		var f *trouble
		switch {
		case landed:
			return out, nil
		case errors.As(err, &f):
			return lake.Outcome{}, &lake.UnknownError{Table: t.lane, Attempts: attempt + 1, Err: err}
		case err != nil:
			return lake.Outcome{}, err
		}
	}
	return lake.Outcome{}, fmt.Errorf("commit to %s: somebody else's came first, %d times", t.lane, attempts)
}

// send lets a transaction land when its turn comes, or does what a fault makes of it. False, without an error: somebody
// else's came first. With a *trouble nobody knows.
func (t simTable) send(ctx context.Context, kind simfs.Kind, x *tx) (landed bool, err error) {
	err = t.of.p.turn(simfs.Op{Kind: kind, Name: t.lane})
	if err == nil {
		if landed = t.c.land(x); landed {
			t.seen.newest(x.base + 1)
		}
		return landed, nil
	}
	var f *trouble
	if !errors.As(err, &f) {
		return false, err
	}
	switch f.kind {
	case catalogConflicts:
		t.c.land(&tx{lane: t.lane, base: -1})
		return false, nil
	case catalogLoses:
		t.c.land(x)
	case catalogLate:
		t.of.p.w.later(commitLands, t.lane, func() { t.c.land(x) })
	case catalogHangs:
		if f.more%2 == 0 {
			t.c.land(x)
		}
		sleep(ctx, time.Duration(f.more%60)*time.Second)
	}
	return false, err
}

// load makes a transaction of what the table lacks, and what will be known when it has landed. again: an attempt has
// conflicted, so nothing that was known before is believed.
func (t simTable) load(segs []lake.Segment, again bool) (*tx, lake.Outcome, error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if err := t.fits(); err != nil {
		return nil, lake.Outcome{}, err
	}
	x := &tx{lane: t.lane, base: t.sequence, rows: map[string][]int{}, again: t.of.p.w.cameAgain}
	if t.blind {
		x.base = -1
	}
	out := lake.Outcome{Committed: map[string]int64{}}
	for _, s := range segs {
		have := 0
		if s.Doubtful || again {
			have = min(len(t.rows[s.ID]), int(s.Rows))
		}
		ids, bad := rowsOf(s)
		t.c.bad = append(t.c.bad, bad...)
		if have < len(ids) {
			x.rows[s.ID] = ids[have:]
			out.RowsWritten += int64(len(ids) - have)
		}
		out.Duplicates += int64(have)
		out.Committed[s.ID] = s.Rows
	}
	return x, out, nil
}
