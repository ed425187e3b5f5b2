//go:build cgo

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// A catalog was restored that another writer, without this log, then committed to past what this log has seen. The drain does not go on,
// everybody says so, and what no table has comes back from its data file.
func TestCatalogRepair_a_catalog_that_was_outgrown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	s, _, committed := went(t)
	lose(t, committed...) // retired
	s.byOthers(t, slices.Repeat([]int{1}, 24)...)
	s.write("default", "events", 1)
	for range 2 {
		r := s.run("drain", "--once")
		require.Equal(t, exitFailed, r.code)
		require.Regexp(t, `went back: seen before: sequence 3 .*, now: sequence 2\d `, r.stdout)
	}
	require.Contains(t, s.ok("status"), "siglake catalog-repair")
	require.Regexp(t, `catalog-age +fail`, s.run("doctor").stdout)
	rep := s.repair(t, exitOK)
	require.Len(t, rep.Tables[0].Files, 2)
	rep = s.repair(t, exitOK, "--apply")
	require.True(t, rep.Tables[0].Resumed)
	s.ok("drain", "--once")
	require.Equal(t, []string{"34", "34"}, s.counts(t)[:2])
	require.Contains(t, s.ok("catalog-repair"), "Nothing to do.")
}

// byOthers commits segments of so many rows from another log.
func (s *site) byOthers(t *testing.T, rows ...int) {
	t.Helper()
	kept := filepath.Join(s.dir, "kept")
	require.NoError(t, os.Rename(s.walDir(), kept))
	_, err := segment.Create(s.fs, s.walDir())
	require.NoError(t, err)
	for _, n := range rows {
		s.write("default", "events", n)
		s.ok("drain", "--once")
	}
	require.NoError(t, os.RemoveAll(s.walDir()))
	require.NoError(t, os.Rename(kept, s.walDir()))
}

// A collector has started on an empty catalog, and then the old one is restored from a backup: every row comes back, those that were
// committed after the backup, those that a recovery had sealed, and those that went to the new table.
func TestCatalogRepair_after_an_empty_catalog(t *testing.T) {
	t.Parallel()
	s, _, committed := went(t)
	lose(t, committed[0]) // retired
	backup := filepath.Join(s.dir, "backup.db")
	require.NoError(t, os.Rename(filepath.Join(s.dir, "catalog.db"), backup))
	head, err := os.ReadFile(filepath.Join(s.walDir(), "default", "events", "head"))
	require.NoError(t, err)
	s.write("default", "events", 2)
	require.Equal(t, exitOK, s.run("drain", "--once", "--catalog", "sqlite://"+filepath.Join(s.dir, "catalog.db")).code) // makes a table
	s.write("default", "events", 5)
	s.ok("drain", "--once")
	require.Equal(t, "5", s.counts(t)[0])
	var old struct{ Table string }
	require.NoError(t, json.Unmarshal(head, &old))
	require.Contains(t, s.ok("catalog-repair"), "default/events was committed to another table before, "+old.Table+", last sequence 3")
	require.Equal(t, old.Table, s.repair(t, exitOK).Formers[0].UUID)
	require.NoError(t, os.Rename(backup, filepath.Join(s.dir, "catalog.db")))
	for _, f := range []string{"catalog.db-wal", "catalog.db-shm"} {
		require.NoError(t, os.RemoveAll(filepath.Join(s.dir, f)))
	}
	require.Contains(t, s.ok("status"), "siglake catalog-repair")
	rep := s.repair(t, exitOK)
	require.EqualValues(t, 9, *rep.Tables[0].SetTo.Rows)
	rep = s.repair(t, exitOK, "--apply")
	require.True(t, rep.Tables[0].Resumed)
	require.Equal(t, 1, rep.Tables[0].SetAside)
	s.ok("stale", "requeue", "--all", "--into-table", old.Table)
	s.exact(t, "16")
}

// There is no catalog, and no backup of it: it is made, and each table registered again. A plan makes nothing.
func TestCatalogRepair_makes_the_catalog(t *testing.T) {
	t.Parallel()
	for _, empty := range []bool{false, true} {
		s, _, committed := went(t)
		lose(t, committed...) // retired
		file := filepath.Join(s.dir, "catalog.db")
		lose(t, file)
		if empty {
			require.NoError(t, os.WriteFile(file, nil, 0o600))
		}
		rep := s.repair(t, exitOK)
		require.True(t, rep.NoCatalog)
		require.EqualValues(t, 9, *rep.Tables[0].SetTo.Rows)
		info, err := os.Stat(file)
		if empty {
			require.NoError(t, err)
			require.Zero(t, info.Size())
		} else {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		require.Contains(t, s.ok("catalog-repair"), "There is no catalog. It would be made.")
		rep = s.repair(t, exitOK, "--apply")
		require.True(t, rep.Tables[0].Resumed)
		s.write("default", "events", 1)
		s.exact(t, "10")
	}
}

// The log's volume was lost and the catalog restored to a metadata file that is gone: no log knows what was committed, and the table is
// found all the same.
func TestCatalogRepair_of_a_table_no_log_knows(t *testing.T) {
	t.Parallel()
	s, _, _ := went(t)
	lose(t, s.metadata()[2])
	require.NoError(t, os.RemoveAll(s.walDir()))
	_, err := segment.Create(s.fs, s.walDir())
	require.NoError(t, err)
	r := s.run("doctor")
	require.Regexp(t, `catalog-age +fail +table siglake.events: the catalog shows .*00001-.*, which is gone`, r.stdout)
	require.Regexp(t, `catalog-tables +fail`, r.stdout)
	require.Contains(t, s.run("status").stdout, "siglake catalog-repair")
	s.write("default", "events", 1)
	r = s.run("drain", "--once")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stdout, "the metadata file that the catalog shows is gone; restore it from a copy of the warehouse; where there is none, siglake catalog-repair")
	require.Contains(t, r.stderr, "drain has stopped for this table until somebody repairs the catalog")
	require.Regexp(t, `(?m)^  catalog shows +\S+/00001-\S+, which is gone$`, s.ok("catalog-repair"))
	rep := s.repair(t, exitOK)
	require.EqualValues(t, 9, *rep.Tables[0].SetTo.Rows)
	rep = s.repair(t, exitOK, "--apply")
	require.True(t, rep.Tables[0].Resumed)
	s.exact(t, "10")
}
