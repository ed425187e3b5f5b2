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
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// troubled is a site where everything that can be wrong is.
func troubled(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	l := s.lane("default", "events")
	s.put(l, segment.Active, 1, partial(t, uuid.Nil, 4), time.Second)
	s.put(l, segment.Sealed, 2, sealed(t, uuid.Nil, 5, 5), 10*time.Minute)
	s.put(l, segment.Sealed, 3, sealed(t, uuid.Nil, 6), 3*time.Second)
	s.put(l, segment.Processing, 4, sealed(t, uuid.Nil, 7), 90*time.Second)
	s.put(l, segment.Committed, 5, sealed(t, uuid.Nil, 8), time.Hour)
	s.put(l, segment.Orphans, 6, sealed(t, uuid.Nil, 1), time.Minute)
	bad := sealed(t, uuid.Nil, 3)
	bad[2000] ^= 1
	s.put(l, segment.Poison, 7, bad, time.Hour)
	s.put(l, segment.Stale, 8, sealed(t, testTable, 2), 48*time.Hour)
	require.NoError(t, os.WriteFile(filepath.Join(s.walDir(), "default", "events", "sealed", "notes.txt"), []byte("x"), 0o640))
	require.NoError(t, os.Mkdir(filepath.Join(s.walDir(), "lost+found"), 0o750))
	s.lane("team-a", "spans")
	return s
}

func TestStatus(t *testing.T) {
	t.Parallel()
	t.Run("troubled", func(t *testing.T) {
		t.Parallel()
		s := troubled(t)
		s.golden("status_troubled.txt", s.ok("status"))
	})
	t.Run("json_says_the_same", func(t *testing.T) {
		t.Parallel()
		s := troubled(t)
		var rep statusReport
		require.NoError(t, json.Unmarshal([]byte(s.ok("status", "--output", "json")), &rep))
		age := int64(600)
		require.Equal(t, laneStatus{
			Tenant: "default", Index: "events", Active: 1, Sealed: 2, Processing: 1, Committed: 1, Orphans: 1, Poison: 1, Stale: 1,
			PendingBytes: rep.WAL.Lanes[0].PendingBytes, PendingRows: 4 + 10 + 6 + 7 + 1, OldestSeconds: &age,
			Strangers: []string{"sealed/notes.txt"},
		}, rep.WAL.Lanes[0])
		require.Contains(t, rep.TablesError, "no catalog at")
		require.Len(t, rep.Next, 6)
	})
	t.Run("drained", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3, 2)
		s.ok("drain", "--once")
		s.golden("status_drained.txt", s.ok("status"))
	})
	t.Run("nothing_sent_yet", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.golden("status_empty.txt", s.ok("status"))
	})
	t.Run("rows_are_at_least_what_could_be_read", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		l := s.lane("default", "events")
		s.put(l, segment.Sealed, 1, sealed(t, uuid.Nil, 5), time.Second)
		s.put(l, segment.Sealed, 2, []byte("no segment at all"), time.Second)
		require.Contains(t, s.ok("status"), "≥ 5")
	})
}

func TestStatus_wrong_place(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, args := range map[string][]string{
		"not_there":   {"status", "--data", filepath.Join(s.dir, "nowhere")},
		"no_root":     {"status", "--wal", t.TempDir()},
		"inside_it":   {"wal", "verify", "--wal", filepath.Join(s.walDir(), "default")},
		"data_as_wal": {"wal", "ls", "--wal", s.dir},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := s.run(args...)
			require.Equal(t, exitUsage, r.code)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, "no WAL root")
		})
	}
}

// The lock of the drain is taken by others too, and several segments have rows in the plural.
func TestStatus_says_who_had_the_locks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.lane("default", "events")
	for n := range 2 {
		s.put(l, segment.Poison, 1+n, []byte("no segment at all"), time.Minute)
		s.put(l, segment.Stale, 3+n, sealed(t, testTable, 2), time.Minute)
	}
	require.Equal(t, exitDamage, s.run("wal-requeue", "--all").code)
	got := s.ok("status")
	require.Contains(t, got, "  drain.lock last held by: siglake wal-requeue, pid ")
	require.NotContains(t, got, "last drain")
	require.Contains(t, got, "2 segments of default/events set aside as unreadable; their rows are in no table\n")
	require.Contains(t, got, "2 segments of default/events written for another incarnation of the table; they are kept and not drained\n")
}

// fullVolume has so many bytes left on the volume of a directory.
type fullVolume struct {
	vfs.FS

	dir  string
	free int64
}

func (f fullVolume) Space(dir string) (vfs.Space, error) {
	if dir == f.dir {
		return vfs.Space{Free: f.free, Total: 1 << 40}, nil
	}
	return vfs.Space{Free: 1 << 39, Total: 1 << 40}, nil
}

// A full volume is told as soon as something waits for it, not when that has waited for two minutes.
func TestStatus_tells_of_a_full_volume(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 3)
	s.ok("drain", "--once")
	warehouse := filepath.Join(s.dir, "warehouse")
	s.fs = fullVolume{s.fs, warehouse, 1<<20 - 1}
	require.NotContains(t, s.ok("status"), "too little", "nothing waits")
	l := s.lane("default", "events")
	s.put(l, segment.Sealed, 1, sealed(t, uuid.Nil, 5), time.Second)
	require.Contains(t, s.ok("status"), "the volume of the warehouse has 1.0 MiB left ("+warehouse+"), too little for what waits in the log, 1 segment;")
	s.fs = fullVolume{vfs.OS(), s.dir, 0}
	require.Contains(t, s.ok("status"), "the volume of the catalog has 0 B left ("+s.dir+")")
	s.fs = fullVolume{vfs.OS(), warehouse, 1 << 20}
	require.NotContains(t, s.ok("status"), "too little", "a segment is small")
}
