package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// repairFlags are those of catalog-repair.
type repairFlags struct {
	plan, apply, acceptLoss bool
	mirror, lane            string
}

const catalogRepairLong = `Bring back what a catalog that was restored from a backup does not know.

The catalog is one pointer for each table: which metadata.json counts. The log remembers the newest state that was
committed to from here. When the catalog shows an older one, the drain stops that table: rows go on being acknowledged and
wait in the log. For each such table this

  1. makes the catalog if there is none, and sets it to the newest later metadata.json in the warehouse whose files are all
     there and whole. Where the one that the catalog shows is gone or cut and no later one is whole, it is the newest before;
  2. takes back what that still lacks: data files of later commits, of whose rows it has none, are added to the table;
     segments of committed/, still on the volume, go to sealed/, and with --mirror those of the mirror go to orphans/. The
     drain looks both up in the table, so no row is written twice;
  3. lets the table go on: the log's record fits the catalog again. Not when something is missing: segments that a later
     state names and that are nowhere, or a later state of which nothing can be read. Then the table stays stopped until you
     bring the files back, name the --mirror, or give --accept-loss.

--plan, the default, reads and tells all of that and changes nothing; it works beside everything. --apply does it. It refuses
beside a drain (the lakecompactor extension): stop that collector, run this, start it again. Safe to interrupt and to run
again. A REST catalog cannot be set to a metadata.json it was not told of: let its own tools drop the table and keep the
files, then this registers it again.

Exit codes:
  0  every table fits, or with --plan: nothing would be missing
  1  failed, or a drain runs, or objects of the mirror could not be fetched: run it again
  2  wrong usage, or a wrong place: also a --mirror that is none, if anything is missing or not
  3  something is missing, or a table cannot be repaired; each is named`

func newCatalogRepair(a *app) *cobra.Command {
	var f repairFlags
	cmd := &cobra.Command{
		Use:   "catalog-repair [--plan | --apply]",
		Short: "Bring back what a catalog restored from a backup does not know",
		Long:  catalogRepairLong,
		Example: `  siglake catalog-repair
  siglake catalog-repair --apply
  siglake catalog-repair --apply --mirror s3://telemetry/wal-mirror`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.catalogRepair(cmd.Context(), cmd, f) },
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.plan, "plan", false, "tell what would be done, change nothing (the default)")
	fl.BoolVar(&f.apply, "apply", false, "do it")
	fl.BoolVar(&f.acceptLoss, "accept-loss", false, "with --apply: let a table go on of which something is missing")
	fl.StringVar(&f.mirror, "mirror", a.getenv("SIGLAKE_WAL_MIRROR_URL"), "URL of the mirror (environment: SIGLAKE_WAL_MIRROR_URL)")
	fl.StringVar(&f.lane, "lane", "", "only the table of this lane, as tenant/index")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) catalogRepair(ctx context.Context, cmd *cobra.Command, f repairFlags) (err error) {
	if f.plan && f.apply {
		return usageError("catalog-repair: give --plan or --apply")
	}
	if f.acceptLoss && !f.apply {
		return usageError("catalog-repair: --accept-loss goes with --apply")
	}
	root, err := a.openRoot()
	if err != nil {
		return err
	}
	if f.lane != "" {
		if _, _, err := (filter{lane: f.lane}).lanes(root); err != nil {
			return err
		}
	}
	out := repairReport{Applied: f.apply, Tables: []repairedTable{}, Formers: []formerTable{}, Unreadable: []mirror.Finding{}}
	if f.mirror != "" {
		if err := a.chooseFrom(ctx, f, nothing{}, &out); err != nil {
			return err
		}
	}
	l, missing, done, err := a.openLakeToRepair(ctx, root, f.apply)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	out.NoCatalog = missing
	opt := drain.RepairOptions{
		FS: a.fs, WAL: a.walDir(), Lake: l, Lane: f.lane, Apply: f.apply, AcceptLoss: f.acceptLoss,
		Holder: holder("catalog-repair"),
	}
	if f.mirror != "" {
		opt.Mirror = func(ctx context.Context, choice drain.Choice) error { return a.chooseFrom(ctx, f, choice, &out) }
	}
	tables, err := drain.RepairCatalog(ctx, opt)
	out.add(tables)
	if _, ok := errors.AsType[*vfs.LockedError](err); ok {
		return explainLock(err)
	}
	if err != nil && len(tables) == 0 {
		return err
	}
	if err == nil && (!missing || f.apply) {
		out.Formers, err = formers(ctx, root, l, f.lane)
	}
	if err := a.show(cmd.OutOrStdout(), out, out.write, err); err != nil {
		return err
	}
	return a.repairVerdict(&out, f)
}

// formers are the tables that the lanes were bound to before, and that the catalog does not have.
func formers(ctx context.Context, root *segment.Root, l *lake.Lake, lane string) ([]formerTable, error) {
	out := []formerTable{}
	tables, err := l.Tables(ctx)
	if err != nil {
		return out, nil //nolint:nilerr // of a table that cannot be read the report has more to say
	}
	lanes, _, err := filter{lane: lane}.lanes(root)
	if err != nil {
		return out, err
	}
	for _, of := range lanes {
		heads, err := of.Formers()
		if err != nil {
			return out, err
		}
		for _, h := range heads {
			if !slices.ContainsFunc(tables, func(t lake.TableInfo) bool { return t.UUID == h.Table }) {
				out = append(out, formerTable{of.Key(), h.Table.String(), repairedState{Sequence: h.Sequence, Metadata: h.Metadata}})
			}
		}
	}
	return out, nil
}

// nothing is wanted of a mirror of which it is only asked whether it is one: also where no table lacks anything, so that a
// name that leads to none is not taken for a mirror that was looked into.
type nothing struct{}

func (nothing) Listed(context.Context, string, string, []segment.ID) (bool, error) { return false, nil }

func (nothing) Wants(string, string, segment.ID, int64) bool { return false }

// chooseFrom restores from the mirror what is wanted of it.
func (a *app) chooseFrom(ctx context.Context, f repairFlags, choice drain.Choice, out *repairReport) error {
	from, err := objstore.ParseURL(f.mirror)
	if err != nil {
		return usageError("--mirror: %w", err)
	}
	opt := objstore.Options{FS: a.fs} // S3 from the environment
	store, err := objstore.Open(ctx, from.String(), opt)
	if err != nil {
		return err
	}
	if choice == (nothing{}) && mirror.Marked(ctx, store) {
		return store.Close() // anything else the listing tells
	}
	shown := a.showRecover(from.String())
	rep, err := mirror.Restore(ctx, mirror.RestoreOptions{
		FS: a.fs, Dir: a.walDir(), Store: store, DryRun: !f.apply, Online: true, Choice: choice,
		Step: shown.step, Progress: shown.progress,
	})
	shown.end()
	out.Unreadable = append(out.Unreadable, rep.Unreadable...)
	err = errors.Join(a.explainRecover(ctx, "--mirror", from, opt, err), store.Close())
	if n := len(rep.Failed); err == nil && n > 0 {
		err = fmt.Errorf("%s of the mirror could not be fetched (%s: %s); run it again", plural(n, "object", "objects"), rep.Failed[0].Key, rep.Failed[0].Reason)
	}
	return err
}

// repairedPart is a segment of which a table lacks rows.
type repairedPart struct {
	Segment string `json:"segment"`
	Rows    int64  `json:"rows"` // that the table lacks
}

func newParts(parts []drain.Part) (out []repairedPart, rows int64) {
	out = []repairedPart{}
	for _, p := range parts {
		out = append(out, repairedPart{p.ID.String(), p.Missing()})
		rows += p.Missing()
	}
	return out, rows
}

var _ mirror.Choice = drain.Choice(nil)
