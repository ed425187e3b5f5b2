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

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// A segment that a writer sealed is damaged on the disk. The drain sets it aside, status names the command, the command
// refuses it as it stands and tells what it could do, brings the rows before the damage back, and the drain commits
// exactly those. Again changes nothing. A mirror that has it whole adds only what was missing. LAKE-1, LOUD-1.
func TestWALRequeue_salvage_end_to_end(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 3, 2, 4, 5)
	lane := s.lane("default", "events")
	entries, _, err := lane.List(segment.Sealed)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	id := entries[0].ID.String()
	sealed := lane.Path(segment.Sealed, id+".arrow")
	whole, err := os.ReadFile(sealed)
	require.NoError(t, err)
	at := strings.LastIndex(string(whole), "row 8") // the last row of the third batch
	require.Positive(t, at)
	bad := []byte(string(whole[:at]) + "roq 8" + string(whole[at+5:]))
	require.NoError(t, os.WriteFile(sealed, bad, 0o640))

	r := s.run("drain", "--once")
	require.Equal(t, exitDamage, r.code)
	require.Contains(t, r.stderr, "siglake wal-requeue --all --dry-run")
	status := s.ok("status")
	require.Contains(t, status, "1 segment of default/events set aside as unreadable; its rows are in no table\n    siglake wal-requeue --all --dry-run --lane default/events\n")

	r = s.run("wal-requeue", id)
	require.Equal(t, exitDamage, r.code)
	require.Contains(t, r.stdout, "refused   "+lane.Path(segment.Poison, id+".arrow")+": damaged: ")
	require.Contains(t, r.stdout, "--salvage would bring back 5 rows in 2 batches; missing: ")
	require.Contains(t, r.stdout, "in these 1 sound batch with 5 rows")
	require.Equal(t, "siglake: 1 segment refused and left in poison/\n", r.stderr)
	require.Contains(t, s.ok("drain", "--once"), "0 rows of 0 segments committed")

	r = s.run("wal-requeue", id, "--salvage")
	require.Equal(t, exitDamage, r.code, "not all of it is back")
	original := lane.Path(segment.Poison, id+".arrow.salvaged")
	require.Contains(t, r.stdout, "salvaged  "+lane.Path(segment.Poison, id+".arrow")+": 5 rows in 2 batches\n")
	require.Contains(t, r.stdout, "kept: "+original)
	require.Equal(t, "siglake: 1 segment brought back in part\n", r.stderr)
	kept, err := os.ReadFile(original)
	require.NoError(t, err)
	require.Equal(t, bad, kept)
	require.Contains(t, s.ok("status"), "1 original of a salvaged segment of default/events kept in poison/")

	require.Contains(t, s.ok("drain", "--once"), "5 rows of 1 segment committed")
	require.Equal(t, rowNames(0, 5), s.bodies("events"))
	require.Contains(t, s.ok("wal", "verify"), "0 damaged, 0 torn, 0 of a newer format, 0 gaps")

	require.Equal(t, "No segments in poison/.\n", s.ok("wal-requeue", "--all", "--salvage"))
	require.Contains(t, s.ok("wal-requeue", id, "--salvage"), "it is in committed/, nothing to do")
	require.Contains(t, s.ok("drain", "--once"), "0 rows of 0 segments committed")
	require.Equal(t, rowNames(0, 5), s.bodies("events"))

	url, _ := bucketOf(t, map[string][]byte{"default/events/" + id + ".arrow": whole})
	require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.walDir()), "14 rows", "what was salvaged is known for a beginning")
	require.Contains(t, s.ok("drain", "--once"), "9 rows of 1 segment committed")
	require.Equal(t, rowNames(0, 14), s.bodies("events"))
}

// poisonedSite has one of each kind in poison/.
func poisonedSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	l := s.lane("default", "events")
	file := sealed(t, uuid.Nil, 3, 2)
	s.put(l, segment.Poison, 1, file, time.Hour)
	cut := sealed(t, uuid.Nil, 3, 2)
	s.put(l, segment.Poison, 2, cut[:len(cut)-len(frame.EOS())-40], time.Hour)
	header := sealed(t, testTable, 4)
	header[30] ^= 1
	s.put(l, segment.Poison, 3, header, time.Hour)
	s.put(l, segment.Poison, 4, []byte("no segment at all"), time.Hour)
	s.put(l, segment.Poison, 5, append([]byte("LWAL\x03"), make([]byte, 100)...), time.Hour)
	s.put(l, segment.Poison, 6, file, time.Hour)
	second := l.Path(segment.Poison, segmentID(6).FileName()+".2")
	require.NoError(t, os.WriteFile(second, cut, 0o640))
	require.NoError(t, os.Chtimes(second, testNow, testNow))
	other := s.lane("team-a", "events")
	s.put(other, segment.Poison, 7, file, time.Hour)
	return s
}

func TestWALRequeue_all(t *testing.T) {
	t.Parallel()
	s := poisonedSite(t)
	ls := s.ok("wal", "ls")
	r := s.run("wal-requeue", "--all", "--dry-run")
	require.Equal(t, exitDamage, r.code)
	s.golden("wal_requeue_dry.txt", r.stdout)
	r = s.run("wal-requeue", "--all", "--salvage", "--dry-run")
	require.Equal(t, exitDamage, r.code)
	require.Contains(t, r.stdout, "2 segments whole, 2 in part, 17 rows would go back to sealed/; nothing was changed\n")
	require.Equal(t, ls, s.ok("wal", "ls"), "nothing was changed")

	r = s.run("wal-requeue", "--all", "--salvage", "--lane", "default/events", "-o", "json")
	require.Equal(t, exitDamage, r.code)
	require.Equal(t, "siglake: 4 segments refused and left in poison/, 1 segment brought back in part\n", r.stderr)
	var rep requeueReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &rep))
	l := s.lane("default", "events")
	require.Len(t, rep.Segments, 7)
	cut := rep.Segments[1]
	require.Positive(t, cut.LostBytes)
	require.Contains(t, cut.Error, "frame: malformed IPC stream: truncated")
	require.Equal(t, requeuedSegment{
		Lane: "default/events", ID: segmentID(2).String(), Path: l.Path(segment.Poison, segmentID(2).FileName()), Fate: "salvaged",
		Bytes: cut.Bytes, Note: "frame: CRC mismatch", Rows: 3, Batches: 1, LostBytes: cut.LostBytes,
		Original: l.Path(segment.Poison, segmentID(2).FileName()+".salvaged"), Error: cut.Error,
	}, cut)
	r = s.run("wal-requeue", "--all", "--lane", "team-a/events")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "1 segment whole, 0 in part, 5 rows are back in sealed/; the next drain commits what the tables lack of them\n")

	r = s.run("drain", "--once")
	require.Contains(t, r.stdout, "17 rows of 4 segments committed, in 2 lanes", "%s", r.stderr)
	s.golden("wal_requeue_left.txt", s.ok("wal", "ls", "--state", "poison"))
}

func TestWALRequeue_names(t *testing.T) {
	t.Parallel()
	s := poisonedSite(t)
	l := s.lane("default", "events")
	s.put(l, segment.Sealed, 8, sealed(t, uuid.Nil, 1), time.Hour)
	s.put(l, segment.Stale, 9, sealed(t, uuid.Nil, 1), time.Hour)
	require.NoError(t, os.Rename(l.Path(segment.Poison, segmentID(1).FileName()), l.Path(segment.Poison, segmentID(1).FileName()+".2")))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{}, "name segments, or give --all"},
		{[]string{segmentID(1).String(), "--all"}, "name segments, or give --all"},
		{[]string{segmentID(1).String(), "--lane", "default/events"}, "--lane goes with --all"},
		{[]string{"--all", "--lane", "default"}, `no lane "default"`},
		{[]string{"nonsense"}, `"nonsense" is no segment id`},
		{[]string{segmentID(99).String()}, "is not in " + s.walDir()},
		{[]string{segmentID(9).String()}, "is in stale/ and not in poison/"},
		{[]string{"--all", "--wal", t.TempDir()}, "no WAL root"},
	} {
		r := s.run(append([]string{"wal-requeue"}, tc.args...)...)
		require.Equal(t, exitUsage, r.code, tc.args)
		require.Contains(t, r.stderr, tc.want, tc.args)
		require.Empty(t, r.stdout)
	}
	out := s.ok("wal-requeue", l.Path(segment.Poison, segmentID(1).FileName()+".2"), segmentID(1).String(), segmentID(8).FileName())
	require.Contains(t, out, "1 segment whole, 0 in part, 5 rows are back")
	require.Contains(t, out, "elsewhere "+l.Path(segment.Sealed, segmentID(8).FileName())+": it is in sealed/, nothing to do")
	_, err := os.Stat(l.Path(segment.Sealed, segmentID(1).FileName()))
	require.NoError(t, err)
}

// ADR 0004: beside a drain nothing is moved back; the error names who it is and what to do.
func TestWALRequeue_beside_a_drain(t *testing.T) {
	t.Parallel()
	s := poisonedSite(t)
	lock, err := s.fs.Lock(filepath.Join(s.walDir(), "drain.lock"), "lakecompactor of pod-7")
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Close()) }()
	r := s.run("wal-requeue", "--all")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "a drain runs, and beside it nothing can be moved back: "+filepath.Join(s.walDir(), "drain.lock")+
		" is held by lakecompactor of pod-7; stop that process, run this again, start it again")
	require.Empty(t, r.stdout)
	require.Contains(t, s.run("wal-requeue", "--all", "--dry-run").stdout, "would go back to sealed/", "a look needs no lock")
}
