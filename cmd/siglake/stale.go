package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

const staleLong = `A segment's header names the table that it was written for. When the lane has another one now, because the table was
dropped and made again or the catalog was lost and a collector started on an empty one, the drain sets it aside in
stale/<uuid of its table>/. Nothing is ever written into another incarnation of a table by itself: the rows may be in the
old one, which may come back. When it does not, siglake stale requeue --into-table brings them into the new one.`

func newStale(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stale",
		Short:   "See to segments that were written for another incarnation of their table",
		Long:    staleLong,
		Example: "  siglake stale list\n  siglake stale requeue --all --into-table 3f1c2d4e-5b6a-4c8d-9e0f-1a2b3c4d5e6f --dry-run",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStaleList(a), newStaleRequeue(a))
	return cmd
}

func newStaleList(a *app) *cobra.Command {
	var lane string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the segments in stale/, the table each was written for, and the one its lane has now",
		Long: `List the segments in stale/ with their rows and the table that each was written for, and for each lane the table that the
catalog has for it now, with the command that brings them into it, and what was brought into which table before.`,
		Example: "  siglake stale list\n  siglake stale list --lane default/events -o json",
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.staleList(cmd.Context(), cmd.OutOrStdout(), lane)
		},
	}
	cmd.Flags().StringVar(&lane, "lane", "", "only of this lane, as tenant/index")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

// staleReport is the report of stale list.
type staleReport struct {
	Segments []staleSegment `json:"segments"`
	Lanes    []staleLane    `json:"lanes"`
	// TablesError says why tables are missing.
	TablesError string `json:"tables_error,omitempty"`
}

type staleSegment struct {
	waiting

	For string `json:"for"` // UUID of the table whose directory it is in
}

// staleLane is a lane with segments in stale/.
type staleLane struct {
	Lane  string         `json:"lane"`
	Table string         `json:"table,omitempty"` // UUID of the one that the catalog has now
	Intos []segment.Into `json:"requeued"`        // decisions made before
	Next  string         `json:"next,omitempty"`
}

func (a *app) staleList(ctx context.Context, w io.Writer, lane string) error {
	found, err := a.listWaiting(ctx, segment.Stale, lane)
	if err != nil {
		return err
	}
	rep := staleReport{Segments: []staleSegment{}, Lanes: []staleLane{}}
	for _, f := range found {
		rep.Segments = append(rep.Segments, staleSegment{f, filepath.Base(filepath.Dir(f.Path))})
	}
	if err := a.staleLanes(ctx, &rep); err != nil {
		return err
	}
	if a.output == "json" {
		return writeJSON(w, rep)
	}
	return rep.write(w, a)
}

// staleLanes adds what is known of the lanes.
func (a *app) staleLanes(ctx context.Context, rep *staleReport) error {
	root, err := a.openRoot()
	if err != nil || len(rep.Segments) == 0 {
		return err
	}
	tables, err := a.tableStatus(ctx, func(*lake.Lake, []tableStatus) error { return nil })
	if err != nil {
		rep.TablesError = err.Error()
	}
	lanes, _, err := root.Lanes()
	if err != nil {
		return err
	}
	for _, l := range lanes {
		of := rep.tablesOf(l.Key())
		if len(of) == 0 {
			continue
		}
		out := staleLane{Lane: l.Key(), Intos: []segment.Into{}}
		for _, t := range tables {
			if t.Namespace == lake.NamespaceOf(l.Tenant()) && t.Name == l.Index() {
				out.Table = t.UUID
				out.Next = a.next("stale", "requeue", "--all", "--into-table", t.UUID, "--dry-run")
			}
		}
		for _, u := range of {
			intos, err := l.Intos(u)
			if err != nil {
				return err
			}
			out.Intos = append(out.Intos, intos...)
		}
		rep.Lanes = append(rep.Lanes, out)
	}
	return nil
}

// tablesOf are the tables that the segments of a lane were written for.
func (r *staleReport) tablesOf(lane string) (out []uuid.UUID) {
	for i := range r.Segments {
		u, err := uuid.Parse(r.Segments[i].For)
		if err == nil && r.Segments[i].Lane == lane && !slices.Contains(out, u) {
			out = append(out, u)
		}
	}
	return out
}

func (r *staleReport) write(w io.Writer, a *app) error {
	if len(r.Segments) == 0 {
		_, err := fmt.Fprintln(w, "No segments in stale/.")
		return err
	}
	g := &grid{
		header: []string{"LANE", "FOR TABLE", "SEGMENT", "ROWS", "BYTES", "AGE"},
		right:  []bool{false, false, false, true, true, true},
	}
	for i := range r.Segments {
		s := &r.Segments[i]
		g.add(s.Lane, s.For, s.ID, s.rows(), humanBytes(s.Bytes), humanAge(a.now().Sub(s.Modified)))
	}
	var b strings.Builder
	if err := g.write(&b); err != nil {
		return err
	}
	for _, l := range r.Lanes {
		fmt.Fprintf(&b, "\n%s: its table in the catalog is %s\n", l.Lane, orNone(l.Table))
		for _, into := range l.Intos {
			fmt.Fprintf(&b, "  %s: segments were brought into %s (%s)\n", humanTime(into.Time), into.Table, oneLine(into.By))
		}
		if l.Next != "" {
			fmt.Fprintf(&b, "  %s\n", l.Next)
		}
	}
	if r.TablesError != "" {
		fmt.Fprintf(&b, "Not all tables: %s\n", r.TablesError)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func newStaleRequeue(a *app) *cobra.Command {
	c := choice{command: "stale requeue", from: segment.Stale}
	var into string
	cmd := &cobra.Command{
		Use:   "requeue {SEGMENT... | --all} --into-table UUID",
		Short: "Bring segments of stale/ into the table that their lane has now",
		Long: `Bring segments of stale/ into a table: each is read whole, written to sealed/ with a header that names the table, and
taken from stale/. The next drain commits them there. --into-table is the UUID of the table that the catalog has for their lane
(siglake stale list, siglake tables -o json); with --all, the segments of that lane are taken. Who decided it and when stays
in stale/<uuid of the old table>/into-<UUID>.json.

Be sure that the old table does not come back: restore its catalog if you can, then its segments go back into it by the same
command. What the old table has of them stays there; in the new one each row is once, because the drain looks up what it
has before it writes. Rows that were committed before the catalog was lost are in the old table's files; only those of the last
minute may be in stale/ too.

Safe to interrupt and to run again. It refuses beside a drain (the lakecompactor extension): stop that collector, run this,
start it again. --dry-run works beside everything.` +
			fmt.Sprintf(exitCodesAside, "stale", "some are refused; each is named with the reason"),
		Example: `  siglake stale list
  siglake stale requeue --all --into-table 3f1c2d4e-5b6a-4c8d-9e0f-1a2b3c4d5e6f --dry-run
  siglake stale requeue --all --into-table 3f1c2d4e-5b6a-4c8d-9e0f-1a2b3c4d5e6f`,
		Args: args(0, -1, "segments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.staleRequeue(cmd.Context(), cmd.OutOrStdout(), c, args, into)
		},
	}
	c.flags(cmd)
	c.dryRunFlag(cmd)
	cmd.Flags().StringVar(&into, "into-table", "", "UUID of the table to bring them into (required)")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) staleRequeue(ctx context.Context, w io.Writer, c choice, args []string, into string) (err error) {
	u, err := uuid.Parse(into)
	if err != nil {
		return usageError("stale requeue: --into-table %q is no UUID of a table (%s)", into, a.next("stale", "list"))
	}
	if _, err := a.openRoot(); err != nil {
		return err
	}
	l, err := a.openLake(ctx, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	err = a.requeue(ctx, w, c, args, drain.RequeueOptions{Into: u, Tables: l.Tables})
	if errors.Is(err, drain.ErrNoSuchTable) {
		return usageError("stale requeue: --into-table: %w (%s)", err, a.next("tables", "-o", "json"))
	}
	return err
}
