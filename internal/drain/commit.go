package drain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// commit brings the rows of one group into the table and marks what is there whole. What is not goes back to
// sealed/. Durable when it returns nil. Idempotent: a group that is already in the table is only marked.
// Holds LAKE-1.
func (l *lane) commit(ctx context.Context, group []item) error {
	t, err := l.table(ctx, group[0].signal)
	if errors.Is(err, lake.ErrShape) { // the wrong thing may be the segment
		err = fmt.Errorf("%d segments, %s for one: %w", len(group), group[0].file.name, err)
	}
	if err != nil {
		return errors.Join(err, l.fail(itemFiles(group)))
	}
	group, err = l.turnAway(t.UUID(), group)
	if err != nil {
		return errors.Join(err, l.fail(itemFiles(group)))
	}
	if len(group) == 0 {
		return nil
	}
	if err := l.d.held.check(); err != nil {
		return errors.Join(err, l.fail(itemFiles(group)))
	}
	l.at(fmt.Sprintf("commit of %d segments", len(group)))
	begin := time.Now()
	out, err := t.Commit(ctx, lakeSegments(group))
	l.d.observeCommit(time.Since(begin), group[0].file.late)
	l.d.m.rows.add64(out.RowsWritten)
	l.d.m.duplicates.add64(out.Duplicates)
	if err != nil {
		l.tables = make(map[otelarrow.Signal]Table) // load them anew: the table may be another one now
		err = fmt.Errorf("commit %d segments: %w", len(group), err)
	}
	l.pace(group, out)
	whole, rest := split(group, out.Committed)
	if len(whole) > 0 {
		err = errors.Join(err, l.settle(t, whole))
	}
	l.count(err, rest)
	if err == nil && len(whole) == 0 && out.RowsWritten == 0 {
		err = fmt.Errorf("commit %d segments: the table took none of their rows and has not all of them", len(group))
	}
	l.blame(err)
	if len(rest) == 0 {
		return err
	}
	if err == nil { // some got in, so the others go on in their next turn, without a wait
		l.d.m.cut.add(len(rest))
		for _, it := range rest {
			it.file.urgent, it.file.written = true, out.Committed[it.file.id.String()]
		}
		return l.release(itemFiles(rest))
	}
	return errors.Join(err, l.fail(itemFiles(rest)))
}

// blame keeps what only the table's absence has held up from coming behind what was sealed later. After several
// failures in a row the table was at fault and not what was in those commits, so with the first success that is
// forgotten, once for each segment: one that no commit accepts is not forgiven again and again.
func (l *lane) blame(err error) {
	if err != nil {
		l.failed++
		return
	}
	if l.failed >= outage {
		for _, f := range l.files {
			if f.failures > 0 && !f.forgiven {
				f.failures, f.after, f.forgiven = 0, 0, true
			}
		}
	}
	l.failed = 0
}

func (l *lane) count(err error, rest []item) {
	switch {
	case err != nil:
		l.d.m.commitsFailed.add(1)
	case len(rest) > 0:
		l.d.m.commitsPartial.add(1)
	default:
		l.d.m.commitsDone.add(1)
	}
}

// settle records a commit: head first, then the marks. From the head on an older catalog is noticed; only
// after that may the segments leave. Modification time before the move, so that the retention of a segment
// counts from here whatever crashes. Idempotent; durable when it returns (the times are not: after a power
// loss a mark may look as old as its seal).
func (l *lane) settle(t Table, whole []item) error {
	if err := l.writeHead(t); err != nil {
		l.d.m.markFailures.add(len(whole))
		return errors.Join(err, l.fail(itemFiles(whole)))
	}
	names := make([]string, 0, len(whole))
	for _, it := range whole {
		if err := l.touch(segment.Processing, it.file.name); err != nil {
			l.d.m.markFailures.add(len(whole))
			return errors.Join(err, l.fail(itemFiles(whole)))
		}
		names = append(names, it.file.name)
	}
	moved, err := l.dir.Move(segment.Processing, segment.Committed, names)
	l.d.m.committed.add(len(moved))
	for _, name := range moved {
		l.marks[name] = &mark{proven: true, first: l.d.since()}
	}
	if err != nil {
		l.d.m.markFailures.add(len(names) - len(moved))
		l.stranded = true
		return fmt.Errorf("mark %d segments: %w", len(names), err)
	}
	for _, it := range whole {
		l.gone(it.file.name)
	}
	l.limit = min(maxBatch, l.limit*2)
	return nil
}

// touch sets the modification time to now: the mark from which retention counts.
func (l *lane) touch(st segment.State, name string) error {
	return touch(l.d.opt.FS, l.dir.Path(st, name), l.d.opt.Now())
}

func touch(fsys vfs.FS, name string, now time.Time) error {
	f, err := fsys.OpenRW(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // taken by an operator; the move will not find it either
	}
	if err != nil {
		return fmt.Errorf("open %s to mark it: %w", name, err)
	}
	if err := errors.Join(f.Touch(now), f.Close()); err != nil {
		return fmt.Errorf("mark %s: %w", name, err)
	}
	return nil
}

// split parts a group into the segments whose rows are all in the table and the others.
func split(group []item, committed map[string]int64) (whole, rest []item) {
	for _, it := range group {
		if rows, ok := committed[it.file.id.String()]; ok && rows >= it.seg.Rows {
			whole = append(whole, it)
		} else {
			rest = append(rest, it)
		}
	}
	return whole, rest
}

func lakeSegments(group []item) []lake.Segment {
	segs := make([]lake.Segment, len(group))
	for i, it := range group {
		segs[i] = lake.Segment{
			ID:       it.file.id.String(),
			Batches:  it.seg.Batches,
			Rows:     it.seg.Rows,
			Doubtful: it.file.doubtful,
			Written:  it.file.written,
			ModTime:  it.file.sealed,
		}
	}
	return segs
}
