//go:build cgo

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// session is one DuckDB in memory that holds a view per table and is locked down.
type session struct {
	db   *sql.DB
	conn *sql.Conn
}

// runQuery runs one statement over the dataset and prints its result.
func runQuery(ctx context.Context, d dataset, opt sqlOptions, query string, measure bool, out resultWriter) (used usage, err error) {
	s, err := newSession(ctx, d, opt.maxMemory, measure)
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	err = s.conn.Raw(func(c any) error {
		conn, ok := c.(*duckdb.Conn)
		if !ok {
			return fmt.Errorf("start DuckDB: connection of type %T", c)
		}
		return runOn(ctx, conn, query, out)
	})
	if err == nil && measure {
		used = s.usage()
	}
	return used, err
}

func runOn(ctx context.Context, conn *duckdb.Conn, query string, out resultWriter) (err error) {
	stmt, plan, err := prepare(conn, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	if t, ok := out.(*tableResult); ok && plan {
		out = &plainResult{w: t.w}
	}
	return printRows(ctx, stmt, out)
}

// inEmpty does something in a DuckDB that holds nothing.
func inEmpty(ctx context.Context, do func(*sql.Conn) error) (err error) {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return fmt.Errorf("start DuckDB: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("start DuckDB: %w", err)
	}
	return errors.Join(do(conn), conn.Close())
}

// namesIn returns the tables that a statement names; none where it is wrong, which running it will tell.
func namesIn(ctx context.Context, query string) []tableRef {
	var refs []tableRef
	err := inEmpty(ctx, func(conn *sql.Conn) error {
		names, err := duckdb.GetTableNames(conn, query, true)
		for _, name := range names {
			refs = append(refs, parseRef(name))
		}
		return err
	})
	if err != nil {
		return nil
	}
	return refs
}

// ownNames are the tables that DuckDB has by itself and finds without a namespace. SHOW and its like read them: a table of
// ours of such a name, in a namespace that needs not be said, would stand in their way.
func ownNames(ctx context.Context) (names []string, err error) {
	err = inEmpty(ctx, func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, "SELECT view_name FROM duckdb_views() WHERE internal AND schema_name IN ('main', 'pg_catalog') ORDER BY 1")
		if err != nil {
			return err
		}
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return errors.Join(err, rows.Close())
			}
			names = append(names, name)
		}
		return errors.Join(rows.Err(), rows.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables of DuckDB itself: %w", err)
	}
	return names, nil
}

// newSession makes the views and then takes the keys away: no file but those of the plans can be opened, nothing is
// spilled, no extension is loaded, and no setting can be changed back.
func newSession(ctx context.Context, d dataset, maxMemory string, measure bool) (*session, error) {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	s := &session{db: sql.OpenDB(connector)}
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start DuckDB: %w", err), s.db.Close())
	}
	for _, st := range setup(d, maxMemory, measure) {
		if _, err := s.conn.ExecContext(ctx, st.sql); err != nil {
			if err = fmt.Errorf("%s: %w", st.what, err); st.flag {
				err = &exitError{exitUsage, err}
			}
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *session) close() error { return errors.Join(s.conn.Close(), s.db.Close()) }

// filesRead is where DuckDB's profile says how many files a scan opened.
var filesRead = regexp.MustCompile(`Total Files Read=(\d+)`)

// usage adds up the scans of Parquet files in the profile of the last query.
func (s *session) usage() usage {
	info, err := duckdb.GetProfilingInfo(s.conn)
	if err != nil {
		return usage{} // not known
	}
	used := usage{known: true}
	var visit func(duckdb.ProfilingInfo)
	visit = func(p duckdb.ProfilingInfo) {
		if p.Metrics["OPERATOR_NAME"] == "READ_PARQUET" {
			// The last: a literal in a filter stands before it.
			if all := filesRead.FindAllStringSubmatch(p.Metrics["EXTRA_INFO"], -1); len(all) > 0 {
				n, _ := strconv.ParseInt(all[len(all)-1][1], 10, 64) // digits
				used.files += n
			}
			n, err := strconv.ParseInt(p.Metrics["OPERATOR_CARDINALITY"], 10, 64)
			used.known = used.known && err == nil
			used.rows += n
		}
		for _, c := range p.Children {
			visit(c)
		}
	}
	visit(info)
	return used
}

type setupStep struct {
	what, sql string
	flag      bool // the value of a flag is what can be wrong with it
}

func setup(d dataset, maxMemory string, measure bool) []setupStep {
	steps := []setupStep{
		{what: "set the time zone", sql: "SET TimeZone = 'UTC'"},
		{what: fmt.Sprintf("--max-memory %q", maxMemory), sql: "SET memory_limit = " + quote(maxMemory), flag: true},
		{what: "forbid spilling", sql: "SET temp_directory = ''"},
		{what: "forbid extensions", sql: "SET autoinstall_known_extensions = false"},
		{what: "forbid extensions", sql: "SET autoload_known_extensions = false"},
	}
	if measure {
		steps = append(steps, setupStep{what: "measure", sql: "SET enable_profiling = 'no_output'"}, setupStep{
			what: "measure", sql: `SET custom_profiling_settings = '{"OPERATOR_NAME":"true","OPERATOR_CARDINALITY":"true","EXTRA_INFO":"true"}'`,
		})
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
	if t.refused == "" && t.described {
		t.refused = fmt.Sprintf("table %s.%s was not read for this statement: name it in FROM", t.space, t.name)
	}
	if len(t.plan.Schema) == 0 {
		return "CREATE VIEW " + name + " AS SELECT NULL AS unreadable WHERE error(" + quote(t.refused) + ")::BOOLEAN" // not in a column: count(*) reads none
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
	view := "CREATE VIEW " + name + " AS SELECT * FROM read_parquet([" + strings.Join(files, ", ") +
		"], hive_partitioning = false, schema = MAP {" + strings.Join(cols, ", ") + "})"
	if t.where != "" {
		view += " WHERE " + t.where
	}
	return view
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func ident(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// explained matches EXPLAIN and its options before the statement that is explained.
var explained = regexp.MustCompile(`(?is)^\s*EXPLAIN\s+(ANALYZE\s+)?(\([^()]*\)\s*)?(.*)$`)

// prepare refuses everything but one statement that reads. allowed_paths lets COPY write where it lets read_parquet
// read, so the kind of statement is what keeps the tables' files safe. plan tells that the statement explains
// another.
func prepare(conn *duckdb.Conn, query string) (_ *duckdb.Stmt, plan bool, _ error) {
	stmt, kind, err := parse(conn, query)
	if err != nil {
		if slices.ContainsFunc(words(query), func(w string) bool { return writing[w] }) && words(query)[0] == "with" {
			err = errReadsOnly()
		}
		return nil, false, err
	}
	if plan = kind == duckdb.STATEMENT_TYPE_EXPLAIN; plan {
		// EXPLAIN ANALYZE runs what it explains.
		if m := explained.FindStringSubmatch(query); m != nil {
			var inner *duckdb.Stmt
			if inner, kind, err = parse(conn, m[3]); err == nil {
				err = inner.Close()
			}
		}
	}
	if err == nil && kind != duckdb.STATEMENT_TYPE_SELECT {
		err = errReadsOnly()
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
func parse(conn *duckdb.Conn, query string) (*duckdb.Stmt, duckdb.StmtType, error) {
	prepared, err := conn.Prepare(query)
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

// parseRef reads a name as DuckDB gives it back: [[catalog.]namespace.]table, parts quoted where need be, and an alias.
func parseRef(name string) tableRef {
	var parts []string
	var b strings.Builder
	quoted := false
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case quoted && c == '"' && i+1 < len(name) && name[i+1] == '"':
			b.WriteByte('"')
			i++
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			parts = append(parts, b.String())
			b.Reset()
		case c == ' ' && !quoted: // an alias
			i = len(name)
		default:
			b.WriteByte(c)
		}
	}
	parts = append(parts, b.String())
	ref := tableRef{name: parts[len(parts)-1]}
	if len(parts) > 1 {
		ref.space = parts[len(parts)-2]
	}
	return ref
}
