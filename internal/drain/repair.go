package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// ErrNoRepair says that a table cannot be repaired as things are.
var ErrNoRepair = errors.New("cannot be repaired as things are")

// RepairOptions say what is repaired after a catalog went back.
type RepairOptions struct {
	FS     vfs.FS
	WAL    string // root directory of the write-ahead log
	Holder string // text in drain.lock for whoever is refused meanwhile
	Lake   *lake.Lake
	Lane   string // tenant/index; empty: all

	// Apply changes what is to be changed. Without it everything is read, nothing changed and no lock taken.
	Apply bool
	// AcceptLoss lets a table go on of which not all is brought back.
	AcceptLoss bool
	// Mirror restores to orphans/, beside a drain, those segments of a mirror that choose wants; without Apply it reads them and
	// writes nothing. nil: there is no mirror.
	Mirror func(ctx context.Context, choose Choice) error
}

// Choice says which segments of a mirror are wanted.
type Choice interface {
	// Listed tells what the mirror has of a lane that the root lacks. False: nothing of it is wanted.
	Listed(ctx context.Context, tenant, index string, ids []segment.ID) (bool, error)
	// Wants tells whether a segment of so many rows is to be restored. Called from several goroutines at a time.
	Wants(tenant, index string, id segment.ID, rows int64) bool
}

// Part is a segment of which the table has not all rows.
type Part struct {
	ID   segment.ID
	Rows int64 // of the segment
	Have int64 // of them in the table
}

// Missing is what the table lacks of it.
func (p Part) Missing() int64 { return p.Rows - p.Have }

// TableRepair is what was found out about one table, and done.
type TableRepair struct {
	Tenant, Index string
	*lake.Past

	Before  lake.State // what the catalog showed
	Requeue []Part     // in committed/: they go back to sealed/
	Restore []Part     // in the mirror: they go to orphans/
	Waiting []Part     // in the log on the way to the table: the drain takes them
	Aside   int        // segments of a table made meanwhile that go to stale/
	Lost    []Part     // named by the record of a later state, and nowhere
	// Doubt says why more may be missing than is named; empty: nothing is.
	Doubt string
	// Resumed says that the record of what was seen fits the catalog again: the drain goes on.
	Resumed bool
	Err     error // why the table was left as it is
}

// Whole tells whether all that was ever committed is in the table or on its way.
func (t *TableRepair) Whole() bool { return t.Err == nil && len(t.Lost) == 0 && t.Doubt == "" }

// RepairCatalog brings back what a catalog that was restored from a backup does not know of the tables that were committed to
// from this root:
//
//  1. The catalog is set to the newest later metadata file of the table that is whole; to the newest one before, where what it shows
//     is gone or damaged and no later one is whole.
//  2. Data files of later commits, of whose rows that has none, are added to the table.
//  3. What is still missing goes back to where the drain takes it: segments of committed/ to sealed/, those of the mirror to
//     orphans/. The drain looks both up in the table, so rows that are there are not written again.
//  4. The record of what was seen (head) is made to fit, last, and only when nothing is missing or AcceptLoss is given: until then
//     the drain commits nothing to the table and retires nothing of it.
//
// It holds drain.lock. A writer may run.
//
//	return   one for each table that does not fit, also beside an error
//	durable  step by step
//	safe     to be ended anywhere and to run again: it looks at what there is
//	errors   *vfs.LockedError while a drain runs; segment.ErrNotRoot; the mirror's. What concerns one table is in its report
//	ctx      ends it between two steps
//	holds    LAKE-1, LOUD-1
func RepairCatalog(ctx context.Context, opt RepairOptions) (out []*TableRepair, err error) {
	root, err := segment.Open(opt.FS, opt.WAL)
	if err != nil {
		return nil, fmt.Errorf("open write-ahead log: %w", err)
	}
	if opt.Apply {
		var lock *held
		if root, lock, err = holdRoot(opt.FS, opt.WAL, opt.Holder); err != nil {
			return nil, err
		}
		opt.FS = lock
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	r := &repair{RepairOptions: opt, tables: map[string]*tableWork{}}
	if err := r.look(ctx, root); err != nil {
		return r.reports(), err
	}
	for _, t := range r.sorted() {
		t.Err = r.forward(ctx, t)
		if ctx.Err() != nil {
			return r.reports(), context.Cause(ctx)
		}
	}
	if opt.Mirror != nil && slices.ContainsFunc(r.sorted(), (*tableWork).lacks) {
		if err := opt.Mirror(ctx, r); err != nil {
			return r.reports(), err
		}
	}
	for _, t := range r.sorted() {
		if t.Err == nil {
			t.Err = r.resume(ctx, t)
		}
	}
	return r.reports(), nil
}

type repair struct {
	RepairOptions

	tables map[string]*tableWork // by tenant/index
}

// tableWork is a table that does not fit, and what is known of its segments.
type tableWork struct {
	TableRepair

	lanes  []segment.Lane
	here   map[segment.ID]struct{} // with a name in the root
	others map[segment.ID]bool     // of them those of another table
	have   map[segment.ID]int64    // rows in the table, of segments that the mirror listed
	taken  chan struct{}           // guards Restore: a token
}

// lacks tells whether there is anything to look for in a mirror.
func (t *tableWork) lacks() bool { return t.Err == nil && !t.Reaches && t.Standing != lake.Fits }

func (r *repair) sorted() []*tableWork {
	return slices.SortedFunc(maps.Values(r.tables), func(a, b *tableWork) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Index, b.Index))
	})
}

func (r *repair) reports() []*TableRepair {
	out := []*TableRepair{}
	for _, t := range r.sorted() {
		out = append(out, &t.TableRepair)
	}
	return out
}

// look finds the tables that do not fit.
func (r *repair) look(ctx context.Context, root *segment.Root) error {
	tables, err := committedTo(root)
	if err != nil {
		return err
	}
	if err := danglingOf(ctx, r.Lake, root, tables); err != nil {
		return err
	}
	for key, of := range tables {
		if r.Lane != "" && r.Lane != key {
			continue
		}
		t := &tableWork{lanes: of.lanes, here: map[segment.ID]struct{}{}, have: map[segment.ID]int64{}, others: map[segment.ID]bool{}, taken: make(chan struct{}, 1)}
		t.Tenant, t.Index, t.Past = of.tenant, of.index, &lake.Past{Table: key, Seen: of.seen}
		if t.Err = of.err; t.Err == nil {
			past, err := of.ask(ctx, r.Lake.Past)
			if t.Err = err; err == nil {
				t.Past = past
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// Where it fits a table that the lane was bound to before, the record is of one that was made meanwhile: a repair was cut short,
		// or nothing was committed since the backup.
		if t.Err != nil || t.Standing != lake.Fits || t.Seen.Table != of.seen.Table {
			r.tables[key] = t
		}
	}
	return nil
}

// forward sets the catalog to the later state, and takes back what that lacks and the root has.
func (r *repair) forward(ctx context.Context, t *tableWork) error {
	if t.Err != nil {
		return t.Err
	}
	t.Before = t.Have
	switch {
	case t.Standing == lake.Replaced:
		return fmt.Errorf("%w: the catalog has another table of that name, made since, and which of them counts nobody but you can say", ErrNoRepair)
	case t.Overwritten() && t.Forward == nil:
		return fmt.Errorf("%w: %s; where there is none, move that file away and run this again", ErrNoRepair, t.Past)
	case t.Broken != "" && t.Forward == nil:
		other := "other"
		if t.Seen.Metadata == "" {
			other = "later" // without a log that knows the table nobody would tell what is missing
		}
		return fmt.Errorf("%w: the metadata file that the catalog shows is %s, %s, and no %s one is whole; restore it from a copy of the warehouse, or bring back its version in the bucket",
			ErrNoRepair, t.Broken, t.Have.Metadata, other)
	case t.Standing == lake.Unlisted && t.Forward == nil:
		return fmt.Errorf("%w: the catalog does not have the table, and no metadata file of it is whole", ErrNoRepair)
	}
	if r.Apply {
		if err := t.Set(ctx); err != nil {
			return err
		}
	}
	err := t.FindStrays(ctx)
	if err == nil && r.Apply {
		err = t.AddStrays(ctx)
	}
	if err != nil {
		return err
	}
	for _, l := range t.lanes {
		if err := r.setAside(t, l); err != nil {
			return fmt.Errorf("lane %s: %w", l.Key(), err)
		}
		if err := r.takeBack(ctx, t, l); err != nil {
			return fmt.Errorf("lane %s: %w", l.Key(), err)
		}
	}
	return nil
}

// Listed holds what the mirror has against the table. It is for Mirror.
func (r *repair) Listed(ctx context.Context, tenant, index string, ids []segment.ID) (bool, error) {
	t := r.tables[tenant+"/"+index]
	if t == nil || !t.lacks() {
		return false, nil
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	found, err := t.Lookup(ctx, names)
	if err != nil {
		t.Err = err
		return false, nil //nolint:nilerr // it is the table's own
	}
	for i, id := range ids {
		t.have[id] = found[names[i]]
	}
	return true, nil
}

// Wants is for Mirror.
func (r *repair) Wants(tenant, index string, id segment.ID, rows int64) bool {
	t := r.tables[tenant+"/"+index]
	if t == nil {
		return false
	}
	t.taken <- struct{}{}
	defer func() { <-t.taken }()
	p := Part{ID: id, Rows: rows, Have: t.have[id]}
	if p.Missing() <= 0 {
		return false
	}
	t.Restore = append(t.Restore, p)
	return true
}

// resume finds out what is lost, and lets the table go on if nothing is, or that is accepted.
func (r *repair) resume(ctx context.Context, t *tableWork) error {
	if err := r.account(ctx, t); err != nil {
		return err
	}
	if !r.Apply {
		return nil
	}
	now, err := r.Lake.Past(ctx, t.Tenant, t.Index, t.Seen)
	if err != nil {
		return err
	}
	if !t.Whole() && !r.AcceptLoss {
		t.Resumed = now.Standing == lake.Fits // of what is broken the log had not seen anything
		return nil
	}
	if now.Have.Metadata != t.Have.Metadata {
		return fmt.Errorf("the catalog shows %s by now and not %s: somebody else writes to it; stop that and run it again", now.Have.Metadata, t.Have.Metadata)
	}
	for _, l := range t.lanes {
		_, ok, err := l.Head()
		if err == nil && ok { // so that a writer that starts now names the right table
			err = l.WriteOwner(t.Seen.Table)
		}
		if err == nil && ok { // last: until then there is something to repair
			err = l.WriteHead(segment.Head{Table: t.Seen.Table, Sequence: t.Have.Sequence, Metadata: t.Have.Metadata})
		}
		if err != nil {
			return fmt.Errorf("write head of lane %s: %w", l.Key(), err)
		}
	}
	t.Resumed = true
	return nil
}

// account names what is nowhere.
func (r *repair) account(ctx context.Context, t *tableWork) error {
	slices.SortFunc(t.Restore, func(a, b Part) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	if !t.lacks() {
		return nil
	}
	back := map[string]int64{}
	for _, p := range slices.Concat(t.Requeue, t.Restore, t.Waiting) {
		back[p.ID.String()] = max(back[p.ID.String()], p.Rows)
	}
	var ask []string
	for _, id := range slices.Sorted(maps.Keys(t.Named)) {
		if back[id] < t.Named[id] {
			ask = append(ask, id)
		}
	}
	found, err := t.Lookup(ctx, ask)
	if err != nil {
		return err
	}
	for _, name := range ask {
		id, err := segment.ParseID(name)
		if err != nil {
			return fmt.Errorf("a record of %s names %q: %w", t.Table, name, err)
		}
		if p := (Part{ID: id, Rows: t.Named[name], Have: max(found[name], back[name])}); p.Missing() > 0 {
			t.Lost = append(t.Lost, p)
		}
	}
	if !t.NamesAll() {
		t.Doubt = "no metadata file tells which segments were committed between the two states"
	}
	return nil
}
