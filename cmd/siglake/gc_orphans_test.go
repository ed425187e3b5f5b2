package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// leftover writes a Parquet file that no snapshot names, of that age.
func (s *site) leftover(name string, size int, age time.Duration) string {
	s.tb.Helper()
	path := filepath.Join(s.dir, "warehouse/siglake.db/events/data/timestamp_day=2026-05-01", name+".parquet")
	require.NoError(s.tb, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(s.tb, os.WriteFile(path, make([]byte, size), 0o600))
	at := testNow.Add(-age)
	require.NoError(s.tb, os.Chtimes(path, at, at))
	return path
}

func TestGCOrphans(t *testing.T) {
	t.Parallel()
	t.Run("finds_first_and_deletes_when_told", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3, 2)
		s.write("team-a", "events", 4)
		s.ok("drain", "--once")
		old := s.leftover("old", 2048, 25*time.Hour)
		young := s.leftover("young", 1, 23*time.Hour)
		said := s.ok("gc-orphans")
		require.Contains(t, said, "  7 files: 5 needed, 1 younger than 1d0h, 1 orphan of 2.0 KiB\n")
		require.Contains(t, said, "1 orphan, 2.0 KiB; nothing was changed: siglake gc-orphans --apply\n")
		require.NotContains(t, said, old)
		require.FileExists(t, old)
		require.Contains(t, s.ok("gc-orphans", "siglake.events", "--files"), "2026-05-16T11:00:00Z  2.0 KiB  "+old)

		var r gcReport
		require.NoError(t, json.Unmarshal([]byte(s.ok("gc-orphans", "--apply", "-o", "json")), &r))
		require.False(t, r.DryRun)
		require.Len(t, r.Tables, 2)
		require.Equal(t, []any{"siglake.events", 1, 1, int64(2048)}, []any{r.Tables[0].Table, r.Tables[0].Orphans, r.Tables[0].Deleted, r.Tables[0].DeletedBytes})
		require.NoFileExists(t, old)
		require.FileExists(t, young)
		require.Contains(t, s.ok("gc-orphans", "--apply", "siglake.events"), "6 files: 5 needed, 1 younger than 1d0h, 0 orphans\n")
		require.Contains(t, s.ok("tables"), "events")
	})
	// The lane's head knows a later state than the catalog that was restored shows.
	t.Run("refuses_a_catalog_that_went_back", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3)
		s.ok("drain", "--once")
		catalog := filepath.Join(s.dir, "catalog.db")
		backup, err := os.ReadFile(catalog)
		require.NoError(t, err)
		s.write("default", "events", 2)
		s.ok("drain", "--once")
		require.NoError(t, os.WriteFile(catalog, backup, 0o600))
		_ = os.Remove(catalog + "-wal")
		_ = os.Remove(catalog + "-shm")
		old := s.leftover("old", 1, 25*time.Hour)
		r := s.run("gc-orphans", "--apply")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stdout, "went back: seen before: sequence 2")
		require.Contains(t, r.stderr, "1 table refused, or not done to the end: siglake.events")
		require.FileExists(t, old)
	})
	// One damaged metadata file stops the collection of its table, and of no other.
	t.Run("goes_on_beside_a_table_that_cannot_be_read", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3)
		s.write("team-a", "events", 4)
		s.ok("drain", "--once")
		old := s.leftover("old", 1, 25*time.Hour)
		others, err := filepath.Glob(filepath.Join(s.dir, "warehouse/tenant_team-a.db/events/metadata/*.metadata.json"))
		require.NoError(t, err)
		require.NotEmpty(t, others)
		require.NoError(t, os.Truncate(others[len(others)-1], 100))
		r := s.run("gc-orphans", "--apply")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stdout, "tenant_team-a.events  "+filepath.Join(s.dir, "warehouse/tenant_team-a.db/events")+"\n  the table cannot be read")
		require.Contains(t, r.stdout, "deleted 1 orphan, 1 B\n")
		require.Contains(t, r.stderr, "1 table refused, or not done to the end: tenant_team-a.events")
		require.NoFileExists(t, old)
	})
	t.Run("wants_to_know_what_was_seen", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3)
		s.ok("drain", "--once")
		r := s.run("gc-orphans", "--wal", t.TempDir())
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "--without-log")
		require.Contains(t, s.ok("gc-orphans", "--wal", t.TempDir(), "--without-log"), "0 orphans")
	})
	t.Run("wrong_usage", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		for _, args := range [][]string{{"--min-age", "23h"}, {"--abandon", "x"}, {"--apply"}, {}} {
			r := s.run(append([]string{"gc-orphans"}, args...)...)
			require.Equal(t, exitUsage, r.code, "%v: %s", args, r.stderr)
		}
		_, err := os.Stat(filepath.Join(s.dir, "catalog.db"))
		require.ErrorIs(t, err, os.ErrNotExist, "no catalog is made")
		s.write("default", "events", 3)
		s.ok("drain", "--once")
		r := s.run("gc-orphans", "siglake.none")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "no such table: siglake.none; siglake tables")
	})
	t.Run("abandons_an_earlier_table", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3)
		s.ok("drain", "--once")
		require.NoError(t, os.Remove(filepath.Join(s.dir, "catalog.db")))
		s2 := newSite(t)
		s2.write("default", "events", 2)
		warehouse := filepath.Join(s.dir, "warehouse")
		s2.ok("drain", "--once", "--warehouse", warehouse)
		r := s2.run("gc-orphans", "--apply")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stdout, "files of another table, UUID ")
		r2 := s2.run("gc-orphans", "--apply", "--abandon", uuid.NewString())
		require.Equal(t, exitUsage, r2.code)
		_, id, _ := strings.Cut(r.stdout, "say so with --abandon ")
		id, _, _ = strings.Cut(id, "\n")
		require.Contains(t, r2.stderr, "of other tables there: "+id+" (siglake.events)")
		s2.ok("gc-orphans", "--apply", "--abandon", id)
	})
	t.Run("abandons_no_table_that_is_unknown", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3)
		s.ok("drain", "--once")
		old := s.leftover("old", 1, 25*time.Hour)
		id := uuid.NewString()
		r := s.run("gc-orphans", "--apply", "--abandon", id)
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "--abandon "+id+": there are no files of such a table at the location of siglake.events; of other tables there: none")
		require.NoFileExists(t, old, "the rest is done")
	})
}
