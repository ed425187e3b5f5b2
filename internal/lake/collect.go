package lake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

const (
	// LeastOrphanAge is how old a file must be to be an orphan. One that is on its way into a commit is younger: its
	// commit gives it up at half this age (limits.filesAge).
	LeastOrphanAge = 24 * time.Hour
	// removeChunk files are removed after one look at the table.
	removeChunk  = 500
	removeAtOnce = 8
)

// GC says what Collect is to do.
type GC struct {
	// MinAge of what is removed, at least LeastOrphanAge. With Apply both this machine's clock and the store's say so.
	MinAge time.Duration
	// Apply removes. Without it nothing is changed.
	Apply bool
	// Abandoned are tables that were at the location of one before it, and of which nothing is needed any more. One that was at
	// none is in nobody's Others.
	Abandoned []uuid.UUID
	// Seen is the newest state of a table that was seen, wherever that is kept; nil: nothing is known.
	Seen func(tenant, index string) (Seen, error)
	// Progress hears what is done with which table, and how far it is. Total is 0 while it is not known. Nil: nobody does.
	Progress func(table, step string, done, total int)
}

// Collected is what Collect found in one table, and did.
type Collected struct {
	Table    string
	UUID     uuid.UUID
	Location string
	Files    int // below the location; the next four add up to it
	Reached  int // by a snapshot, the log of metadata files, or a commit that may still land
	Young    int // reached by nothing, and younger than MinAge
	Kept     int // nothing that a table consists of, by its name, or not readable as what the name says
	// Others are other tables whose metadata files are at the location, abandoned or not. nil: nobody looked.
	Others  []uuid.UUID
	Orphans []OrphanFile
	Bytes   int64 // of the orphans

	Deleted      int // of the orphans, when applied. What is not was reached since, or is in Err
	DeletedBytes int64
	Err          error // nothing of this table was removed, unless Deleted says so
}

// OrphanFile is a file that nothing reaches. Path is an operating-system path or the URL of an object.
type OrphanFile struct {
	Path    string
	Bytes   int64
	ModTime time.Time
}

// Collect finds, and removes, the files at the tables' locations that nothing reaches: no snapshot in their metadata nor in
// the metadata files that this names as its predecessors, and that are older than MinAge. Trouble with one table is in
// its Err and no trouble of the next. No names: all tables of ours.
//
//	order    files are listed first, then the table is loaded: what was committed in between is reached. Before each
//	         chunk of removals it is loaded again
//	safe     beside commits, expiry and readers of what is reached, in any process. To repeat, and to interrupt
//	refuses  a table of which a snapshot names a file that is not there; that names one outside of its location, or shares that with another; that the catalog shows in
//	         an older state than was seen, by Seen or by the metadata files at its location; that cannot be read, and each
//	         that may have files of such a one at its location; gc.enabled=false
//	errors   ErrReadOnly, ErrNoTable; the tables cannot be listed, so that nobody knows whose the files are
//	ctx      ends it between two files
func (l *Lake) Collect(ctx context.Context, names []string, opt GC) ([]Collected, error) {
	if opt.Apply && l.readOnly {
		return nil, ErrReadOnly
	}
	if opt.MinAge < l.limits.orphanAge {
		return nil, fmt.Errorf("files that are %s old may be on their way into a commit: want at least %s", opt.MinAge, l.limits.orphanAge)
	}
	if opt.Progress == nil {
		opt.Progress = func(string, string, int, int) {}
	}
	ids, err := l.named(ctx, names)
	if err != nil {
		return nil, err
	}
	tables, err := l.whereabouts(ctx)
	if err != nil {
		return nil, err
	}
	var out []Collected
	for _, id := range ids {
		c := collection{
			lake: l, opt: opt, id: id, tables: tables, out: Collected{Table: strings.Join(id, "."), Orphans: []OrphanFile{}}, torn: map[string]bool{}, names: map[string]struct{}{},
		}
		c.out.Err = c.run(ctx)
		if len(names) == 0 && errors.Is(c.out.Err, errNotOurs) {
			continue
		}
		out = append(out, c.out)
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
	}
	return out, nil
}

var errNotOurs = errors.New("it is no table of siglake: it lacks the property " + propSignal)

// named are the tables of these names; all in namespaces of ours if there are none.
func (l *Lake) named(ctx context.Context, names []string) ([]table.Identifier, error) {
	all, err := l.ours(ctx)
	if err != nil || len(names) == 0 {
		return all, err
	}
	var out []table.Identifier
	for _, name := range names {
		at := slices.IndexFunc(all, func(id table.Identifier) bool { return strings.Join(id, ".") == name })
		if at < 0 {
			return nil, fmt.Errorf("%w: %s", ErrNoTable, name)
		}
		out = append(out, all[at])
	}
	return out, nil
}

// collection is the work on one table.
type collection struct {
	lake   *Lake
	opt    GC
	id     table.Identifier
	tables []whereabouts // of the whole catalog
	out    Collected

	found []OrphanFile        // the listing: what a table may consist of
	names map[string]struct{} // all of it
	table *Table              // knows what was seen of it
	at    string              // the metadata file that reach has
	reach *reach
	torn  map[string]bool // metadata files that cannot be parsed
}

func (c *collection) step(name string) func(done, total int) {
	return func(done, total int) { c.opt.Progress(c.out.Table, name, done, total) }
}

func (c *collection) run(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	cutoff, err := c.cutoff()
	if err != nil {
		return err
	}
	if c.found, err = c.list(ctx); err != nil {
		return err
	}
	st, err := c.load(ctx)
	if err != nil {
		return err
	}
	reading := c.step("read")
	if c.reach, err = newReach(c.lake.io, c.out.Location, c.names, func(n int) { reading(n, 0) }); err != nil {
		return err
	}
	if err := c.add(ctx, st); err != nil {
		return err
	}
	if err := c.strays(ctx, st.tbl, c.found); err != nil {
		return err
	}
	c.sort(c.found, cutoff)
	if !c.opt.Apply {
		return nil
	}
	return c.remove(ctx)
}

// begin loads the table for the first time, and finds out whether it can be collected at all.
func (c *collection) begin(ctx context.Context) error {
	tbl, err := c.lake.open(ctx, c.id)
	if err != nil {
		for _, w := range c.tables {
			if w.table == c.out.Table && len(w.places) > 0 {
				c.out.Location = w.places[0]
			}
		}
		return fmt.Errorf("the table cannot be read, so nobody can tell what it needs: %w", err)
	}
	meta := tbl.Metadata()
	c.out.UUID = meta.TableUUID()
	if c.out.Location, err = plain(meta.Location()); err != nil {
		return err
	}
	if meta.Properties()[propSignal] == "" {
		return errNotOurs
	}
	if !meta.Properties().GetBool(table.GCEnabledKey, table.GCEnabledDefault) {
		return fmt.Errorf("its property %s is false", table.GCEnabledKey)
	}
	for _, w := range c.tables {
		if w.table == c.out.Table {
			continue
		}
		if err := w.conflict(c.out.Location); err != nil {
			return err
		}
	}
	c.table = &Table{lake: c.lake, id: c.id, uuid: c.out.UUID}
	if c.opt.Seen != nil {
		seen, err := c.opt.Seen(tenantOf(c.id[0]), c.id[1])
		if err != nil {
			return fmt.Errorf("find out what was seen of it: %w", err)
		}
		if seen.Table != uuid.Nil && seen.Table != c.out.UUID {
			return &IncarnationError{Table: c.out.Table, Want: seen.Table, Have: c.out.UUID}
		}
		c.table.Expect(seen.Sequence, seen.Metadata)
	}
	_, err = c.load(ctx)
	return err
}

// load is the table as it is now. It refuses one that has moved, besides what Table.load refuses.
func (c *collection) load(ctx context.Context) (state, error) {
	st, err := c.table.load(ctx)
	if err != nil {
		return state{}, err
	}
	if at, err := plain(st.tbl.Location()); err != nil || at != c.out.Location {
		return state{}, fmt.Errorf("its location is another now: %s, and was %s", st.tbl.Location(), c.out.Location)
	}
	return st, nil
}

// add notes what a state of the table leads to. What its predecessors lead to as well: a catalog that is restored to one of
// them is whole then.
func (c *collection) add(ctx context.Context, st state) error {
	if c.at == st.tbl.MetadataLocation() {
		return nil
	}
	gone, err := c.reach.metadata(ctx, st.tbl.MetadataLocation(), st.tbl.Metadata())
	if err != nil {
		return err
	}
	for e := range st.tbl.Metadata().PreviousFiles() {
		if !c.reach.first(e.MetadataFile) {
			continue
		}
		old, err := c.lake.stored(ctx, c.id, e.MetadataFile)
		if isAbsent(err) {
			continue // a commit has removed it
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", e.MetadataFile, err)
		}
		// What a predecessor names and is not there, is there for nobody.
		if _, err := c.reach.metadata(ctx, e.MetadataFile, old.Metadata()); err != nil {
			return err
		}
	}
	c.at = st.tbl.MetadataLocation()
	if len(gone) == 0 {
		return c.whole(ctx, st)
	}
	// Expired since it was loaded, or damage.
	now, err := c.load(ctx)
	if err != nil {
		return err
	}
	for _, m := range gone {
		if now.tbl.Metadata().SnapshotByID(m.snapshot) != nil {
			return fmt.Errorf("the table is damaged, so nobody can tell what it needs: %w", m.err)
		}
	}
	return c.add(ctx, now)
}

// remove removes what is still reached by nothing.
func (c *collection) remove(ctx context.Context) error {
	deleting := c.step("delete")
	var failed []error
	var done int
	for chunk := range slices.Chunk(c.out.Orphans, removeChunk) {
		st, err := c.load(ctx)
		if err == nil {
			err = c.add(ctx, st)
		}
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		errs := make([]error, len(chunk))
		var group errgroup.Group
		group.SetLimit(removeAtOnce)
		for i, f := range chunk {
			if c.reach.has(f.Path) {
				errs[i] = errReached
				continue
			}
			group.Go(func() error {
				if errs[i] = context.Cause(ctx); errs[i] == nil {
					errs[i] = c.lake.io.Remove(f.Path)
				}
				return nil
			})
		}
		_ = group.Wait() // errors are in errs
		for i, err := range errs {
			switch {
			case err == nil:
				c.out.Deleted++
				c.out.DeletedBytes += chunk[i].Bytes
			case isAbsent(err), errors.Is(err, errReached): // gone, or needed, since it was listed
			default:
				failed = append(failed, fmt.Errorf("remove %s: %w", chunk[i].Path, err))
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		done += len(chunk)
		deleting(done, len(c.out.Orphans))
	}
	if len(failed) > 0 {
		c.lake.log.Warn("Orphans were left behind", zap.String("table", c.out.Table), zap.Int("files", len(failed)), zap.Error(failed[0]))
		return fmt.Errorf("%d files could not be removed, the first: %w", len(failed), failed[0])
	}
	return nil
}

var errReached = errors.New("reached by now")
