package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

func TestDrain(t *testing.T) {
	t.Parallel()
	t.Run("commits_what_is_sealed_once", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3, 2)
		s.write("team-a", "events", 4)
		require.Equal(t, "9 rows of 2 segments committed, in 2 lanes\n", s.ok("drain", "--once"))
		require.Equal(t, "0 rows of 0 segments committed, in 2 lanes\n", s.ok("drain", "--once"))
		var tables []tableStatus
		require.NoError(t, json.Unmarshal([]byte(s.ok("tables", "-o", "json")), &tables))
		require.Len(t, tables, 2)
		require.Equal(t, []any{"siglake", int64(5), "tenant_team-a", int64(4)},
			[]any{tables[0].Namespace, tables[0].Rows, tables[1].Namespace, tables[1].Rows})
	})
	// The collector's own drain does the work; two at once would each hold what the other lacks.
	t.Run("refuses_beside_a_drain_and_names_it", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 1)
		lock, err := s.fs.Lock(filepath.Join(s.walDir(), "drain.lock"), "lakecompactor of pod-7")
		require.NoError(t, err)
		defer func() { require.NoError(t, lock.Close()) }()
		r := s.run("drain", "--once")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "a drain runs already and takes what is sealed by itself: held by lakecompactor of pod-7")
		require.Contains(t, s.ok("status"), "drain.lock last held by: lakecompactor of pod-7")
	})
	t.Run("damage_is_an_exit_code", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 2)
		bad := sealed(t, uuid.Nil, 3)
		bad[2000] ^= 1
		s.put(s.lane("default", "events"), segment.Sealed, 1, bad, time.Minute)
		var last result
		for range 5 { // a segment is set aside after several failed reads
			if last = s.run("drain", "--once"); last.code == exitDamage {
				break
			}
		}
		require.Equal(t, exitDamage, last.code, "%s%s", last.stdout, last.stderr)
		require.Contains(t, last.stderr, "siglake wal-requeue --all --dry-run")
	})
	t.Run("a_wrong_path_makes_no_catalog", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		r := s.run("drain", "--once", "--wal", t.TempDir())
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "no WAL root")
		_, err := os.Stat(filepath.Join(s.dir, "catalog.db"))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
	t.Run("makes_no_catalog_for_segments_of_another", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		table := uuid.New()
		s.put(s.lane("default", "events"), segment.Sealed, 1, sealed(t, table, 3), time.Minute)
		r := s.run("drain", "--once")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, table.String())
		require.Contains(t, r.stderr, "--catalog")
		require.Contains(t, s.ok("wal", "ls"), "sealed")
		_, err := os.Stat(filepath.Join(s.dir, "catalog.db"))
		require.ErrorIs(t, err, os.ErrNotExist)
		// Told to, it does what it says.
		r = s.run("drain", "--once", "--catalog", "sqlite://"+filepath.Join(s.dir, "catalog.db"))
		require.Contains(t, r.stdout, "1 segment of another incarnation of its table set aside")
	})
	t.Run("once_is_required", func(t *testing.T) {
		t.Parallel()
		r := newSite(t).run("drain")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "--once")
	})
}

func TestTables(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.run("tables")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "no catalog at "+filepath.Join(s.dir, "catalog.db"))
	require.Contains(t, r.stderr, "start the collector")
	s.ok("drain", "--once") // makes no table
	s.write("default", "events", 3)
	s.ok("drain", "--once")
	s.golden("tables.txt", s.ok("tables"))
}
