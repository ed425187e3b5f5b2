package drain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// mark is what is known of a name in committed/.
type mark struct {
	proven  bool // the table showed all its rows in this life
	held    bool // the table did not: it stays
	known   bool // at, size and partial are read
	size    int64
	at      time.Time     // modification time: when it was marked
	partial bool          // sealed by a recovery: stays longer, for inspection
	first   time.Duration // since() when it was first seen
}

// clock notices that the wall clock was set: it and the monotonic clock part.
type clock struct {
	wall time.Time
	mono time.Duration
	base time.Time // ages count from here at the earliest; zero: no jump seen
}

// jumped compares with the last look. After a jump ages count from the new time on, so that nothing looks
// older than it is.
func (c *clock) jumped(now time.Time, mono time.Duration) (time.Duration, bool) {
	var by time.Duration
	if !c.wall.IsZero() {
		by = now.Sub(c.wall) - (mono - c.mono)
	}
	c.wall, c.mono = now, mono
	if by.Abs() <= clockJump {
		return 0, false
	}
	c.base = now
	return by, true
}

// retire unlinks committed segments whose time is over: Retain after the mark, RetainPartial for what a
// recovery sealed. A segment that is not proven in this life is asked for in the table first, and one that the
// mirror still pins stays. Durable when it returns; idempotent. Holds RET-1 and BND-1.
func (l *lane) retire(ctx, work context.Context) error {
	over, err := l.over(ctx)
	return errors.Join(err, l.retireNames(ctx, work, over))
}

// over returns the names in committed/ whose time is over.
func (l *lane) over(ctx context.Context) ([]string, error) {
	if err := l.d.scans.Acquire(ctx, 1); err != nil {
		return nil, nil // told to stop
	}
	defer l.d.scans.Release(1)
	names, err := l.names(segment.Committed)
	if err != nil {
		return nil, err
	}
	l.forget(names)
	now := wall(l.d.opt.Now())
	if by, ok := l.clock.jumped(now, l.d.since()); ok {
		l.log.Warn("clock was set; committed segments count their age from now", zap.Duration("by", by))
		return nil, nil
	}
	if len(names) == 0 {
		return nil, nil
	}
	pinned, err := l.pins()
	if err != nil {
		return nil, err
	}
	var over []string
	for _, name := range names {
		m, err := l.mark(name)
		if err != nil {
			return over, err
		}
		if m != nil && !m.held && !pinned[name] && l.age(m, now) >= l.keep(m) {
			over = append(over, name)
		}
	}
	return over, nil
}

// retireNames unlinks what is proven and asks the table about the rest.
func (l *lane) retireNames(ctx, work context.Context, over []string) error {
	var proven []string
	var errs []error
	for _, name := range over {
		if len(l.tables) == 0 { // forgotten after trouble: what was proven by them is asked for again
			l.marks[name].proven = false
		}
		if !l.marks[name].proven {
			if err := l.prove(ctx, work, name); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if m := l.marks[name]; m != nil && m.proven {
			proven = append(proven, name)
		}
	}
	if len(proven) > 0 {
		// A proof is as good as the catalog it was read from: one that was deleted or replaced since proves nothing.
		for _, t := range l.tables {
			if err := t.InPlace(); err != nil {
				return errors.Join(append(errs, fmt.Errorf("retire %d segments: %w", len(proven), err))...)
			}
		}
		// First, or a crash in between would make them look removed.
		if err := l.settleNumbers(proven); err != nil {
			return errors.Join(append(errs, fmt.Errorf("retire %d segments: %w", len(proven), err))...)
		}
		if err := l.dir.Retire(proven); err != nil {
			return errors.Join(append(errs, fmt.Errorf("retire %d segments: %w", len(proven), err))...)
		}
		l.d.m.retired.add(len(proven))
		for _, name := range proven {
			delete(l.marks, name)
		}
	}
	return errors.Join(errs...)
}

// prove asks the table about a segment that an earlier life marked. All rows there, as far as they must be (shown):
// proven. Another table's: stale. Anything less is held and told, because a catalog that went back looks like this.
func (l *lane) prove(ctx, work context.Context, name string) error {
	id, _, err := segment.ParseName(name)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	f := &file{name: name, id: id, size: l.marks[name].size}
	release, err := l.d.admit(ctx, []*file{f})
	if err != nil {
		return err
	}
	defer release()
	l.at("look up committed segment " + name)
	it, err := l.load(segment.Committed, f)
	if errors.Is(err, fs.ErrNotExist) {
		delete(l.marks, name)
		return nil
	}
	if newer(err) || damaged(err) {
		l.holdCommitted(name, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer it.seg.Release()
	t, err := l.table(work, it.signal)
	if err != nil {
		return err
	}
	if evicted, err := l.evict(segment.Committed, f, t.UUID()); evicted || err != nil {
		delete(l.marks, name)
		return err
	}
	found, err := t.Lookup(work, []string{id.String()})
	if err != nil {
		delete(l.tables, it.signal)
		return fmt.Errorf("look up committed segment: %w", err)
	}
	if rows := found[id.String()]; rows < l.shown(it) {
		l.holdCommitted(name, fmt.Errorf("the table has %d of its %d rows", rows, it.seg.Rows))
		return nil
	}
	if err := l.writeHead(t); err != nil { // from the head on an older catalog is noticed; only then may it leave
		return err
	}
	l.marks[name].proven = true
	return nil
}

// shown is how many rows of a committed segment the table has to show. Not those of days that retention::table deletes: what was
// pinned until the proof had forgotten it, and its days were gone, would never leave. Nothing is lost by it: committed again, they
// would be deleted again. By a clock that was set in this life no day is too old.
func (l *lane) shown(it item) int64 {
	if !l.clock.base.IsZero() {
		return it.seg.Rows
	}
	return l.d.opt.Drop.Shown(lakeSegments([]item{it})[0], wall(l.d.opt.Now()))
}

// holdCommitted keeps a segment for good, told once.
func (l *lane) holdCommitted(name string, cause error) {
	l.marks[name].held = true
	l.log.Error("committed segment is kept: the table does not show its rows", zap.String("segment", name), zap.Error(cause))
	l.publish(func(v *laneView) { v.retireHeld++ })
}

// mark returns what is known of a committed name; nil when it is gone.
func (l *lane) mark(name string) (*mark, error) {
	m := l.marks[name]
	if m == nil {
		m = &mark{first: l.d.since()}
		l.marks[name] = m
	}
	if m.known {
		return m, nil
	}
	info, err := l.d.opt.FS.Stat(l.dir.Path(segment.Committed, name))
	if errors.Is(err, fs.ErrNotExist) {
		delete(l.marks, name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stat committed segment: %w", err)
	}
	h, err := l.header(segment.Committed, name)
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		delete(l.marks, name)
		return nil, nil
	}
	m.at, m.size, m.partial, m.known = wall(info.ModTime), info.Size, err == nil && h.Partial, true
	return m, nil
}

// age counts from the mark, but no further back than the last jump of the clock; for a mark from a clock ahead
// of ours, from when we first saw it.
func (l *lane) age(m *mark, now time.Time) time.Duration {
	if m.at.Sub(now) > clockJump {
		return l.d.since() - m.first
	}
	from := m.at
	if from.Before(l.clock.base) {
		from = l.clock.base
	}
	return now.Sub(from)
}

func (l *lane) keep(m *mark) time.Duration {
	if m.partial {
		return max(l.d.opt.RetainPartial, l.d.opt.Retain)
	}
	return l.d.opt.Retain
}

// pins are the names the mirror has not uploaded yet.
func (l *lane) pins() (map[string]bool, error) {
	entries, _, err := l.dir.List(segment.MirrorPending)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", segment.MirrorPending, err)
	}
	pinned := make(map[string]bool, len(entries))
	for _, e := range entries {
		pinned[e.Name] = true
	}
	return pinned, nil
}

// forget drops what is known of names that are gone from committed/.
func (l *lane) forget(names []string) {
	here := make(map[string]bool, len(names))
	for _, name := range names {
		here[name] = true
	}
	held := 0
	for name, m := range l.marks {
		if !here[name] {
			delete(l.marks, name)
		} else if m.held {
			held++
		}
	}
	l.publish(func(v *laneView) { v.retireHeld = held })
}
