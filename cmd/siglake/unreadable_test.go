//go:build cgo

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without the catalog that rows were committed to, nobody says that a collector should be started, which would make an empty one.
func TestLostCatalog_leads_to_catalog_repair(t *testing.T) {
	t.Parallel()
	s := drained(t)
	for _, name := range []string{"catalog.db", "catalog.db-wal", "catalog.db-shm"} {
		require.NoError(t, os.RemoveAll(filepath.Join(s.dir, name)))
	}
	for _, args := range [][]string{{"tables"}, {"sql", "FROM events"}, {"sql", "--with-wal", "FROM events"}, {"gc-orphans"}, {"status"}, {"doctor"}} {
		r := s.run(args...)
		require.Contains(t, r.stdout+r.stderr, "siglake catalog-repair", args)
		require.NotContains(t, r.stdout+r.stderr, "start the collector once", args)
	}
	var rep statusReport
	require.NoError(t, json.Unmarshal([]byte(s.ok("status", "-o", "json")), &rep))
	require.Len(t, rep.Next, 1)
	require.Equal(t, "siglake catalog-repair", rep.Next[0].Command)
	found := doctorJSON(t, s)
	require.Equal(t, warned, found["catalog-age"].Result)
	require.Contains(t, found["catalog-age"].Fix, "siglake catalog-repair")
}

// A lane that is stopped for good is among what wants a person, with the file that is to be restored.
func TestStatus_names_what_stops_a_lane(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"owner": "wal/default/events/owner", "head": "wal/default/events/head",
		"metadata": "warehouse/siglake.db/events/metadata/00001-*.metadata.json", "manifest_list": "warehouse/siglake.db/events/metadata/snap-*.avro",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := drained(t)
			s.write("default", "events", 2)
			files, err := filepath.Glob(filepath.Join(s.dir, file))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, os.Truncate(files[0], 5))
			var rep statusReport
			require.NoError(t, json.Unmarshal([]byte(s.ok("status", "-o", "json")), &rep))
			require.Len(t, rep.Next, 1)
			require.Contains(t, rep.Next[0].What, files[0])
			require.Contains(t, rep.Next[0].What, "docs/operations/disaster-recovery.md")
			require.NotEqual(t, exitOK, s.run("drain", "--once").code)
			if name == "owner" || name == "head" {
				require.Equal(t, 1, rep.WAL.Lanes[0].Sealed)
				return
			}
			require.Contains(t, rep.Next[0].What, "1 segment waits in the log")
			for _, sql := range []string{"SELECT count(*) FROM events", "SELECT count(DISTINCT attributes['rid']) FROM events", "FROM events ORDER BY body"} {
				r := s.run("sql", sql)
				require.Equal(t, exitFailed, r.code)
				require.Contains(t, r.stderr, files[0], sql)
				require.NotContains(t, r.stderr, "Binder Error", sql)
			}
		})
	}
}

func TestSQL_names_the_data_file_that_is_gone(t *testing.T) {
	t.Parallel()
	s := drained(t)
	files := s.dataFiles(t)
	require.NotEmpty(t, files)
	require.NoError(t, os.Remove(files[0]))
	r := s.run("sql", "SELECT count(*) FROM events")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, files[0]+" is gone; restore it")
	require.NotContains(t, r.stderr, "Permission Error")
}
