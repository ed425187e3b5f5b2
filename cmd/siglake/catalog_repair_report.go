package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/mirror"
)

// repairReport is the report of catalog-repair.
type repairReport struct {
	Applied    bool             `json:"applied"`
	NoCatalog  bool             `json:"no_catalog"` // it was, or would be, made
	Tables     []repairedTable  `json:"tables"`     // those that do not fit
	Formers    []formerTable    `json:"formers"`    // tables that this log was committed to before, and that the catalog does not have
	Unreadable []mirror.Finding `json:"unreadable"` // objects of the mirror that no segment can be read from
}

// formerTable is one that a lane was bound to before the catalog showed another one of its name.
type formerTable struct {
	Lane string        `json:"lane"`
	UUID string        `json:"uuid"`
	Seen repairedState `json:"seen"`
}

type repairedTable struct {
	Lane     string         `json:"lane"`
	Table    string         `json:"table"`
	Standing string         `json:"standing"`
	Seen     repairedState  `json:"seen"`             // what was committed to from this log
	Catalog  *repairedState `json:"catalog"`          // what the catalog showed; null: it does not have the table
	Broken   string         `json:"broken,omitempty"` // the metadata file of that is gone, or damaged
	// SetTo is what the catalog is, or would be, set to; null: it stays.
	SetTo       *repairedState  `json:"set_to"`
	Unfit       []unfitMetadata `json:"unfit"` // later metadata files that it cannot be set to
	Files       []strayFile     `json:"files"` // data files that no metadata file names to which it can be set
	Requeued    []repairedPart  `json:"requeued"`
	Restored    []repairedPart  `json:"restored"`
	SetAside    int             `json:"set_aside"` // segments of a table made meanwhile, in stale/
	Lost        []repairedPart  `json:"lost"`
	LostRows    int64           `json:"lost_rows"`
	Doubt       string          `json:"doubt,omitempty"` // why more may be missing than is named
	Resumed     bool            `json:"resumed"`
	Error       string          `json:"error,omitempty"`
	added       int
	addedRows   int64
	requeueRows int64
	restoreRows int64
	failed      bool // of the catalog or the warehouse, which may answer the next time
}

type repairedState struct {
	Sequence int64      `json:"sequence"`
	Metadata string     `json:"metadata"`
	Rows     *int64     `json:"rows,omitempty"`
	Changed  *time.Time `json:"changed,omitempty"`
}

type strayFile struct {
	Path string `json:"path"`
	Rows int64  `json:"rows"`          // that the table lacks
	Why  string `json:"why,omitempty"` // it is not added
}

type unfitMetadata struct {
	Metadata string `json:"metadata"`
	Why      string `json:"why"`
}

func newState(s lake.State) *repairedState {
	out := &repairedState{Sequence: s.Sequence, Metadata: s.Metadata}
	if !s.Changed.IsZero() {
		at := s.Changed.UTC()
		out.Rows, out.Changed = &s.Rows, &at
	}
	return out
}

func (s repairedState) String() string {
	if s.Sequence == 0 && s.Changed == nil {
		return s.Metadata
	}
	if s.Changed == nil {
		return fmt.Sprintf("sequence %d, %s", s.Sequence, s.Metadata)
	}
	return fmt.Sprintf("sequence %d, %s, %s, %s", s.Sequence, plural(int(*s.Rows), "row", "rows"), humanTime(*s.Changed), s.Metadata)
}

func (r *repairReport) add(done []*drain.TableRepair) {
	for _, t := range done {
		out := repairedTable{
			Lane: t.Tenant + "/" + t.Index, Table: t.Table, Standing: string(t.Standing), Doubt: t.Doubt, Resumed: t.Resumed, Broken: t.Broken,
			Seen: repairedState{Sequence: t.Seen.Sequence, Metadata: t.Seen.Metadata}, Unfit: []unfitMetadata{}, Files: []strayFile{},
		}
		if t.Before.Metadata != "" {
			out.Catalog = newState(t.Before)
		}
		if t.Forward != nil {
			out.SetTo = newState(*t.Forward)
		}
		for _, u := range t.Unfit {
			out.Unfit = append(out.Unfit, unfitMetadata(u))
		}
		for _, f := range t.Strays {
			out.Files = append(out.Files, strayFile(f))
			if f.Why == "" {
				out.added++
				out.addedRows += f.Rows
			}
		}
		out.Requeued, out.requeueRows = newParts(t.Requeue)
		out.Restored, out.restoreRows = newParts(t.Restore)
		out.SetAside = t.Aside
		out.Lost, out.LostRows = newParts(t.Lost)
		if t.Err != nil {
			out.Error = t.Err.Error()
			out.failed = !errors.Is(t.Err, drain.ErrNoRepair) && !errors.Is(t.Err, lake.ErrRepoint)
		}
		r.Tables = append(r.Tables, out)
	}
}

func (r *repairReport) write(w io.Writer) error {
	var b strings.Builder
	if r.NoCatalog && r.Applied {
		b.WriteString("There was no catalog. It was made.\n")
	} else if r.NoCatalog {
		b.WriteString("There is no catalog. It would be made.\n")
	}
	if len(r.Tables) == 0 {
		b.WriteString("Every table of the catalog is as new as what was committed from this log. Nothing to do.\n")
	}
	for i := range r.Tables {
		r.Tables[i].write(&b, r.Applied)
	}
	for _, f := range r.Formers {
		fmt.Fprintf(&b, "%s was committed to another table before, %s, last %s: the catalog does not have that one. Nothing to do if somebody dropped it, or a collector "+
			"made it by mistake on an empty catalog; if it is the one with your rows, restore the catalog that has it and run this again (docs/operations/disaster-recovery.md)\n", f.Lane, f.UUID, f.Seen)
	}
	for _, f := range r.Unreadable {
		fmt.Fprintf(&b, "unreadable: %s: %s\n", f.Key, oneLine(f.Reason))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *repairedTable) write(b *strings.Builder, applied bool) {
	fmt.Fprintf(b, "%s, table %s: %s\n", t.Lane, t.Table, t.standing())
	if t.Seen.Metadata != "" {
		fmt.Fprintf(b, "  committed from here  %s\n", t.Seen)
	}
	if t.Catalog != nil {
		broken := ""
		if t.Broken != "" {
			broken = ", which is " + t.Broken
		}
		fmt.Fprintf(b, "  catalog shows        %s%s\n", t.Catalog, broken)
	}
	for _, u := range t.Unfit {
		fmt.Fprintf(b, "  not to be used       %s: %s\n", u.Metadata, oneLine(u.Why))
	}
	verb := "would be "
	if applied {
		verb = ""
	}
	if t.SetTo != nil {
		fmt.Fprintf(b, "  %sset to %s\n", verb, t.SetTo)
	}
	if t.added > 0 {
		fmt.Fprintf(b, "  %sadded to the table: %s, %s\n", verb, plural(t.added, "data file", "data files"), plural(int(t.addedRows), "row", "rows"))
	}
	for _, f := range t.Files {
		if f.Why != "" {
			fmt.Fprintf(b, "  not added            %s: %s: %s\n", f.Path, plural(int(f.Rows), "row", "rows"), oneLine(f.Why))
		}
	}
	if n := len(t.Requeued); n > 0 {
		fmt.Fprintf(b, "  %srequeued from committed/: %s, %s\n", verb, plural(n, "segment", "segments"), plural(int(t.requeueRows), "row", "rows"))
	}
	if n := len(t.Restored); n > 0 {
		fmt.Fprintf(b, "  %srestored from the mirror: %s, %s\n", verb, plural(n, "segment", "segments"), plural(int(t.restoreRows), "row", "rows"))
	}
	if t.SetAside > 0 {
		fmt.Fprintf(b, "  %sset aside in stale/: %s of the table that was made meanwhile\n", verb, plural(t.SetAside, "segment", "segments"))
	}
	for _, p := range t.Lost {
		fmt.Fprintf(b, "  LOST %s: %s\n", p.Segment, plural(int(p.Rows), "row", "rows"))
	}
	if t.Doubt != "" {
		fmt.Fprintf(b, "  more may be missing: %s\n", t.Doubt)
	}
	switch {
	case t.Error != "":
		fmt.Fprintf(b, "  left as it is: %s\n", t.Error)
	case t.Resumed:
		b.WriteString("  goes on: the next drain commits to it again\n")
	case applied:
		b.WriteString("  stays stopped\n")
	case len(t.Lost) > 0 || t.Doubt != "":
		b.WriteString("  would stay stopped\n")
	}
}

func (t *repairedTable) standing() string {
	switch t.Standing {
	case "":
		return "not known"
	case string(lake.Fits):
		return "fits, and the log is bound to a table that was made meanwhile"
	}
	return t.Standing
}

// repairVerdict turns what is missing into an error.
func (a *app) repairVerdict(r *repairReport, f repairFlags) error {
	var lost int64
	var failed, left, missing int
	for i := range r.Tables {
		t := &r.Tables[i]
		lost += t.LostRows
		switch {
		case t.failed:
			failed++
		case t.Error != "":
			left++
		case len(t.Lost) > 0 || t.Doubt != "":
			missing++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%s not looked at or not repaired; run it again", plural(failed, "table", "tables"))
	case left > 0:
		return damageError("%s cannot be repaired as things are", plural(left, "table", "tables"))
	case missing > 0:
		hint := "bring the files back and run it again, or let " + agree(missing, "it", "them") + " go on without: " +
			a.next("catalog-repair", "--apply", "--accept-loss")
		if f.mirror == "" {
			hint = "name the --mirror, if there is one; " + hint
		}
		if f.acceptLoss {
			hint = "accepted"
		}
		return damageError("%s of %s known to be lost, and more may be; %s", plural(int(lost), "row", "rows"), plural(missing, "table", "tables"), hint)
	}
	return nil
}
