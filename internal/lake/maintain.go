package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Upkeep says how the tables' metadata is kept small.
type Upkeep struct {
	// RetainLast snapshots of a table stay.
	RetainLast int
	// Interval is the time from one round over all tables to the next.
	Interval time.Duration
}

const (
	// readersTime is how long the manifests of an expired snapshot stay for those who read it when it expired.
	readersTime = 10 * time.Minute
	// idleRounds is in how many rounds one is spent on a table that this process has not changed: others may have.
	idleRounds = 10
)

// Maintain expires snapshots, and removes the manifests that only those named, until ctx ends: metadata of a table that
// takes commits for years stays as small, and a commit as fast, as after the first hundred.
//
//	tables   of our namespaces that hold rows of a signal; tables of others are never touched
//	round    one table after the other; trouble with one is logged and counted, and is no trouble of the next
//	yields   a table's turn is taken for one commit, behind those that wait for it; after a conflict the next round
//	         tries again
//	files    data files are never removed. Manifest lists and manifests are, when a state loaded later shows that no
//	         snapshot names them, no metadata file is kept that was written before the expiry (a restored catalog may
//	         point to it), and readers have had their time. What a crash leaves of them is for garbage collection
//	safe     beside Commit, and in several processes
//	ctx      ends it; a commit that was sent is awaited
func (l *Lake) Maintain(ctx context.Context, u Upkeep) {
	k := &keeper{lake: l, retain: u.RetainLast, tables: map[string]*kept{}}
	l.rounds(ctx, u.Interval, "Maintenance of tables", k.round)
}

// rounds calls round at once and at each interval until ctx ends. Trouble with one is logged, and the next tries again.
func (l *Lake) rounds(ctx context.Context, every time.Duration, what string, round func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := round(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn(what+" went wrong; it is tried again", zap.Duration("after", every), zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// keeper remembers from round to round what is to be removed.
type keeper struct {
	lake   *Lake
	retain int
	tables map[string]*kept // by name
}

// kept is what is known of a table.
type kept struct {
	table     *Table // nil: not one of ours
	seen      string // the metadata file at the end of the last visit
	snapshots int
	idle      int // rounds since
	waste     []waste
}

// waste is what one expiry left.
type waste struct {
	base  string    // the metadata file it was made from
	since time.Time // it was sent
	gone  []table.Snapshot
	found bool     // the next visit has found
	files []string // these to remove
}

// round looks at every table once.
func (k *keeper) round(ctx context.Context) error {
	names, err := k.lake.ours(ctx)
	if err != nil {
		return err
	}
	var errs []error
	var most int
	here := make(map[string]struct{}, len(names))
	for _, id := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := strings.Join(id, ".")
		here[name] = struct{}{}
		n, err := k.visit(ctx, name, id)
		if err != nil {
			errs = append(errs, err)
		}
		most = max(most, n)
	}
	for name := range k.tables {
		if _, ok := here[name]; !ok {
			delete(k.tables, name)
		}
	}
	k.lake.metrics.maintained(ctx, most, len(errs))
	if len(errs) > 1 {
		return fmt.Errorf("%w (and %d more tables)", errs[0], len(errs)-1)
	}
	return errors.Join(errs...)
}

// ours are the tables in namespaces of ours.
func (l *Lake) ours(ctx context.Context) ([]table.Identifier, error) {
	spaces, err := l.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	var out []table.Identifier
	for _, ns := range spaces {
		if ns != NamespaceOf("default") && !strings.HasPrefix(ns, NamespaceOf("")) {
			continue
		}
		ids, err := l.cat.tableNames(ctx, table.Identifier{ns})
		if err != nil {
			return nil, fmt.Errorf("list tables of %s: %w", ns, err)
		}
		out = append(out, ids...)
	}
	return out, nil
}

// visit looks at one table, and returns how many snapshots it has.
func (k *keeper) visit(ctx context.Context, name string, id table.Identifier) (int, error) {
	e := k.tables[name]
	if e != nil && e.unchanged() && e.idle < idleRounds {
		e.idle++
		return e.snapshots, nil
	}
	if e == nil || e.table == nil {
		t, err := k.lake.ofSignal(ctx, id)
		if err != nil {
			return 0, ignoreDropped(err)
		}
		e = &kept{table: t}
		k.tables[name] = e
		if t == nil {
			return 0, nil
		}
	}
	err := k.keep(ctx, e)
	if _, other := errors.AsType[*IncarnationError](err); other || errors.Is(err, ErrNoTable) {
		delete(k.tables, name) // the next round meets the one that took its name
		return 0, nil
	}
	return e.snapshots, err
}

func (e *kept) unchanged() bool {
	if e.table == nil {
		return true
	}
	_, metadata := e.table.Head()
	return metadata == e.seen
}

// ignoreDropped makes nothing of a table that was dropped since it was listed.
func ignoreDropped(err error) error {
	if errors.Is(err, ErrNoTable) {
		return nil
	}
	return err
}

// ofSignal is the Table of this process for a table that holds rows of a signal; nil if it holds none.
func (l *Lake) ofSignal(ctx context.Context, id table.Identifier) (*Table, error) {
	tbl, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	signal := tbl.Properties()[propSignal]
	for s := otelarrow.Logs; s <= otelarrow.Metrics; s++ {
		if s.String() == signal {
			return l.shared(id, s, tbl), nil
		}
	}
	return nil, nil
}

// keep removes what earlier expiries left, and expires what is too old by now. After trouble the next round comes back.
func (k *keeper) keep(ctx context.Context, e *kept) error {
	e.seen, e.idle = "", 0
	st, err := e.table.load(ctx)
	if err != nil {
		return err
	}
	err = k.collect(ctx, e, st.tbl)
	if e.snapshots = len(st.tbl.Metadata().Snapshots()); e.snapshots > k.retain {
		err = errors.Join(err, k.expire(ctx, e))
	}
	if err == nil {
		_, e.seen = e.table.Head()
	}
	return err
}

func (k *keeper) expire(ctx context.Context, e *kept) error {
	gone, base, err := e.table.expire(ctx, k.retain)
	if len(gone) == 0 {
		return err
	}
	// Whatever the answer was: the next visit sees what became of it.
	e.waste = append(e.waste, waste{base: base, since: k.lake.now(), gone: gone})
	k.lake.metrics.expired(ctx, len(gone), err)
	if err == nil {
		e.snapshots -= len(gone)
	}
	return err
}

// collect removes the files whose time has come. What cannot be removed, or found out about, is left for garbage
// collection.
func (k *keeper) collect(ctx context.Context, e *kept, tbl *table.Table) error {
	var errs []error
	all := e.waste
	e.waste = nil
	for _, w := range all {
		if len(without(w.gone, tbl.Metadata())) < len(w.gone) {
			continue // the commit was not made after all
		}
		if !w.found {
			var err error
			if w.files, err = k.lake.unreached(tbl.Metadata(), w.gone); err != nil {
				errs = append(errs, err)
				continue
			}
			w.found = true
			for i, s := range w.gone {
				w.gone[i] = table.Snapshot{SnapshotID: s.SnapshotID} // the rest of it is large
			}
		}
		if k.lake.now().Sub(w.since) < readersTime || namesMetadata(tbl, w.base) {
			e.waste = append(e.waste, w)
			continue
		}
		k.remove(ctx, w.files)
	}
	return errors.Join(errs...)
}

// namesMetadata tells whether a metadata file is the table's, or one of the earlier ones that it keeps.
func namesMetadata(tbl *table.Table, location string) bool {
	if tbl.MetadataLocation() == location {
		return true
	}
	for e := range tbl.Metadata().PreviousFiles() {
		if e.MetadataFile == location {
			return true
		}
	}
	return false
}

func (k *keeper) remove(ctx context.Context, files []string) {
	for _, f := range files {
		err := k.lake.io.Remove(f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.lake.log.Warn("A manifest that no snapshot names was left behind", zap.String("file", f), zap.Error(err))
			continue
		}
		k.lake.metrics.manifestsRemoved.Add(ctx, 1)
	}
}
