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

// Where a whole object cannot be read its beginning is restored: both are named, the plan says the same, FROM and TO are those
// of its rows, and the exit code stays 3. A copy in another lane is named too.
func TestWALRecover_the_next_object_is_named(t *testing.T) {
	t.Parallel()
	file, beginning := "default/events/"+segmentID(1).FileName(), "_active/default/events/"+segmentID(1).PartialName()
	copied := "team-a/events/" + segmentID(2).FileName()
	half := named(t, segmentID(1), 3, 4)
	url, _ := bucketOf(t, map[string][]byte{
		file: half[:len(half)-9], beginning: partial(t, uuid.Nil, 3),
		"default/events/" + segmentID(2).FileName(): named(t, segmentID(2), 2), copied: named(t, segmentID(2), 2),
	})
	s := newPlace(t)
	for _, more := range [][]string{{"--dry-run"}, {}} {
		r := s.run(append([]string{"wal-recover", "--from", url, "--to", s.walDir()}, more...)...)
		require.Equal(t, exitDamage, r.code, r.stderr)
		require.Contains(t, r.stderr, "1 object cannot be read as segments; all others ")
		require.Regexp(t, `(?m)^unreadable: `+file+`: .*\n  taken instead: `+beginning+`$`, r.stdout)
		require.Regexp(t, `(?m)^of another lane, not taken: `+copied+` \(.*\); taken: default/events/`, r.stdout)
		require.Contains(t, r.stdout, "2 segments, 5 rows")
	}
	var rep recovered
	require.NoError(t, os.RemoveAll(s.walDir()))
	r := s.run("wal-recover", "--from", url, "--to", s.walDir(), "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &rep))
	require.Equal(t, beginning, rep.Unreadable[0].Instead)
	require.Len(t, rep.Copies, 1)
	require.Equal(t, [2]any{copied, true}, [2]any{rep.Copies[0].Key, rep.Copies[0].OtherLane})
	require.Contains(t, s.ok("drain", "--once"), "5 rows of 2 segments committed")
}

// FROM and TO of a plan are there for beginnings too: step 5 of docs/operations/disaster-recovery.md compares with them.
func TestWALRecover_times_of_a_beginning(t *testing.T) {
	t.Parallel()
	url, _ := bucketOf(t, map[string][]byte{"_active/default/events/" + segmentID(1).PartialName(): partial(t, uuid.Nil, 3)})
	var rep recovered
	s := newPlace(t)
	require.NoError(t, json.Unmarshal([]byte(s.ok("wal-recover", "--from", url, "--to", s.walDir(), "--dry-run", "-o", "json")), &rep))
	from, err := time.Parse(time.RFC3339Nano, rep.Lanes[0].MinTime)
	require.NoError(t, err)
	to, err := time.Parse(time.RFC3339Nano, rep.Lanes[0].MaxTime)
	require.NoError(t, err)
	require.Equal(t, testNow.UTC(), from)
	require.Equal(t, 2*time.Second, to.Sub(from))
}

// LOUD-1: a segment that the root has in poison/ only is no success: its rows are in no table. The text names the file and the way.
func TestWALRecover_poison_is_told_apart(t *testing.T) {
	t.Parallel()
	url, _ := bucketOf(t, map[string][]byte{
		"default/events/" + segmentID(1).FileName(): named(t, segmentID(1), 3),
		"default/events/" + segmentID(2).FileName(): named(t, segmentID(2), 4),
	})
	s := newPlace(t)
	s.ok("wal-recover", "--from", url, "--to", s.walDir())
	lane := s.lane("default", "events")
	_, err := lane.Move(segment.Sealed, segment.Poison, []string{segmentID(1).FileName()})
	require.NoError(t, err)
	for _, more := range [][]string{{"--dry-run"}, {}} {
		r := s.run(append([]string{"wal-recover", "--from", url, "--to", s.walDir()}, more...)...)
		require.Equal(t, exitDamage, r.code, r.stderr)
		require.Contains(t, r.stderr, "1 segment is in the root only in poison/")
		require.Contains(t, r.stdout, "in poison/ only: default/events/poison/"+segmentID(1).FileName())
		require.Contains(t, r.stdout, "docs/operations/damaged-segments.md")
		require.Contains(t, r.stdout, "; 1 present already")
	}
	require.NoError(t, os.Rename(lane.Path(segment.Poison, segmentID(1).FileName()), filepath.Join(t.TempDir(), "aside")))
	require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.walDir()), "1 segment, 3 rows")
}

// What could not be fetched is told beside what cannot be read, and decides the exit code: run it again.
func TestRecovered_verdict(t *testing.T) {
	t.Parallel()
	url, dir := bucketOf(t, map[string][]byte{
		"default/events/" + segmentID(1).FileName(): named(t, segmentID(1), 3),
		"default/events/" + segmentID(2).FileName(): []byte("no segment"),
	})
	s := newPlace(t)
	gone := filepath.Join(dir, "default", "events", segmentID(3).FileName())
	require.NoError(t, os.Symlink(filepath.Join(dir, "not-there"), gone))
	r := s.run("wal-recover", "--from", url, "--to", s.walDir())
	require.Equal(t, exitFailed, r.code, r.stderr)
	require.Contains(t, r.stderr, "1 object cannot be read as segments; 1 object could not be fetched: run it again; all others are restored")
	require.NoError(t, os.Remove(gone))
	require.Equal(t, exitDamage, s.run("wal-recover", "--from", url, "--to", s.walDir()).code)
}
