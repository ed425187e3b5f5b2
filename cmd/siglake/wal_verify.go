package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/segment"
)

func newWALVerify(a *app) *cobra.Command {
	var f filter
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Decode every segment and name what is damaged",
		Long: `Check every segment of the write-ahead log: header, lengths, CRCs, columns. Prints what is not in order, one line
each, and a summary. A torn tail of an open or PARTIAL segment is reported and is no damage. A gap is a run of sequence
numbers of one writer of which no segment is there and none was retired: they were removed or lost.

Exits 3 when something is damaged or missing, 1 when segments of a newer format could not be checked.`,
		Example: "  siglake wal verify\n  siglake wal verify --lane default/events --state sealed -o json",
		Args:    args(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.walVerify(cmd.Context(), cmd.OutOrStdout(), f) },
	}
	a.filterFlags(cmd, &f)
	a.outputFlag(cmd, "text", "json")
	return cmd
}

// verified is the result of a verification.
type verified struct {
	Segments int         `json:"segments"`
	Bytes    int64       `json:"bytes"`
	Rows     int64       `json:"rows"`
	Gone     int         `json:"gone"` // moved on and retired while it was their turn
	Torn     int         `json:"torn"`
	Empty    int         `json:"empty"`
	Newer    int         `json:"newer_format"`
	Damaged  int         `json:"damaged"`
	Findings []inspected `json:"findings"` // all that are not in order
	Gaps     []laneGap   `json:"gaps"`     // not looked for in single states
}

// laneGap is a gap and where it is.
type laneGap struct {
	Lane string `json:"lane"`
	segment.Gap
}

func (a *app) walVerify(ctx context.Context, w io.Writer, f filter) error {
	root, err := a.openRoot()
	if err != nil {
		return err
	}
	v, err := a.verifyRoot(ctx, root, f)
	if err != nil {
		return err
	}
	unknown := v.findGaps(root, f)
	if a.output == "json" {
		err = writeJSON(w, v)
	} else {
		err = v.write(w)
	}
	switch {
	case err != nil:
		return err
	case v.Damaged > 0 && len(v.Gaps) > 0:
		return damageError("%s damaged, %s in the sequence numbers", plural(v.Damaged, "segment", "segments"), plural(len(v.Gaps), "gap", "gaps"))
	case v.Damaged > 0:
		return damageError("%s damaged", plural(v.Damaged, "segment", "segments"))
	case len(v.Gaps) > 0:
		return damageError("%s in the sequence numbers", plural(len(v.Gaps), "gap", "gaps"))
	case v.Newer > 0:
		return fmt.Errorf("%s of a newer format not checked", plural(v.Newer, "segment", "segments"))
	}
	return unknown
}

func (a *app) verifyRoot(ctx context.Context, root *segment.Root, f filter) (verified, error) {
	v := verified{Findings: []inspected{}, Gaps: []laneGap{}}
	places, err := f.places(ctx, root)
	if err != nil {
		return v, err
	}
	bar := progress{w: a.stderr, on: a.terminal, now: a.now, text: "verified %d of %d segments, %s", total: len(places)}
	defer bar.clear()
	seen := map[segment.ID]bool{}
	for i, p := range places {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		bar.draw(i, v.Bytes)
		if p.state != segment.Poison { // which may hold several unlike copies of one id
			if seen[p.entry.ID] {
				continue // it moved on between two listings
			}
			seen[p.entry.ID] = true
		}
		in, err := a.inspect(p)
		if errors.Is(err, errGone) {
			v.Gone++
			continue
		}
		if err != nil {
			return v, err
		}
		v.add(in)
	}
	return v, nil
}

// findGaps looks for missing sequence numbers, which takes all states of a lane. The error names the first lane of
// which they are not known.
func (v *verified) findGaps(root *segment.Root, f filter) error {
	if f.state != "" {
		return nil
	}
	lanes, _, err := f.lanes(root)
	if err != nil {
		return err
	}
	var first error
	for _, lane := range lanes {
		gaps, err := lane.Gaps()
		if first == nil && err != nil {
			first = fmt.Errorf("look for gaps: %w", err)
		}
		for _, g := range gaps {
			v.Gaps = append(v.Gaps, laneGap{lane.Key(), g})
		}
	}
	return first
}

func (v *verified) add(in inspected) {
	v.Segments++
	v.Bytes += in.Bytes
	v.Rows += in.Rows
	switch in.Check {
	case checkOK:
		return
	case checkTorn:
		v.Torn++
	case checkEmpty:
		v.Empty++
		if in.State == string(segment.Active) {
			return // the next group fills it
		}
	case checkNewer:
		v.Newer++
	case checkDamaged:
		v.Damaged++
	}
	v.Findings = append(v.Findings, in)
}

func (v *verified) write(w io.Writer) error {
	for _, in := range v.Findings {
		text := in.Error
		if in.Check == checkTorn {
			text = fmt.Sprintf("%s bytes behind %s rows", humanCount(in.TailDropped), humanCount(in.Rows))
		}
		if in.Note != "" {
			text += " (set aside: " + oneLine(in.Note) + ")"
		}
		if _, err := fmt.Fprintf(w, "%-12s %s: %s\n", in.Check, in.Path, text); err != nil {
			return err
		}
	}
	for _, g := range v.Gaps {
		if _, err := fmt.Fprintf(w, "%-12s %s: %s\n", "missing", g.Lane, g.Gap); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s, %s, %s rows: %d damaged, %d torn, %d of a newer format, %s\n",
		plural(v.Segments, "segment", "segments"), humanBytes(v.Bytes), humanCount(v.Rows), v.Damaged, v.Torn, v.Newer,
		plural(len(v.Gaps), "gap", "gaps"))
	return err
}

// progress draws one line on a terminal, a few times a second.
type progress struct {
	w     io.Writer
	on    bool
	now   func() time.Time
	text  string // a format of done, total and a size
	total int
	last  time.Time
}

func (p *progress) draw(done int, size int64) {
	if now := p.now(); p.on && now.Sub(p.last) >= 200*time.Millisecond {
		p.last = now
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K"+p.text, done, p.total, humanBytes(size)) // an ornament
	}
}

func (p *progress) clear() {
	if p.on {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K") // an ornament
	}
}
