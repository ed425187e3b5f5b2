package lake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Compaction says how small files become large ones.
type Compaction struct {
	// Interval is the time from one round over all tables to the next.
	Interval time.Duration
	// Behind tells whether rows wait for their commit longer than they should; compaction then does next to nothing. Required.
	Behind func() bool
}

// perVisit is how many merges one table gets before the next one has its turn.
const perVisit = 8

// Compact merges small data files of one partition into larger ones that are sorted just as well, until ctx ends. What a
// reader sees are the same rows in fewer files.
//
//	tables   those of Maintain
//	merges   of one partition (compactlevels.go tells which): 8 small files at least, of about as many rows; files of 2 MiB
//	         and more when they make a full one. So a row is written again once for each power of 8 in the rows of its
//	         file while that is small, and once more
//	rows     are counted by segment and position before and after, in what is on the disk. Where one is missing or
//	         twice, nothing is committed
//	yields   between two chunks of rows it waits for commits of rows, and for as long again as the chunk took; while the
//	         drain is Behind, ten seconds. A table's turn is taken for the commit only
//	memory   a chunk of rows of each file that is open at a time, and a row group
//	files    those that were replaced stay: snapshots name them. Those of a merge that was never sent are removed; what
//	         a crash or an unknown outcome leaves is for garbage collection
//	damage   a file that cannot be read is named, left out for a minute and longer each time, and tried again; the others go
//	         on. Any other trouble ends a table's turn until the next round
//	safe     beside Commit and Maintain, and in several processes: pinned to the loaded head
//	ctx      ends it; a commit that was sent is awaited
func (l *Lake) Compact(ctx context.Context, c Compaction) {
	k := &compactor{lake: l, behind: c.Behind, tables: map[string]*compacted{}}
	l.rounds(ctx, c.Interval, "Compaction of tables", k.round)
}

// compactor remembers from round to round what there was to do.
type compactor struct {
	lake   *Lake
	behind func() bool
	tables map[string]*compacted // by name
}

// compacted is what is known of a table.
type compacted struct {
	table *Table // nil: not one of ours
	seen  string // the metadata file that left nothing to do
	idle  int    // rounds since
	due   int    // merges that wait
	alone int    // files that are not ours to merge
	// avoid are files that could not be merged, by path; of those that the table still has.
	avoid map[string]avoided
}

// round looks at every table once.
func (k *compactor) round(ctx context.Context) error {
	names, err := k.lake.ours(ctx)
	if err != nil {
		return err
	}
	var errs []error
	due, alone, failing := 0, 0, 0
	here := make(map[string]struct{}, len(names))
	for _, id := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := strings.Join(id, ".")
		here[name] = struct{}{}
		e := k.tables[name]
		if e == nil {
			t, err := k.lake.ofSignal(ctx, id)
			if err != nil {
				if err = ignoreDropped(err); err != nil {
					errs, failing = append(errs, err), failing+1
				}
				continue
			}
			e = &compacted{table: t, avoid: map[string]avoided{}}
			k.tables[name] = e
		}
		err := k.visit(ctx, e)
		if _, other := errors.AsType[*IncarnationError](err); other || errors.Is(err, ErrNoTable) {
			delete(k.tables, name) // the next round meets the one that took its name
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("compact %s: %w", name, err))
		}
		if err != nil || e.waits(k.lake.now()) {
			failing++
		}
		due, alone = due+e.due, alone+e.alone
	}
	for name := range k.tables {
		if _, ok := here[name]; !ok {
			delete(k.tables, name)
		}
	}
	err = errors.Join(errs...)
	k.lake.metrics.compaction.round(ctx, due, alone, failing)
	return err
}

// visit merges what is due in one table, up to perVisit merges.
func (k *compactor) visit(ctx context.Context, e *compacted) error {
	if e.table == nil {
		return nil
	}
	if _, metadata := e.table.Head(); metadata == e.seen && e.idle < idleRounds {
		e.idle++
		return nil
	}
	e.seen, e.idle = "", 0
	for range perVisit {
		st, err := e.table.load(ctx)
		if err != nil {
			return err
		}
		tg, ok := e.table.mergeTarget(st)
		if !ok {
			e.due, e.seen = 0, st.tbl.MetadataLocation()
			return nil
		}
		files, alone, err := k.lake.mergeable(st.tbl.CurrentSnapshot(), tg, e.avoid)
		if err != nil {
			return err
		}
		merges := dueMerges(files, k.lake.limits)
		if e.due, e.alone = len(merges), alone; e.due == 0 {
			e.seen = st.tbl.MetadataLocation()
			return nil
		}
		if err := e.table.merge(ctx, tg, merges[0], k.rest); err != nil {
			if k.setAside(ctx, e, err) {
				continue
			}
			return k.blame(e, merges[0], err)
		}
		e.due--
	}
	return nil
}

// setAside tells whether a merge failed for one of the files that it was to be made of, which is left out from now on: the
// others are merged without it. One that could not be read is tried again later; one that is not like ours is not.
func (k *compactor) setAside(ctx context.Context, e *compacted, err error) bool {
	if ctx.Err() != nil || errors.Is(err, errNotConserved) {
		return false
	}
	if bad, ok := errors.AsType[*foreignFileError](err); ok {
		e.avoid[bad.path] = avoided{}
		k.lake.log.Warn("A data file is left as it is, because it is not like one of ours",
			zap.String("table", e.table.Name()), zap.String("file", bad.path), zap.Error(bad.err))
		return true
	}
	bad, ok := errors.AsType[*unreadError](err)
	if !ok {
		return false
	}
	a := e.avoid[bad.path]
	wait := a.again(k.lake.now())
	e.avoid[bad.path] = a
	k.lake.log.Warn("A data file cannot be read: others are merged without it, and it is tried again; restore it if it is damaged",
		zap.String("table", e.table.Name()), zap.String("file", bad.path), zap.Duration("after", wait), zap.Error(bad.err))
	return true
}

// blame decides what any other error of a merge is about. What the next round would do better with is no trouble; files
// that another round would fail with again are left alone from now on.
func (k *compactor) blame(e *compacted, files []mergeFile, err error) error {
	switch {
	case errors.Is(err, errOvertaken), errors.Is(err, errBusy):
		return nil
	case errors.Is(err, errNotConserved):
		for _, f := range files {
			e.avoid[f.df.FilePath()] = avoided{}
		}
		k.lake.log.Error("A merge of data files was thrown away; the files it was made of stay as they are",
			zap.String("table", e.table.Name()), zap.Int("files", len(files)), zap.String("first", files[0].df.FilePath()), zap.Error(err))
	}
	return err
}
