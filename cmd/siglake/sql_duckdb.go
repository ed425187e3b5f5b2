//go:build cgo

package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// defaultSpace is the namespace whose tables need no prefix.
const defaultSpace = "siglake"

// session is one DuckDB in memory that holds a view per table and is locked down.
type session struct {
	connector *duckdb.Connector
	conn      *duckdb.Conn
}

// runQuery runs one statement over the dataset and prints its result.
func runQuery(ctx context.Context, d dataset, opt sqlOptions, out resultWriter) (err error) {
	s, err := newSession(ctx, d, opt.maxMemory)
	if err != nil {
		return d.hint(err, opt)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	stmt, plan, err := s.prepare(opt.query)
	if err != nil {
		return d.hint(err, opt)
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	if t, ok := out.(*tableResult); ok && plan {
		out = &plainResult{w: t.w}
	}
	if err := printRows(ctx, stmt, out); err != nil {
		return d.hint(err, opt)
	}
	return nil
}

// newSession makes the views and then takes the keys away: no file but those of the plans can be opened, nothing is
// spilled, no extension is loaded, and no setting can be changed back.
func newSession(ctx context.Context, d dataset, maxMemory string) (*session, error) {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start DuckDB: %w", err), connector.Close())
	}
	s := &session{connector: connector}
	var ok bool
	if s.conn, ok = conn.(*duckdb.Conn); !ok {
		return nil, errors.Join(fmt.Errorf("start DuckDB: connection of type %T", conn), conn.Close(), connector.Close())
	}
	for _, st := range setup(d, maxMemory) {
		if _, err := s.conn.ExecContext(ctx, st.sql, nil); err != nil {
			if err = fmt.Errorf("%s: %w", st.what, err); st.flag {
				err = &exitError{exitUsage, err}
			}
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *session) close() error { return errors.Join(s.conn.Close(), s.connector.Close()) }

type setupStep struct {
	what, sql string
	flag      bool // the value of a flag is what can be wrong with it
}

func setup(d dataset, maxMemory string) []setupStep {
	steps := []setupStep{
		{what: "set the time zone", sql: "SET TimeZone = 'UTC'"},
		{what: fmt.Sprintf("--max-memory %q", maxMemory), sql: "SET memory_limit = " + quote(maxMemory), flag: true},
		{what: "forbid spilling", sql: "SET temp_directory = ''"},
		{what: "forbid extensions", sql: "SET autoinstall_known_extensions = false"},
		{what: "forbid extensions", sql: "SET autoload_known_extensions = false"},
	}
	path := []string{"main"}
	for _, sp := range d.spaces {
		steps = append(steps, setupStep{what: "make namespace " + sp, sql: "CREATE SCHEMA IF NOT EXISTS " + ident(sp)})
		if sp == defaultSpace {
			path = []string{sp, "main"}
		}
	}
	for _, t := range d.tables {
		steps = append(steps, setupStep{what: "make table " + t.space + "." + t.name, sql: viewOf(t)})
	}
	return append(steps,
		setupStep{what: "set the default namespace", sql: "SET search_path = " + quote(strings.Join(path, ","))},
		setupStep{what: "allow the tables' files", sql: "SET allowed_paths = " + readable(d)},
		setupStep{what: "forbid everything else", sql: "SET enable_external_access = false"},
		setupStep{what: "lock the session", sql: "SET lock_configuration = true"},
	)
}

// readable lists the files that a query may touch: those of the plans. Not their directory: whatever DuckDB is
// allowed to read it may also write, and a function such as enable_logging takes a path.
func readable(d dataset) string {
	var files []string
	for _, t := range d.tables {
		if t.refused == "" {
			for _, f := range t.plan.Files {
				files = append(files, quote(f.Path))
			}
		}
	}
	return "[" + strings.Join(files, ", ") + "]"
}

// viewOf returns the statement that makes a table visible. Columns are found by field id, so that old files under
// a renamed column, and files without a newer one, give what Iceberg says they do.
func viewOf(t dataTable) string {
	name := ident(t.space) + "." + ident(t.name)
	if len(t.plan.Schema) == 0 {
		return "CREATE VIEW " + name + " AS SELECT error(" + quote(t.refused) + ") AS unreadable"
	}
	if t.refused != "" || len(t.plan.Files) == 0 {
		cols := make([]string, len(t.plan.Schema))
		for i, c := range t.plan.Schema {
			cols[i] = "CAST(NULL AS " + c.DuckDBType + ") AS " + ident(c.Name)
		}
		where := "false"
		if t.refused != "" {
			// Nothing can be read from the view without this being evaluated.
			where = "error(" + quote(t.refused) + ")::BOOLEAN"
		}
		return "CREATE VIEW " + name + " AS SELECT " + strings.Join(cols, ", ") + " WHERE " + where
	}
	files := make([]string, len(t.plan.Files))
	for i, f := range t.plan.Files {
		files[i] = quote(f.Path)
	}
	cols := make([]string, len(t.plan.Schema))
	for i, c := range t.plan.Schema {
		cols[i] = fmt.Sprintf("%d: {name: %s, type: %s, default_value: NULL}", c.FieldID, quote(c.Name), quote(c.DuckDBType))
	}
	return "CREATE VIEW " + name + " AS SELECT * FROM read_parquet([" + strings.Join(files, ", ") +
		"], hive_partitioning = false, schema = MAP {" + strings.Join(cols, ", ") + "})"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func ident(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// explained matches EXPLAIN and its options before the statement that is explained.
var explained = regexp.MustCompile(`(?is)^\s*EXPLAIN\s+(ANALYZE\s+)?(\([^()]*\)\s*)?(.*)$`)

// prepare refuses everything but one statement that reads. allowed_paths lets COPY write where it lets read_parquet
// read, so the kind of statement is what keeps the tables' files safe. plan tells that the statement explains
// another.
func (s *session) prepare(query string) (_ *duckdb.Stmt, plan bool, _ error) {
	stmt, kind, err := s.parse(query)
	if err != nil {
		return nil, false, err
	}
	if plan = kind == duckdb.STATEMENT_TYPE_EXPLAIN; plan {
		// EXPLAIN ANALYZE runs what it explains.
		if m := explained.FindStringSubmatch(query); m != nil {
			var inner *duckdb.Stmt
			if inner, kind, err = s.parse(m[3]); err == nil {
				err = inner.Close()
			}
		}
	}
	if err == nil && kind != duckdb.STATEMENT_TYPE_SELECT {
		err = usageError("only SELECT (also FROM, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN of them) can be run here: this command reads only")
	}
	if err != nil {
		return nil, false, errors.Join(err, stmt.Close())
	}
	if n := stmt.NumInput(); n > 0 {
		return nil, false, errors.Join(usageError("the statement has %s; write the values into it", plural(n, "parameter", "parameters")), stmt.Close())
	}
	return stmt, plan, nil
}

// parse prepares exactly one statement.
func (s *session) parse(query string) (*duckdb.Stmt, duckdb.StmtType, error) {
	prepared, err := s.conn.Prepare(query)
	if err != nil {
		switch {
		case strings.Contains(err.Error(), "multi-statement"):
			err = usageError("give one statement; some, such as PIVOT without IN, are several inside")
		case err.Error() == "empty query":
			err = usageError("the statement is empty")
		}
		return nil, 0, err
	}
	stmt, ok := prepared.(*duckdb.Stmt)
	if !ok {
		return nil, 0, errors.Join(fmt.Errorf("statement of type %T", prepared), prepared.Close())
	}
	kind, err := stmt.StatementType()
	if err != nil {
		return nil, 0, errors.Join(err, stmt.Close())
	}
	return stmt, kind, nil
}

func printRows(ctx context.Context, stmt *duckdb.Stmt, out resultWriter) (err error) {
	rows, err := stmt.QueryContext(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names := rows.Columns()
	cols := make([]column, len(names))
	conv := make([]duckdb.TypeInfo, len(names))
	for i, name := range names {
		// A type that the driver cannot describe is printed by its Go value.
		conv[i], _ = stmt.ColumnTypeInfo(i)
		cols[i] = column{name: name, numeric: conv[i] != nil && numeric(conv[i].InternalType())}
	}
	if err := out.begin(cols); err != nil {
		return err
	}
	raw, values := make([]driver.Value, len(names)), make([]any, len(names))
	for {
		err := rows.Next(raw)
		if errors.Is(err, io.EOF) {
			return out.end()
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, v := range raw {
			values[i] = convert(v, conv[i])
		}
		if err := out.row(values); err != nil {
			return err
		}
	}
}
