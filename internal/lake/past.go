package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// Standing is how a catalog stands to a state of a table that was seen before.
type Standing string

// The standings.
const (
	Fits     Standing = "fits"      // it shows that state, or one that came after it
	WentBack Standing = "went back" // it shows an older one, one beside it, or a metadata file that is gone or damaged
	Unlisted Standing = "not in the catalog"
	Replaced Standing = "another table" // of the same name
)

// metadataSuffix ends the names of metadata files.
const metadataSuffix = ".metadata.json"

// State is one state of a table.
type State struct {
	Sequence int64
	Metadata string // location of the metadata file
	Rows     int64
	Changed  time.Time
}

// Unfit is a later metadata file that the catalog cannot be set to.
type Unfit struct {
	Metadata string
	Why      string
}

// Past is what catalog and warehouse have of a table that was seen before. It is a picture of one moment.
type Past struct {
	Table    string    // namespace and name
	Shown    uuid.UUID // of the table that the catalog has; zero: none, or its metadata file is gone
	Standing Standing
	Seen     Seen
	// Have is what the catalog shows. Of Unlisted the zero value; of a metadata file that is gone or damaged its place alone.
	Have State
	// Broken says that the metadata file that the catalog shows is Gone or Damaged; empty: it is neither.
	Broken string
	// Forward is the newest later state that is whole: each file of its current snapshot is there, and as long as its manifest says.
	// Where the metadata file that the catalog shows is broken and no later state is whole, it is the newest before. nil: none is.
	Forward *State
	// Reaches says that Forward has what was seen.
	Reaches bool
	Unfit   []Unfit
	// Named are rows per segment that the records of unfit states name.
	Named map[string]int64
	// Strays are data files that the best state does not have, as far as FindStrays has looked.
	Strays []Stray

	add   []*stray         // of them those to be added
	added map[string]int64 // rows of each segment that the table has with them

	lake *Lake
	id   table.Identifier
	have *table.Table // nil: not there or not readable
	best *table.Table // of Forward, else have
	// recorded is since when the record of an unfit state that has what was seen names every segment, in Unix ms; -1: there is none.
	recorded int64
	outgrown bool  // the catalog was restored, and others have committed since as much as was seen, or more
	parted   int64 // when what was seen went another way than what the catalog shows, in Unix ms; -1: it did not
}

// NamesAll tells whether Named has every segment that the table may lack: what was committed since the best state.
func (p *Past) NamesAll() bool {
	since := p.since()
	return p.recorded == 0 || p.recorded > 0 && p.recorded+skewMargin.Milliseconds() <= since
}

// Compare holds what the catalog shows of the table of tenant and index against what was seen. It changes nothing.
//
//	errors  the catalog or the warehouse did not answer: then nothing is known
//	ctx     ends it
func (l *Lake) Compare(ctx context.Context, tenant, index string, seen Seen) (*Past, error) {
	if err := checkIdentifier(tenant, index); err != nil {
		return nil, err
	}
	p := &Past{Seen: seen, Named: map[string]int64{}, recorded: -1, parted: -1, lake: l, id: table.Identifier{NamespaceOf(tenant), index}}
	p.Table = strings.Join(p.id, ".")
	return p, p.compare(ctx)
}

// Past is Compare, and where the catalog does not show what was seen it looks for a later state among the metadata files
// beside those that are known.
func (l *Lake) Past(ctx context.Context, tenant, index string, seen Seen) (*Past, error) {
	p, err := l.Compare(ctx, tenant, index, seen)
	if err != nil || p.Standing == Fits || p.Standing == Replaced {
		return p, err
	}
	if err := p.find(ctx); err != nil {
		return nil, fmt.Errorf("look for later states of %s: %w", p.Table, err)
	}
	return p, nil
}

// Overwritten tells that the catalog shows the metadata file that was seen, and that this has older content now.
func (p *Past) Overwritten() bool {
	return p.Standing == WentBack && p.Broken == "" && p.Have.Metadata == p.Seen.Metadata && p.Have.Sequence < p.Seen.Sequence
}

// String says how the two states stand to each other.
func (p *Past) String() string {
	if p.Seen.Metadata == "" {
		return fmt.Sprintf("table %s: the catalog shows %s, which is %s", p.Table, p.Have.Metadata, p.Broken)
	}
	if p.Overwritten() {
		return fmt.Sprintf("table %s: %s", p.Table, olderContent(p.Seen.Metadata, p.Seen.Sequence, p.Have.Sequence))
	}
	shown := fmt.Sprintf("the catalog shows sequence %d (%s)", p.Have.Sequence, p.Have.Metadata)
	switch {
	case p.Standing == Unlisted:
		shown = "the catalog does not have it"
	case p.Standing == WentBack && p.have == nil:
		shown = "the catalog shows " + p.Have.Metadata + ", which is " + p.Broken
	}
	return fmt.Sprintf("table %s: committed from here was sequence %d (%s), %s", p.Table, p.Seen.Sequence, p.Seen.Metadata, shown)
}

// compare finds out what the catalog shows.
func (p *Past) compare(ctx context.Context) error {
	tbl, err := p.lake.open(ctx, p.id)
	switch {
	case errors.Is(err, ErrNoTable):
		p.Standing = Unlisted
		return nil
	case err != nil:
		return p.compareBroken(ctx, err)
	}
	p.have, p.best, p.Shown = tbl, tbl, tbl.Metadata().TableUUID()
	if p.Have, err = p.lake.stateOf(tbl); err != nil {
		return err
	}
	t := &Table{lake: p.lake, id: p.id, uuid: p.Seen.Table}
	switch {
	case tbl.Metadata().TableUUID() != p.Seen.Table:
		p.Standing = Replaced
	default:
		p.Standing = Fits
		if err := t.checkHead(ctx, tbl, head{p.Seen.Sequence, p.Seen.Metadata}); err != nil {
			if _, ok := errors.AsType[*GoneBackError](err); !ok {
				return err
			}
			p.Standing, p.outgrown = WentBack, p.Have.Sequence >= p.Seen.Sequence
		}
	}
	return nil
}

func (l *Lake) stateOf(tbl *table.Table) (State, error) {
	info, err := l.info(tbl)
	meta := tbl.Metadata()
	return State{meta.LastSequenceNumber(), tbl.MetadataLocation(), info.Rows, time.UnixMilli(meta.LastUpdatedMillis())}, err
}

// find looks for the later state to set the catalog to: one that has what was seen, of those the newest, and it is whole.
func (p *Past) find(ctx context.Context) error {
	later, err := p.later(ctx)
	if err != nil {
		return err
	}
	if p.Seen.Table == uuid.Nil { // of tables that had the name one after the other the last one counts
		newest := int64(-1)
		for _, tbl := range later {
			if at := tbl.Metadata().LastUpdatedMillis(); at > newest {
				newest, p.Seen.Table = at, tbl.Metadata().TableUUID()
			}
		}
		later = slices.DeleteFunc(later, func(tbl *table.Table) bool { return tbl.Metadata().TableUUID() != p.Seen.Table })
	}
	slices.SortFunc(later, func(a, b *table.Table) int {
		return cmp.Or(compareBool(p.reaches(b), p.reaches(a)),
			cmp.Compare(b.Metadata().LastSequenceNumber(), a.Metadata().LastSequenceNumber()),
			cmp.Compare(versionOf(b), versionOf(a)), strings.Compare(a.MetadataLocation(), b.MetadataLocation()))
	})
	for _, tbl := range later {
		why, err := p.lake.incomplete(ctx, tbl)
		if err != nil {
			return err
		}
		if why != "" {
			p.unfit(tbl.MetadataLocation(), why)
			p.name(tbl)
			continue
		}
		state, err := p.lake.stateOf(tbl)
		if err != nil {
			return err
		}
		p.Forward, p.Reaches, p.best = &state, p.reaches(tbl), tbl
		return nil
	}
	return nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// later are the states of the table that followed on what the catalog shows, and those before one that is broken.
func (p *Past) later(ctx context.Context) ([]*table.Table, error) {
	files, err := p.metadataFiles()
	if err != nil {
		return nil, err
	}
	from, known := metadataVersion(p.Have.Metadata)
	var out []*table.Table
	for _, f := range files {
		v, ok := metadataVersion(f)
		later := ok && (!known || v > from || p.mayGoBack()) || f == p.Seen.Metadata || p.outgrown && !namesMetadata(p.have, f)
		if f == p.Have.Metadata || !later {
			continue
		}
		tbl, err := p.lake.stored(ctx, p.id, f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // removed since it was listed
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			p.unfit(f, fmt.Sprintf("it cannot be read: %v", err))
		case p.Seen.Table != uuid.Nil && tbl.Metadata().TableUUID() != p.Seen.Table: // of a table that had the name before
		case f == p.Seen.Metadata && tbl.Metadata().LastSequenceNumber() < p.Seen.Sequence:
			p.unfit(f, olderContent(f, p.Seen.Sequence, tbl.Metadata().LastSequenceNumber()))
		case p.outgrown && p.before(tbl): // left behind when the history did not name it any more
		case !p.follows(tbl) && !p.precedes(tbl):
			p.unfit(f, "it did not follow on what the catalog shows")
			p.name(tbl)
			p.part(tbl)
		default:
			out = append(out, tbl)
		}
	}
	return out, nil
}

// metadataFiles are those beside the ones that are known, without order.
func (p *Past) metadataFiles() ([]string, error) {
	out := map[string]struct{}{}
	for _, known := range []string{p.Have.Metadata, p.Seen.Metadata} {
		at := strings.LastIndexByte(known, '/')
		if at < 0 {
			continue
		}
		files, err := p.lake.metadataFilesIn(known[:at])
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			out[f] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(out)), nil
}

// stored is a state of a table as a metadata file has it, whatever the catalog says.
func (l *Lake) stored(ctx context.Context, id table.Identifier, metadata string) (*table.Table, error) {
	return table.NewFromLocation(ctx, id, metadata, func(context.Context) (iceio.IO, error) { return l.io, nil }, l.cat)
}

// follows tells whether a state came after the one that the catalog shows. Nothing that was committed to that one may be
// missing from it.
func (p *Past) follows(tbl *table.Table) bool {
	if p.Have.Metadata == "" || namesMetadata(tbl, p.Have.Metadata) {
		return true
	}
	if first, ok := firstVersion(tbl); !ok || versionOf(tbl) < 0 || first <= versionNumber(p.Have.Metadata) {
		return false // its history reaches back so far, and has another file there or none
	}
	// Its history begins later.
	if p.have == nil {
		return true // and the file is gone, as those are that a history names no more
	}
	snap := p.have.CurrentSnapshot()
	return snap == nil || tbl.Metadata().SnapshotByID(snap.SnapshotID) != nil
}

// reaches tells whether a state is the one that was seen, or came after it. One before a state that cannot be read any more never
// does: nobody knows what that had.
func (p *Past) reaches(tbl *table.Table) bool {
	if p.precedes(tbl) {
		return false
	}
	if namesMetadata(tbl, p.Seen.Metadata) {
		return true
	}
	first, ok := firstVersion(tbl)
	return ok && first > versionNumber(p.Seen.Metadata) && tbl.Metadata().LastSequenceNumber() >= p.Seen.Sequence
}

// firstVersion is the version of the oldest metadata file that a state names.
func firstVersion(tbl *table.Table) (int, bool) {
	first, ok := metadataVersion(tbl.MetadataLocation())
	for e := range tbl.Metadata().PreviousFiles() {
		if v, is := metadataVersion(e.MetadataFile); is && (!ok || v < first) {
			first, ok = v, true
		}
	}
	return first, ok
}

func versionOf(tbl *table.Table) int { return versionNumber(tbl.MetadataLocation()) }

// versionNumber is metadataVersion, -1 of a name that has none.
func versionNumber(location string) int {
	if v, ok := metadataVersion(location); ok {
		return v
	}
	return -1
}

func (p *Past) unfit(metadata, why string) { p.Unfit = append(p.Unfit, Unfit{metadata, why}) }

// name notes the segments that the record of a state names.
func (p *Past) name(tbl *table.Table) {
	rec, err := readProof(tbl.Metadata(), p.lake.now())
	if err != nil {
		p.unfit(tbl.MetadataLocation(), fmt.Sprintf("its record of segments cannot be read: %v", err))
		return
	}
	for id, rows := range rec.rows() {
		p.Named[id] = max(p.Named[id], rows)
	}
	if p.reaches(tbl) && (p.recorded < 0 || rec.coverage < p.recorded) {
		p.recorded = rec.coverage
	}
}

// Lookup is Table.Lookup in the state that Set makes the catalog show, without regard to what was seen. A table that has
// no state has no rows.
func (p *Past) Lookup(ctx context.Context, ids []string) (map[string]int64, error) {
	if p.best == nil {
		if p.Standing == Unlisted {
			return map[string]int64{}, nil
		}
		return nil, fmt.Errorf("look up %d segments in %s: the metadata file that the catalog names, %s, is gone", len(ids), p.Table, p.Have.Metadata)
	}
	rec, err := readProof(p.best.Metadata(), p.lake.now())
	if err != nil {
		return nil, fmt.Errorf("property %s of %s: %w", propProof, p.Table, err)
	}
	out, err := (&Table{lake: p.lake, id: p.id, uuid: p.Seen.Table}).committed(ctx, state{tbl: p.best, proof: rec}, ids)
	for _, id := range ids {
		if n := p.added[id]; err == nil && n > out[id] {
			out[id] = n
		}
	}
	return out, err
}
