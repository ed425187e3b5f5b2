package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// sqlOptions are the flags of sql.
type sqlOptions struct {
	maxWidth  int
	maxMemory string
	noHistory bool
	withWAL   bool
	since     string
	until     string
	maxFetch  string
}

// span reads --since and --until.
func (o sqlOptions) span(now time.Time) (s span, err error) {
	if s.since, err = spanTime("--since", o.since, now); err != nil {
		return s, err
	}
	if s.until, err = spanTime("--until", o.until, now); err != nil {
		return s, err
	}
	if !s.since.IsZero() && !s.until.IsZero() && !s.since.Before(s.until) {
		return s, usageError("--since %s is not before --until %s: no row lies between them", o.since, o.until)
	}
	return s, nil
}

// maxStatement bounds a statement read from stdin, in bytes.
const maxStatement = 1 << 20

const sqlLong = `Run one SELECT over the tables and print the result. The dialect is DuckDB's.

Without a statement, on a terminal, this is a shell: statements end with ";" and may take several lines; \? lists its
commands, \d the tables; Ctrl-C ends a query that runs, Ctrl-D the shell. With stdin from a pipe or a file (or "-" as
the statement), the statements there run one after the other; the first that fails ends the command with its exit code.

Tables are named namespace.table: siglake.events, siglake.spans, siglake.metrics; those of namespace siglake also
without it. Attributes are maps: attributes['http.route']. SHOW ALL TABLES and DESCRIBE events tell what there is;
docs/tables.md has each column and queries to start from. A table is read as of its newest snapshot when it is first
named, in the shell until \refresh; times are in UTC.

--with-wal shows the rows in the write-ahead log beside those of the tables, each once. What is set aside there (poison/,
stale/) is not shown, and told on stderr; where a damaged segment is not set aside yet, the rest is shown and the exit code is 3. Nothing is locked for it: rows of a segment that a failing drain moves back and
forth in step with the listings could be missed; ask again. --since and --until narrow every table to a time and leave
out the files and segments that lie outside of it by what manifests and headers say.

Of a warehouse in an object store the files of the tables that a statement names are fetched into a private temporary
directory first, at most --max-fetch; in the shell each once until \refresh. The directory is removed at the end.

The session reads only: no other statement than SELECT (also DESCRIBE, SHOW, SUMMARIZE, EXPLAIN; everything else exits
2), no file but those of the tables, no result spilled to disk, no extension loaded. A table with row-level deletes is
refused by name.

Formats: table (values cut at --max-width), json (an array, one row a line), csv (maps, structs and lists as JSON); --format is another name of --output.`

func newSQL(a *app) *cobra.Command {
	var opt sqlOptions
	cmd := &cobra.Command{
		Use:   `sql ["SELECT …"]`,
		Short: "Query the tables with SQL; without a statement, a shell",
		Long:  sqlLong,
		Example: `  siglake sql
  siglake sql "SELECT timestamp, severity_text, body FROM events ORDER BY timestamp DESC LIMIT 20"
  siglake sql "SELECT attributes['http.route'] AS route, count(*) FROM spans GROUP BY ALL ORDER BY 2 DESC"
  siglake sql -o csv "FROM metrics WHERE metric_name = 'http.server.duration'" > metrics.csv
  siglake sql --with-wal --since 15m "SELECT count(*) FROM events WHERE severity_number >= 17"
  siglake sql --format json < report.sql`,
		Annotations: map[string]string{handlesInterrupts: ""},
		Args:        args(0, 1, "at most one SQL statement"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "-" {
				return a.shell(cmd.Context(), cmd.OutOrStdout(), opt, len(args) == 0)
			}
			ctx, stop := a.interrupt(cmd.Context())
			defer stop()
			return a.sql(ctx, cmd.OutOrStdout(), opt, args[0])
		},
	}
	cmd.Flags().IntVar(&opt.maxWidth, "max-width", 80, "cut values of the table format at this many characters; 0 = never")
	cmd.Flags().StringVar(&opt.maxMemory, "max-memory", "2GB", "most memory a query may take; it never spills to disk")
	cmd.Flags().BoolVar(&opt.withWAL, "with-wal", false, "also the rows that are acknowledged and not in the tables yet, each once")
	cmd.Flags().StringVar(&opt.since, "since", "", "only rows with this timestamp or a later one: how long ago (90m, 7d) or a time")
	cmd.Flags().StringVar(&opt.until, "until", "", "only rows with an earlier timestamp than this: how long ago or a time")
	cmd.Flags().StringVar(&opt.maxFetch, "max-fetch", "4GiB", "most bytes to fetch from an object store to a private temporary directory")
	cmd.Flags().BoolVar(&opt.noHistory, "no-history", false, "neither read nor write the file of what was typed in the shell")
	a.outputFlag(cmd, "table", "json", "csv")
	a.formatFlag(cmd)
	return cmd
}

// sql runs one statement.
func (a *app) sql(ctx context.Context, w io.Writer, opt sqlOptions, query string) (err error) {
	v, err := a.openView(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	r := runner{view: v, opt: opt, format: a.output, out: w}
	if a.terminal {
		r.stats = a.stderr
	}
	if err := r.run(ctx, query); err != nil {
		return err
	}
	return v.verdict()
}

// runner runs statements over a view and prints their results.
type runner struct {
	view     *view
	opt      sqlOptions
	format   string
	expanded bool // of the table format: a line a value
	out      io.Writer
	stats    io.Writer // what a statement took goes there; nil = nowhere
}

// run plans, queries and prints. Compaction may delete a file between the plan and the read; then it plans again.
func (r *runner) run(ctx context.Context, query string) error {
	const attempts = 3
	if err := checkVerb(query); err != nil {
		return err
	}
	var err error
	for range attempts {
		began := time.Now()
		var d dataset
		if d, err = r.view.dataset(ctx, query); err != nil {
			return err
		}
		out := &countingWriter{w: bufio.NewWriterSize(r.out, 64<<10)}
		var used usage
		used, err = runQuery(ctx, d, r.opt, query, r.stats != nil, newResultWriter(r.format, r.expanded, out, r.opt.maxWidth))
		if err == nil {
			if err := out.w.Flush(); err != nil || r.stats == nil {
				return err
			}
			return used.write(r.stats, d, time.Since(began))
		}
		err = d.told(err, r.view.a.fs)
		if out.n > 0 || !fileVanished(err) {
			return errors.Join(r.explain(ctx, err), out.w.Flush())
		}
		if err := r.view.refresh(); err != nil {
			return err
		}
	}
	return err
}

// explain adds to DuckDB's errors what to do about them here: to one about an unknown table which ones there are, to
// one about memory, whose own advice is settings that are locked, the flag.
func (r *runner) explain(ctx context.Context, err error) error {
	switch text := err.Error(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.HasPrefix(text, "Out of Memory Error"):
		return fmt.Errorf("%w\nOf these solutions siglake has one: give the query more than --max-memory %s; "+
			"or let it read less, by fewer columns or a narrower WHERE", err, r.opt.maxMemory)
	case unknownTable.MatchString(text):
		return r.view.hint(ctx, err, unknownTable.FindStringSubmatch(text)[1])
	}
	return err
}

// unknownTable finds the name in DuckDB's error about a table that is not there.
var unknownTable = regexp.MustCompile(`Table with name "?([^"\n]*?)"? does not exist`)

// usage is what a query took, as DuckDB counts it.
type usage struct {
	known bool
	files int64 // that scans of Parquet opened
	rows  int64 // that passed those scans' filters
}

// write says what the query had to read. What DuckDB skipped inside of files it does not tell, so neither do we.
func (u usage) write(w io.Writer, d dataset, took time.Duration) error {
	var files, rows int64
	leftOut := 0
	for _, t := range d.tables {
		leftOut += t.leftOut
		files += int64(len(t.plan.Files))
		for _, f := range t.plan.Files {
			rows += f.Rows
		}
	}
	text := fmt.Sprintf("%s; planned %s rows in %s", took.Round(time.Millisecond), humanCount(rows), plural(int(files), "file", "files"))
	if leftOut > 0 {
		text += fmt.Sprintf(" (%s left out by --since and --until)", humanCount(int64(leftOut)))
	}
	if files == 0 && leftOut == 0 {
		text = took.Round(time.Millisecond).String()
	} else if u.known && files > 0 {
		text += fmt.Sprintf("; DuckDB opened %s and took %s rows out of them", plural(int(u.files), "file", "files"), humanCount(u.rows))
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// writing are the statements that do something else than read.
var writing = map[string]bool{
	"insert": true, "update": true, "delete": true, "merge": true, "truncate": true, "create": true, "drop": true, "alter": true,
	"copy": true, "export": true, "import": true, "attach": true, "detach": true, "use": true, "set": true, "reset": true,
	"pragma": true, "install": true, "load": true, "call": true, "begin": true, "start": true, "commit": true, "rollback": true,
	"abort": true, "checkpoint": true, "force": true, "vacuum": true, "analyze": true, "prepare": true, "execute": true,
	"deallocate": true, "comment": true, "grant": true, "revoke": true,
}

// checkVerb refuses what does not read before DuckDB looks whether it could be done. That is for the exit code alone:
// what runs is decided by the kind of the statement that DuckDB has prepared.
func checkVerb(query string) error {
	ws := words(query)
	if len(ws) > 0 && ws[0] == "explain" {
		ws = ws[1:]
		if len(ws) > 1 && ws[0] == "analyze" {
			ws = ws[1:]
		}
	}
	if len(ws) > 0 && writing[ws[0]] {
		return errReadsOnly()
	}
	return nil
}

func errReadsOnly() error {
	return usageError("only SELECT (also FROM, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN of them) can be run here: this command reads only")
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
