package main

import (
	"cmp"
	"context"
	"fmt"
	"path"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// kindBudget bounds how many sealed segments of a lane status asks for the signal of their rows, from the oldest on: those that
// no commit takes are there.
const kindBudget = 100

// adviseKinds tells of sealed segments whose rows are of another signal than their table's, which no drain commits there, and of
// user indexes for which the exporter takes the signal that the table does not.
func (a *app) adviseKinds(ctx context.Context, root *segment.Root, tables []tableStatus) (out []advice, err error) {
	signals := map[string]string{}
	for _, t := range tables {
		signals[t.Namespace+"."+t.Name] = t.Signal
	}
	lanes, _, err := root.Lanes()
	if err != nil {
		return nil, err
	}
	for _, l := range lanes {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		table := lake.NamespaceOf(l.Tenant()) + "." + l.Index()
		has, is := signals[table], segment.KindOfIndex(l.Index())
		want := cmp.Or(is, has)
		switch {
		case want == "":
			continue // there is no table: the first commit makes it
		case has != "" && has != want:
			out = append(out, advice{What: fmt.Sprintf("table %s has %s, and the index %s is of %s: the first segment that was committed there was in the wrong index, and those of %s wait in the log; "+
				"rename the table to that of an index of %s, and the drain makes the right one", table, has, l.Key(), want, want, has)})
			continue
		}
		if have, err := l.Holds(); err == nil && have != "" && have != want {
			out = append(out, advice{What: fmt.Sprintf("%s takes %s and refuses %s for good (400), and its table %s has %s: write %s and a line feed into %s while the collector is stopped, "+
				"after what is in sealed/ with rows of %s has been moved away (docs/operations/damaged-segments.md)",
				l.Key(), have, want, table, want, want, path.Join(l.Key(), "holds"), have)})
		}
		wrong, kind, err := wrongKinds(l, want)
		if err != nil {
			return nil, err
		}
		if len(wrong) > 0 {
			out = append(out, advice{
				What: fmt.Sprintf("%s of %s in sealed/ with rows of %s, and its table %s has %s: %s not committed there; the table is right, keep it, and move the %s to an index of %s "+
					"(docs/operations/damaged-segments.md): %s", plural(len(wrong), "segment", "segments"), l.Key(), kind, table, want,
					agree(len(wrong), "it is", "they are"), agree(len(wrong), "segment", "segments"), kind, some(wrong)),
				Command: a.next("wal", "inspect", wrong[0]),
			})
		}
	}
	return out, nil
}

// wrongKinds are the ids of sealed segments of a lane whose rows are not what they should be, and what those of the first are.
func wrongKinds(l segment.Lane, want string) (ids []string, is string, err error) {
	entries, _, err := l.List(segment.Sealed)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries[:min(len(entries), kindBudget)] {
		kind, err := l.Kind(segment.Sealed, e)
		if err != nil {
			return nil, "", err
		}
		if kind != "" && kind != want {
			ids, is = append(ids, e.ID.String()), cmp.Or(is, kind)
		}
	}
	return ids, is, nil
}
