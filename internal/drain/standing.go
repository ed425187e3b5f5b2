package drain

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// Standings holds the catalog against what was committed from a root, and returns the tables that do not fit, in the order of
// their lanes. It changes nothing, takes no lock, and may run beside a drain.
//
//	return  what was found, also beside an error
//	errors  tables that could not be asked
//	ctx     ends it
func Standings(ctx context.Context, l *lake.Lake, root *segment.Root) (out []*lake.Past, err error) {
	tables, err := committedTo(root)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(tables)) {
		of := tables[key]
		if of.err != nil {
			errs = append(errs, of.err)
			continue
		}
		p, err := l.Compare(ctx, of.lanes[0].Tenant(), of.lanes[0].Index(), of.seen)
		switch {
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case err != nil:
			errs = append(errs, err)
		case p.Standing != lake.Fits:
			out = append(out, p)
		}
	}
	return out, errors.Join(errs...)
}

// bound are the lanes of one table.
type bound struct {
	lanes []segment.Lane
	seen  lake.Seen
	err   error // why that is not known
}

// committedTo are the tables that were committed to from a root, by tenant/index.
func committedTo(root *segment.Root) (map[string]*bound, error) {
	lanes, _, err := root.Lanes()
	if err != nil {
		return nil, err
	}
	out := map[string]*bound{}
	for _, l := range lanes {
		if out[l.Key()] == nil {
			out[l.Key()] = &bound{}
		}
		out[l.Key()].lanes = append(out[l.Key()].lanes, l)
	}
	for key, of := range out {
		if of.seen, of.err = seenOf(of.lanes); of.err == nil && of.seen.Table == uuid.Nil {
			delete(out, key)
		}
	}
	return out, nil
}
