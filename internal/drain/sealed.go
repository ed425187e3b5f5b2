package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// drainSealed commits batches while the gate is open and a batch gets somewhere. A batch that fails goes back
// to sealed/, every segment with a wait of its own, so that what is behind it is not held up.
func (l *lane) drainSealed(ctx, work context.Context) error {
	var first error
	tidy := l.d.since() + l.d.opt.Poll
	for ctx.Err() == nil {
		if !l.d.once && l.d.since() >= tidy {
			l.tidy(ctx, work)
			tidy = l.d.since() + l.d.opt.Poll
		}
		batch, err := l.next(ctx)
		if err != nil || len(batch) == 0 {
			return errors.Join(first, err)
		}
		err = l.batch(ctx, work, batch)
		if batch[0].late {
			l.d.lates.done()
		}
		if err != nil {
			if !l.d.once {
				return err
			}
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// tidy does between two batches what else is due in the lane. Under a load that always has another batch due a pass never
// ends, and what is committed would stay until the log is full of it.
func (l *lane) tidy(ctx, work context.Context) {
	l.try(ctx, &l.retiring, func() error { return l.retire(ctx, work) })
	l.try(ctx, &l.auditing, func() error { return l.audit(ctx) })
}

// next picks the segments of the next batch, oldest first; none when the gate is shut.
func (l *lane) next(ctx context.Context) ([]*file, error) {
	if err := l.d.scans.Acquire(ctx, 1); err != nil {
		return nil, nil // told to stop
	}
	defer l.d.scans.Release(1)
	if err := l.list(); err != nil {
		return nil, err
	}
	for _, due := range l.turns(l.due()) {
		keep, err := l.pick(ctx, due)
		if err != nil || len(keep) > 0 {
			return keep, err
		}
	}
	return nil, nil
}

// pick takes the next batch of one kind, if its gate is open. One of late segments has a turn then, which the caller
// gives back.
func (l *lane) pick(ctx context.Context, due []*file) ([]*file, error) {
	for len(due) > 0 && l.open(due) {
		late := due[0].late
		if late && !l.takeLateTurn(ctx) {
			return nil, nil
		}
		batch := l.cut(due)
		keep, err := l.screen(batch)
		if len(keep) > 0 {
			l.lateTurn = !late
			return keep, err
		}
		if late {
			l.d.lates.done()
		}
		if err != nil {
			return nil, err
		}
		due = due[len(batch):] // all of them were stale or of a newer format
	}
	return nil, nil
}

// list brings what is known of sealed/ up to date: one stat and one header for each new name.
func (l *lane) list() error {
	woken := l.heedWake() // before the list: what it was for is in it
	names, err := l.names(segment.Sealed)
	if err != nil {
		return err
	}
	here := make(map[string]bool, len(names))
	for _, name := range names {
		here[name] = true
		if l.files[name] != nil {
			continue
		}
		f, err := l.meet(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		l.files[name] = f
	}
	for name, f := range l.files {
		f.urgent = f.urgent || woken
		if !here[name] {
			delete(l.files, name)
		}
	}
	l.listed = true
	l.publishPending()
	return nil
}

// meet describes a name that is new in sealed/. Whoever may have been committed before is doubtful: what was
// there when this life began, what comes back, what a recovery sealed (see screen), and what has a name from
// before this life or from a clock ahead of ours. The name is used for doubt only, never for order or age. What was
// committed comes back when its writer, refused a sync at the end of a seal, does it once more: it makes the name in
// sealed/ that a drain has taken meanwhile.
func (l *lane) meet(name string) (*file, error) {
	id, _, err := segment.ParseName(name)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	info, err := l.d.opt.FS.Stat(l.dir.Path(segment.Sealed, name))
	if err != nil {
		return nil, fmt.Errorf("stat sealed segment: %w", err)
	}
	h, err := l.header(segment.Sealed, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	made := time.Unix(id.UUID.Time().UnixTime())
	f := &file{
		name:   name,
		id:     id,
		size:   info.Size,
		sealed: wall(info.ModTime),
		first:  l.d.since(),
		urgent: l.urgent[name],
		doubtful: !l.listed || l.doubts[name] || l.marks[name] != nil || l.numbers != nil && l.numbers.Settled(id) ||
			made.Before(l.d.born) || made.After(l.d.opt.Now().Add(time.Second)),
		bad: err,
	}
	if err == nil {
		f.zstd, f.table, f.late = h.Zstd, h.Table, late(h, f.sealed)
		f.doubtful = f.doubtful || h.Partial
	}
	return f, nil
}

// publishPending counts what waits. Held files of a newer format are counted apart.
func (l *lane) publishPending() {
	var v laneView
	for _, f := range l.files {
		if f.newer {
			v.newerHeld++
			continue
		}
		v.pending++
		if v.oldest.IsZero() || f.sealed.Before(v.oldest) {
			v.oldest = f.sealed
		}
		if at := f.sealed.Add(l.gateAge(f)); !f.late && f.failures == 0 && (v.due.IsZero() || at.Before(v.due)) {
			v.due = at
		}
	}
	l.publish(func(seen *laneView) {
		seen.pending, seen.oldest, seen.due, seen.newerHeld = v.pending, v.oldest, v.due, v.newerHeld
	})
}

// due returns what may be taken now, oldest first by seal time, then by name. What has failed comes behind
// what has not, so that it holds nothing up.
func (l *lane) due() []*file {
	now := l.d.since()
	due := make([]*file, 0, len(l.files))
	for _, f := range l.files {
		if f.newer {
			continue
		}
		// Once does not wait, and gives up a segment after as many tries as a read gets.
		if l.d.once && f.failures < maxReads || !l.d.once && f.after <= now {
			due = append(due, f)
		}
	}
	slices.SortFunc(due, func(a, b *file) int {
		return cmp.Or(cmp.Compare(a.failures, b.failures), a.sealed.Compare(b.sealed), cmp.Compare(a.name, b.name))
	})
	return due
}

// open tells whether the gate is: enough bytes, an old segment, or one that must not wait. A segment's age is
// that of its seal, and at least the time we have known it: a clock set back holds nothing up.
func (l *lane) open(due []*file) bool {
	var bytes int64
	now, mono := wall(l.d.opt.Now()), l.d.since()
	for _, f := range due {
		bytes += f.size
		age := max(now.Sub(f.sealed), mono-f.first)
		if l.d.once || f.urgent || bytes >= l.d.opt.GateBytes || age >= l.gateAge(f) {
			return true
		}
	}
	return false
}

// cut takes the oldest that fit into half the byte budget, so that two lanes can work at a time. The first is
// always taken: one larger than the budget goes alone. Segments that failed more often are not mixed with others:
// in the end the one that no commit accepts is alone.
func (l *lane) cut(due []*file) []*file {
	var sum int64
	room := l.d.opt.MaxBytesInFlight / 2
	if due[0].late {
		room /= lateAtOnce // together no more than half, and the other half is for what is not
	}
	for i, f := range due {
		sum += f.weight()
		if i > 0 && (i >= l.limit || f.failures != due[0].failures || sum > room) {
			return due[:i]
		}
	}
	return due
}

// screen keeps of a batch what can be drained: a newer format stays where it is, another table's segment goes to
// stale. What is unreadable is kept; reading the whole of it decides.
func (l *lane) screen(batch []*file) ([]*file, error) {
	keep := make([]*file, 0, len(batch))
	for _, f := range batch {
		if errors.Is(f.bad, frame.ErrVersion) {
			l.hold(f, f.bad)
			continue
		}
		if live, ok := l.live(); ok && f.table != uuid.Nil && f.table != live {
			if err := l.stale(segment.Sealed, f.name, f.table); err != nil {
				return nil, err
			}
			continue
		}
		keep = append(keep, f)
	}
	return keep, nil
}

// header reads the first bytes of a segment.
func (l *lane) header(st segment.State, name string) (frame.Header, error) {
	return headerAt(l.d.opt.FS, l.dir.Path(st, name))
}

func headerAt(fsys vfs.FS, path string) (frame.Header, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return frame.Header{}, fmt.Errorf("open segment: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return frame.Header{}, fmt.Errorf("stat segment: %w", err)
	}
	buf := make([]byte, min(info.Size, frame.HeaderSize))
	if _, err := f.ReadAt(buf, 0); err != nil {
		return frame.Header{}, fmt.Errorf("read header of %s: %w", path, err)
	}
	return frame.ParseHeader(buf)
}

// hold leaves a segment of a newer format in sealed/, told once.
func (l *lane) hold(f *file, err error) {
	f.newer = true
	l.publishPending()
	l.tellOnce(f.name, func() {
		l.log.Error("segment of a newer format stays in sealed until a version that reads it runs",
			zap.String("segment", f.name), zap.Error(err))
	})
}

// live is the UUID of the lane's table, when it is known.
func (l *lane) live() (uuid.UUID, bool) {
	for _, t := range l.tables {
		return t.UUID(), true
	}
	return uuid.Nil, false
}

// weight is what a segment counts against the byte budget: its file, or for a compressed body what it is
// likely to become.
func (f *file) weight() int64 {
	// Arrow columns of telemetry shrink to about a seventh; nothing of ours writes compressed bodies, and one
	// that grows more only makes its batch larger than the budget, never wrong.
	const zstdGrowth = 8
	if f.zstd {
		return f.size * zstdGrowth
	}
	return f.size
}
