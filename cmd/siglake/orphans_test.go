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

// orphanedSite has orphans of each kind: one that is in the table, one of which a beginning is, one that is not, one of
// another table, and a damaged one.
func orphanedSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	l := s.lane("default", "events")
	s.put(l, segment.Sealed, 1, sealed(t, uuid.Nil, 3), time.Minute)
	s.put(l, segment.Sealed, 2, sealed(t, uuid.Nil, 2), time.Minute)
	s.ok("drain", "--once")
	require.NoError(t, l.Retire([]string{segmentID(1).FileName(), segmentID(2).FileName()}))
	s.put(l, segment.Orphans, 1, sealed(t, uuid.Nil, 3), time.Hour)
	s.put(l, segment.Orphans, 2, sealed(t, uuid.Nil, 2, 4), time.Hour)
	s.put(l, segment.Orphans, 3, sealed(t, uuid.Nil, 5), time.Hour)
	s.put(l, segment.Orphans, 4, sealed(t, testTable, 1), time.Hour)
	bad := sealed(t, uuid.Nil, 3)
	bad[2000] ^= 1
	s.put(l, segment.Orphans, 5, bad, time.Hour)
	return s
}

// What an operator sees, decides by, and does: status, list, compare, delete, requeue, and the drain after them. LAKE-1.
func TestOrphans_end_to_end(t *testing.T) {
	t.Parallel()
	s := orphanedSite(t)
	require.Contains(t, s.ok("status"), "5 segments of default/events held until the table can say whether it has their rows\n"+
		"    siglake orphans compare --all --lane default/events\n")
	s.golden("orphans_list.txt", s.ok("orphans", "list"))
	r := s.run("orphans", "compare", "--all")
	require.Equal(t, exitDamage, r.code)
	require.Equal(t, "siglake: 1 segment cannot be compared\n", r.stderr)
	s.golden("orphans_compare.txt", r.stdout)

	r = s.run("orphans", "delete", "--all", "--dry-run")
	require.Equal(t, exitDamage, r.code)
	require.Contains(t, r.stdout, "1 segment would go to committed/; nothing was changed\n")
	s.golden("orphans_list.txt", s.ok("orphans", "list"))
	r = s.run("orphans", "delete", "--all", "-o", "json")
	require.Equal(t, exitDamage, r.code)
	require.Equal(t, "siglake: 4 segments refused and left in orphans/\n", r.stderr)
	var rep orphansReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &rep))
	require.Len(t, rep.Orphans, 5)
	two := int64(2)
	o := rep.Orphans[1]
	require.Equal(t, orphanReport{
		Lane: "default/events", ID: segmentID(2).String(), Path: s.lane("default", "events").Path(segment.Orphans, segmentID(2).FileName()),
		Bytes: o.Bytes, Rows: 6, Table: o.Table, InProof: &two, Counted: 2, InTable: 2, Verdict: "partly", Fate: "refused",
		NextStep: "siglake orphans requeue " + segmentID(2).String(),
	}, o)
	require.Contains(t, s.ok("orphans", "delete", segmentID(1).String()), "it is in committed/, nothing to do")

	require.Contains(t, s.ok("orphans", "delete", "--force", segmentID(5).String()), "1 segment deleted, with the rows that no table has\n")
	r = s.run("orphans", "requeue", "--all")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "3 segments, 12 rows are back in sealed/; the next drain commits what the tables lack of them\n")
	require.Equal(t, "No segments in orphans/.\n", s.ok("orphans", "requeue", "--all"))
	out := s.run("drain", "--once").stdout
	require.Contains(t, out, "9 rows of 2 segments committed, in 1 lane\n")
	require.Contains(t, out, "1 segment of another incarnation of its table set aside\n")
	rows, different := s.counted()
	require.Equal(t, []int{14, 14}, []int{rows, different})
	require.Contains(t, s.ok("wal", "verify"), "0 gaps")
	require.Equal(t, "No segments in orphans/.\n", s.ok("orphans", "list"))
	require.Equal(t, "No segments in orphans/.\n", s.ok("orphans", "compare", "--all"))
}

// A table that cannot be asked: nothing is deleted, and the reason is named.
func TestOrphans_table_away(t *testing.T) {
	t.Parallel()
	s := orphanedSite(t)
	metadata, err := filepath.Glob(filepath.Join(s.dir, "warehouse", "siglake.db", "events", "metadata", "*.metadata.json"))
	require.NoError(t, err)
	require.NotEmpty(t, metadata)
	for _, path := range metadata {
		require.NoError(t, os.Rename(path, path+".away"))
	}
	r := s.run("orphans", "compare", segmentID(1).String())
	require.Equal(t, exitDamage, r.code)
	require.Contains(t, r.stdout, "unknown   "+s.lane("default", "events").Path(segment.Orphans, segmentID(1).FileName())+": the table cannot be asked: ")
	r = s.run("orphans", "delete", "--all")
	require.Equal(t, exitDamage, r.code)
	require.Equal(t, "siglake: 5 segments refused and left in orphans/\n", r.stderr)
	require.NotZero(t, s.run("drain", "--once").code)
	require.Contains(t, s.ok("orphans", "list"), segmentID(1).String(), "held")
	for _, path := range metadata {
		require.NoError(t, os.Rename(path+".away", path))
	}
	s.ok("orphans", "delete", segmentID(1).String())
}

func TestOrphans_names(t *testing.T) {
	t.Parallel()
	s := orphanedSite(t)
	s.put(s.lane("default", "events"), segment.Stale, 9, sealed(t, testTable, 1), time.Hour)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"compare"}, "orphans compare: name segments, or give --all for every one in orphans/ (siglake orphans list)"},
		{[]string{"delete", segmentID(1).String(), "--all"}, "name segments, or give --all"},
		{[]string{"delete", "--all", "--force"}, "--force needs the segments by name"},
		{[]string{"requeue", segmentID(1).String(), "--lane", "default/events"}, "--lane goes with --all"},
		{[]string{"requeue", segmentID(9).String()}, "is in stale/ and not in orphans/: it was written for another incarnation of its table (siglake stale list)"},
		{[]string{"compare", "--all", "--catalog", "sqlite:///nowhere/catalog.db"}, "no catalog at /nowhere/catalog.db"},
	} {
		r := s.run(append([]string{"orphans"}, tc.args...)...)
		require.Equal(t, exitUsage, r.code, tc.args)
		require.Contains(t, r.stderr, tc.want, tc.args)
		require.Empty(t, r.stdout)
	}
	lock, err := s.fs.Lock(filepath.Join(s.walDir(), "drain.lock"), "lakecompactor of pod-7")
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Close()) }()
	for _, args := range [][]string{{"delete", "--all"}, {"requeue", "--all"}} {
		r := s.run(append([]string{"orphans"}, args...)...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "a drain runs, and beside it nothing can be moved back: ")
		require.Empty(t, r.stdout)
	}
	require.Zero(t, s.run("orphans", "compare", segmentID(1).String()).code, "a look needs no lock")
}
