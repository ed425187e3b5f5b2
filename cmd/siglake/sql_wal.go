package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// walRows reads rows that were acknowledged and are in no table yet, to be shown beside the table's own, each once.
//
// What makes it exact is the order. The segments of a lane are listed first, then the table is planned: a segment that
// was not in the list was retired or made by then, so its rows are in the plan or newer than the question. Of those
// listed, the proof of the planned snapshot (or its rows) says how many are in it; the rest is read from the log,
// wherever the segment has moved to meanwhile. Nothing is locked and nothing is written in the log.
type walRows struct {
	a     *app
	lanes map[tableRef][]segment.Lane // by namespace and table
	span  span
	note  func(format string, args ...any) error
	// damaged are the segments whose rows an answer lacked because they could not be read.
	damaged map[segment.ID]bool

	scratch *scratch
}

func (a *app) openWALRows(sp span, sc *scratch, note func(string, ...any) error) (*walRows, error) {
	root, err := a.openRoot()
	if err != nil {
		return nil, fmt.Errorf("--with-wal: %w", err)
	}
	lanes, _, err := root.Lanes()
	if err != nil {
		return nil, fmt.Errorf("--with-wal: %w", err)
	}
	w := &walRows{a: a, lanes: map[tableRef][]segment.Lane{}, span: sp, note: note, damaged: map[segment.ID]bool{}, scratch: sc}
	for _, l := range lanes {
		ref := tableRef{lake.NamespaceOf(l.Tenant()), l.Index()}
		w.lanes[ref] = append(w.lanes[ref], l)
	}
	return w, nil
}

// tables are the names that lanes have, below a namespace; namespaces are those of all.
func (w *walRows) tables(namespace string) []string {
	var out []string
	for ref := range w.lanes {
		if ref.space == namespace {
			out = append(out, ref.name)
		}
	}
	return slices.Sorted(slices.Values(out))
}

func (w *walRows) namespaces() []string {
	set := map[string]bool{}
	for ref := range w.lanes {
		set[ref.space] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// uncommitted are the states whose segments may hold rows that are in no table.
func uncommitted() []segment.State {
	return []segment.State{segment.Active, segment.Sealed, segment.Processing, segment.Orphans}
}

// list finds the segments of lanes that may hold rows which no table has. A segment that moves is seen in at least
// one place, because it is linked there before it loses the name it had; one that a failing drain moves back and
// forth is met by listing again until nothing new turns up.
func (w *walRows) list(ctx context.Context, lanes []segment.Lane) ([]place, error) {
	seen := map[segment.ID]place{}
	for rounds, before := 0, -1; rounds < 2 || len(seen) > before; rounds++ {
		before = len(seen)
		for _, lane := range lanes {
			for _, st := range uncommitted() {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				entries, _, err := lane.List(st)
				if err != nil {
					return nil, err
				}
				for _, e := range entries {
					seen[e.ID] = place{lane, st, e}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b place) int {
		return strings.Compare(a.entry.ID.String(), b.entry.ID.String())
	}), nil
}

// planned is a table with the rows that the log has beside it.
type planned struct {
	plan lake.Plan
	none bool // there is neither a table nor a row
}

// plan reads a table and the log beside it. open returns nil while no catalog has been made.
func (w *walRows) plan(ctx context.Context, open func(context.Context) (*lake.Lake, error), ref tableRef) (planned, error) {
	lanes := w.lanes[ref]
	// A segment that is retired between the list and the reading was committed after the plan, or before; one that names
	// a table that the plan did not find may be of one made since. Then plan again.
	strange := map[uuid.UUID]bool{}
	for range 10 {
		owners, err := ownersOf(lanes)
		if err != nil {
			return planned{}, err
		}
		segs, err := w.list(ctx, lanes)
		if err != nil {
			return planned{}, err
		}
		p, err := w.try(ctx, open, beside{w: w, ref: ref, owners: owners, strange: strange}, segs)
		if !errors.Is(err, errGone) {
			return p, errors.Join(err, w.tellSetAside(lanes))
		}
	}
	return planned{}, errors.New("segments are retired faster than they can be read; run it again")
}

// ownersOf reads which tables the lanes belong to. That is done before the plan: an owner that is written later may be
// of a table that the plan does not know yet.
func ownersOf(lanes []segment.Lane) (map[segment.Lane]uuid.UUID, error) {
	owners := map[segment.Lane]uuid.UUID{}
	for _, lane := range lanes {
		var err error
		if owners[lane], err = lane.Owner(); err != nil {
			return nil, err
		}
	}
	return owners, nil
}

func (w *walRows) try(
	ctx context.Context, open func(context.Context) (*lake.Lake, error), b beside, segs []place,
) (planned, error) {
	ids := make([]string, len(segs))
	for i, s := range segs {
		ids[i] = s.entry.ID.String()
	}
	l, err := open(ctx)
	switch {
	case err != nil:
		return planned{}, err
	case l == nil:
		b.unmade = true
	default:
		b.plan, b.committed, err = l.PlanBeside(ctx, b.ref.space, b.ref.name, ids)
	}
	if errors.Is(err, lake.ErrNoTable) {
		b.unmade, err = true, nil
	}
	if err == nil {
		err = b.readAll(ctx, segs)
	}
	err = errors.Join(err, b.end())
	for i := 0; i < len(b.notes) && err == nil; i++ {
		err = w.note("the rows of segment %s", b.notes[i])
	}
	if err == nil {
		for _, id := range b.damaged {
			w.damaged[id] = true
		}
	}
	return planned{plan: b.plan, none: b.unmade && b.file == nil}, err
}

// verdict is an error when an answer lacked rows that should have been in it.
func (w *walRows) verdict() error {
	if len(w.damaged) == 0 {
		return nil
	}
	return damageError("the rows of %s are not in the answer: %s", plural(len(w.damaged), "damaged segment", "damaged segments"), w.a.next("wal", "verify"))
}

// tellSetAside says what is not shown because a drain would not take it.
func (w *walRows) tellSetAside(lanes []segment.Lane) error {
	for _, lane := range lanes {
		for _, st := range []segment.State{segment.Poison, segment.Stale} {
			entries, _, err := lane.List(st)
			if err != nil {
				return err
			}
			if len(entries) > 0 {
				if err := w.note("the rows of %s of %s in %s/ are not shown: %s", plural(len(entries), "segment", "segments"), lane.Key(), st,
					w.a.next("wal", "ls", "--state", string(st), "--lane", lane.Key())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// beside gathers the rows of the log that a planned table lacks.
type beside struct {
	w         *walRows
	ref       tableRef
	owners    map[segment.Lane]uuid.UUID // before the plan
	strange   map[uuid.UUID]bool         // tables that segments were for and that an earlier plan did not find
	again     bool                       // one more was met: it may have been made since the plan
	plan      lake.Plan
	committed map[string]int64 // rows per segment id in the planned snapshot
	unmade    bool             // nobody has made the table yet
	notes     []string         // what is not shown, and why
	damaged   []segment.ID     // of those, the unreadable ones
	path      string
	raw       vfs.File
	file      *lake.RowsFile // nil until there is a row
}

func (b *beside) readAll(ctx context.Context, segs []place) error {
	for _, s := range segs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.read(ctx, s); err != nil {
			return err
		}
	}
	if b.again {
		return errGone
	}
	return nil
}

// read adds the rows of one segment that the snapshot lacks. What cannot be read is told and is no error.
func (b *beside) read(ctx context.Context, p place) error {
	seg, at, err := decode(b.w.a.fs, p, b.w.span)
	if at.state == segment.Poison || at.state == segment.Stale {
		return nil // set aside meanwhile, and told with the others there
	}
	switch {
	case err != nil && passing(err):
		return err
	case err != nil:
		b.hide(at, err)
		return nil
	case seg == nil:
		return nil
	}
	defer seg.Release()
	if of, ok := b.foreign(at.lane, seg.Header.Table); ok && !b.strange[of] {
		b.strange[of], b.again = true, true
		return nil
	} else if ok {
		b.hide(at, errors.New("they were written for another incarnation of the table"))
		return nil
	}
	from := b.committed[at.entry.ID.String()]
	if from >= seg.Rows {
		return nil
	}
	signal, err := otelarrow.SignalOf(seg.Schema)
	if err == nil {
		err = b.begin(signal)
	}
	if err == nil {
		err = b.file.Add(ctx, at.entry.ID.String(), seg.Batches, from)
	}
	var bad *lake.SegmentError
	if errors.Is(err, errOtherSignal) || errors.Is(err, otelarrow.ErrLayout) || errors.Is(err, otelarrow.ErrNotOurs) || errors.As(err, &bad) {
		b.hide(at, err)
		return nil
	}
	return err
}

// hide notes that a segment is left out.
func (b *beside) hide(p place, why error) {
	b.notes = append(b.notes, fmt.Sprintf("%s of %s are not shown: %v", p.entry.ID, p.lane.Key(), why))
	var corrupt *frame.CorruptError
	var bad *lake.SegmentError
	if errors.As(why, &corrupt) || errors.As(why, &bad) || errors.Is(why, io.ErrUnexpectedEOF) {
		b.damaged = append(b.damaged, p.entry.ID)
	}
}

// foreign tells whether rows belong to another table of that name, one that was there before. So does the drain.
func (b *beside) foreign(lane segment.Lane, of uuid.UUID) (uuid.UUID, bool) {
	if of == uuid.Nil {
		of = b.owners[lane]
	}
	return of, of != uuid.Nil && of != b.plan.Table.UUID
}

// errOtherSignal says that rows are not of the table's kind; the drain refuses them too.
var errOtherSignal = errors.New("the table is of another signal")

// begin makes the file for the first row, and the plan where there is no table yet.
func (b *beside) begin(signal otelarrow.Signal) (err error) {
	if b.file == nil && b.unmade {
		if b.plan, err = lake.PlanOf(signal, b.ref.space, b.ref.name); err != nil {
			return err
		}
	}
	if b.plan.Table.Signal != "" && b.plan.Table.Signal != signal.String() {
		return fmt.Errorf("%w, %s", errOtherSignal, b.plan.Table.Signal)
	}
	if b.file != nil {
		return nil
	}
	if b.path, b.raw, err = b.w.scratch.create("wal.parquet"); err != nil {
		return err
	}
	b.file, err = lake.NewRowsFile(fileWriter{b.raw}, signal, b.plan)
	return err
}

// end closes the file and makes it one of the plan's.
func (b *beside) end() error {
	if b.raw == nil {
		return nil
	}
	if b.file == nil { // the error that comes with this is told
		return b.raw.Close()
	}
	err := b.file.Close()
	info, serr := b.raw.Stat()
	if err = errors.Join(err, serr, b.raw.Close()); err != nil {
		return fmt.Errorf("write the rows of the log to a temporary file: %w", err)
	}
	b.plan.Files = append(b.plan.Files, lake.PlanFile{Path: b.path, Rows: b.file.Rows(), Bytes: info.Size})
	return nil
}

// fileWriter makes a writer of a file.
type fileWriter struct{ f vfs.File }

func (w fileWriter) Write(p []byte) (int, error) {
	n, err := w.f.Writev([][]byte{p})
	return int(n), err
}

// decode reads a segment wherever it is now. It returns nil without an error where there are no rows, or none within
// the span.
func decode(fsys vfs.FS, p place, sp span) (*frame.Segment, place, error) {
	var (
		seg *frame.Segment
		err error
	)
	for range 3 { // a writer may take a refused request off the end of the file that we read
		if seg, p, err = decodeOnce(fsys, p, sp); p.state != segment.Active || err == nil {
			break
		}
	}
	if errors.Is(err, frame.ErrEmpty) || errors.Is(err, frame.ErrNoBatch) {
		return nil, p, nil
	}
	return seg, p, err
}

func decodeOnce(fsys vfs.FS, p place, sp span) (*frame.Segment, place, error) {
	f, p, err := openSegment(fsys, p)
	if err != nil {
		return nil, p, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return nil, p, err
	}
	if p.state != segment.Active && !sp.mayHold(f) {
		return nil, p, nil
	}
	seg, err := frame.Decode(f, info.Size, p.options())
	if err != nil {
		return nil, p, err
	}
	if err := p.entry.ID.CheckName(seg.Schema); err != nil {
		seg.Release()
		return nil, p, err
	}
	return seg, p, nil
}

// passing tells trouble that ends the query from what is wrong with one segment.
func passing(err error) bool {
	var corrupt *frame.CorruptError
	return !errors.As(err, &corrupt) && !errors.Is(err, frame.ErrVersion) && !errors.Is(err, frame.ErrTooBig) &&
		!errors.Is(err, io.ErrUnexpectedEOF)
}
