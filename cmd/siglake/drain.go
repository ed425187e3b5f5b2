package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

func newDrain(a *app) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "drain --once",
		Short: "Write everything that is sealed into the tables, once",
		Long: `Write every sealed segment into its table, whatever its age, and exit. Rows that are in the table already are not
written again; running it twice is safe.

It refuses when a drain runs on the same WAL root (the collector's lakecompactor extension): that one does the same
by itself. And it refuses to make DIR/catalog.db for segments that name a table: their catalog is elsewhere, or lost,
and under a new one they would be set aside as stale (siglake stale --help). Name it with --catalog. Segments that are still open (active/) are not taken; the collector seals them when they
are full or old enough.`,
		Example: "  siglake drain --once --data /var/lib/siglakecol",
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !once {
				return usageError("drain: give --once; the collector's lakecompactor extension drains continuously")
			}
			return a.drainOnce(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "one pass over everything that is sealed (required)")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

// drainReport is drain.Report with failures as text.
type drainReport struct {
	Lanes       int               `json:"lanes"`
	Segments    int64             `json:"segments"`
	Rows        int64             `json:"rows"`
	Duplicates  int64             `json:"duplicates"`
	Poisoned    int64             `json:"poisoned"`
	Stale       int64             `json:"stale"`
	Requeued    int64             `json:"requeued"`
	Retired     int64             `json:"retired"`
	Remaining   int               `json:"remaining"`
	OrphansHeld int               `json:"orphans_held"`
	NewerFormat int               `json:"newer_format"`
	Gaps        int64             `json:"gaps"`
	Failures    map[string]string `json:"failures,omitempty"`
}

// haveCatalog refuses to make a catalog beside --data for segments that name a table of another one, as after a recovery of
// a log whose catalog is PostgreSQL: a drain would make new tables and set all of them aside as stale.
func (a *app) haveCatalog(ctx context.Context) error {
	if a.catalog != "" || a.getenv("SIGLAKE_CATALOG") != "" {
		return nil
	}
	path := filepath.Join(a.data, "catalog.db")
	if _, err := a.fs.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // it is there, or opening it says what is wrong
	}
	root, err := a.openRoot()
	if err != nil {
		return err
	}
	for _, st := range []segment.State{segment.Sealed, segment.Processing, segment.Orphans} {
		places, err := filter{state: string(st)}.places(ctx, root)
		if err != nil {
			return err
		}
		for _, p := range places {
			l, err := a.listSegment(p)
			if errors.Is(err, errGone) {
				continue
			}
			if err != nil {
				return err
			}
			if l.Table != "" {
				return usageError("drain: there is no catalog at %s, and segments of lane %s name a table (%s) that only its own catalog has: "+
					"name that with --catalog or SIGLAKE_CATALOG; if it is lost for good, --catalog sqlite://%s makes a new one, "+
					"and sets these segments aside in stale/, from where siglake stale requeue brings them into the new table", path, l.Lane, l.Table, path)
			}
		}
	}
	return nil
}

func (a *app) drainOnce(ctx context.Context, w io.Writer) error {
	if err := a.haveCatalog(ctx); err != nil {
		return err
	}
	rep, err := drain.Once(ctx, drain.Options{
		FS: a.fs, WAL: a.walDir(), Logger: a.logger(), Now: a.now,
		Holder: holder("drain --once"),
		// Opened only when the root is one and its lock is ours, so that a wrong path makes no catalog.
		OpenLake: func(ctx context.Context) (*lake.Lake, error) { return a.openLake(ctx, false) },
	})
	if locked, ok := errors.AsType[*vfs.LockedError](err); ok {
		return fmt.Errorf("a drain runs already and takes what is sealed by itself: held by %s (%s)", locked.Holder, locked.Name)
	}
	if err != nil {
		return err
	}
	out := drainReport{
		Lanes: rep.Lanes, Segments: rep.Segments, Rows: rep.Rows, Duplicates: rep.Duplicates, Poisoned: rep.Poisoned,
		Stale: rep.Stale, Requeued: rep.Requeued, Retired: rep.Retired, Remaining: rep.Remaining,
		OrphansHeld: rep.OrphansHeld, NewerFormat: rep.NewerFormat, Gaps: rep.Gaps,
	}
	for lane, err := range rep.Failures {
		if out.Failures == nil {
			out.Failures = map[string]string{}
		}
		out.Failures[lane] = err.Error()
	}
	if err := a.show(w, out, out.write, nil); err != nil {
		return err
	}
	return a.drainVerdict(&out)
}

// drainVerdict turns what is left into an error.
func (a *app) drainVerdict(r *drainReport) error {
	switch {
	case r.Poisoned > 0:
		return damageError("%s unreadable and set aside: %s", plural(int(r.Poisoned), "segment", "segments"), a.next("wal-requeue", "--all", "--dry-run"))
	case len(r.Failures) > 0:
		var lanes []string
		for lane := range r.Failures {
			lanes = append(lanes, lane)
		}
		slices.Sort(lanes)
		return fmt.Errorf("%s not drained: %s", plural(len(lanes), "lane", "lanes"), strings.Join(lanes, ", "))
	}
	return nil
}

func (r *drainReport) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s committed, in %s\n", plural(int(r.Rows), "row", "rows"), plural(int(r.Segments), "segment", "segments"),
		plural(r.Lanes, "lane", "lanes"))
	for _, line := range []struct {
		n         int64
		one, many string
	}{
		{r.Duplicates, "row was in the tables already and was not written again", "rows were in the tables already and were not written again"},
		{r.Requeued, "orphan drained whose rows the table lacked", "orphans drained whose rows the tables lacked"},
		{r.Poisoned, "segment unreadable and set aside", "segments unreadable and set aside"},
		{r.Stale, "segment of another incarnation of its table set aside", "segments of another incarnation of their table set aside"},
		{r.Retired, "committed segment deleted", "committed segments deleted"},
		{r.Gaps, "gap in the sequence numbers found: segments were removed or lost", "gaps in the sequence numbers found: segments were removed or lost"},
		{int64(r.OrphansHeld), "orphan held: its table could not be asked", "orphans held: their tables could not be asked"},
		{int64(r.NewerFormat), "segment left to the newer version that wrote it", "segments left to the newer version that wrote them"},
		{int64(r.Remaining), "segment still sealed", "segments still sealed"},
	} {
		if line.n > 0 {
			fmt.Fprintf(&b, "  %s\n", plural(int(line.n), line.one, line.many))
		}
	}
	lanes := make([]string, 0, len(r.Failures))
	for lane := range r.Failures {
		lanes = append(lanes, lane)
	}
	slices.Sort(lanes)
	for _, lane := range lanes {
		fmt.Fprintf(&b, "  %s: %s\n", lane, r.Failures[lane])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// logger writes what the drain has to say to stderr, warnings and errors only.
func (a *app) logger() *zap.Logger {
	cfg := zap.NewDevelopmentEncoderConfig()
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(cfg), zapcore.Lock(zapcore.AddSync(a.stderr)), zap.WarnLevel))
}
