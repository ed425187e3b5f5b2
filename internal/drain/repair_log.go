package drain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// setAside moves the segments of another table that was made meanwhile to stale/, also those whose rows were committed to it: nothing
// names it any more.
func (r *repair) setAside(t *tableWork, l segment.Lane) error {
	for _, st := range []segment.State{segment.Sealed, segment.Processing, segment.Orphans, segment.Committed} {
		entries, _, err := l.List(st)
		if err != nil {
			return err
		}
		for _, e := range entries {
			h, err := headerAt(r.FS, l.Path(st, e.Name))
			if unreadable := errors.Is(err, fs.ErrNotExist) || errors.Is(err, frame.ErrNotFramed) || damaged(err) || newer(err); unreadable ||
				err == nil && (h.Table == uuid.Nil || h.Table == t.Seen.Table) {
				continue
			}
			if err != nil {
				return fmt.Errorf("read the header of %s: %w", e.ID, err)
			}
			if t.others[e.ID] {
				continue
			}
			t.others[e.ID] = true
			t.Aside++
			if r.Apply {
				if err := l.MoveStale(st, e.Name, h.Table); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// takeBack moves what the table lacks from committed/ to sealed/.
func (r *repair) takeBack(ctx context.Context, t *tableWork, l segment.Lane) error {
	if r.Apply {
		// As a drain does at its start, so that what was left half done is not in the way.
		if err := l.Prepare(); err != nil {
			return err
		}
		if _, err := l.Resolve(segment.ByDrain); err != nil {
			return err
		}
	}
	var names, ids []string
	var parts, waiting []Part
	for _, st := range []segment.State{segment.Active, segment.Sealed, segment.Processing, segment.Orphans, segment.Stale, segment.Poison, segment.Committed} {
		entries, _, err := l.List(st)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if _, twice := t.here[e.ID]; twice {
				continue
			}
			t.here[e.ID] = struct{}{}
			if st == segment.Stale || st == segment.Poison || t.others[e.ID] {
				continue
			}
			rows, err := r.rows(l.Path(st, e.Name), st)
			if errors.Is(err, fs.ErrNotExist) || damaged(err) {
				continue // a writer has moved it on; what is damaged the drain tells
			}
			if err != nil {
				return fmt.Errorf("count the rows of %s: %w", e.ID, err)
			}
			if p := (Part{ID: e.ID, Rows: rows}); st == segment.Committed {
				names, ids, parts = append(names, e.Name), append(ids, e.ID.String()), append(parts, p)
			} else {
				waiting = append(waiting, p)
			}
		}
	}
	t.Waiting = append(t.Waiting, waiting...)
	found, err := t.Lookup(ctx, ids)
	if err != nil {
		return err
	}
	var back []string
	for i, p := range parts {
		if p.Have = found[ids[i]]; p.Missing() > 0 {
			back = append(back, names[i])
			t.Requeue = append(t.Requeue, p)
		}
	}
	if !r.Apply {
		return nil
	}
	_, err = l.Move(segment.Committed, segment.Sealed, back)
	return err
}

// rows counts the rows of a segment.
func (r *repair) rows(path string, st segment.State) (int64, error) {
	f, err := r.FS.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	sum, err := frame.Count(f, info.Size, frame.DecodeOptions{Open: st == segment.Active})
	if errors.Is(err, frame.ErrEmpty) {
		err = nil
	}
	return sum.Rows, err
}
