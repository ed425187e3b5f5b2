package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/segment"
)

const walRequeueLong = `Put segments that were set aside in poison/ back into sealed/, so that the drain takes them again.

A segment goes to poison/ when the drain, or the recovery at a start, cannot read it: the disk returned other bytes than
were written, or none. Its rows are in no table. Each is read whole first, as the drain reads it. One that reads well now
goes back as it is: the cause has gone, or this version reads what an older one did not. One that does not is refused,
and what --salvage would bring back of it is told.

--salvage takes the sound beginning of a damaged segment: the whole batches before the first damage, each with its
checksum right, become the segment of that id. Nothing behind the damage is taken, because the positions of those rows
are not known; how much that is, is told, and stays with the original, poison/ID.arrow.salvaged, and its note. Look first
for a whole copy: with a mirror, move ID.arrow and ID.arrow.json out of poison/ and run siglake wal-recover.

Rows that are in a table already are found there and not written again. Safe to interrupt and to run again. It works
beside a collector that only writes, and refuses beside a drain (the lakecompactor extension): stop that collector, run
this, start it again; segments that it would take are then drained within seconds. --dry-run works beside everything.

Exit codes:
  0  every segment is back whole
  1  failed, or a drain runs
  2  wrong usage, or a wrong place: a path that is no WAL root, a segment that is not in poison/
  3  some segments are refused, or were brought back in part; they are named, with what is missing`

func newWALRequeue(a *app) *cobra.Command {
	c := choice{command: "wal-requeue", from: segment.Poison}
	var salvage bool
	cmd := &cobra.Command{
		Use:   "wal-requeue {SEGMENT... | --all}",
		Short: "Put segments that were set aside as unreadable back, whole or what is sound of them",
		Long:  walRequeueLong,
		Example: `  siglake wal-requeue --all --dry-run
  siglake wal-requeue 01999f3e-2b7c-7cc1-9d37-0b8a3f1c2d4e-5f1e2d3c4b5a-17
  siglake wal-requeue --all --lane default/events --salvage`,
		Args: args(0, -1, "segments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.requeue(cmd.Context(), cmd.OutOrStdout(), c, args, drain.RequeueOptions{Salvage: salvage})
		},
	}
	c.flags(cmd)
	c.dryRunFlag(cmd)
	cmd.Flags().BoolVar(&salvage, "salvage", false, "of a damaged segment bring back the whole batches before the damage")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

// requeue puts the chosen segments back, with what opt says beside that, and reports. What was done stands in the report,
// also beside an error.
func (a *app) requeue(ctx context.Context, w io.Writer, c choice, args []string, opt drain.RequeueOptions) error {
	ch, err := a.choose(c, args)
	if err != nil {
		return err
	}
	out := requeueReport{DryRun: c.dryRun, Segments: []requeuedSegment{}, Elsewhere: ch.other, from: c.from}
	if !ch.none(c) {
		var wipe func()
		opt.Selection, wipe = a.options(c, ch.ids)
		var done []drain.Requeue
		done, err = drain.RequeueSegments(ctx, opt)
		wipe()
		out.add(done)
		err = explainLock(err)
	}
	if err != nil && len(out.Segments) == 0 {
		return err
	}
	if err := a.show(w, out, out.write, err); err != nil {
		return err
	}
	return out.verdict()
}
