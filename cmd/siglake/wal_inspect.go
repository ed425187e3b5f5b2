package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

func newWALInspect(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect SEGMENT...",
		Short: "Show all there is to know about segments, and check them",
		Long: `Show header, batches, rows, event times, owning table and the result of every check, for each segment. SEGMENT is an
id, a file name, or a path to a file (which need not be in a WAL root).

Everything is decoded. A file under active/, or one marked PARTIAL, may end in a torn tail; that is shown and is no
damage. Exits 3 when a segment is damaged.`,
		Example: "  siglake wal inspect 01999f3e-2b7c-7cc1-9d37-0b8a3f1c2d4e-5f1e2d3c4b5a-17\n  siglake wal inspect data/wal/default/events/poison/*.arrow",
		Args:    args(1, -1, "at least one segment"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.walInspect(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	a.outputFlag(cmd, "text", "json")
	return cmd
}

// inspected is what there is to know about one segment. Header fields are as they stand in the file.
type inspected struct {
	Path        string `json:"path"`
	Lane        string `json:"lane,omitempty"`
	State       string `json:"state,omitempty"`
	ID          string `json:"id,omitempty"`
	Bytes       int64  `json:"bytes"`
	Format      string `json:"format"`
	Partial     bool   `json:"partial"`
	Compressed  bool   `json:"compressed"`
	Table       string `json:"table,omitempty"`
	MinTime     string `json:"min_time,omitempty"`
	MaxTime     string `json:"max_time,omitempty"`
	BodyLen     uint64 `json:"body_length"`
	CRC         string `json:"crc"`
	Signal      string `json:"signal,omitempty"`
	Batches     int    `json:"batches"`
	Rows        int64  `json:"rows"`
	TailDropped int64  `json:"tail_dropped"`
	Complete    bool   `json:"complete"`
	Check       string `json:"check"` // ok, torn tail, empty, newer format, damaged
	Error       string `json:"error,omitempty"`
	Note        string `json:"note,omitempty"`
}

// Values of inspected.Check.
const (
	checkOK      = "ok"
	checkTorn    = "torn tail"
	checkEmpty   = "empty"
	checkNewer   = "newer format"
	checkDamaged = "damaged"
)

func (a *app) walInspect(ctx context.Context, w io.Writer, args []string) error {
	var damaged []string
	out := make([]inspected, 0, len(args))
	for _, arg := range args {
		if err := ctx.Err(); err != nil {
			return err
		}
		in, err := a.inspectArg(arg)
		if err != nil {
			return err
		}
		if in.Check == checkDamaged {
			damaged = append(damaged, in.Path)
		}
		out = append(out, in)
	}
	if a.output == "json" {
		if err := writeJSONArray(w, out); err != nil {
			return err
		}
	} else {
		for i := range out {
			if i > 0 {
				if _, err := fmt.Fprintln(w); err != nil {
					return err
				}
			}
			if err := out[i].write(w); err != nil {
				return err
			}
		}
	}
	if len(damaged) > 0 {
		return damageError("%s damaged: %s", plural(len(damaged), "segment", "segments"), strings.Join(damaged, ", "))
	}
	return nil
}

// inspectArg finds and inspects what an argument names: a file if there is one, else a segment of the root.
func (a *app) inspectArg(arg string) (inspected, error) {
	if info, err := a.fs.Stat(arg); err == nil && !info.IsDir {
		f, err := a.fs.Open(arg)
		if err != nil {
			return inspected{}, err
		}
		defer func() { _ = f.Close() }() // opened for reading
		in := inspected{Path: arg}
		open := filepath.Base(filepath.Dir(arg)) == string(segment.Active)
		return in, in.read(f, frame.DecodeOptions{Open: open})
	}
	root, err := a.openRoot()
	if err != nil {
		return inspected{}, err
	}
	p, err := resolveSegment(root, arg)
	if err != nil {
		return inspected{}, err
	}
	return a.inspect(p)
}

// inspect reads the segment of a place, or where it has moved to.
func (a *app) inspect(p place) (inspected, error) {
	f, p, err := openSegment(a.fs, p)
	if err != nil {
		return inspected{}, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	in := inspected{
		Path: p.path(), Lane: p.lane.Key(), State: string(p.state), ID: p.entry.ID.String(), Note: poisonNote(p),
	}
	return in, in.read(f, p.options())
}

// read fills in what the file says. Damage is no error here but a result.
func (in *inspected) read(f vfs.File, opt frame.DecodeOptions) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	in.Bytes = info.Size
	sum, err := frame.Inspect(f, info.Size, opt)
	in.header(sum)
	in.Batches, in.Rows, in.TailDropped, in.Complete = sum.Batches, sum.Rows, sum.TailDropped, sum.Complete
	if err == nil {
		// Inspect has the numbers also where it stops; only Decode sees inside the columns.
		var s *frame.Segment
		if s, err = frame.Decode(f, info.Size, opt); err == nil {
			defer s.Release()
			if id, _, nerr := segment.ParseName(filepath.Base(in.Path)); nerr == nil {
				err = id.CheckName(s.Schema)
			}
			if signal, err := otelarrow.SignalOf(s.Schema); err == nil {
				in.Signal = signal.String()
			}
		}
	}
	return in.judge(err)
}

func (in *inspected) header(sum frame.Summary) {
	h := sum.Header
	in.Format, in.Partial, in.Compressed = "unframed", h.Partial, h.Zstd
	if sum.Framed {
		in.Format = fmt.Sprintf("v%d", h.Version)
		in.BodyLen, in.CRC = h.BodyLen, fmt.Sprintf("%08x", h.CRC)
	}
	if h.Table != uuid.Nil {
		in.Table = h.Table.String()
	}
	if h.MinTime != 0 || h.MaxTime != 0 {
		in.MinTime, in.MaxTime = nanoTime(h.MinTime), nanoTime(h.MaxTime)
	}
}

// judge turns the outcome of the checks into a word. It returns errors that say nothing about the segment.
func (in *inspected) judge(err error) error {
	var corrupt *frame.CorruptError
	switch {
	case err == nil && in.TailDropped > 0:
		in.Check = checkTorn
	case err == nil:
		in.Check = checkOK
	case errors.Is(err, frame.ErrVersion):
		in.Check, in.Format = checkNewer, "newer"
	case (errors.Is(err, frame.ErrEmpty) || errors.Is(err, frame.ErrNoBatch)) && in.State == string(segment.Active):
		in.Check = checkEmpty // no row was acknowledged yet
	case errors.As(err, &corrupt), errors.Is(err, frame.ErrTooBig), errors.Is(err, frame.ErrEmpty):
		in.Check = checkDamaged
	default:
		return fmt.Errorf("read %s: %w", in.Path, err)
	}
	if err != nil {
		in.Error = err.Error()
	}
	return nil
}

func (in *inspected) write(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("segment", "%s", in.Path)
	if in.Lane != "" {
		line("lane", "%s, %s", in.Lane, in.State)
	}
	line("size", "%s (%s)", humanBytes(in.Bytes), plural(int(in.Bytes), "byte", "bytes"))
	format := in.Format
	if in.Partial {
		format += ", PARTIAL"
	}
	if in.Compressed {
		format += ", zstd"
	}
	line("format", "%s", format)
	if in.CRC != "" && !in.Partial {
		line("body", "%s bytes, CRC-32 %s", humanCount(int64(in.BodyLen)), in.CRC)
	}
	if in.Table != "" {
		line("table", "%s", in.Table)
	} else {
		line("table", "no opinion")
	}
	if in.MinTime != "" {
		line("event times", "%s to %s", in.MinTime, in.MaxTime)
	}
	if in.Signal != "" {
		line("signal", "%s", in.Signal)
	}
	line("content", "%s rows in %s", humanCount(in.Rows), plural(in.Batches, "batch", "batches"))
	if in.TailDropped > 0 {
		line("torn tail", "%s bytes behind the last whole batch", humanCount(in.TailDropped))
	}
	if in.Note != "" {
		line("note", "%s", oneLine(in.Note))
	}
	if in.Error != "" {
		line("check", "%s: %s", in.Check, in.Error)
	} else {
		line("check", "%s", in.Check)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
