package drain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// RequeueOptions say what goes back from poison/ to sealed/.
type RequeueOptions struct {
	FS     vfs.FS
	WAL    string // root directory of the write-ahead log
	Holder string // text in drain.lock for whoever is refused meanwhile
	Logger *zap.Logger
	Now    func() time.Time

	Lane    string       // tenant/index; empty: all
	IDs     []segment.ID // empty: all
	Salvage bool         // of a damaged segment take the whole leading batches
	DryRun  bool         // read everything, change nothing, take no lock
	// Progress is called before each segment.
	Progress func(done, of int, size int64)
}

// Fate is what became of a segment in poison/.
type Fate string

// The fates.
const (
	Requeued Fate = "requeued" // whole, back in sealed/
	Salvaged Fate = "salvaged" // its sound beginning is back in sealed/, the original is kept
	Refused  Fate = "refused"  // left where it is
	Gone     Fate = "gone"     // somebody removed it meanwhile
)

// Why a segment is refused, beside what a reader of it says (frame's errors).
var (
	// ErrOtherCopy says that the id has another name in the lane. Which of them the drain should take nobody has decided.
	ErrOtherCopy = errors.New("another copy of the segment")
	// ErrDamaged says that it does not read well and salvage was not asked for.
	ErrDamaged = errors.New("damaged")
)

// Requeue is what became of one segment.
type Requeue struct {
	Lane  string
	Path  string // where it was
	Kept  string // salvaged: where the original is now
	ID    segment.ID
	Bytes int64
	Note  string // why it was set aside
	Fate  Fate

	// Rows and Batches are back in sealed/; of a refused segment they are what a salvage would bring back.
	Rows    int64
	Batches int
	// LostBytes are behind them; in these LostBatches with LostRows are sound in themselves. The rows of the others
	// nobody knows.
	LostBytes   int64
	LostBatches int
	LostRows    int64

	Err error // refused: why; salvaged: what ends the sound beginning, nil when only the header is wrong
}

// RequeuePoison puts segments from poison/ back into sealed/, for the next drain to commit. One that reads well goes as it
// is: what was wrong has gone, or another version reads it. Of a damaged one, with Salvage, the whole leading batches
// become the segment of that id and the original stays in poison/ under a name that is no copy. Rows keep their
// positions, and the next drain looks up what the table has of them, so rows that were committed before are not doubled.
//
// It holds drain.lock, because a Move back beside a drain can lose a segment (ADR 0004). A writer may run.
//
//	return  one for each segment found, also beside an error; ids that have no name in poison/ are left out
//	errors  *vfs.LockedError while a drain runs; segment.ErrNotRoot; trouble with the directory, which ends it
//	ctx     ends it between two segments
//
// Durable, segment by segment, when it returns. Idempotent: a second call finds nothing to do; after a crash the next call,
// or the next drain, finishes or undoes what was cut. Holds LAKE-1, LOUD-1, ONE-1.
func RequeuePoison(ctx context.Context, opt RequeueOptions) (done []Requeue, err error) {
	if opt.Progress == nil {
		opt.Progress = func(int, int, int64) {}
	}
	root, err := segment.Open(opt.FS, opt.WAL)
	if err != nil {
		return nil, fmt.Errorf("open write-ahead log: %w", err)
	}
	if !opt.DryRun {
		lock, err := opt.FS.Lock(filepath.Join(opt.WAL, segment.DrainLockName), opt.Holder)
		if err != nil {
			return nil, fmt.Errorf("lock the root: %w", err)
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	r := requeuer{RequeueOptions: opt}
	found, err := r.find(root)
	if err != nil {
		return nil, err
	}
	var size int64
	for i, p := range found {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		opt.Progress(i, len(found), size)
		out, err := r.one(p)
		if err != nil {
			return done, fmt.Errorf("requeue %s: %w", p.path(), err)
		}
		done = append(done, out)
		size += out.Bytes
	}
	return done, nil
}

type requeuer struct{ RequeueOptions }

// poisoned is a name in poison/.
type poisoned struct {
	lane   segment.Lane
	entry  segment.Entry
	copies []string // all names of the id, as state/name
}

func (p poisoned) path() string { return p.lane.Path(segment.Poison, p.entry.Name) }

// find lists what is asked for.
func (r requeuer) find(root *segment.Root) ([]poisoned, error) {
	lanes, _, err := root.Lanes()
	if err != nil {
		return nil, err
	}
	var found []poisoned
	for _, l := range lanes {
		if r.Lane != "" && r.Lane != l.Key() {
			continue
		}
		in, err := r.inLane(l)
		if err != nil {
			return nil, fmt.Errorf("look into lane %s: %w", l.Key(), err)
		}
		found = append(found, in...)
	}
	return found, nil
}

func (r requeuer) inLane(l segment.Lane) ([]poisoned, error) {
	entries, _, err := l.List(segment.Poison)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	if !r.DryRun {
		// As a drain does at its start, so that what an earlier call left half done is not in the way.
		if err := l.Prepare(); err != nil {
			return nil, err
		}
		resolved, err := l.Resolve(segment.ByDrain)
		tellResolved(r.Logger.With(zap.String("lane", l.Key())), resolved)
		if err != nil {
			return nil, err
		}
		if entries, _, err = l.List(segment.Poison); err != nil {
			return nil, err
		}
	}
	copies, err := l.Copies()
	if err != nil {
		return nil, err
	}
	var found []poisoned
	for _, e := range entries {
		if len(r.IDs) == 0 || slices.Contains(r.IDs, e.ID) {
			found = append(found, poisoned{l, e, copies[e.ID]})
		}
	}
	return found, nil
}

// one decides about one segment. The error is for trouble that is not the segment's own.
func (r requeuer) one(p poisoned) (Requeue, error) {
	out := Requeue{Lane: p.lane.Key(), Path: p.path(), ID: p.entry.ID, Fate: Refused, Note: "no note"}
	if note, err := p.lane.ReadNote(p.entry.Name); err == nil {
		out.Note = note.Reason
	}
	f, err := r.FS.Open(out.Path)
	if errors.Is(err, fs.ErrNotExist) {
		out.Fate = Gone
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return out, err
	}
	out.Bytes = info.Size
	if len(p.copies) > 1 {
		out.Err = fmt.Errorf("%w: %s", ErrOtherCopy, strings.Join(p.copies, ", "))
		return out, nil
	}
	seg, _, err := decode(f, info.Size, p.entry.ID)
	switch {
	case err == nil:
		out.Rows, out.Batches = seg.Rows, len(seg.Batches)
		seg.Release()
		return out, r.requeue(p, &out)
	case newer(err):
		out.Err = err
		return out, nil
	case !damaged(err):
		return out, err
	}
	return out, r.damaged(p, f, err, &out)
}

func (r requeuer) requeue(p poisoned, out *Requeue) error {
	out.Fate = Requeued
	if r.DryRun {
		return nil
	}
	moved, err := p.lane.Requeue(p.entry.Name)
	if err == nil && !moved {
		out.Fate = Gone
	}
	return err
}

// damaged salvages what there is of a segment, if it is asked to.
func (r requeuer) damaged(p poisoned, f io.ReaderAt, cause error, out *Requeue) error {
	s, err := salvage(f, out.Bytes, out.ID)
	if err != nil {
		out.Err = err
		return nil //nolint:nilerr // it is the segment's own
	}
	out.Rows, out.Batches = s.Rows, s.Batches
	out.LostBytes, out.LostBatches, out.LostRows = s.Lost, s.LostBatches, s.LostRows
	if !r.Salvage {
		out.Err = fmt.Errorf("%w: %w", ErrDamaged, cause)
		return nil
	}
	out.Fate, out.Err = Salvaged, s.Cause
	out.Kept = p.lane.Path(segment.Poison, segment.KeptName(p.entry.Name))
	if r.DryRun {
		return nil
	}
	done, err := p.lane.Salvage(p.entry.Name, s.File, out.note(s.End, r.Now()))
	switch {
	case errors.Is(err, segment.ErrKept):
		out.Fate, out.Kept, out.Err = Refused, "", err
		return nil
	case err == nil && !done:
		out.Fate = Gone
	}
	return err
}

// salvage returns the sound beginning of a damaged segment, as the drain will read it.
func salvage(f io.ReaderAt, size int64, id segment.ID) (*frame.Salvaged, error) {
	s, err := frame.Salvage(f, size, frame.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	seg, _, err := decode(bytes.NewReader(s.File), int64(len(s.File)), id)
	if err != nil {
		return nil, err
	}
	seg.Release()
	return s, nil
}

// note is what stays with the original.
func (q *Requeue) note(end int64, now time.Time) segment.Note {
	text := fmt.Sprintf("salvaged: %d rows in %d batches went back to sealed", q.Rows, q.Batches)
	if q.LostBytes > 0 {
		text += fmt.Sprintf("; not brought back: %d bytes from offset %d, in them %d sound batches of %d rows",
			q.LostBytes, end, q.LostBatches, q.LostRows)
	}
	if q.Err != nil {
		text += fmt.Sprintf(" (%v)", q.Err)
	}
	return segment.Note{Reason: text + "; set aside for: " + q.Note, Attempts: 1, Time: wall(now).UTC()}
}
