package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

func newWALList(a *app) *cobra.Command {
	var f filter
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List segments: lane, state, size, age, table",
		Long: `List the segments of the write-ahead log, one a line. Only headers are read; use "wal inspect" for one segment and
"wal verify" for the content of all. NOTE is the reason of a segment in poison/.`,
		Example: "  siglake wal ls\n  siglake wal ls --lane default/events --state sealed\n  siglake wal ls -o json | jq -r '.[] | select(.bytes > 1e7).id'",
		Args:    args(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.walList(cmd.Context(), cmd.OutOrStdout(), f) },
	}
	a.filterFlags(cmd, &f)
	a.outputFlag(cmd, "text", "json")
	return cmd
}

// listed is one line of the listing.
type listed struct {
	Lane     string    `json:"lane"`
	State    string    `json:"state"`
	ID       string    `json:"id"`
	Path     string    `json:"path"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
	Format   string    `json:"format"` // v2, v1, unframed, newer, damaged
	Partial  bool      `json:"partial"`
	Table    string    `json:"table,omitempty"` // UUID of the owning table
	Note     string    `json:"note,omitempty"`
}

func (a *app) walList(ctx context.Context, w io.Writer, f filter) error {
	root, err := a.openRoot()
	if err != nil {
		return err
	}
	places, err := f.places(ctx, root)
	if err != nil {
		return err
	}
	g := &grid{
		header: []string{"LANE", "STATE", "SEGMENT", "FORMAT", "BYTES", "AGE", "NOTE"},
		right:  []bool{false, false, false, false, true, true, false},
	}
	out := []listed{}
	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return err
		}
		l, err := a.listSegment(p)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return err
		}
		out = append(out, l)
		g.add(l.Lane, l.State, l.ID, l.format(), humanBytes(l.Bytes), humanAge(a.now().Sub(l.Modified)), oneLine(l.Note))
	}
	if a.output == "json" {
		return writeJSONArray(w, out)
	}
	if len(out) == 0 {
		_, err := fmt.Fprintln(w, "No segments.")
		return err
	}
	return g.write(w)
}

func (l *listed) format() string {
	if l.Partial {
		return l.Format + " partial"
	}
	return l.Format
}

// listSegment reads what the listing shows of one segment.
func (a *app) listSegment(p place) (listed, error) {
	f, p, err := openSegment(a.fs, p)
	if err != nil {
		return listed{}, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return listed{}, err
	}
	l := listed{
		Lane: p.lane.Key(), State: string(p.state), ID: p.entry.ID.String(), Path: p.path(),
		Bytes: info.Size, Modified: info.ModTime.UTC(),
	}
	head := make([]byte, min(info.Size, frame.HeaderSize))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return listed{}, fmt.Errorf("read %s: %w", p.path(), err)
	}
	h, err := frame.ParseHeader(head)
	switch {
	case errors.Is(err, frame.ErrNotFramed):
		l.Format = "unframed"
	case errors.Is(err, frame.ErrVersion):
		l.Format = "newer"
	case err != nil && p.state != segment.Active:
		l.Format = "damaged"
	default:
		l.Format, l.Partial = fmt.Sprintf("v%d", h.Version), h.Partial
		if h.Table != uuid.Nil {
			l.Table = h.Table.String()
		}
	}
	l.Note = poisonNote(p)
	return l, nil
}

// poisonNote returns why a segment is in poison/.
func poisonNote(p place) string {
	if p.state != segment.Poison {
		return ""
	}
	n, err := p.lane.ReadNote(p.entry.Name)
	if err != nil {
		return "no note: " + err.Error()
	}
	return n.Reason
}
