package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// startedOver is a site whose catalog file was lost and where a drain has started on an empty one: 12 rows in three
// segments that were written for the old table are in stale/, and 2 rows in the new table.
func startedOver(t *testing.T) (s *site, old, table uuid.UUID) {
	t.Helper()
	s = newSite(t)
	s.write("default", "events", 5, 4)
	s.ok("drain", "--once")
	l := s.lane("default", "events")
	old, err := l.Owner()
	require.NoError(t, err)
	committed, _, err := l.List(segment.Committed)
	require.NoError(t, err)
	require.NoError(t, l.Retire([]string{committed[0].Name}))
	for i := range 3 {
		s.put(l, segment.Sealed, 1+i, sealed(t, old, 3+i), time.Minute)
	}
	require.NoError(t, os.Remove(filepath.Join(s.dir, "catalog.db")))
	catalog := "sqlite://" + filepath.Join(s.dir, "catalog.db")
	require.Contains(t, s.run("drain", "--once", "--catalog", catalog).stdout, "3 segments of another incarnation of their table set aside")
	s.write("default", "events", 2)
	s.ok("drain", "--once")
	table, err = l.Owner()
	require.NoError(t, err)
	require.NotEqual(t, old, table)
	return s, old, table
}

// counted is how many rows there are in events, and how many different ones.
func (s *site) counted() (rows, different int) {
	s.tb.Helper()
	out := s.ok("sql", "-o", "csv", "SELECT count(*) AS n, count(DISTINCT (segment_id, segment_row)) AS d FROM events")
	_, err := fmt.Sscanf(out, "n,d\n%d,%d\n", &rows, &different)
	require.NoError(s.tb, err, out)
	return rows, different
}

// The catalog file was lost and a collector has started on an empty one. status leads to stale list, which names the command;
// it brings the rows into the new table once, also the second time. LAKE-1.
func TestStale_after_a_lost_catalog(t *testing.T) {
	t.Parallel()
	s, old, table := startedOver(t)
	require.Contains(t, s.ok("status"), "3 segments of default/events written for another incarnation of the table; they are kept and not drained\n"+
		"    siglake stale list --lane default/events\n")
	list := s.ok("stale", "list", "--lane", "default/events")
	require.Contains(t, list, "default/events  "+old.String()+"  "+segmentID(2).String()+"     4  ")
	next := "siglake stale requeue --all --into-table " + table.String() + " --dry-run"
	require.Contains(t, list, "\ndefault/events: its table in the catalog is "+table.String()+"\n  "+next+"\n")

	dry := s.ok(strings.Fields(next)[1:]...)
	require.Contains(t, dry, "3 segments, 12 rows would go back to sealed/; nothing was changed\n")
	require.Equal(t, list, s.ok("stale", "list", "--lane", "default/events"))
	command := strings.Fields(strings.TrimSuffix(next, " --dry-run"))[1:]
	require.Contains(t, s.ok(command...), "3 segments, 12 rows are back in sealed/; the next drain commits what the tables lack of them\n")
	require.Equal(t, "No segments in stale/.\n", s.ok(command...))
	require.Equal(t, "12 rows of 3 segments committed, in 1 lane\n", s.ok("drain", "--once"))
	rows, different := s.counted()
	require.Equal(t, []int{14, 14}, []int{rows, different})
	require.Contains(t, s.ok("wal", "verify"), "0 damaged, 0 torn, 0 of a newer format, 0 gaps")
	require.Equal(t, "No segments in stale/.\n", s.ok("stale", "list"))

	// A mirror has them as they were. They come to lie in stale/ again, with who decided what, and are in the table already.
	s.put(s.lane("default", "events"), segment.Sealed, 4, sealed(t, old, 1), time.Minute)
	require.Contains(t, s.run("drain", "--once").stdout, "1 segment of another incarnation")
	require.Contains(t, s.ok("stale", "list"), "  2026-05-17T12:00:00Z: segments were brought into "+table.String()+" (siglake stale requeue, pid ")
	var rep requeueReport
	require.NoError(t, json.Unmarshal([]byte(s.ok(append(command, "-o", "json")...)), &rep))
	require.Len(t, rep.Segments, 1)
	require.Equal(t, "written for table "+old.String(), rep.Segments[0].Note)
	require.Equal(t, "requeued", rep.Segments[0].Fate)
}

func TestStale_list_without_a_catalog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.Equal(t, "No segments in stale/.\n", s.ok("stale", "list"))
	s.put(s.lane("default", "events"), segment.Stale, 1, sealed(t, testTable, 2), time.Hour)
	s.golden("stale_list.txt", s.ok("stale", "list"))
	var rep staleReport
	require.NoError(t, json.Unmarshal([]byte(s.ok("stale", "list", "-o", "json")), &rep))
	require.Equal(t, testTable.String(), rep.Segments[0].For)
	require.EqualValues(t, 2, rep.Segments[0].Rows)
	require.Contains(t, rep.TablesError, "no catalog at")
}

func TestStale_names(t *testing.T) {
	t.Parallel()
	s, old, table := startedOver(t)
	s.put(s.lane("default", "other"), segment.Stale, 9, sealed(t, testTable, 1), time.Hour)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--all"}, `--into-table "" is no UUID of a table (siglake stale list)`},
		{[]string{"--all", "--into-table", "events"}, `--into-table "events" is no UUID`},
		{[]string{"--into-table", table.String()}, "stale requeue: name segments, or give --all for every one in stale/ (siglake stale list)"},
		{[]string{"--all", "--into-table", old.String()}, "no table of the catalog has the UUID " + old.String()},
		{[]string{"--all", "--into-table", table.String(), "--wal", t.TempDir()}, "no WAL root"},
		{[]string{segmentID(77).String(), "--into-table", table.String()}, "is not in " + s.walDir()},
	} {
		r := s.run(append([]string{"stale", "requeue"}, tc.args...)...)
		require.Equal(t, exitUsage, r.code, tc.args)
		require.Contains(t, r.stderr, tc.want, tc.args)
		require.Empty(t, r.stdout)
	}
	r := s.run("stale", "requeue", segmentID(9).String(), "--into-table", table.String())
	require.Equal(t, exitDamage, r.code)
	require.Contains(t, r.stdout, "the table is another lane's: "+table.String()+" is table siglake.events\n          name the table of default/other\n")
	require.Equal(t, "siglake: 1 segment refused and left in stale/\n", r.stderr)
}

// ADR 0004: beside a drain nothing is moved back; the error names who it is and what to do.
func TestStale_beside_a_drain(t *testing.T) {
	t.Parallel()
	s, _, table := startedOver(t)
	lock, err := s.fs.Lock(filepath.Join(s.walDir(), "drain.lock"), "lakecompactor of pod-7")
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Close()) }()
	r := s.run("stale", "requeue", "--all", "--into-table", table.String())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "a drain runs, and beside it nothing can be moved back: "+filepath.Join(s.walDir(), "drain.lock")+
		" is held by lakecompactor of pod-7; stop that process, run this again, start it again")
	require.Contains(t, s.ok("stale", "requeue", "--all", "--into-table", table.String(), "--dry-run"), "12 rows would go back")
}
