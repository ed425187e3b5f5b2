package crashtest

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// days is retention::table: rows go by day partition. Once in its life all rest until days are over: nobody works, or the
// drain is started now and then, as from a timer, and what runs beside it does its work.
type days struct {
	keep  time.Duration
	rest  int // after so many deaths
	hours int // how long
	idle  bool
	every time.Duration // what is due is dropped so often, while nobody rests
}

const (
	// settled is what the compactor waits for: until the newest segment of a day is so old, its rows are what proves it
	// committed. dropEvery is its pace.
	settled   = 48 * time.Hour
	dropEvery = 10 * time.Minute
	// longestAway is how long the drain may be away, and still find the rows of all that it may ask for.
	longestAway = 24 * time.Hour
	// restTurn is the time between two starts of a drain while all rest.
	restTurn = 10 * time.Hour

	oneDay = 24 * time.Hour
	gone   = 0 // in place of a row that went with its day
)

// rest is the rest of a plan, if this is its time.
func (w *sim) rest(deaths int) {
	d := w.plan.days
	if d.keep == 0 || d.rest != deaths {
		return
	}
	until := time.Now().Add(time.Duration(d.hours) * time.Hour)
	w.rests.Store(until.UnixNano())
	w.stop()
	_, err := w.disk.Stat(filepath.Join(root, "siglake-wal.json"))
	d.idle = d.idle || err != nil // there is no log to work on
	w.say("%d ===== all rest for %d h, idle %t", w.k.Load(), d.hours, d.idle)
	if time.Until(until) > longestAway {
		w.unfinished(d.idle || len(w.plan.rots) > 0) // a record that rots stops its lane until an operator comes
	}
	for !d.idle && time.Until(until) > restTurn {
		p := w.start(theDrain)
		_, _ = drain.Once(p.ctx, w.drainOptions(p))
		p.run.Go(func() { simCatalog{p}.dropOldDays(dropEvery) })
		p.run.Go(func() { w.retainMirror(p) })
		time.Sleep(2*time.Hour - 127*time.Second) // never at the time of what runs beside
		p.buried()
		time.Sleep(restTurn - 2*time.Hour)
	}
	time.Sleep(time.Until(until))
}

// unfinished notes what nobody brings to its end while all rest: with a drain at work, what only the writer can, or an operator;
// else all that has a name or a copy. Whoever goes on with it may find that the rows are gone that prove it committed.
func (w *sim) unfinished(idle bool) {
	m := &machine{disk: w.disk}
	left := m.files(func(base string) bool { return strings.Contains(base, ".arrow") })
	left = slices.DeleteFunc(left, func(name string) bool {
		return !idle && !slices.Contains([]segment.State{segment.Active, segment.MirrorPending, segment.Poison}, stateOf(name))
	})
	if idle {
		left = slices.AppendSeq(left, maps.Keys(w.store.Objects()))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range left {
		w.late[idIn(name)] = true
	}
}

// happened is the body of a request that is sent now, and its bounds.
func (l *ledger) happened(a *asked) (body []byte, least, most int64) {
	if a.old == nil {
		return bodyOf(a.ids), int64(a.ids[0]), int64(a.ids[len(a.ids)-1])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.day == nil {
		l.day = map[int]time.Time{}
	}
	times := make([]int64, len(a.ids))
	for i, id := range a.ids {
		at := time.Now().Add(-time.Duration(a.old[i]) * oneDay)
		times[i], l.day[id] = at.UnixNano(), at.Truncate(oneDay).Add(oneDay)
	}
	return encode(a.ids, times), slices.Min(times), slices.Max(times)
}

// dropBug is what may be wrong with a deletion of days.
type dropBug struct {
	young bool // it does not wait until the segments of a day are settled
	whole bool // it puts the table as it was loaded in the place of whatever is there
}

// dropOldDays is Lake.DropOldDays.
func (c simCatalog) dropOldDays(every time.Duration) {
	if !sleep(c.p.ctx, time.Duration(c.p.w.k.Load()*7919%3000)*time.Millisecond) {
		return // it begins when the catalog is open
	}
	for {
		c.p.w.tables.mu.Lock()
		lanes := names(c.p.w.tables.tables)
		c.p.w.tables.mu.Unlock()
		for _, lane := range lanes {
			c.dropDays(lane)
		}
		if !sleep(c.p.ctx, every) {
			return
		}
	}
}

// dropDays takes away what is due of a table, in a transaction that is pinned to the head. What goes wrong, the next round does.
func (c simCatalog) dropDays(lane string) {
	tenant, name, _ := strings.Cut(lane, "/")
	of, err := c.known(c.p.ctx, tenant, name)
	if err != nil {
		return
	}
	t, ends := of.(simTable), c.p.w.ledger.ends()
	bug, young := c.p.w.plant.drops, settled
	if bug.young {
		young = 0
	}
	t.c.mu.Lock()
	err = t.fits()
	x := &tx{lane: lane, base: t.sequence, drop: t.due(ends, time.Now(), c.p.w.plan.days.keep, young)}
	if bug.whole {
		x.base, x.whole = -1, maps.Clone(t.rows)
	}
	t.c.mu.Unlock()
	staged := time.Duration(c.p.w.k.Load()*7919%500) * time.Millisecond // while others commit
	if err == nil && len(x.drop) > 0 && sleep(c.p.ctx, staged) {
		_, _ = t.send(c.p.ctx, dropKind, x)
	}
}

// ends tells of each row when its day ends.
func (l *ledger) ends() map[int]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.day)
}

// due are the rows of days that ended keep ago, and of which no segment is so young.
func (t *table) due(ends map[int]time.Time, now time.Time, keep, young time.Duration) map[int]bool {
	waits, due := map[time.Time]bool{}, map[int]bool{}
	for id, rows := range t.rows {
		made, err := segment.ParseID(id)
		if err != nil {
			panic(err)
		}
		is := time.Unix(made.UUID.Time().UnixTime()).After(now.Add(-young))
		for _, row := range rows {
			waits[ends[row]] = waits[ends[row]] || is
			due[row] = row != gone && !ends[row].After(now.Add(-keep))
		}
	}
	maps.DeleteFunc(due, func(row int, is bool) bool { return !is || waits[ends[row]] })
	return due
}

// take takes rows away. The caller holds the catalog.
func (t *table) take(drop map[int]bool) {
	if len(drop) == 0 {
		return
	}
	was := t.rows
	t.rows, t.dropped = make(map[string][]int, len(was)), maps.Clone(t.dropped)
	for id, rows := range was {
		left := 0
		rows = slices.Clone(rows)
		for i, row := range rows {
			if drop[row] {
				rows[i], t.dropped[row] = gone, id
			}
			if rows[i] != gone {
				left = i + 1
			}
		}
		if left > 0 {
			t.rows[id] = rows[:left:left]
		}
	}
}

// back notes rows that are in the table again, and tells whether a drop had taken some of them. The caller holds the catalog.
func (t *table) back(rows []int) bool {
	had := func(row int) bool { return t.dropped[row] != "" }
	if !slices.ContainsFunc(rows, had) {
		return false
	}
	t.dropped = maps.Clone(t.dropped)
	for _, row := range rows {
		delete(t.dropped, row)
	}
	return true
}

// cameAgain notes a segment of which rows were committed that had gone with their days. Nobody does that who can know better: not
// who was there, before the rows that prove it committed went.
func (w *sim) cameAgain(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.away && !w.late[id] && !w.rotten[id] {
		w.wrong.add("LAKE-1: rows of %s are committed again after their day was dropped", id)
	}
}

// dropped are the rows that went with their days, and their segments.
func (c *catalog) dropped() map[int]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[int]string{}
	for _, t := range c.tables {
		maps.Copy(out, t.dropped)
	}
	return out
}

// over tells of a row that its day is one that retention::table deletes, where a catalog went back. If the record of what was
// committed has rotted as well, nobody can know that the table lost the row by that, and not with its day: it is gone as all of
// that day is. The caller holds the ledger, or nobody writes to it any more.
func (w *sim) over(row int) bool {
	end, keep := w.ledger.day[row], w.plan.days.keep
	return w.away && keep > 0 && !end.IsZero() && !end.After(time.Now().Add(-keep))
}

// allOver tells of a segment that all its rows are over.
func (w *sim) allOver(id string) bool {
	rows := 0
	for _, a := range w.ledger.all {
		if a.acked && a.receipt.Segment.String() == id {
			for _, row := range a.ids {
				if rows++; !w.over(row) {
					return false
				}
			}
		}
	}
	return rows > 0
}

// unproved tells whether the days of a segment were dropped before the retention of the mirror could ask for them a second time,
// because nobody asked for so long: then no table proves its copy, which stays and is counted.
func (w *sim) unproved(id string) bool {
	return w.allOver(id) || (w.away || w.late[id]) && slices.Contains(slices.Collect(maps.Values(w.tables.dropped())), id)
}
