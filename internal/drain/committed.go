package drain

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// Committed tells how many rows of each segment the table of tenant and index has now: rows [0, n). An id that is
// missing from the result has none, nor has any in a table that is missing, which is not made.
//
//	errors  anything means "not known", never "not committed": the table is another than the root's lane is bound to, or
//	        shows less than was committed to it from there (a catalog that went back)
func Committed(ctx context.Context, l *lake.Lake, root *segment.Root, tenant, index string, ids []segment.ID) (map[segment.ID]int64, error) {
	lanes, err := lanesOf(root, tenant, index)
	if err != nil {
		return nil, err
	}
	seen, err := seenOf(lanes)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	found, err := l.Committed(ctx, tenant, index, seen, names)
	if err != nil && !errors.Is(err, lake.ErrNoTable) {
		return nil, fmt.Errorf("look up %d segments: %w", len(ids), err)
	}
	out := make(map[segment.ID]int64, len(found))
	for i, id := range ids {
		if n, ok := found[names[i]]; ok {
			out[id] = n
		}
	}
	return out, nil
}

// Seen is the newest state of the table of tenant and index that was committed to from this root; zero if it has no such
// lane.
func Seen(root *segment.Root, tenant, index string) (lake.Seen, error) {
	lanes, err := lanesOf(root, tenant, index)
	if err != nil {
		return lake.Seen{}, err
	}
	return seenOf(lanes)
}

// lanesOf are the lanes of one table: a legacy lane and the one beside it share one.
func lanesOf(root *segment.Root, tenant, index string) (of []segment.Lane, err error) {
	lanes, _, err := root.Lanes()
	for _, l := range lanes {
		if l.Tenant() == tenant && l.Index() == index {
			of = append(of, l)
		}
	}
	return of, err
}

// formersOf are the newest states of other tables that the lanes were bound to.
func formersOf(lanes []segment.Lane) (map[uuid.UUID]lake.Seen, error) {
	out := map[uuid.UUID]lake.Seen{}
	for _, l := range lanes {
		heads, err := l.Formers()
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			if h.Sequence >= out[h.Table].Sequence {
				out[h.Table] = lake.Seen(h)
			}
		}
	}
	return out, nil
}

// seenOf is the newest state of a table that was committed to from its lanes; zero if there is none.
func seenOf(lanes []segment.Lane) (lake.Seen, error) {
	var newest lake.Seen
	for _, l := range lanes {
		head, ok, err := l.Head()
		if err != nil {
			return lake.Seen{}, err
		}
		if !ok {
			continue
		}
		if newest.Table != uuid.Nil && newest.Table != head.Table {
			return lake.Seen{}, errors.New("two lanes of one table are bound to different incarnations of it")
		}
		if head.Sequence >= newest.Sequence {
			newest = lake.Seen{Table: head.Table, Sequence: head.Sequence, Metadata: head.Metadata}
		}
	}
	return newest, nil
}
