//go:build cgo

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
)

// tabled is a site with rows in siglake.events and in another tenant's events.
func tabled(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.write("default", "events", 3, 2)
	s.write("team-a", "events", 4)
	s.ok("drain", "--once")
	return s
}

func TestSQL(t *testing.T) {
	t.Parallel()
	s := tabled(t)
	t.Run("table", func(t *testing.T) {
		t.Parallel()
		s.golden("sql_table.txt", s.ok("sql", "SELECT timestamp, service_name, severity_number, body, attributes, attribute_types, trace_id FROM events ORDER BY timestamp"))
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		s.golden("sql_json.txt", s.ok("sql", "-o", "json", "SELECT timestamp, body, attributes, trace_id FROM siglake.events ORDER BY timestamp LIMIT 2"))
	})
	t.Run("csv", func(t *testing.T) {
		t.Parallel()
		s.golden("sql_csv.txt", s.ok("sql", "-o", "csv", "SELECT timestamp, body, attributes, trace_id FROM events ORDER BY timestamp LIMIT 2"))
	})
	t.Run("every_namespace_is_a_schema", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, s.ok("sql", `SELECT count(*) AS n FROM "tenant_team-a".events`), "\n4\n")
	})
	t.Run("statement_from_stdin", func(t *testing.T) {
		t.Parallel()
		other := *s
		other.tb, other.stdin = t, strings.NewReader("SELECT count(*) AS n\nFROM events;\n")
		require.Contains(t, other.ok("sql", "-"), "\n5\n")
	})
	t.Run("format_is_output", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "n\n5\n", s.ok("sql", "--format", "csv", "SELECT count(*) AS n FROM Events"))
		require.Equal(t, "[\n{\"n\":5}\n]\n", s.ok("sql", "--output=json", "SELECT count(*) AS n FROM SIGLAKE.events"))
	})
	t.Run("tables_no_syntax_names", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "n\n9\n", s.ok("sql", "-o", "csv", `SELECT (SELECT count(*) FROM query('FROM events')) + (SELECT count(*) FROM query_table('"tenant_team-a".events')) AS n`))
	})
	t.Run("statement_begins_with_a_comment", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "n\n5\n", s.ok("sql", "-- All of them.\nSELECT count(*) AS n FROM events", "-o", "csv"))
		require.Equal(t, "n\n5\n", s.ok("sql", "-o", "csv", "--\nSELECT count(*) AS n FROM events"))
		require.Equal(t, "n\n5\n", s.ok("sql", "-o", "csv", "--", "-- x\nSELECT count(*) AS n FROM events"))
	})
	t.Run("wrong_usage", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{
			{""},
			{" ; "},
			{"-- only this"},
			{"SELECT 1; SELECT 2"},
			{"SELECT ?"},
			{"--max-memory", "nope", "SELECT 1"},
			{"SELECT 1", "--format", "yaml"},
		} {
			r := s.run(append([]string{"sql"}, args...)...)
			require.Equal(t, exitUsage, r.code, "%q: %s", args, r.stderr)
			require.Empty(t, r.stdout, args)
		}
		require.Equal(t, exitFailed, s.run("sql", "SELEC 1").code)
	})
	t.Run("out_of_memory", func(t *testing.T) {
		t.Parallel()
		r := s.run("sql", "--max-memory", "20MB", "SELECT max(len(x)) FROM (SELECT list(i) AS x FROM range(3000000) t(i) GROUP BY i % 1000)")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "give the query more than --max-memory 20MB")
	})
	t.Run("statements_that_describe", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, s.ok("sql", "SHOW ALL TABLES"), "events")
		require.Contains(t, s.ok("sql", "DESCRIBE events"), "TIMESTAMP WITH TIME ZONE")
		require.Contains(t, s.ok("sql", "EXPLAIN SELECT count(*) FROM events WHERE service_name = 'shop'"), "│        READ_PARQUET")
		require.Contains(t, s.ok("sql", "FROM events LIMIT 1"), "(1 row)")
	})
	t.Run("unknown_table", func(t *testing.T) {
		t.Parallel()
		r := s.run("sql", "SELECT * FROM metrics")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "The tables are: siglake.events, tenant_team-a.events; tables appear with their first rows")
	})
	t.Run("no_catalog", func(t *testing.T) {
		t.Parallel()
		r := s.run("sql", "SELECT 1", "--data", t.TempDir())
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "no catalog at")
		require.Contains(t, r.stderr, "start the collector")
	})
}

// LAKE-1. Nothing that the command runs may change a table, or touch a file that is none of a table's.
func TestSQL_reads_only(t *testing.T) {
	t.Parallel()
	s := tabled(t)
	data, err := filepath.Glob(filepath.Join(s.dir, "warehouse", "siglake.db", "events", "data", "*", "*.parquet"))
	require.NoError(t, err)
	require.Len(t, data, 1)
	before, err := os.ReadFile(data[0])
	require.NoError(t, err)
	evil := filepath.Join(s.dir, "warehouse", "evil")
	for _, query := range []string{
		"DROP TABLE events",
		"DROP TABLE nothing",
		"INSERT INTO events SELECT * FROM events",
		"WITH x AS (SELECT 1) DELETE FROM events",
		"UPDATE events SET body = ''",
		"BEGIN",
		"CREATE VIEW v AS SELECT 1",
		"COPY (SELECT 1) TO '" + data[0] + "'",
		"COPY (SELECT 1) TO '" + evil + "'",
		"EXPLAIN ANALYZE COPY (SELECT 1) TO '" + data[0] + "'",
		"/* x */ EXPLAIN ANALYZE COPY (SELECT 1) TO '" + data[0] + "'",
		"EXPLAIN (ANALYZE) COPY (SELECT 1) TO '" + data[0] + "'",
		"SELECT 1; COPY (SELECT 1) TO '" + data[0] + "'",
		"EXPORT DATABASE '" + evil + "'",
		"ATTACH '" + evil + "'",
		"CREATE TABLE t AS SELECT 1",
		"DROP VIEW events",
		"DELETE FROM events",
		"SET enable_external_access = true",
		"SET allowed_paths = ['/']",
		"RESET lock_configuration",
		"PRAGMA enable_profiling = 'json'",
		"INSTALL httpfs",
		"LOAD httpfs",
		"CALL checkpoint()",
		"SELECT * FROM read_text('/etc/hostname')",
		"SELECT * FROM read_text('" + filepath.Join(s.dir, "catalog.db") + "')",
		"SELECT * FROM glob('" + s.dir + "/*')",
		"SELECT * FROM query('COPY (SELECT 1) TO ''" + evil + "''')",
		"SELECT * FROM events WHERE body = ?",
		"",
	} {
		r := s.run("sql", query)
		want := exitUsage
		if strings.HasPrefix(query, "SELECT * FROM ") && !strings.Contains(query, "?") {
			want = exitFailed
		}
		require.Equal(t, want, r.code, "%s: %s", query, r.stderr)
		require.Empty(t, r.stdout, query)
	}
	for _, query := range []string{ // these may answer, and must do nothing
		"SELECT write_log('x', level := 'INFO') FROM enable_logging(level = 'info', storage = 'file', storage_path = '" + evil + "')",
		"SELECT count(*) FROM enable_profiling(save_location = '" + evil + ".json', format = 'json'), events",
	} {
		s.run("sql", query)
	}
	after, err := os.ReadFile(data[0])
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after))
	entries, err := os.ReadDir(filepath.Dir(evil))
	require.NoError(t, err)
	require.Len(t, entries, 2) // the two namespaces
}

// SQL folds letter case: two tenants that differ in nothing else are both there, and no query fails for them.
func TestSQL_namespaces_that_differ_in_case(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("Foo", "events", 2)
	s.ok("drain", "--once")
	require.NoError(t, os.Rename(s.walDir(), s.walDir()+".old")) // one root refuses the second spelling
	s.write("foo", "events", 3)
	s.ok("drain", "--once")
	r := s.run("sql", "--output", "csv", `SELECT count(*) AS n FROM "tenant_Foo".events UNION ALL SELECT count(*) FROM "tenant_foo (2)".events ORDER BY n`)
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, "n\n2\n3\n", r.stdout)
	require.Contains(t, r.stderr, `table tenant_foo.events is "tenant_foo (2)"."events" here`)
}

// A table named as one that DuckDB has by itself stands in nobody's way: it has another name there, and SHOW works.
func TestSQL_tables_named_as_those_of_DuckDB(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	own, err := ownNames(t.Context())
	require.NoError(t, err)
	require.Contains(t, own, "duckdb_columns")
	require.Contains(t, own, "pg_class")
	require.Contains(t, own, "sqlite_master")
	names := []string{"duckdb_tables", "duckdb_columns", "duckdb_views", "pg_class", "sqlite_master", "events", "pg_logs"}
	for _, name := range names {
		s.write("default", name, 2)
	}
	s.write("team-a", "pg_class", 3)
	s.ok("drain", "--once")
	for _, query := range []string{"SHOW ALL TABLES", "SHOW TABLES", "SHOW TABLES FROM siglake", "SELECT table_name FROM information_schema.tables"} {
		r := s.run("sql", "-o", "csv", query)
		require.Zero(t, r.code, "%s: %s", query, r.stderr)
		for _, name := range names {
			visible := name
			if slices.Contains(own, name) {
				visible += " (2)"
				require.Contains(t, r.stderr, fmt.Sprintf(`table siglake.%s is "siglake".%q here`, name, visible))
			}
			require.Contains(t, r.stdout, visible, query)
		}
	}
	for _, table := range []string{`"duckdb_tables (2)"`, `siglake."pg_class (2)"`, "pg_logs", "siglake.pg_logs"} {
		r := s.run("sql", "-o", "csv", "SELECT count(*) AS n FROM "+table)
		require.Equal(t, "n\n2\n", r.stdout, "%s: %s", table, r.stderr)
	}
	require.Equal(t, "n\n3\n", s.run("sql", "-o", "csv", `SELECT count(*) AS n FROM "tenant_team-a".pg_class`).stdout, "only where the namespace need not be said")
	r := s.run("sql", "FROM siglake.pg_class")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "siglake.pg_class (2)")
}

// Of many tables the hint names those that may have been meant, and says how many more there are.
func TestSQL_hint_of_many_tables(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 12 {
		s.write("default", fmt.Sprintf("audit%02d", i), 1)
	}
	s.write("default", "events", 1)
	s.write("team-a", "events", 1)
	s.ok("drain", "--once")
	for _, name := range []string{"evnts", "siglake.event", "Event"} {
		r := s.run("sql", "SELECT * FROM "+name)
		require.Equal(t, exitFailed, r.code)
		require.Regexp(t, `The tables are: siglake\.events, tenant_team-a\.events, siglake\.audit`, r.stderr)
		require.Contains(t, r.stderr, " and 4 more (SHOW ALL TABLES); tables appear")
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"events", "evnts", 1}, {"events", "event", 1}, {"kitten", "sitting", 3}, {"héé", "hée", 1}} {
		require.Equal(t, tc.want, distance(tc.a, tc.b), tc)
	}
}

// parquetFile writes one row of the given fields, with field ids, as a writer of another schema version would.
func parquetFile(t *testing.T, dir, name string, fields []arrow.Field, values ...any) lake.PlanFile {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, v := range values {
		switch v := v.(type) {
		case int64:
			b.Field(i).(*array.Int64Builder).Append(v)
		case int32:
			b.Field(i).(*array.Int32Builder).Append(v)
		case float32:
			b.Field(i).(*array.Float32Builder).Append(v)
		case []string: // a list of structs of one text each
			l := b.Field(i).(*array.ListBuilder)
			l.Append(true)
			st := l.ValueBuilder().(*array.StructBuilder)
			for _, text := range v {
				st.Append(true)
				st.FieldBuilder(0).(*array.StringBuilder).Append(text)
			}
		case string:
			b.Field(i).(*array.StringBuilder).Append(v)
		}
	}
	path := filepath.Join(dir, name)
	f, err := os.Create(path)
	require.NoError(t, err)
	w, err := pqarrow.NewFileWriter(schema, f, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(b.NewRecordBatch()))
	require.NoError(t, w.Close())
	return lake.PlanFile{Path: path, Rows: 1}
}

func field(id, name string, dt arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: dt, Nullable: true, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{id})}
}

func query(t *testing.T, d dataset, sql string) (string, error) {
	t.Helper()
	var b bytes.Buffer
	_, err := runQuery(t.Context(), d, sqlOptions{maxMemory: "500MB"}, sql, false, newResultWriter("csv", false, &b, 0))
	return b.String(), err
}

// Iceberg finds a column by its id, whatever a file calls it; DuckDB would by itself go by the name.
func TestSQL_columns_are_found_by_field_id(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's a dir", "day=2026-01-01")
	require.NoError(t, os.MkdirAll(dir, 0o750))
	i64, str := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	old := parquetFile(t, dir, "old.parquet", []arrow.Field{field("1", "id", i64), field("2", "old_name", str), field("9", "dropped", str)}, int64(1), "renamed", "gone")
	now := parquetFile(t, dir, "new.parquet", []arrow.Field{field("2", "new_name", str), field("3", "added", i64), field("1", "id", i64)}, "as is", int64(7), int64(2))
	d := dataset{spaces: []string{"siglake"}, tables: []dataTable{{space: "siglake", name: "odd \"name\"", plan: lake.Plan{
		Files: []lake.PlanFile{old, now},
		Schema: []lake.PlanColumn{
			{FieldID: 1, Name: "id", DuckDBType: "BIGINT"},
			{FieldID: 2, Name: "new_name", DuckDBType: "VARCHAR"},
			{FieldID: 3, Name: "added", DuckDBType: "BIGINT"},
			{FieldID: 4, Name: "old_name", DuckDBType: "MAP(VARCHAR, VARCHAR)"}, // the name is free again
		},
	}}}}
	got, err := query(t, d, `SELECT * FROM "odd ""name""" ORDER BY id`)
	require.NoError(t, err)
	require.Equal(t, "id,new_name,added,old_name\n1,renamed,,\n2,as is,7,\n", got)
}

// What another engine may do to columns and is read rightly: wider types, another order, fields added to structs.
func TestSQL_columns_that_grew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := parquetFile(t, dir, "old.parquet", []arrow.Field{
		field("1", "n", arrow.PrimitiveTypes.Int32), field("2", "f", arrow.PrimitiveTypes.Float32),
		field("3", "events", arrow.ListOfField(field("4", "element", arrow.StructOf(field("5", "name", arrow.BinaryTypes.String))))),
	}, int32(-7), float32(0.5), []string{"x", "y"})
	d := dataset{spaces: []string{"siglake"}, tables: []dataTable{{space: "siglake", name: "t", plan: lake.Plan{
		Files: []lake.PlanFile{old},
		Schema: []lake.PlanColumn{
			{FieldID: 3, Name: "events", DuckDBType: `STRUCT("at" BIGINT, "name" VARCHAR)[]`},
			{FieldID: 2, Name: "f", DuckDBType: "DOUBLE"},
			{FieldID: 1, Name: "n", DuckDBType: "BIGINT"},
		},
	}}}}
	got, err := query(t, d, "SELECT *, n + 5000000000 AS wide FROM t")
	require.NoError(t, err)
	require.Equal(t, "events,f,n,wide\n"+`"[{""at"":null,""name"":""x""},{""at"":null,""name"":""y""}]",0.5,-7,4999999993`+"\n", got)
}

// A table that a plan cannot express is refused by name; the others are not.
func TestSQL_unreadable_table(t *testing.T) {
	t.Parallel()
	bad := dataTable{space: "siglake", name: "events", plan: lake.Plan{Unreadable: "format version 3"}}
	bad.refuse(nil)
	require.Equal(t, "table siglake.events cannot be read by this version: another engine has given it format version 3", bad.refused)
}

func TestSQL_empty_table_has_its_columns(t *testing.T) {
	t.Parallel()
	d := dataset{spaces: []string{"siglake"}, tables: []dataTable{{space: "siglake", name: "events", plan: lake.Plan{
		Schema: []lake.PlanColumn{{FieldID: 1, Name: "timestamp", DuckDBType: "TIMESTAMPTZ"}, {FieldID: 2, Name: "attributes", DuckDBType: "MAP(VARCHAR, VARCHAR)"}},
	}}}}
	got, err := query(t, d, "SELECT * FROM events")
	require.NoError(t, err)
	require.Equal(t, "timestamp,attributes\n", got)
	got, err = query(t, d, "SELECT count(*) AS n, max(timestamp) AS last FROM events WHERE attributes['a'] = 'b'")
	require.NoError(t, err)
	require.Equal(t, "n,last\n0,\n", got)
}

// LAKE-1. Ignoring deletes would show rows that are not there.
func TestSQL_refused_table(t *testing.T) {
	t.Parallel()
	const why = "table siglake.events has 2 delete files in snapshot 42"
	good := dataTable{space: "siglake", name: "spans", plan: lake.Plan{Schema: []lake.PlanColumn{{FieldID: 1, Name: "name", DuckDBType: "VARCHAR"}}}}
	bad := dataTable{space: "siglake", name: "events", refused: why, plan: lake.Plan{
		Schema: []lake.PlanColumn{{FieldID: 1, Name: "body", DuckDBType: "VARCHAR"}},
		Files:  []lake.PlanFile{{Path: "/nowhere/x.parquet"}},
	}}
	broken := dataTable{space: "siglake", name: "metrics", refused: "table siglake.metrics cannot be read: it's gone"}
	d := dataset{spaces: []string{"siglake"}, tables: []dataTable{good, bad, broken}}
	for _, sql := range []string{"SELECT body FROM events", "SELECT count(*) FROM events", "SELECT * FROM (VALUES (1)) AS t(x), events", "SELECT EXISTS (FROM events)"} {
		got, err := query(t, d, sql)
		require.ErrorContains(t, err, why, sql)
		require.NotContains(t, got, "\n0", sql)
	}
	_, err := query(t, d, "FROM metrics")
	require.ErrorContains(t, err, "it's gone")
	got, err := query(t, d, "SELECT count(*) AS n FROM spans")
	require.NoError(t, err)
	require.Equal(t, "n\n0\n", got)
}

func TestSQL_values(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"1::TINYINT":                    "1",
		"255::UTINYINT":                 "255",
		"18446744073709551615::UBIGINT": "18446744073709551615",
		"'-170141183460469231731687303715884105728'::HUGEINT": "-170141183460469231731687303715884105728",
		"0.1::FLOAT":           "0.1",
		"1::DOUBLE":            "1.0",
		"'NaN'::DOUBLE":        "NaN",
		"'-inf'::FLOAT":        "-Infinity",
		"-0.05::DECIMAL(10,3)": "-0.050",
		"1.10::DECIMAL(5,2)":   "1.10",
		"true":                 "true",
		"NULL":                 `""`,
		"'a,b'":                `"a,b"`,
		"'\\xAB'::BLOB":        `\xab`,
		"'019e0000-0000-7000-8000-000000000001'::UUID":   "019e0000-0000-7000-8000-000000000001",
		"['019e0000-0000-7000-8000-000000000001'::UUID]": `"[""019e0000-0000-7000-8000-000000000001""]"`,
		"DATE '2024-02-29'":                              "2024-02-29",
		"TIME '10:11:12.5'":                              "10:11:12.5",
		"TIMESTAMP '2024-01-01 10:00:00.5'":              "2024-01-01T10:00:00.5",
		"TIMESTAMPTZ '2024-01-01 10:00:00+02'":           "2024-01-01T08:00:00Z",
		"TIMESTAMP_NS '2024-01-01 00:00:00.123456789'":   "2024-01-01T00:00:00.123456789",
		"INTERVAL '1 month 2 days 3 seconds'":            "1 months 2 days 3s",
		"INTERVAL '0 days'":                              "0s",
		"[1, NULL]":                                      `"[1,null]"`,
		"[TIMESTAMPTZ '2024-01-01 00:00:00+00']":         `"[""2024-01-01T00:00:00Z""]"`,
		"{'z': 1, 'a': [DATE '2024-01-01']}":             `"{""z"":1,""a"":[""2024-01-01""]}"`,
		"MAP {'k': 'v', 'a': NULL}":                      `"{""k"":""v"",""a"":null}"`,
		"MAP {1: {'x': 0.5::DOUBLE}}":                    `"{""1"":{""x"":0.5}}"`,
		"'{\"b\": 12, \"a\": [1.5, null]}'::JSON":        `"{""a"":[1.5,null],""b"":12}"`,
		"'yes'::ENUM('yes', 'no')":                       "yes",
		"current_setting('TimeZone')":                    "UTC",
	} {
		got, err := query(t, dataset{}, "SELECT "+expr+" AS v")
		require.NoError(t, err, expr)
		require.Equal(t, "v\n"+want+"\n", got, expr)
	}
}

// Compaction deletes files that a plan still names. Then the command plans again.
func TestSQL_a_file_that_vanished(t *testing.T) {
	t.Parallel()
	d := dataset{spaces: []string{"siglake"}, tables: []dataTable{{space: "siglake", name: "events", plan: lake.Plan{
		Files:  []lake.PlanFile{{Path: filepath.Join(t.TempDir(), "gone.parquet")}},
		Schema: []lake.PlanColumn{{FieldID: 1, Name: "body", DuckDBType: "VARCHAR"}},
	}}}}
	_, err := query(t, d, "FROM events")
	require.Error(t, err)
	require.True(t, fileVanished(err), "%v", err)
	require.False(t, fileVanished(errors.New("Catalog Error: no")))
}
