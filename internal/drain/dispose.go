package drain

import (
	"context"
	"errors"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// Disposal is what became of an orphan that was to be deleted.
type Disposal struct {
	Comparison

	Fate Fate // Marked, Discarded, Refused, Gone
}

// The fates of orphans.
const (
	// Marked: its rows are in the table, so it is in committed/ now, and the drain retires it as any other.
	Marked Fate = "committed"
	// Discarded: deleted, although its rows are not proved to be in the table.
	Discarded Fate = "discarded"
)

// DisposeOrphans takes orphans out of the log whose rows are all in their table: they go to committed/, marked now, as the
// drain does it, which retires them when no consumer and no pin needs them any more. One that is not proved committed is
// refused; with force it is deleted, and its rows with it.
//
//	return  one for each orphan found, also beside an error
//	errors  *vfs.LockedError while a drain runs; segment.ErrNotRoot; trouble with the directory, which ends it
//	ctx     ends it between two segments
//
// Durable, segment by segment, when it returns. Idempotent; a crash leaves the rest to the next call or the next drain. Holds
// RET-1 without force, LOUD-1.
func DisposeOrphans(ctx context.Context, c Selection, force bool, ask Ask) (done []Disposal, err error) {
	c.From = segment.Orphans
	found, unlock, err := c.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	seen, err := c.compare(ctx, found, ask)
	if err != nil {
		return nil, err
	}
	c.Progress = nil // the reading was what takes time
	i := 0
	err = c.each(ctx, found, func(p aside) (int64, error) {
		d := Disposal{Comparison: seen[i]}
		i++
		fate, err := c.dispose(p, d.Verdict, force)
		if err != nil {
			return d.Bytes, err
		}
		d.Fate = fate
		done = append(done, d)
		return d.Bytes, nil
	})
	return done, err
}

func (c Selection) dispose(p aside, v Verdict, force bool) (Fate, error) {
	switch {
	case v == NotThere:
		return Gone, nil
	case v == InTable:
		if c.DryRun {
			return Marked, nil
		}
		if err := touch(c.FS, p.path(), c.Now()); err != nil {
			return Refused, err
		}
		moved, err := p.lane.Move(segment.Orphans, segment.Committed, []string{p.entry.Name})
		if len(moved) == 0 {
			return Gone, err
		}
		return Marked, err
	case !force:
		return Refused, nil
	case c.DryRun:
		return Discarded, nil
	}
	return Discarded, p.lane.Discard(p.entry.Name)
}
