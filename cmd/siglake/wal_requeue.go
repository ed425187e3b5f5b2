package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// requeueFlags are those of wal-requeue.
type requeueFlags struct {
	all, salvage, dryRun bool
	lane                 string
}

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
	var f requeueFlags
	cmd := &cobra.Command{
		Use:   "wal-requeue {SEGMENT... | --all}",
		Short: "Put segments that were set aside as unreadable back, whole or what is sound of them",
		Long:  walRequeueLong,
		Example: `  siglake wal-requeue --all --dry-run
  siglake wal-requeue 01999f3e-2b7c-7cc1-9d37-0b8a3f1c2d4e-5f1e2d3c4b5a-17
  siglake wal-requeue --all --lane default/events --salvage`,
		Args: args(0, -1, "segments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.walRequeue(cmd.Context(), cmd.OutOrStdout(), args, f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.all, "all", false, "every segment in poison/")
	fl.StringVar(&f.lane, "lane", "", "with --all: only of this lane, as tenant/index")
	fl.BoolVar(&f.salvage, "salvage", false, "of a damaged segment bring back the whole batches before the damage")
	fl.BoolVar(&f.dryRun, "dry-run", false, "read everything, change nothing")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) walRequeue(ctx context.Context, w io.Writer, args []string, f requeueFlags) error {
	if f.all == (len(args) > 0) {
		return usageError("wal-requeue: name segments, or give --all for every one in poison/ (%s)", a.next("wal", "ls", "--state", "poison"))
	}
	if f.lane != "" && !f.all {
		return usageError("wal-requeue: --lane goes with --all")
	}
	root, err := a.openRoot()
	if err != nil {
		return err
	}
	out := requeueReport{DryRun: f.dryRun, Segments: []requeuedSegment{}, Elsewhere: []elsewhere{}}
	ids, err := resolveRequeue(root, args, &out)
	if err != nil {
		return err
	}
	if f.lane != "" {
		if _, _, err := (filter{lane: f.lane}).lanes(root); err != nil {
			return err
		}
	}
	if f.all || len(ids) > 0 {
		err = a.requeue(ctx, ids, f, &out)
	}
	if err != nil && len(out.Segments) == 0 {
		return err
	}
	if a.output == "json" {
		err = errors.Join(err, writeJSON(w, out))
	} else {
		err = errors.Join(err, out.write(w))
	}
	if err != nil {
		return err
	}
	return out.verdict()
}

// requeue does the work. What was done stands in the report, also beside an error.
func (a *app) requeue(ctx context.Context, ids []segment.ID, f requeueFlags, out *requeueReport) error {
	host, _ := os.Hostname() // only a text for whoever is refused meanwhile
	bar := progress{w: a.stderr, on: a.terminal, now: a.now, text: "read %d of %d segments, %s"}
	done, err := drain.RequeuePoison(ctx, drain.RequeueOptions{
		FS: a.fs, WAL: a.walDir(), Logger: a.logger(), Now: a.now, Lane: f.lane, IDs: ids, Salvage: f.salvage, DryRun: f.dryRun,
		Holder: fmt.Sprintf("siglake wal-requeue, pid %d on %s", os.Getpid(), host),
		Progress: func(done, of int, size int64) {
			bar.total = of
			bar.draw(done, size)
		},
	})
	bar.clear()
	out.add(done)
	if locked, ok := errors.AsType[*vfs.LockedError](err); ok {
		return fmt.Errorf("a drain runs, and beside it nothing can be moved back: %s is held by %s; stop that process, run this again, start it again",
			locked.Name, locked.Holder)
	}
	return err
}

// resolveRequeue turns arguments into ids, and notes those that are in no need of a move.
func resolveRequeue(root *segment.Root, args []string, out *requeueReport) ([]segment.ID, error) {
	var ids []segment.ID
	for _, arg := range args {
		p, err := resolvePoisoned(root, arg)
		switch {
		case err != nil:
			return nil, err
		case p.state == segment.Stale:
			return nil, usageError("segment %s is in stale/ and not in poison/: it was written for another incarnation of its table", p.entry.ID)
		case p.state != segment.Poison:
			out.Elsewhere = append(out.Elsewhere, elsewhere{p.entry.ID.String(), p.path(), string(p.state)})
		case !slices.Contains(ids, p.entry.ID):
			ids = append(ids, p.entry.ID)
		}
	}
	return ids, nil
}

// resolvePoisoned finds the segment of an argument: in poison/, else where it is.
func resolvePoisoned(root *segment.Root, arg string) (place, error) {
	name, _, _ := strings.Cut(filepath.Base(arg), ".arrow") // a further copy is ID.arrow.2
	id, err := segment.ParseID(name)
	if err != nil {
		return place{}, usageError("%q is no segment id", arg)
	}
	lanes, _, err := root.Lanes()
	if err != nil {
		return place{}, err
	}
	for _, lane := range lanes {
		entries, _, err := lane.List(segment.Poison)
		if err != nil {
			return place{}, err
		}
		for _, e := range entries {
			if e.ID == id {
				return place{lane, segment.Poison, e}, nil
			}
		}
	}
	return resolveSegment(root, name)
}
