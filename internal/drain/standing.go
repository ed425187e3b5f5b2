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
	errs := []error{danglingOf(ctx, l, root, tables)}
	for _, key := range slices.Sorted(maps.Keys(tables)) {
		of := tables[key]
		if of.err != nil {
			errs = append(errs, of.err)
			continue
		}
		p, err := of.ask(ctx, l.Compare)
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

// Committing tells whether anything was ever committed from a root.
func Committing(root *segment.Root) (bool, error) {
	tables, err := committedTo(root)
	return len(tables) > 0, err
}

// bound are the lanes of one table.
type bound struct {
	tenant, index string
	lanes         []segment.Lane // none: of a table that was not committed to
	seen          lake.Seen
	err           error // why that is not known
	// formers are newest states of other tables that the lanes were bound to.
	formers map[uuid.UUID]lake.Seen
}

// ask holds the catalog against what was seen: of the table that the lanes are bound to, and where it has one that they were bound
// to before, of that one.
func (b *bound) ask(
	ctx context.Context, compare func(ctx context.Context, tenant, index string, seen lake.Seen) (*lake.Past, error),
) (*lake.Past, error) {
	tenant, index := b.tenant, b.index
	p, err := compare(ctx, tenant, index, b.seen)
	if err != nil || p.Standing == lake.Fits {
		return p, err
	}
	for of, seen := range b.formers {
		lost := p.Standing == lake.WentBack && p.Shown == uuid.Nil // whose state the catalog names is not known
		if of != p.Shown && !lost {
			continue
		}
		q, err := compare(ctx, tenant, index, seen)
		if err != nil || !lost || q.Reaches && !p.Reaches {
			return q, err
		}
	}
	return p, nil
}

// danglingOf adds the tables of the catalog whose metadata file is gone and that no lane remembers.
func danglingOf(ctx context.Context, l *lake.Lake, root *segment.Root, tables map[string]*bound) error {
	found, err := l.Dangling(ctx, func(tenant, index string) bool { return tables[tenant+"/"+index] == nil })
	for _, t := range found {
		of := &bound{tenant: t[0], index: t[1]}
		of.lanes, of.err = lanesOf(root, t[0], t[1])
		tables[t[0]+"/"+t[1]] = of
	}
	return err
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
			out[l.Key()] = &bound{tenant: l.Tenant(), index: l.Index()}
		}
		out[l.Key()].lanes = append(out[l.Key()].lanes, l)
	}
	for key, of := range out {
		if of.seen, of.err = seenOf(of.lanes); of.err == nil && of.seen.Table == uuid.Nil {
			delete(out, key)
		} else if of.err == nil {
			of.formers, of.err = formersOf(of.lanes)
		}
	}
	return out, nil
}
