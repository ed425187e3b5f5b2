package wal

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// ready makes the directories of a lane, also of one without an open segment: the first request of a known lane
// then waits for no directory.
func (l *Log) ready(ln segment.Lane) error {
	if err := ln.Prepare(); err != nil || ln.Legacy() {
		return err
	}
	known, err := l.addLane(ln.Tenant(), ln.Index(), false)
	if err != nil {
		return err
	}
	known.prepared = true
	return nil
}

// recoverLane recovers what is ours of one lane. Only what concerns the lane as a whole is an error.
func (l *Log) recoverLane(ctx context.Context, ln segment.Lane, sum *recovered) error {
	if l.opt.Shared {
		return l.adoptLane(ctx, ln, sum)
	}
	return l.recoverOf(ctx, ln, nil, sum)
}

// recoverOf recovers the segments of a lane that mine accepts; nil accepts all.
func (l *Log) recoverOf(ctx context.Context, ln segment.Lane, mine func(segment.ID) bool, sum *recovered) error {
	if err := l.settle(ln, mine); err != nil {
		return err
	}
	entries, strangers, err := ln.List(segment.Active)
	if err != nil {
		return err
	}
	if dir := ln.Dir(segment.Active); len(strangers) > 0 && !l.told[dir] {
		l.told[dir] = true
		l.opt.Logger.Warn("ignored: no segments", zap.String("dir", dir), zap.Strings("names", strangers))
	}
	if len(entries) > 0 {
		if err := ln.Prepare(); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if mine != nil && !mine(e.ID) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.recoverPartial(ln, e.Name, sum); err != nil {
			l.notRecovered(ctx, ln, e.Name, err)
			sum.left++
		}
	}
	return nil
}

// notRecovered counts a segment that stays in active/ for now, and names it once.
func (l *Log) notRecovered(ctx context.Context, ln segment.Lane, name string, err error) {
	path, newer := ln.Path(segment.Active, name), errors.Is(err, frame.ErrVersion)
	if l.told[path] && newer {
		return // it is not tried before its version starts
	}
	l.met.unrecovered.Add(ctx, 1)
	if l.told[path] {
		return
	}
	l.told[path] = true
	fields := []zap.Field{zap.String("dir", ln.Dir(segment.Active)), zap.String("segment", name), zap.Error(err)}
	if newer {
		l.opt.Logger.Error("open segment of a newer version left as it is; start that version to recover it", fields...)
		return
	}
	l.opt.Logger.Error("open segment not recovered, will be tried again; its rows are not drained until then", fields...)
	if !l.opt.Shared { // there, every look at the lane tries again
		l.stranded = append(l.stranded, stranded{ln, name})
	}
}

// settle leaves one name per open segment and no temporary file, of the segments that mine accepts.
func (l *Log) settle(ln segment.Lane, mine func(segment.ID) bool) error {
	entries, err := l.fs.List(ln.Dir(segment.Active))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever open here
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir || !vfs.IsTemp(e.Name) {
			continue
		}
		if id, ok := tempOf(e.Name); mine != nil && (!ok || !mine(id)) {
			continue
		}
		if err := l.fs.Remove(ln.Path(segment.Active, e.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	done, err := l.resolve(ln, mine)
	for _, f := range done.Dropped {
		l.opt.Logger.Info("second name of a segment dropped",
			zap.String("dir", ln.Dir(f.State)), zap.String("segment", f.Name), zap.String("kept", string(f.Kept)))
	}
	for _, f := range done.Poisoned {
		l.met.poisoned.Add(context.Background(), 1)
		l.opt.Logger.Error("copies of one segment contradict each other, set aside with a note",
			zap.String("dir", ln.Dir(segment.Poison)), zap.String("segment", f.Name), zap.String("reason", f.Reason))
	}
	return err
}

func (l *Log) resolve(ln segment.Lane, mine func(segment.ID) bool) (segment.Resolved, error) {
	if mine == nil {
		return ln.Resolve(segment.ByWriter)
	}
	return ln.ResolveOf(mine)
}

// tempOf returns the segment that a temporary file in active/ is a copy of.
func tempOf(name string) (segment.ID, bool) {
	id, partial, err := segment.ParseName(strings.TrimSuffix(name, tempSuffix))
	return id, err == nil && partial
}
