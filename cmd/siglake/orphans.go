package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/segment"
)

const orphansLong = `Segments whose commit was interrupted wait in orphans/: their rows may be in the table or not. The drain asks the table
about each in every pass, and marks or requeues it; what stays there is what the table could not be asked about, because
the catalog or a file of the table is away. When that is mended it goes on by itself. These commands show what there is to
decide by, and decide where the drain cannot.

list and compare only read, and work beside everything. delete and requeue refuse beside a drain (the lakecompactor
extension): stop that collector, run them, start it again. They are safe to interrupt and to run again.`

const exitCodesAside = `

Exit codes:
  0  done for every segment
  1  failed, or a drain runs
  2  wrong usage, or a wrong place: a path that is no WAL root, a segment that is not in %s/
  3  %s`

func newOrphans(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "orphans",
		Short:   "See to segments whose commit was interrupted and whose table could not be asked",
		Long:    orphansLong,
		Example: "  siglake orphans list\n  siglake orphans compare --all\n  siglake orphans delete --all --dry-run",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newOrphansList(a), newOrphansCompare(a), newOrphansDelete(a), newOrphansRequeue(a))
	return cmd
}

func newOrphansList(a *app) *cobra.Command {
	var lane string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the segments in orphans/",
		Long:    `List the segments in orphans/ with their rows. TABLE is what the segment's header names.`,
		Example: "  siglake orphans list\n  siglake orphans list --lane default/events -o json",
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.orphansList(cmd.Context(), cmd.OutOrStdout(), lane)
		},
	}
	cmd.Flags().StringVar(&lane, "lane", "", "only of this lane, as tenant/index")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) orphansList(ctx context.Context, w io.Writer, lane string) error {
	out, err := a.listWaiting(ctx, segment.Orphans, lane)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return writeJSONArray(w, out)
	}
	if len(out) == 0 {
		_, err := fmt.Fprintln(w, "No segments in orphans/.")
		return err
	}
	g := &grid{
		header: []string{"LANE", "SEGMENT", "ROWS", "BYTES", "AGE", "TABLE"},
		right:  []bool{false, false, true, true, true, false},
	}
	for i := range out {
		o := &out[i]
		g.add(o.Lane, o.ID, o.rows(), humanBytes(o.Bytes), humanAge(a.now().Sub(o.Modified)), o.Table)
	}
	return g.write(w)
}

func newOrphansCompare(a *app) *cobra.Command {
	c := choice{command: "orphans compare", from: segment.Orphans}
	cmd := &cobra.Command{
		Use:   "compare {SEGMENT... | --all}",
		Short: "Count the rows of orphans in their tables",
		Long: `Read orphans whole and count their rows in the table: those that the table's own record of consumed segments says it
has (PROOF), and those that are in its files now (COUNTED, by segment_id and segment_row). They differ when rows were
deleted from the table since, or are there twice.

VERDICT is committed (all rows are in the table: delete is safe), partly or absent (requeue; the drain writes only what is
missing), stale (written for another incarnation of the table: see siglake stale), or unknown, with the reason.` +
			fmt.Sprintf(exitCodesAside, "orphans", "some are unknown; each is named with the reason"),
		Example: "  siglake orphans compare --all\n  siglake orphans compare 01999f3e-2b7c-7cc1-9d37-0b8a3f1c2d4e-5f1e2d3c4b5a-17 -o json",
		Args:    args(0, -1, "segments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.disposeOrphans(cmd.Context(), cmd.OutOrStdout(), c, args, func(ctx context.Context, ch drain.Selection, ask drain.Ask) ([]drain.Disposal, error) {
				seen, err := drain.CompareOrphans(ctx, ch, ask)
				out := make([]drain.Disposal, len(seen))
				for i := range seen {
					out[i].Comparison = seen[i]
				}
				return out, err
			})
		},
	}
	c.flags(cmd)
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func newOrphansDelete(a *app) *cobra.Command {
	c := choice{command: "orphans delete", from: segment.Orphans}
	var force bool
	cmd := &cobra.Command{
		Use:   "delete {SEGMENT... | --all}",
		Short: "Take orphans out of the log whose rows are all in their table",
		Long: `Compare each orphan with its table, and take those out of the log whose rows are all there. They go to committed/, as the
drain does it, and are deleted when no pin of the mirror needs them any more. Any other is refused and named.

--force deletes the named orphans also when their rows are not proved to be in the table. Rows that are in no table are
then lost, unless a mirror has the segment: a recovery brings it back from there.` +
			fmt.Sprintf(exitCodesAside, "orphans", "some are refused; each is named with what the table has of it"),
		Example: "  siglake orphans delete --all --dry-run\n  siglake orphans delete --all",
		Args:    args(0, -1, "segments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if force && c.all {
				return usageError("orphans delete: --force needs the segments by name, it may delete rows that are in no table")
			}
			return a.disposeOrphans(cmd.Context(), cmd.OutOrStdout(), c, args, func(ctx context.Context, ch drain.Selection, ask drain.Ask) ([]drain.Disposal, error) {
				return drain.DisposeOrphans(ctx, ch, force, ask)
			})
		},
	}
	c.flags(cmd)
	c.dryRunFlag(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "delete also what is not proved to be in the table; its rows may be lost")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

// disposeOrphans has the chosen orphans compared, and disposed of as do does it, and reports.
func (a *app) disposeOrphans(ctx context.Context, w io.Writer, c choice, args []string,
	do func(context.Context, drain.Selection, drain.Ask) ([]drain.Disposal, error),
) error {
	ch, err := a.choose(c, args)
	if err != nil {
		return err
	}
	out := orphansReport{DryRun: c.dryRun, Orphans: []orphanReport{}, Elsewhere: ch.other, a: a}
	if !ch.none(c) {
		l, lakeErr := a.openLake(ctx, true)
		if lakeErr != nil {
			return lakeErr
		}
		opt, wipe := a.options(c, ch.ids)
		var done []drain.Disposal
		done, err = do(ctx, opt, drain.AskLake(l, ch.root))
		wipe()
		err = errors.Join(explainLock(err), l.Close())
		out.add(done)
	}
	if err != nil && len(out.Orphans) == 0 {
		return err
	}
	if err := a.show(w, out, out.write, err); err != nil {
		return err
	}
	return out.verdict()
}

func newOrphansRequeue(a *app) *cobra.Command {
	c := choice{command: "orphans requeue", from: segment.Orphans}
	cmd := &cobra.Command{
		Use:   "requeue {SEGMENT... | --all}",
		Short: "Put orphans back into sealed/",
		Long: `Put orphans back into sealed/, so that the drain takes them again. Each is read whole first; one that is damaged is refused.
No row is doubled: the next drain looks up what the table has of them before it writes the rest.` +
			fmt.Sprintf(exitCodesAside, "orphans", "some are refused; each is named with the reason"),
		Example: "  siglake orphans requeue --all --dry-run\n  siglake orphans requeue --all",
		Args:    args(0, -1, "segments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.requeue(cmd.Context(), cmd.OutOrStdout(), c, args, drain.RequeueOptions{})
		},
	}
	c.flags(cmd)
	c.dryRunFlag(cmd)
	a.outputFlag(cmd, "text", "json")
	return cmd
}
