package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/drain"
)

// orphansReport is the report of orphans compare and orphans delete.
type orphansReport struct {
	DryRun    bool           `json:"dry_run"`
	Orphans   []orphanReport `json:"orphans"`
	Elsewhere []elsewhere    `json:"elsewhere"` // named, and not in orphans/: nothing to do

	a *app
}

type orphanReport struct {
	Lane     string `json:"lane"`
	ID       string `json:"id"`
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Rows     int64  `json:"rows"`            // in the segment
	For      string `json:"for,omitempty"`   // UUID of the table that the segment names
	Table    string `json:"table,omitempty"` // UUID of the lane's table
	InProof  *int64 `json:"proof_rows"`      // rows that the table's record says it has; null: it does not know the segment
	Counted  int64  `json:"counted_rows"`    // rows in the table's files now
	InTable  int64  `json:"committed_rows"`  // of them rows [0, n) count as committed
	Verdict  string `json:"verdict"`         // committed, partly, absent, stale, unknown, gone
	Fate     string `json:"fate,omitempty"`  // delete: committed (it is in committed/ now), discarded, refused, gone
	Error    string `json:"error,omitempty"` // unknown: why
	NextStep string `json:"next,omitempty"`  // what to do
}

func (r *orphansReport) add(done []drain.Disposal) {
	for _, d := range done {
		o := orphanReport{
			Lane: d.Lane, ID: d.ID.String(), Path: d.Path, Bytes: d.Bytes, Rows: d.Rows, Counted: d.Shown.Rows, InTable: d.Shown.Committed,
			Verdict: string(d.Verdict), Fate: string(d.Fate),
		}
		if d.Shown.Proved {
			o.InProof = &d.Shown.Committed
		}
		for _, u := range []struct {
			to *string
			of uuid.UUID
		}{{&o.For, d.For}, {&o.Table, d.Table}} {
			if u.of != uuid.Nil {
				*u.to = u.of.String()
			}
		}
		if d.Err != nil {
			o.Error = d.Err.Error()
		}
		o.NextStep = r.next(d)
		r.Orphans = append(r.Orphans, o)
	}
}

// next says what to do about an orphan.
func (r *orphansReport) next(d drain.Disposal) string {
	if d.Fate != "" && d.Fate != drain.Refused {
		return ""
	}
	switch id := d.ID.String(); d.Verdict {
	case drain.InTable:
		return r.a.next("orphans", "delete", id)
	case drain.PartlyIn, drain.NotInTable:
		return r.a.next("orphans", "requeue", id)
	case drain.OtherTable:
		return "the next drain sets it aside in stale/; then " + r.a.next("stale", "list")
	case drain.Undecided, drain.NotThere:
	}
	return ""
}

func (r *orphansReport) count(of func(*orphanReport) bool) (n int) {
	for i := range r.Orphans {
		if of(&r.Orphans[i]) {
			n++
		}
	}
	return n
}

// verdict turns what is not decided, or not done, into an error.
func (r *orphansReport) verdict() error {
	if n := r.count(func(o *orphanReport) bool { return o.Fate == string(drain.Refused) }); n > 0 {
		return damageError("%s refused and left in orphans/", plural(n, "segment", "segments"))
	}
	if n := r.count(func(o *orphanReport) bool { return o.Fate == "" && o.Verdict == string(drain.Undecided) }); n > 0 {
		return damageError("%s cannot be compared", plural(n, "segment", "segments"))
	}
	return nil
}

func (r *orphansReport) write(w io.Writer) error {
	var b strings.Builder
	for i := range r.Orphans {
		r.Orphans[i].write(&b)
	}
	for _, e := range r.Elsewhere {
		fmt.Fprintf(&b, "%-9s %s: it is in %s/, nothing to do\n", "elsewhere", e.Path, e.State)
	}
	if len(r.Orphans) == 0 && len(r.Elsewhere) == 0 {
		b.WriteString("No segments in orphans/.\n")
	}
	for _, line := range []struct {
		fate      drain.Fate
		done, dry string
	}{
		{drain.Marked, "to committed/: all their rows are in their tables", "would go to committed/; nothing was changed"},
		{drain.Discarded, "deleted, with the rows that no table has", "would be deleted; nothing was changed"},
	} {
		n := r.count(func(o *orphanReport) bool { return o.Fate == string(line.fate) })
		if n == 0 {
			continue
		}
		text := line.done
		if r.DryRun {
			text = line.dry
		}
		fmt.Fprintf(&b, "%s %s\n", plural(n, "segment", "segments"), text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (o *orphanReport) write(b *strings.Builder) {
	word := o.Fate
	if word == "" {
		word = o.Verdict
	}
	fmt.Fprintf(b, "%-9s %s", word, o.Path)
	switch drain.Verdict(o.Verdict) {
	case drain.NotThere:
		b.WriteString(": somebody has moved it meanwhile")
	case drain.Undecided:
		fmt.Fprintf(b, ": %s", oneLine(o.Error))
	case drain.OtherTable:
		fmt.Fprintf(b, ": %s, written for table %s; the lane's table is %s now", plural(int(o.Rows), "row", "rows"), o.For, orNone(o.Table))
	case drain.InTable, drain.PartlyIn, drain.NotInTable:
		proof := "does not know it"
		if o.InProof != nil {
			proof = "says " + humanCount(*o.InProof)
		}
		fmt.Fprintf(b, ": of %s rows the table has %s (its proof %s; counted in its files: %s)", humanCount(o.Rows), humanCount(o.InTable),
			proof, humanCount(o.Counted))
	}
	if o.NextStep != "" {
		fmt.Fprintf(b, "\n          %s", o.NextStep)
	}
	b.WriteByte('\n')
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
