package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// gcFlags are those of gc-orphans.
type gcFlags struct {
	apply, files, withoutLog bool
	minAge                   time.Duration
	abandon                  []string
}

const gcOrphansLong = `Find the files at the tables' locations that nothing needs, and with --apply delete them. Without it nothing is changed.

Orphans are files that a killed process left, data files that compaction, retention or another engine replaced or deleted
and whose snapshots have expired, and manifests of expired snapshots. A file is needed when a snapshot in the table's
metadata leads to it, or one in the earlier metadata files that this names, so that a catalog which is restored to one of
them finds everything. Statistics count, and a metadata file that follows the catalog's: its commit may still land.

It works beside running collectors. A file that is on its way into a commit is younger than --min-age (24h at least): no
commit uses files that were written more than 12h ago. This machine's clock and, with --apply, the store's both have to
say that a file is that old. Files that no writer of tables makes, by their names, are kept. A query that was planned on a snapshot that has
expired since may miss its files; keep a snapshot for longer with a tag, or all with snapshots::retain_last.

A table is refused, and nothing of it deleted, when a snapshot of it names a file that is not there (the name may be
damaged, and an orphan be the file that is meant), when it names a file outside of its location, when another table has its
place within that or had before (then say --abandon UUID, if nothing of that one is needed any more), when the catalog
shows an older state than the log on this machine has seen (its files "head") or than metadata files at the location
tell of, when it cannot be read, and when its property gc.enabled is false. A table that cannot be read keeps the others
from being done where its files may be: at its location, or anywhere if the catalog does not tell. The log is found by --data or --wal; on a machine that has none,
--without-log goes by the metadata files alone.

Exit codes:
  0  done; also when there is nothing to do
  1  failed, or a table is refused: the others are done all the same
  2  wrong usage, or a wrong place: also an --abandon of which there is no file; the rest is done`

func newGCOrphans(a *app) *cobra.Command {
	var f gcFlags
	cmd := &cobra.Command{
		Use:   "gc-orphans [NAMESPACE.TABLE...]",
		Short: "Find, and with --apply delete, files of the tables that nothing needs any more",
		Long:  gcOrphansLong,
		Example: `  siglake gc-orphans
  siglake gc-orphans siglake.events --files
  siglake gc-orphans --apply --min-age 72h
  siglake gc-orphans --output json | jq '[.tables[].orphan_bytes] | add'`,
		Args: args(0, -1, "tables"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.gcOrphans(cmd, args, f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.apply, "apply", false, "delete what is found")
	fl.DurationVar(&f.minAge, "min-age", lake.LeastOrphanAge, "younger files are kept; at least 24h")
	fl.BoolVar(&f.files, "files", false, "name each file")
	fl.BoolVar(&f.withoutLog, "without-log", false, "there is no log on this machine to ask what was seen of the tables")
	fl.StringSliceVar(&f.abandon, "abandon", nil, "UUID of an earlier table at the location of one, of which nothing is needed any more")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) gcOrphans(cmd *cobra.Command, names []string, f gcFlags) error {
	if f.minAge < lake.LeastOrphanAge {
		return usageError("gc-orphans: --min-age %s: younger files may be on their way into a commit; give at least %s", f.minAge, lake.LeastOrphanAge)
	}
	opt := lake.GC{MinAge: f.minAge, Apply: f.apply}
	for _, text := range f.abandon {
		id, err := uuid.Parse(text)
		if err != nil {
			return usageError("gc-orphans: --abandon %q is no UUID of a table", text)
		}
		opt.Abandoned = append(opt.Abandoned, id)
	}
	if !f.withoutLog {
		root, err := a.openRoot()
		if errors.Is(err, segment.ErrNotRoot) {
			return usageError("gc-orphans: %w: what the log has seen of the tables tells whether the catalog went back; name it with --wal, or give --without-log where there is none", err)
		}
		if err != nil {
			return err
		}
		opt.Seen = func(tenant, index string) (lake.Seen, error) { return drain.Seen(root, tenant, index) }
	}
	bar := &gcProgress{app: a, last: a.now()}
	opt.Progress = bar.step
	ctx := cmd.Context()
	l, err := a.openLakeToCollect(ctx, f.apply)
	if err != nil {
		return err
	}
	found, err := l.Collect(ctx, names, opt)
	bar.clear()
	err = errors.Join(err, l.Close())
	if err != nil && len(found) == 0 {
		if errors.Is(err, lake.ErrNoTable) {
			return usageError("gc-orphans: %w; %s lists them", err, a.next("tables"))
		}
		return err
	}
	out := newGCReport(found, f)
	text := func(w io.Writer) error { return out.write(w, a.next(f.again(names)...)) }
	if err := a.show(cmd.OutOrStdout(), out, text, err); err != nil {
		return err
	}
	return errors.Join(out.verdict(), unknownTables(f.abandon, opt.Abandoned, found))
}

// unknownTables refuses what is to be abandoned and was at no location. Where a table could not be looked at nobody knows.
func unknownTables(texts []string, ids []uuid.UUID, found []lake.Collected) error {
	var tables, known []string
	var others []uuid.UUID
	for _, c := range found {
		if c.Others == nil {
			return nil
		}
		tables = append(tables, c.Table)
		for _, id := range c.Others {
			others = append(others, id)
			known = append(known, fmt.Sprintf("%s (%s)", id, c.Table))
		}
	}
	for i, id := range ids {
		if !slices.Contains(others, id) {
			return usageError("gc-orphans: --abandon %s: there are no files of such a table at the location of %s; of other tables there: %s; leave it out, also when they are all deleted",
				texts[i], orNone(strings.Join(tables, ", ")), orNone(strings.Join(known, ", ")))
		}
	}
	return nil
}

// again are the words of the command that deletes what this one has found.
func (f *gcFlags) again(names []string) []string {
	words := append([]string{"gc-orphans"}, names...)
	if f.minAge != lake.LeastOrphanAge {
		words = append(words, "--min-age", f.minAge.String())
	}
	if f.withoutLog {
		words = append(words, "--without-log")
	}
	for _, id := range f.abandon {
		words = append(words, "--abandon", id)
	}
	return append(words, "--apply")
}

// openLakeToCollect opens a catalog that is there: with the right to change it only when it is used, because that makes one.
func (a *app) openLakeToCollect(ctx context.Context, apply bool) (*lake.Lake, error) {
	l, err := a.openLake(ctx, true)
	if err != nil || !apply {
		return l, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return a.openLake(ctx, false)
}

// gcProgress tells how far a collection is: on a terminal in one line, else in a line now and then.
type gcProgress struct {
	app   *app
	last  time.Time
	drawn bool
}

func (p *gcProgress) step(table, step string, done, total int) {
	every := 5 * time.Second
	if p.app.terminal {
		every = 200 * time.Millisecond
	}
	now := p.app.now()
	if now.Sub(p.last) < every {
		return
	}
	p.last = now
	text := map[string]string{"list": "files listed", "read": "manifests read", "delete": "orphans looked at"}[step]
	of := ""
	if total > 0 {
		of = " of " + humanCount(int64(total))
	}
	line := fmt.Sprintf("%s: %s%s %s", table, humanCount(int64(done)), of, text)
	if p.app.terminal {
		p.drawn = true
		_, _ = fmt.Fprint(p.app.stderr, "\r\x1b[K"+line) // an ornament
		return
	}
	_, _ = fmt.Fprintln(p.app.stderr, line) // an ornament
}

func (p *gcProgress) clear() {
	if p.drawn {
		_, _ = fmt.Fprint(p.app.stderr, "\r\x1b[K") // an ornament
	}
}

// gcReport is the report of gc-orphans.
type gcReport struct {
	DryRun bool      `json:"dry_run"`
	MinAge float64   `json:"min_age_seconds"`
	Tables []gcTable `json:"tables"`

	files bool
	age   time.Duration
}

type gcTable struct {
	Table    string `json:"table"`
	UUID     string `json:"uuid"`
	Location string `json:"location"`
	// Of the files at the location each is one of these.
	Files   int `json:"files"`
	Needed  int `json:"needed"`
	Young   int `json:"young"` // not needed by anything yet, and younger than the age
	Foreign int `json:"foreign"`
	Orphans int `json:"orphans"`

	OrphanBytes  int64    `json:"orphan_bytes"`
	Deleted      int      `json:"deleted"`
	DeletedBytes int64    `json:"deleted_bytes"`
	Error        string   `json:"error,omitempty"`
	List         []gcFile `json:"orphan_files"`
}

type gcFile struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Modified string `json:"modified"`
}

func newGCReport(found []lake.Collected, f gcFlags) *gcReport {
	out := &gcReport{DryRun: !f.apply, MinAge: f.minAge.Seconds(), Tables: make([]gcTable, len(found)), files: f.files, age: f.minAge}
	for i, c := range found {
		t := gcTable{
			Table: c.Table, UUID: c.UUID.String(), Location: c.Location, Files: c.Files, Needed: c.Reached, Young: c.Young, Foreign: c.Kept,
			Orphans: len(c.Orphans), OrphanBytes: c.Bytes, Deleted: c.Deleted, DeletedBytes: c.DeletedBytes, List: make([]gcFile, len(c.Orphans)),
		}
		if c.Err != nil {
			t.Error = c.Err.Error()
		}
		for j, o := range c.Orphans {
			t.List[j] = gcFile{o.Path, o.Bytes, humanTime(o.ModTime)}
		}
		out.Tables[i] = t
	}
	return out
}

// verdict turns what was refused into an error.
func (r *gcReport) verdict() error {
	var names []string
	for _, t := range r.Tables {
		if t.Error != "" {
			names = append(names, t.Table)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s refused, or not done to the end: %s", plural(len(names), "table", "tables"), strings.Join(names, ", "))
}
