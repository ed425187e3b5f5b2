package drain

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// table returns the lane's table for a signal, made if need be, and binds the lane to it.
//
//	errors  *lake.GoneBackError when the catalog shows less than was committed through it: nothing is committed
//	        and nothing retired in the lane until it has caught up or an operator decides
func (l *lane) table(ctx context.Context, s otelarrow.Signal) (Table, error) {
	if t := l.tables[s]; t != nil {
		return t, nil
	}
	t, created, err := l.d.tables.Ensure(ctx, l.dir.Tenant(), l.dir.Index(), s)
	if err != nil {
		return nil, fmt.Errorf("open table: %w", err)
	}
	if created {
		l.log.Info("table created", zap.Stringer("table", t.UUID()), zap.Stringer("signal", s))
	}
	if l.head, _, err = l.dir.Head(); err != nil {
		return nil, err
	}
	if err := l.recall(t.UUID()); err != nil {
		return nil, err
	}
	if err := l.checkHead(t); err != nil {
		return nil, err
	}
	if l.head.Table == t.UUID() {
		t.Expect(l.head.Sequence, l.head.Metadata)
	}
	owner, err := l.dir.Owner()
	if err != nil {
		return nil, err
	}
	if owner != t.UUID() {
		if err := l.bind(t, owner); err != nil {
			return nil, err
		}
		l.previous = owner
	}
	l.tables[s] = t
	return t, nil
}

// recall makes the head that the lane had of a table its head again, when the catalog has that table again: it was restored from a
// backup. Durable when it returns; idempotent.
func (l *lane) recall(table uuid.UUID) error {
	if l.head.Table == table {
		return nil
	}
	formers, err := l.dir.Formers()
	if err != nil {
		return err
	}
	for _, h := range formers {
		if h.Table != table {
			continue
		}
		if err := l.dir.WriteHead(h); err != nil {
			return fmt.Errorf("write head: %w", err)
		}
		l.head = h
	}
	return nil
}

// checkHead refuses a catalog that shows less than was committed through it: it was restored from a backup.
func (l *lane) checkHead(t Table) error {
	sequence, metadata := t.Head()
	if l.head.Table != t.UUID() || sequence >= l.head.Sequence {
		return nil
	}
	return &lake.GoneBackError{
		Table:        l.dir.Key(),
		WantSequence: l.head.Sequence, WantMetadata: l.head.Metadata,
		HaveSequence: sequence, HaveMetadata: metadata,
	}
}

// bind writes head and owner, the owner last, because with it the writer begins to stamp segments. When the
// lane belonged to another table, what names no table is that one's: it goes to stale/ before the new owner
// stands, so that a crash repeats it. Durable when it returns; idempotent.
func (l *lane) bind(t Table, owner uuid.UUID) error {
	if owner != uuid.Nil {
		l.log.Warn("lane is bound to another table now; segments of the old one go to stale, and siglake stale says how they come back",
			zap.Stringer("old", owner), zap.Stringer("table", t.UUID()))
		for _, st := range []segment.State{segment.Sealed, segment.Orphans, segment.Committed} {
			if err := l.turnAwayOthers(st, owner, t.UUID()); err != nil {
				return err
			}
		}
	}
	if l.head.Table != t.UUID() { // else what it shows has not been held against the record yet
		if err := l.writeHead(t); err != nil {
			return err
		}
	}
	if err := l.dir.WriteOwner(t.UUID()); err != nil {
		return fmt.Errorf("write owner: %w", err)
	}
	return nil
}

// writeHead records what the catalog says, unless it is recorded. Durable when it returns.
//
//	errors  *lake.GoneBackError: the record is newer and stays
func (l *lane) writeHead(t Table) error {
	if err := l.checkHead(t); err != nil {
		return err
	}
	sequence, metadata := t.Head()
	head := segment.Head{Table: t.UUID(), Sequence: sequence, Metadata: metadata}
	if head == l.head {
		return nil
	}
	if err := l.dir.WriteHead(head); err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	l.head = head
	return nil
}

// turnAwayOthers moves what names no table to stale/<owner>/. What names another one than the live it moves there at once only from
// committed/: in other states that is found out when its turn comes, here when its time is over, which may be a day.
func (l *lane) turnAwayOthers(st segment.State, owner, live uuid.UUID) error {
	names, err := l.names(st)
	if err != nil {
		return err
	}
	for _, name := range names {
		h, err := l.header(st, name)
		if err != nil && !errors.Is(err, frame.ErrNotFramed) {
			continue // gone, or unreadable (reading it whole decides)
		}
		of := h.Table
		switch {
		case of == uuid.Nil:
			of = owner
		case of == live || st != segment.Committed:
			continue
		}
		if err := l.stale(st, name, of); err != nil {
			return err
		}
	}
	return nil
}

// foreign tells whose segment it is when it is not the live table's.
func (l *lane) foreign(f *file, live uuid.UUID) (uuid.UUID, bool) {
	of := f.table
	if of == uuid.Nil {
		of = l.previous // read before the lane was bound anew: written for the table before
	}
	return of, of != uuid.Nil && of != live
}

// evict sets a segment aside if it is another table's, and tells whether it was.
func (l *lane) evict(from segment.State, f *file, live uuid.UUID) (bool, error) {
	of, foreign := l.foreign(f, live)
	if !foreign {
		return false, nil
	}
	if f.table == uuid.Nil && from != segment.Processing || from == segment.Committed && l.previous != uuid.Nil {
		return true, nil // bind has set it aside
	}
	return true, l.stale(from, f.name, of)
}

// turnAway sets aside what belongs to another incarnation of the table. The items returned are still in
// processing/, also beside an error.
func (l *lane) turnAway(live uuid.UUID, group []item) ([]item, error) {
	keep := make([]item, 0, len(group))
	for i, it := range group {
		evicted, err := l.evict(segment.Processing, it.file, live)
		if err != nil {
			return append(keep, group[i:]...), err
		}
		if !evicted {
			keep = append(keep, it)
		}
	}
	return keep, nil
}

// stale sets a segment of another incarnation of the table aside. Durable when it returns; idempotent.
func (l *lane) stale(from segment.State, name string, table uuid.UUID) error {
	if err := l.dir.MoveStale(from, name, table); err != nil {
		l.stranded = true
		return fmt.Errorf("set %s aside as stale: %w", name, err)
	}
	l.setAside(name)
	l.d.m.stale.add(1)
	l.log.Warn("segment of another incarnation of the table set aside in stale",
		zap.String("segment", name), zap.Stringer("table", table))
	return nil
}

// gone forgets a name that has left for good.
func (l *lane) gone(name string) {
	delete(l.files, name)
	delete(l.doubts, name)
	delete(l.urgent, name)
}

// setAside forgets a name that an operator may bring back; then it is looked up. Or delete, so the record is to know
// of it before this pass ends.
func (l *lane) setAside(name string) {
	l.gone(name)
	l.auditAt = 0
	l.doubts[name] = true
}
