package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/lake"
)

// defaultSpace is the namespace whose tables need no prefix.
const defaultSpace = "siglake"

// dataset is what a statement can see.
type dataset struct {
	tables []dataTable
	// spaces are the namespaces to make, each once.
	spaces []string
}

// dataTable is one table: a plan, or the reason why it cannot be read.
type dataTable struct {
	space, name string // as SQL sees them
	plan        lake.Plan
	refused     string
	described   bool   // the plan has no files: nothing may be read
	where       string // a condition on all rows; "" = none
	leftOut     int    // files that the condition has excluded
}

// tableRef is a table as a statement names it; space is "" where it is not said.
type tableRef struct{ space, name string }

// view is the lake as a shell or one statement sees it: each table as of the moment it was first named, until refresh.
// One goroutine at a time.
type view struct {
	a      *app
	lake   *lake.Lake // nil when there is no catalog yet and the log is read
	wal    *walRows   // nil without --with-wal
	span   span
	temp   *scratch
	remote fetcher
	spaces []spelled            // of the catalog
	names  map[string][]spelled // of a namespace's tables
	tables map[string]dataTable // planned, by visible names
	told   map[string]bool      // notes given
}

func (a *app) openView(ctx context.Context, opt sqlOptions) (_ *view, err error) {
	temp := &scratch{fs: a.fs}
	v := &view{a: a, told: map[string]bool{}, temp: temp, remote: fetcher{scratch: temp}}
	if v.remote.most, err = parseSize("--max-fetch", opt.maxFetch); err != nil {
		return nil, err
	}
	if v.span, err = opt.span(a.now()); err != nil {
		return nil, err
	}
	if opt.withWAL {
		if v.wal, err = a.openWALRows(v.span, temp, v.note); err != nil {
			return nil, err
		}
	}
	if _, err = v.open(ctx); err != nil {
		return nil, err
	}
	return v, v.refresh()
}

// open opens the catalog unless it is open. With the log to read, none is no error: it may come any moment. One that is lost is: most
// rows are in its tables.
func (v *view) open(ctx context.Context) (*lake.Lake, error) {
	if v.lake != nil {
		return v.lake, nil
	}
	l, err := v.a.openLake(ctx, true)
	if v.wal != nil && errors.Is(err, lake.ErrNoCatalog) && !v.a.lostCatalog() {
		return nil, nil
	}
	v.lake = l
	return l, err
}

func (v *view) close() error {
	err := v.refresh()
	if v.lake != nil {
		err = errors.Join(err, v.lake.Close())
	}
	return err
}

// verdict is an error when what was shown lacked rows of the log. It does not end a shell: it is the last word.
func (v *view) verdict() error {
	if v.wal == nil {
		return nil
	}
	return v.wal.verdict()
}

// refresh forgets what was read of the lake, and removes what it took to read it.
func (v *view) refresh() error {
	v.spaces, v.names, v.tables = nil, map[string][]spelled{}, map[string]dataTable{}
	v.remote.local, v.remote.taken = map[string]string{}, 0
	return v.temp.close()
}

// note writes a line to stderr, once.
func (v *view) note(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if v.told[text] {
		return nil
	}
	v.told[text] = true
	_, err := fmt.Fprintln(v.a.stderr, "siglake: "+text)
	return err
}

// namespaces lists the catalog's namespaces.
func (v *view) namespaces(ctx context.Context) ([]spelled, error) {
	if v.spaces != nil {
		return v.spaces, nil
	}
	var names []string
	if v.lake != nil {
		var err error
		if names, err = v.lake.Namespaces(ctx); err != nil {
			return nil, err
		}
	}
	if v.wal != nil {
		names = union(names, v.wal.namespaces())
	}
	v.spaces = spellAll(names)
	return v.spaces, nil
}

// tableNames lists the tables of a namespace.
func (v *view) tableNames(ctx context.Context, ns spelled) ([]spelled, error) {
	if names, ok := v.names[ns.name]; ok {
		return names, nil
	}
	var names []string
	if v.lake != nil {
		var err error
		if names, err = v.lake.TableNames(ctx, ns.name); err != nil {
			return nil, err
		}
	}
	if v.wal != nil {
		names = union(names, v.wal.tables(ns.name))
	}
	var taken []string
	if ns.name == defaultSpace {
		var err error
		if taken, err = ownNames(ctx); err != nil {
			return nil, err
		}
	}
	v.names[ns.name] = spellAll(names, taken...)
	return v.names[ns.name], nil
}

// source matches statements that read from something, catalogue those that may ask what tables there are, and dynamic
// those that may name tables in a way their syntax does not show. A match too many costs time only.
var (
	source    = regexp.MustCompile(`(?i)\b(from|join|table)\b`)
	catalogue = regexp.MustCompile(`(?i)\b(show|describe|desc|information_schema)\b|\bduckdb_|\bpg_|\bsqlite_|\bpragma_`)
	dynamic   = regexp.MustCompile(`(?i)\bquery(_table)?\s*\(|\b(un)?pivot\b`)
)

// dataset plans the tables that a statement names; where it may ask for others, those too.
func (v *view) dataset(ctx context.Context, query string) (dataset, error) {
	var d dataset
	refs := namesIn(ctx, query)
	for _, ref := range refs {
		if err := v.add(ctx, &d, ref, false); err != nil {
			return dataset{}, err
		}
	}
	switch {
	case dynamic.MatchString(query), len(refs) == 0 && source.MatchString(query):
		return d, v.addAll(ctx, &d, false)
	case catalogue.MatchString(query):
		return d, v.addAll(ctx, &d, true)
	}
	return d, nil
}

// add adds the table of a reference if there is one. With describe nothing but its columns is read.
func (v *view) add(ctx context.Context, d *dataset, ref tableRef, describe bool) error {
	if ref.space == "" {
		ref.space = defaultSpace
	}
	spaces, err := v.namespaces(ctx)
	if err != nil {
		return err
	}
	ns, ok := find(spaces, ref.space)
	if !ok {
		return nil
	}
	names, err := v.tableNames(ctx, ns)
	if err != nil {
		return err
	}
	name, ok := find(names, ref.name)
	if !ok {
		return nil
	}
	return v.load(ctx, d, ns, name, describe)
}

// addAll adds every table that is not there yet. What cannot be listed is named in a note.
func (v *view) addAll(ctx context.Context, d *dataset, describe bool) error {
	spaces, err := v.namespaces(ctx)
	if err != nil {
		return err
	}
	for _, ns := range spaces {
		names, err := v.tableNames(ctx, ns)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if err := v.note("not all tables can be read: %v", err); err != nil {
				return err
			}
		}
		for _, name := range names {
			if err := v.load(ctx, d, ns, name, describe); err != nil {
				return err
			}
		}
	}
	return nil
}

// load adds one table, unless d has it.
func (v *view) load(ctx context.Context, d *dataset, ns, name spelled, describe bool) error {
	if slices.ContainsFunc(d.tables, func(t dataTable) bool { return t.space == ns.visible && t.name == name.visible }) {
		return nil
	}
	if ns.name != ns.visible || name.name != name.visible {
		if err := v.note("SQL does not tell letter cases apart, and DuckDB has tables of its own: table %s.%s is %q.%q here", ns.name, name.name, ns.visible, name.visible); err != nil {
			return err
		}
	}
	key := ns.visible + "\x00" + name.visible
	t, ok := v.tables[key]
	if !ok {
		t = dataTable{space: ns.visible, name: name.visible, described: describe}
		none, err := v.read(ctx, &t, tableRef{ns.name, name.name})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if none {
			return nil
		}
		if t.refuse(err); err == nil && !t.described {
			if v.narrow(&t); t.refused == "" {
				err = v.remote.fetch(ctx, v.lake, &t, &progress{w: v.a.stderr, on: v.a.terminal, now: v.a.now})
			}
			if err != nil {
				return err
			}
			v.tables[key] = t
		}
	}
	if !slices.Contains(d.spaces, ns.visible) {
		d.spaces = append(d.spaces, ns.visible)
	}
	d.tables = append(d.tables, t)
	return nil
}

// read plans a table, or describes it where that is all that t wants; none says that there is no such table after all.
func (v *view) read(ctx context.Context, t *dataTable, ref tableRef) (none bool, err error) {
	if t.described && v.lake != nil {
		t.plan, err = v.lake.Describe(ctx, ref.space, ref.name)
		if v.wal == nil || !errors.Is(err, lake.ErrNoTable) {
			return false, err
		}
	}
	if v.wal == nil {
		t.plan, err = v.lake.Plan(ctx, ref.space, ref.name)
		return false, err
	}
	p, err := v.wal.plan(ctx, v.open, ref)
	t.plan, t.described = p.plan, false
	return p.none && err == nil, err
}

// narrow applies --since and --until.
func (v *view) narrow(t *dataTable) {
	if !v.span.fits(t.plan) {
		t.refused = fmt.Sprintf("table %s.%s has no column timestamp of type timestamptz, which --since and --until speak of", t.space, t.name)
		return
	}
	t.where = v.span.where()
	all := len(t.plan.Files)
	t.plan.Files = v.span.files(t.plan.Files)
	t.leftOut = all - len(t.plan.Files)
}

// refuse notes why the table cannot be read, if so.
func (t *dataTable) refuse(err error) {
	switch {
	case err != nil:
		t.refused = fmt.Sprintf("table %s.%s cannot be read: %v", t.space, t.name, err)
	case t.plan.Unreadable != "":
		t.refused = fmt.Sprintf("table %s.%s cannot be read by this version: another engine has given it %s", t.space, t.name, t.plan.Unreadable)
	case t.plan.DeleteFiles > 0:
		t.refused = fmt.Sprintf("table %s.%s has %s in snapshot %d, which this version does not apply; "+
			"rewrite the table's files without deletes first", t.space, t.name,
			plural(t.plan.DeleteFiles, "delete file", "delete files"), t.plan.SnapshotID)
	}
}

// lookup finds one table by the name a person typed, as \d does.
func (v *view) lookup(ctx context.Context, ref tableRef) (dataTable, error) {
	var d dataset
	if err := v.add(ctx, &d, ref, true); err != nil {
		return dataTable{}, err
	}
	if len(d.tables) == 0 {
		return dataTable{}, v.hint(ctx, fmt.Errorf("there is no table %s", ref), ref.String())
	}
	return d.tables[0], nil
}

func (r tableRef) String() string {
	if r.space == "" {
		return r.name
	}
	return r.space + "." + r.name
}

// hint adds to an error about an unknown table which ones there are: those with names like it first.
func (v *view) hint(ctx context.Context, err error, name string) error {
	const appear = "tables appear with their first rows, when these are drained"
	all, listErr := v.all(ctx)
	switch {
	case listErr != nil:
		return errors.Join(err, listErr)
	case len(all) == 0:
		return fmt.Errorf("%w\nThere are no tables yet: %s", err, appear)
	}
	const most = 10
	more := ""
	if len(all) > most {
		nearestFirst(all, name)
		more = fmt.Sprintf(" and %d more (SHOW ALL TABLES)", len(all)-most)
		all = all[:most]
	}
	return fmt.Errorf("%w\nThe tables are: %s%s; %s", err, strings.Join(all, ", "), more, appear)
}

// all names all tables.
func (v *view) all(ctx context.Context) ([]string, error) {
	spaces, err := v.namespaces(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, ns := range spaces {
		names, err := v.tableNames(ctx, ns)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			out = append(out, ns.visible+"."+n.visible)
		}
	}
	return out, nil
}
