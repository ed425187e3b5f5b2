package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Selection says which segments an operator means that wait for somebody: in poison/, orphans/ or stale/.
type Selection struct {
	FS     vfs.FS
	WAL    string // root directory of the write-ahead log
	Holder string // text in drain.lock for whoever is refused meanwhile
	Logger *zap.Logger
	Now    func() time.Time

	From   segment.State
	Lane   string       // tenant/index; empty: all
	IDs    []segment.ID // empty: all
	DryRun bool         // read everything, change nothing, take no lock
	// Progress is called before each segment.
	Progress func(done, of int, size int64)
}

// aside is one of them.
type aside struct {
	lane   segment.Lane
	state  segment.State
	entry  segment.Entry
	copies []string // all names of the id, as state/name
}

func (p aside) path() string { return p.lane.Path(p.state, p.entry.Name) }

// open finds what is chosen, under drain.lock, because a Move back beside a drain can lose a segment (ADR 0004). The
// function gives the lock back.
//
//	errors  *vfs.LockedError while a drain runs; segment.ErrNotRoot; trouble with the directory
func (c Selection) open() (found []aside, done func() error, err error) {
	var root *segment.Root
	done = func() error { return nil }
	if c.DryRun {
		if root, err = segment.Open(c.FS, c.WAL); err != nil {
			return nil, nil, fmt.Errorf("open write-ahead log: %w", err)
		}
	} else {
		var lock *held
		if root, lock, err = holdRoot(c.FS, c.WAL, c.Holder); err != nil {
			return nil, nil, err
		}
		done = lock.Close
	}
	if found, err = c.find(root); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return found, done, nil
}

// each calls do for each segment until ctx ends or it fails. do returns the size of the segment.
func (c Selection) each(ctx context.Context, found []aside, do func(aside) (int64, error)) error {
	var sum int64
	for i, p := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.Progress != nil {
			c.Progress(i, len(found), sum)
		}
		size, err := do(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.path(), err)
		}
		sum += size
	}
	return nil
}

// find lists what is asked for.
func (c Selection) find(root *segment.Root) ([]aside, error) {
	lanes, _, err := root.Lanes()
	if err != nil {
		return nil, err
	}
	var found []aside
	for _, l := range lanes {
		if c.Lane != "" && c.Lane != l.Key() {
			continue
		}
		in, err := c.inLane(l)
		if err != nil {
			return nil, fmt.Errorf("look into lane %s: %w", l.Key(), err)
		}
		found = append(found, in...)
	}
	return found, nil
}

func (c Selection) inLane(l segment.Lane) ([]aside, error) {
	entries, _, err := l.List(c.From)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	if !c.DryRun {
		// As a drain does at its start, so that what an earlier call left half done is not in the way.
		if err := l.Prepare(); err != nil {
			return nil, err
		}
		resolved, err := l.Resolve(segment.ByDrain)
		tellResolved(c.Logger.With(zap.String("lane", l.Key())), resolved)
		if err != nil {
			return nil, err
		}
		if entries, _, err = l.List(c.From); err != nil {
			return nil, err
		}
	}
	copies, err := l.Copies()
	if err != nil {
		return nil, err
	}
	var found []aside
	for _, e := range entries {
		if len(c.IDs) == 0 || slices.Contains(c.IDs, e.ID) {
			found = append(found, aside{l, c.From, e, copies[e.ID]})
		}
	}
	return found, nil
}

// openAside opens a segment that is set aside, and tells its size in bytes.
func (c Selection) openAside(p aside) (f vfs.File, size int64, err error) {
	if f, err = c.FS.Open(p.path()); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size, nil
}
