package drain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// RequeueOptions say what goes back to sealed/, and how.
type RequeueOptions struct {
	Selection

	Salvage bool // of a damaged segment in poison/ take the whole leading batches
	// Into is the table that segments of stale/ are brought into. Tables lists those of the catalog.
	Into   uuid.UUID
	Tables func(context.Context) ([]lake.TableInfo, error)
}

// Fate is what became of a segment.
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
	// ErrOtherTable says that a segment of stale/ is of a lane whose table is not the one it is to be brought into.
	ErrOtherTable = errors.New("the table is another lane's")
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

// RequeueSegments puts segments back into sealed/, for the next drain to commit. Each is read whole first, as the drain
// reads it, and one that has another name in its lane is refused.
//
//	poison/   one that reads well goes as it is: what was wrong has gone, or another version reads it. Of a damaged one,
//	          with Salvage, the whole leading batches become the segment of that id and the original stays in poison/
//	          under a name that is no copy
//	orphans/  as it is
//	stale/    stamped with Into, of the lane whose table that is, and the decision is recorded. Nothing else ever brings
//	          a segment into another incarnation of a table
//
// Rows keep their positions, and the next drain looks up what the table has of them, so rows that were committed before
// are not doubled. It holds drain.lock. A writer may run.
//
//	return  one for each segment found, also beside an error; ids that have no name in From are left out
//	errors  *vfs.LockedError while a drain runs; segment.ErrNotRoot; ErrNoSuchTable; trouble with the directory or the
//	        catalog, which ends it
//	ctx     ends it between two segments
//
// Durable, segment by segment, when it returns. Idempotent: a second call finds nothing to do; after a crash the next call,
// or the next drain, finishes or undoes what was cut. Holds LAKE-1, LOUD-1, ONE-1.
func RequeueSegments(ctx context.Context, opt RequeueOptions) (done []Requeue, err error) {
	r := requeuer{RequeueOptions: opt}
	if opt.From == segment.Stale {
		if r.table, err = tableWith(ctx, opt.Tables, opt.Into); err != nil {
			return nil, err
		}
	}
	found, unlock, err := opt.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if opt.From == segment.Stale && len(opt.IDs) == 0 {
		found = slices.DeleteFunc(found, func(p aside) bool { return !r.takes(p.lane) })
	}
	err = opt.each(ctx, found, func(p aside) (int64, error) {
		out, err := r.one(p)
		if err == nil {
			done = append(done, out)
		}
		return out.Bytes, err
	})
	return done, err
}

type requeuer struct {
	RequeueOptions
	table lake.TableInfo // Into
}

// one decides about one segment. The error is for trouble that is not the segment's own.
func (r requeuer) one(p aside) (Requeue, error) {
	out := Requeue{Lane: p.lane.Key(), Path: p.path(), ID: p.entry.ID, Fate: Refused, Note: r.noteOf(p)}
	f, size, err := r.openAside(p)
	if errors.Is(err, fs.ErrNotExist) {
		out.Fate = Gone
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	out.Bytes = size
	if len(p.copies) > 1 {
		out.Err = fmt.Errorf("%w: %s", ErrOtherCopy, strings.Join(p.copies, ", "))
		return out, nil
	}
	if r.From == segment.Stale && !r.takes(p.lane) {
		out.Err = fmt.Errorf("%w: %s is table %s.%s", ErrOtherTable, r.Into, r.table.Namespace, r.table.Name)
		return out, nil
	}
	seg, _, err := decode(f, size, p.entry.ID)
	switch {
	case err == nil:
		out.Rows, out.Batches = seg.Rows, len(seg.Batches)
		seg.Release()
		return out, r.requeue(p, f, &out)
	case newer(err):
		out.Err = err
		return out, nil
	case !damaged(err):
		return out, err
	}
	return out, r.damaged(p, f, err, &out)
}

func (r requeuer) requeue(p aside, f io.ReaderAt, out *Requeue) error {
	out.Fate = Requeued
	if r.DryRun {
		return nil
	}
	moved, err := r.back(p, f, out.Bytes)
	if err == nil && !moved {
		out.Fate = Gone
	}
	return err
}

// back is the Move, by where the segment comes from.
func (r requeuer) back(p aside, f io.ReaderAt, size int64) (bool, error) {
	switch p.state {
	case segment.Poison:
		return p.lane.Requeue(p.entry.Name)
	case segment.Stale:
		return r.stamp(p, f, size)
	default:
		moved, err := p.lane.Move(p.state, segment.Sealed, []string{p.entry.Name})
		return len(moved) > 0, err
	}
}

// damaged salvages what there is of a segment, if it is asked to.
func (r requeuer) damaged(p aside, f io.ReaderAt, cause error, out *Requeue) error {
	if p.state != segment.Poison { // the rules for what is unreadable are those of sealed/ and of poison/
		out.Err = fmt.Errorf("%w: %w", ErrDamaged, cause)
		return nil
	}
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
