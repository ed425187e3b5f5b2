package drain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// Verdict is what the table says of an orphan.
type Verdict string

// The verdicts.
const (
	InTable    Verdict = "committed" // all its rows are in the table
	PartlyIn   Verdict = "partly"    // the first of them
	NotInTable Verdict = "absent"    // none
	OtherTable Verdict = "stale"     // it was written for another incarnation of the table, which cannot be asked
	Undecided  Verdict = "unknown"   // the table or the segment cannot be read
	NotThere   Verdict = "gone"      // somebody moved it meanwhile
)

// Comparison is an orphan beside its table.
type Comparison struct {
	Lane  string
	Path  string
	ID    segment.ID
	Bytes int64
	Rows  int64     // in the segment
	For   uuid.UUID // the table that its header names; zero: none
	Table uuid.UUID // the lane's, as the catalog has it; zero: not known

	Shown   lake.Evidence
	Verdict Verdict
	Err     error // unknown: why
}

// Ask tells what the table of a lane shows of segments.
type Ask func(ctx context.Context, l segment.Lane, ids []string) (uuid.UUID, map[string]lake.Evidence, error)

// AskLake is Ask of a lake. A table that the catalog does not know has no rows.
//
//	errors  as Committed: anything means "not known"
func AskLake(l *lake.Lake, root *segment.Root) Ask {
	return func(ctx context.Context, of segment.Lane, ids []string) (uuid.UUID, map[string]lake.Evidence, error) {
		lanes, err := lanesOf(root, of.Tenant(), of.Index())
		if err != nil {
			return uuid.Nil, nil, err
		}
		seen, err := seenOf(lanes)
		if err != nil {
			return uuid.Nil, nil, err
		}
		table, found, err := l.Evidence(ctx, of.Tenant(), of.Index(), seen, ids)
		if errors.Is(err, lake.ErrNoTable) && seen.Table == uuid.Nil {
			return uuid.Nil, nil, nil
		}
		return table, found, err
	}
}

// CompareOrphans reads orphans whole and asks their tables how many of their rows they have, those of a lane at once. It
// changes nothing and runs beside a drain.
//
//	return  one for each orphan found; ids that have no name in orphans/ are left out
//	errors  segment.ErrNotRoot; trouble with the directory. That of a segment or a table is in its comparison
//	ctx     ends it
func CompareOrphans(ctx context.Context, c Selection, ask Ask) ([]Comparison, error) {
	c.From, c.DryRun = segment.Orphans, true
	found, done, err := c.open()
	if err != nil {
		return nil, err
	}
	out, err := c.compare(ctx, found, ask)
	return out, errors.Join(err, done())
}

// compare reads all first, so that each table is looked through once.
func (c Selection) compare(ctx context.Context, found []aside, ask Ask) ([]Comparison, error) {
	out := make([]Comparison, 0, len(found))
	err := c.each(ctx, found, func(p aside) (int64, error) {
		cmp, err := c.look(p)
		out = append(out, cmp)
		return cmp.Bytes, err
	})
	if err != nil {
		return nil, err
	}
	for from := 0; from < len(found); {
		to := from
		for to < len(found) && found[to].lane == found[from].lane {
			to++
		}
		judge(ctx, found[from].lane, out[from:to], ask)
		from = to
	}
	return out, ctx.Err()
}

// look reads one orphan. The error is for trouble that is not the segment's own.
func (c Selection) look(p aside) (Comparison, error) {
	out := Comparison{Lane: p.lane.Key(), Path: p.path(), ID: p.entry.ID}
	f, size, err := c.openAside(p)
	if errors.Is(err, fs.ErrNotExist) {
		out.Verdict = NotThere
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	out.Bytes = size
	seg, _, err := decode(f, size, p.entry.ID)
	switch {
	case err == nil:
		out.Rows, out.For = seg.Rows, seg.Header.Table
		seg.Release()
	case newer(err), damaged(err):
		out.Verdict, out.Err = Undecided, err
	default:
		return out, err
	}
	return out, nil
}

// judge asks the table of a lane about its orphans.
func judge(ctx context.Context, l segment.Lane, orphans []Comparison, ask Ask) {
	var ids []string
	for _, o := range orphans {
		if o.Verdict == "" {
			ids = append(ids, o.ID.String())
		}
	}
	if len(ids) == 0 {
		return
	}
	table, found, err := ask(ctx, l, ids)
	for i := range orphans {
		o := &orphans[i]
		if o.Verdict != "" {
			continue
		}
		o.Table, o.Shown = table, found[o.ID.String()]
		switch {
		case err != nil:
			o.Verdict, o.Err = Undecided, fmt.Errorf("the table cannot be asked: %w", err)
		case o.For != uuid.Nil && o.For != table:
			o.Verdict = OtherTable
		case o.Shown.Committed >= o.Rows:
			o.Verdict = InTable
		case o.Shown.Committed > 0:
			o.Verdict = PartlyIn
		default:
			o.Verdict = NotInTable
		}
	}
}
