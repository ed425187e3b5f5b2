package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/lake"
)

// sqlOptions are the flags of sql.
type sqlOptions struct {
	query     string
	maxWidth  int
	maxMemory string
}

// maxQuery bounds a query read from stdin.
const maxQuery = 1 << 20

func newSQL(a *app) *cobra.Command {
	var opt sqlOptions
	cmd := &cobra.Command{
		Use:   `sql "SELECT …"`,
		Short: "Query the tables with SQL",
		Long: `Run one SELECT over the tables and print the result. The dialect is DuckDB's. "-" reads the statement from stdin.

Tables are named namespace.table: siglake.events, siglake.spans, siglake.metrics; those of namespace siglake also
without it. Attributes are maps: attributes['http.route']. SHOW ALL TABLES and DESCRIBE events tell what there is.
Each table is read as of its newest snapshot when the command starts; times are in UTC.

The session reads only: no other statement than SELECT (also DESCRIBE, SHOW, SUMMARIZE, EXPLAIN), no file but those
of the tables, nothing written to disk, no extension loaded. A table with row-level deletes is refused by name.

Formats: table (values cut at --max-width), json (an array, one row a line), csv.`,
		Example: `  siglake sql "SELECT timestamp, severity_text, body FROM events ORDER BY timestamp DESC LIMIT 20"
  siglake sql "SELECT attributes['http.route'] AS route, count(*) FROM spans GROUP BY ALL ORDER BY 2 DESC"
  siglake sql -o csv "FROM metrics WHERE metric_name = 'http.server.duration'" > metrics.csv`,
		Args: args(1, 1, "one SQL statement"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if opt.query, err = a.query(args[0]); err != nil {
				return err
			}
			return a.sql(cmd.Context(), cmd.OutOrStdout(), opt)
		},
	}
	cmd.Flags().IntVar(&opt.maxWidth, "max-width", 80, "cut values of the table format at this many characters; 0 = never")
	cmd.Flags().StringVar(&opt.maxMemory, "max-memory", "2GB", "most memory the query may take; it never spills to disk")
	a.outputFlag(cmd, "table", "json", "csv")
	return cmd
}

// query returns the statement of an argument.
func (a *app) query(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(io.LimitReader(a.stdin, maxQuery+1))
	if err != nil {
		return "", fmt.Errorf("read the statement from stdin: %w", err)
	}
	if len(b) > maxQuery {
		return "", usageError("the statement on stdin is longer than %d bytes", maxQuery)
	}
	return string(b), nil
}

// dataset is what a query can see.
type dataset struct {
	tables []dataTable
	// spaces are all namespaces, in the order of the catalog.
	spaces []string
}

// hint adds to DuckDB's errors what to do about them here: to one about an unknown table which ones there are, to
// one about memory, whose own advice is settings that are locked, the flag.
func (d dataset) hint(err error, opt sqlOptions) error {
	if strings.HasPrefix(err.Error(), "Out of Memory Error") {
		return fmt.Errorf("%w\nOf these solutions siglake has one: give the query more than --max-memory %s; "+
			"or let it read less, by fewer columns or a narrower WHERE", err, opt.maxMemory)
	}
	if !strings.Contains(err.Error(), "Table with name") {
		return err
	}
	if len(d.tables) == 0 {
		return fmt.Errorf("%w\nThere are no tables yet: tables appear with their first rows, when these are drained", err)
	}
	names := make([]string, len(d.tables))
	for i, t := range d.tables {
		names[i] = t.space + "." + t.name
	}
	return fmt.Errorf("%w\nThe tables are: %s; tables appear with their first rows, when these are drained", err, strings.Join(names, ", "))
}

// dataTable is one table: a plan, or the reason why it cannot be read.
type dataTable struct {
	space, name string
	plan        lake.Plan
	refused     string
}

// spellings are the names in one place of SQL, by their lower-case form.
type spellings map[string][]string

// visible is a name's form in SQL, which does not tell letter cases apart: the second of two that differ in nothing
// else gets a number.
func (s spellings) visible(name string) string {
	key := strings.ToLower(name)
	i := slices.Index(s[key], name)
	if i < 0 {
		i = len(s[key])
		s[key] = append(s[key], name)
	}
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s (%d)", name, i+1)
}

// plan reads the newest snapshot of every table. A table that cannot be read is refused when a query names it;
// the others are not affected.
func (a *app) plan(ctx context.Context) (_ dataset, err error) {
	l, err := a.openLake(ctx, true)
	if err != nil {
		return dataset{}, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	infos, listErr := l.Tables(ctx)
	if len(infos) == 0 && listErr != nil {
		return dataset{}, listErr
	}
	var d dataset
	spaces := spellings{}
	names := map[string]spellings{}
	for _, info := range infos {
		t := dataTable{space: spaces.visible(info.Namespace)}
		if names[t.space] == nil {
			names[t.space] = spellings{}
		}
		t.name = names[t.space].visible(info.Name)
		if t.space != info.Namespace || t.name != info.Name {
			if _, err := fmt.Fprintf(a.stderr, "siglake: SQL does not tell letter cases apart: table %s.%s is %q.%q here\n",
				info.Namespace, info.Name, t.space, t.name); err != nil {
				return dataset{}, err
			}
		}
		t.plan, err = l.Plan(ctx, info.Namespace, info.Name)
		switch {
		case ctx.Err() != nil:
			return dataset{}, ctx.Err()
		case err != nil:
			t.refused = fmt.Sprintf("table %s.%s cannot be read: %v", t.space, t.name, err)
		case t.plan.DeleteFiles > 0:
			t.refused = fmt.Sprintf("table %s.%s has %s in snapshot %d, which this version does not apply; "+
				"rewrite the table's files without deletes first", t.space, t.name,
				plural(t.plan.DeleteFiles, "delete file", "delete files"), t.plan.SnapshotID)
		}
		d.tables = append(d.tables, t)
		if len(d.spaces) == 0 || d.spaces[len(d.spaces)-1] != t.space {
			d.spaces = append(d.spaces, t.space)
		}
	}
	if listErr != nil {
		if _, err := fmt.Fprintf(a.stderr, "siglake: not all tables can be read: %v\n", listErr); err != nil {
			return dataset{}, err
		}
	}
	return d, nil
}

// sql plans, queries and prints. Compaction may delete a file between the plan and the read; then it plans again.
func (a *app) sql(ctx context.Context, w io.Writer, opt sqlOptions) error {
	const attempts = 3
	var err error
	for range attempts {
		var d dataset
		if d, err = a.plan(ctx); err != nil {
			return err
		}
		out := &countingWriter{w: bufio.NewWriterSize(w, 64<<10)}
		err = runQuery(ctx, d, opt, newResultWriter(a.output, out, opt.maxWidth))
		if err == nil {
			return out.w.Flush()
		}
		if out.n > 0 || !fileVanished(err) {
			return errors.Join(err, out.w.Flush())
		}
	}
	return err
}

// fileVanished tells an error about a file that is not there from all others.
func fileVanished(err error) bool {
	return errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "No such file or directory") ||
		strings.Contains(err.Error(), "No files found that match the pattern")
}

// countingWriter knows whether anything was printed yet.
type countingWriter struct {
	w *bufio.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
