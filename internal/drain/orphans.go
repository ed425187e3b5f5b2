package drain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// orphan is a segment whose commit was interrupted: its rows may or may not be in the table.
type orphan struct {
	file *file
	rows int64
}

// disposeOrphans asks the table about every orphan of the lane and moves it: to committed/ when the table has
// all its rows, to sealed/ when it lacks some. What cannot be asked stays, is counted, and is tried again.
// Idempotent; a crash in between leaves the remaining ones where they are.
func (l *lane) disposeOrphans(ctx, work context.Context) error {
	names, err := l.names(segment.Orphans)
	if err != nil || len(names) == 0 {
		l.publishOrphans(0)
		return err
	}
	err = l.dispose(ctx, work, names)
	left, listErr := l.names(segment.Orphans)
	l.publishOrphans(len(left))
	if err != nil {
		err = fmt.Errorf("hold %d orphans: %w", len(left), err)
	}
	return errors.Join(err, listErr)
}

func (l *lane) publishOrphans(held int) {
	l.publish(func(v *laneView) { v.orphansHeld = held })
}

func (l *lane) dispose(ctx, work context.Context, names []string) error {
	bySignal := make(map[otelarrow.Signal][]orphan)
	for _, name := range names {
		o, signal, err := l.inspect(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case newer(err), damaged(err):
			// Nothing to ask the table with. In sealed/ the rules for what is unreadable apply.
			if err := l.requeue([]string{name}); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			bySignal[signal] = append(bySignal[signal], o)
		}
	}
	var errs []error
	for signal, orphans := range bySignal {
		errs = append(errs, l.judge(work, signal, orphans))
	}
	return errors.Join(errs...)
}

// inspect reads an orphan within the byte budget, for its rows and its signal.
func (l *lane) inspect(ctx context.Context, name string) (orphan, otelarrow.Signal, error) {
	id, _, err := segment.ParseName(name)
	if err != nil {
		return orphan{}, 0, fmt.Errorf("parse %s: %w", name, err)
	}
	info, err := l.d.opt.FS.Stat(l.dir.Path(segment.Orphans, name))
	if err != nil {
		return orphan{}, 0, fmt.Errorf("stat orphan: %w", err)
	}
	f := &file{name: name, id: id, size: info.Size, doubtful: true}
	release, err := l.d.admit(ctx, []*file{f})
	if err != nil {
		return orphan{}, 0, err
	}
	defer release()
	l.at("read orphan " + name)
	it, err := l.load(segment.Orphans, f)
	if err != nil {
		return orphan{}, 0, err
	}
	defer it.seg.Release()
	return orphan{file: f, rows: it.seg.Rows}, it.signal, nil
}

// judge asks the table about the orphans of one signal, all at once, and moves each where it belongs.
func (l *lane) judge(ctx context.Context, signal otelarrow.Signal, orphans []orphan) error {
	t, err := l.table(ctx, signal)
	if err != nil {
		return err
	}
	mine := orphans[:0]
	ids := make([]string, 0, len(orphans))
	for _, o := range orphans {
		evicted, err := l.evict(segment.Orphans, o.file, t.UUID())
		if err != nil {
			return err
		}
		if !evicted {
			mine = append(mine, o)
			ids = append(ids, o.file.id.String())
		}
	}
	found, err := t.Lookup(ctx, ids)
	if err != nil {
		delete(l.tables, signal)
		return fmt.Errorf("look up %d segments: %w", len(ids), err)
	}
	var committed, lacking []string
	for _, o := range mine {
		if found[o.file.id.String()] >= o.rows {
			committed = append(committed, o.file.name)
		} else {
			lacking = append(lacking, o.file.name)
		}
	}
	if len(committed) > 0 { // as settle does: from the head on an older catalog is noticed, and only then may they leave
		if err := l.writeHead(t); err != nil {
			return errors.Join(err, l.requeue(lacking))
		}
	}
	return errors.Join(l.acquit(committed), l.requeue(lacking))
}

// acquit moves orphans whose rows are all in the table to committed/, marked now.
func (l *lane) acquit(names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if err := l.touch(segment.Orphans, name); err != nil {
			return err
		}
	}
	moved, err := l.dir.Move(segment.Orphans, segment.Committed, names)
	l.d.m.orphansDeleted.add(len(moved))
	for _, name := range moved {
		l.marks[name] = &mark{proven: true, first: l.d.since()}
	}
	if err != nil {
		return fmt.Errorf("move committed orphans: %w", err)
	}
	l.log.Info("orphans were committed before the crash", zap.Int("segments", len(moved)))
	return nil
}

// requeue moves orphans that the table lacks rows of to sealed/, to be committed in this very pass.
func (l *lane) requeue(names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names { // before: after a move that failed some are in sealed/ too
		l.doubts[name] = true
		l.urgent[name] = true
	}
	moved, err := l.dir.Move(segment.Orphans, segment.Sealed, names)
	l.d.m.orphansBack.add(len(moved))
	if err != nil {
		return fmt.Errorf("requeue orphans: %w", err)
	}
	l.log.Info("orphans go back to sealed: the table lacks their rows", zap.Int("segments", len(moved)))
	return nil
}
