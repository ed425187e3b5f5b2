package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// requeueReport is the report of the commands that put segments back into sealed/.
type requeueReport struct {
	DryRun    bool              `json:"dry_run"`
	Segments  []requeuedSegment `json:"segments"`
	Elsewhere []elsewhere       `json:"elsewhere"` // named, and not where the command looks: nothing to do

	from segment.State
}

type requeuedSegment struct {
	Lane    string `json:"lane"`
	ID      string `json:"id"`
	Path    string `json:"path"`
	Fate    string `json:"fate"` // requeued, salvaged, refused, gone
	Bytes   int64  `json:"bytes"`
	Note    string `json:"note"`    // why it was set aside
	Rows    int64  `json:"rows"`    // back in sealed/; refused: what --salvage would bring back
	Batches int    `json:"batches"` // the same
	// What is not, and would not be, brought back. The rows of what is damaged nobody knows.
	LostBytes    int64  `json:"lost_bytes"`
	SoundBatches int    `json:"lost_sound_batches"`
	SoundRows    int64  `json:"lost_sound_rows"`
	Original     string `json:"original,omitempty"` // salvaged: where the damaged segment is kept
	Error        string `json:"error,omitempty"`    // refused: why; salvaged: what is wrong behind the rows
	Next         string `json:"next,omitempty"`     // refused: what to do
}

func (r *requeueReport) add(done []drain.Requeue) {
	for _, d := range done {
		s := requeuedSegment{
			Lane: d.Lane, ID: d.ID.String(), Path: d.Path, Fate: string(d.Fate), Bytes: d.Bytes, Note: d.Note, Rows: d.Rows,
			Batches: d.Batches, LostBytes: d.LostBytes, SoundBatches: d.LostBatches, SoundRows: d.LostRows, Original: d.Kept,
		}
		if d.Err != nil {
			s.Error = d.Err.Error()
		}
		if d.Fate == drain.Refused {
			s.Next = nextOf(d, &s, r.from)
		}
		r.Segments = append(r.Segments, s)
	}
}

// nextOf says what to do about a segment that is refused.
func nextOf(d drain.Requeue, s *requeuedSegment, from segment.State) string {
	switch {
	case errors.Is(d.Err, drain.ErrOtherTable):
		return "name the table of " + d.Lane
	case errors.Is(d.Err, drain.ErrDamaged) && from == segment.Orphans:
		return "the next drain sets it aside in poison/; then see siglake wal-requeue --help"
	case errors.Is(d.Err, drain.ErrDamaged) && from == segment.Stale:
		return "look for a whole copy (the mirror, a backup), and put it in its place"
	case errors.Is(d.Err, drain.ErrOtherCopy):
		return "decide which of them is the segment and move the others out of the log"
	case errors.Is(d.Err, segment.ErrKept):
		return "" // the error says it
	case errors.Is(d.Err, frame.ErrVersion), errors.Is(d.Err, otelarrow.ErrLayout):
		return "run the siglake of the version that wrote it"
	case errors.Is(d.Err, drain.ErrDamaged):
		return fmt.Sprintf("--salvage would bring back %s rows in %s; missing: %s",
			humanCount(s.Rows), plural(s.Batches, "batch", "batches"), s.missing())
	}
	return "nothing of it can be brought back; look for a whole copy (the mirror, a backup)"
}

// count is how many segments had a fate, and the rows of them.
func (r *requeueReport) count(fate drain.Fate) (segments int, rows int64) {
	for _, s := range r.Segments {
		if s.Fate == string(fate) {
			segments++
			rows += s.Rows
		}
	}
	return segments, rows
}

// verdict turns what is not back into an error.
func (r *requeueReport) verdict() error {
	refused, _ := r.count(drain.Refused)
	short := 0
	for _, s := range r.Segments {
		if s.Fate == string(drain.Salvaged) && s.LostBytes > 0 {
			short++
		}
	}
	var parts []string
	if refused > 0 {
		parts = append(parts, fmt.Sprintf("%s refused and left in %s/", plural(refused, "segment", "segments"), r.from))
	}
	if short > 0 {
		parts = append(parts, plural(short, "segment", "segments")+" brought back in part")
	}
	if len(parts) == 0 {
		return nil
	}
	return damageError("%s", strings.Join(parts, ", "))
}

func (r *requeueReport) write(w io.Writer) error {
	var b strings.Builder
	for i := range r.Segments {
		r.Segments[i].write(&b)
	}
	for _, e := range r.Elsewhere {
		fmt.Fprintf(&b, "%-9s %s: it is in %s/, nothing to do\n", "elsewhere", e.Path, e.State)
	}
	if len(r.Segments) == 0 && len(r.Elsewhere) == 0 {
		fmt.Fprintf(&b, "No segments in %s/.\n", r.from)
	}
	requeued, rows := r.count(drain.Requeued)
	salvaged, some := r.count(drain.Salvaged)
	if requeued+salvaged > 0 {
		verb := "are back in sealed/; the next drain commits what the tables lack of them"
		if r.DryRun {
			verb = "would go back to sealed/; nothing was changed"
		}
		parts := ", "
		if r.from == segment.Poison {
			parts = fmt.Sprintf(" whole, %s in part, ", humanCount(int64(salvaged)))
		}
		fmt.Fprintf(&b, "%s%s%s rows %s\n", plural(requeued, "segment", "segments"), parts, humanCount(rows+some), verb)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *requeuedSegment) write(b *strings.Builder) {
	fmt.Fprintf(b, "%-9s %s", s.Fate, s.Path)
	line := func(format string, args ...any) { fmt.Fprintf(b, "\n          "+format, args...) }
	switch drain.Fate(s.Fate) {
	case drain.Requeued:
		fmt.Fprintf(b, ": whole, %s rows (set aside for: %s)", humanCount(s.Rows), oneLine(s.Note))
	case drain.Salvaged:
		fmt.Fprintf(b, ": %s rows in %s", humanCount(s.Rows), plural(s.Batches, "batch", "batches"))
		line("missing: %s", s.missing())
		if s.Error != "" {
			line("because: %s", oneLine(s.Error))
		}
		line("kept: %s", s.Original)
	case drain.Refused:
		fmt.Fprintf(b, ": %s", oneLine(s.Error))
		if s.Next != "" {
			line("%s", s.Next)
		}
	case drain.Gone:
		b.WriteString(": somebody has moved it meanwhile")
	}
	b.WriteByte('\n')
}

// missing says what is not brought back of a damaged segment.
func (s *requeuedSegment) missing() string {
	if s.LostBytes == 0 {
		return "nothing, all its batches are sound"
	}
	text := humanCount(s.LostBytes) + " bytes behind them"
	if s.SoundBatches > 0 {
		text += fmt.Sprintf(", in these %s with %s", plural(s.SoundBatches, "sound batch", "sound batches"), plural(int(s.SoundRows), "row", "rows"))
	}
	return text
}
