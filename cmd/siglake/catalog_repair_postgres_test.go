//go:build cgo

package main

import (
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/servicetest"
)

// psql runs a statement in a database of the server, and returns what it prints.
func psql(t *testing.T, pg *servicetest.Service, database, statement string) string {
	t.Helper()
	u, err := url.Parse(pg.Info["url"])
	require.NoError(t, err)
	u.Path = database
	out, err := exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "-qtA", "-v", "ON_ERROR_STOP=1", "-c", statement, u.String()).CombinedOutput()
	require.NoError(t, err, "%s: %s", statement, out)
	return strings.TrimSpace(string(out))
}

// A PostgreSQL catalog that is lost without a backup: whatever is left of the database, the plan changes nothing in it, and then each
// table is registered again, with every row. Only the database itself has to be there.
// Not beside other tests: who starts a process holds their locks for a moment.
func TestCatalogRepair_postgres(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	pg, err := servicetest.Start("postgres")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	t.Setenv("PGPASSWORD", pg.Info["password"])
	const schema = "SELECT string_agg(table_name, ' ' ORDER BY table_name) FROM information_schema.tables WHERE table_schema = 'public'"
	for name, lost := range map[string]struct {
		rest string // of the schema
		lose func(t *testing.T, database string)
	}{
		"made_anew": {"", func(t *testing.T, database string) {
			t.Helper()
			psql(t, pg, "postgres", "DROP DATABASE "+database+" WITH (FORCE)")
			psql(t, pg, "postgres", "CREATE DATABASE "+database)
		}},
		"without_rows": {"iceberg_namespace_properties iceberg_tables", func(t *testing.T, database string) {
			t.Helper()
			psql(t, pg, database, "TRUNCATE iceberg_tables, iceberg_namespace_properties")
		}},
		"without_tables": {"iceberg_namespace_properties iceberg_tables", func(t *testing.T, database string) {
			t.Helper()
			psql(t, pg, database, "TRUNCATE iceberg_tables")
		}},
		"of_one_table": {"iceberg_namespace_properties iceberg_tables", func(t *testing.T, database string) {
			t.Helper()
			psql(t, pg, database, "DELETE FROM iceberg_tables WHERE table_name = 'audit'")
		}},
		"half_made": {"iceberg_tables", func(t *testing.T, database string) {
			t.Helper()
			psql(t, pg, database, "TRUNCATE iceberg_tables; DROP TABLE iceberg_namespace_properties")
		}},
		"table_without_namespace": {"iceberg_namespace_properties", func(t *testing.T, database string) {
			t.Helper()
			psql(t, pg, database, "DROP TABLE iceberg_tables")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			database := "lost_" + name
			psql(t, pg, "postgres", "CREATE DATABASE "+database)
			s := newSite(t)
			s.env = map[string]string{
				"SIGLAKE_CATALOG":   "postgres://" + pg.Info["user"] + "@" + pg.Info["host"] + ":" + pg.Info["port"] + "/" + database + "?sslmode=disable",
				"SIGLAKE_WAREHOUSE": s.dir + "/warehouse",
			}
			for _, index := range []string{"events", "audit"} {
				for _, rows := range []int{3, 4, 2} {
					s.write("default", index, rows)
					s.ok("drain", "--once")
				}
			}
			s.write("acme", "events", 5)
			s.ok("drain", "--once")
			for _, name := range s.names(segment.Committed) {
				lose(t, s.lane("default", "events").Path(segment.Committed, name)) // retired
			}
			lost.lose(t, database)
			require.Equal(t, lost.rest, psql(t, pg, database, schema))

			rep := s.repair(t, exitOK)
			require.Len(t, rep.Tables, map[bool]int{true: 1, false: 3}[name == "of_one_table"])
			require.Equal(t, lost.rest != "iceberg_namespace_properties iceberg_tables", rep.NoCatalog)
			require.Equal(t, lost.rest, psql(t, pg, database, schema), "a plan changes nothing")
			rep = s.repair(t, exitOK, "--apply")
			for _, of := range rep.Tables {
				require.True(t, of.Resumed, "%+v", of)
			}
			require.Contains(t, s.ok("catalog-repair"), "Nothing to do.")
			s.write("default", "events", 1)
			s.ok("drain", "--once")
			for table, rows := range map[string]string{"siglake.events": "10", "siglake.audit": "9", "tenant_acme.events": "5"} {
				require.Equal(t, "n,d\n"+rows+","+rows+"\n",
					s.ok("sql", "-o", "csv", "SELECT count(*) AS n, count(DISTINCT (segment_id, segment_row)) AS d FROM "+table))
			}
		})
	}
}

// Without the database nothing can be made: the plan says so at once, and how it is made.
func TestCatalogRepair_postgres_without_a_database(t *testing.T) {
	pg, err := servicetest.Start("postgres")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	t.Setenv("PGPASSWORD", pg.Info["password"])
	s, _, _ := went(t)
	s.env = map[string]string{
		"SIGLAKE_CATALOG":   "postgres://" + pg.Info["user"] + "@" + pg.Info["host"] + ":" + pg.Info["port"] + "/lost?sslmode=disable",
		"SIGLAKE_WAREHOUSE": s.dir + "/warehouse",
	}
	for _, how := range []string{"--plan", "--apply"} {
		r := s.run("catalog-repair", how)
		require.Equal(t, exitUsage, r.code, "%s: %s%s", how, r.stdout, r.stderr)
		require.Contains(t, r.stderr, "CREATE DATABASE lost")
		require.Empty(t, r.stdout)
	}
	psql(t, pg, "postgres", "CREATE DATABASE lost")
	require.True(t, s.repair(t, exitOK, "--apply").Tables[0].Resumed)
	require.Equal(t, []string{"9", "9"}, s.counts(t)[:2])
}
