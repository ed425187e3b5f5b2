package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// bucketOf is a mirror in a directory: its URL and its folder.
func bucketOf(t *testing.T, objects map[string][]byte) (url, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "bucket", "wal-mirror")
	objects["siglake-mirror.json"] = []byte(`{"format":1,"roots":[]}` + "\n")
	for key, body := range objects {
		file := filepath.Join(dir, filepath.FromSlash(key))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, body, 0o600))
	}
	return "file://" + dir, dir
}

// newPlace is a command line without a log.
func newPlace(t *testing.T) *site {
	t.Helper()
	return &site{tb: t, dir: t.TempDir(), fs: vfs.OS(), stdin: strings.NewReader("")}
}

// MIR-1: the whole log comes back, its rows are drained like any others, and a second run finds nothing to do.
func TestWALRecover(t *testing.T) {
	t.Parallel()
	url, _ := bucketOf(t, map[string][]byte{
		"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3, 2),
		"default/events/" + segmentID(2).FileName(): sealed(t, uuid.Nil, 4),
	})
	s := newPlace(t)
	plan := s.ok("wal-recover", "--from", url, "--to", s.walDir(), "--dry-run")
	require.Contains(t, plan, "2 segments, 9 rows")
	require.Contains(t, plan, "nothing was written")
	require.NoDirExists(t, s.walDir())
	done := s.ok("wal-recover", "--from", url, "--to", s.walDir())
	require.Contains(t, done, "restored; 0 present already")
	var rep recovered
	require.NoError(t, json.Unmarshal([]byte(s.ok("wal-recover", "--from", url, "--to", s.walDir(), "-o", "json")), &rep))
	require.Zero(t, rep.Segments)
	require.Equal(t, 2, rep.Present)
	require.Contains(t, s.ok("drain", "--once"), "9 rows of 2 segments committed, in 1 lane")
	require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.walDir()), "2 present already", "committed ones too")
}

// Each exit code, with a text that says what to do.
func TestWALRecover_refusals_R14(t *testing.T) {
	t.Parallel()
	half := sealed(t, uuid.Nil, 4)
	url, dir := bucketOf(t, map[string][]byte{
		"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3),
		"default/events/" + segmentID(2).FileName(): half[:len(half)/2],
		"notes.txt": []byte("hello"),
	})
	s := newPlace(t)
	wal, other := s.walDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(other, "wal"), 0o700))
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no flags", nil, exitUsage, "give --from, the URL of the mirror, and --to"},
		{"a bad URL", []string{"--from", "ftp://x", "--to", wal}, exitUsage, "is no object store"},
		{"a secret in it", []string{"--from", "s3://u:not-to-be-seen@b/x", "--to", wal}, exitUsage, "more than a bucket and a path"},
		{"too high", []string{"--from", "file://" + filepath.Dir(dir), "--to", wal}, exitUsage, "there is one at " + url},
		{"too low", []string{"--from", url + "/default/events", "--to", wal}, exitUsage, "there is one at " + url},
		{"nothing there", []string{"--from", url + "2", "--to", wal}, exitUsage, "nothing is there"},
		{"into sealed", []string{"--from", url, "--to", wal + "/sealed"}, exitUsage, "is a directory of segments"},
		{"into something else", []string{"--from", url, "--to", filepath.Dir(filepath.Dir(dir))}, exitUsage, "is not empty"},
		{"the data directory", []string{"--from", url, "--to", s.dir}, exitUsage, "is around one: by --data, SIGLAKE_DATA or --wal it is " + wal + "; give that"},
		{"above it", []string{"--from", url, "--to", filepath.Dir(s.dir)}, exitUsage, "give that"},
		{"inside the log to be", []string{"--from", url, "--to", wal + "/wal"}, exitUsage, "is inside a log: by --data, SIGLAKE_DATA or --wal it is " + wal},
		{"deep inside", []string{"--from", url, "--to", wal + "/a/b/c/d/e"}, exitUsage, "is inside a log: by --data"},
		{"another data directory", []string{"--from", url, "--to", other}, exitUsage, "is a data directory, in which the log has a directory of its own; give " + filepath.Join(other, "wal")},
		{"none at a time", []string{"--from", url, "--to", wal, "--concurrency", "0"}, exitUsage, "--concurrency: 0 is below 1"},
		{"an unreadable object", []string{"--from", url, "--to", wal}, exitDamage, "1 object cannot be read as segments; all others are restored"},
	} {
		r := s.run(append([]string{"wal-recover"}, tc.args...)...)
		require.Equal(t, tc.code, r.code, "%s: %s", tc.name, r.stderr)
		require.Contains(t, r.stderr, tc.want, tc.name)
		require.NotContains(t, r.stderr, "not-to-be-seen")
	}
	r := s.run("wal-recover", "--from", url, "--to", wal)
	require.Contains(t, r.stdout, "unreadable: default/events/"+segmentID(2).FileName())
	require.Contains(t, r.stdout, "no segment, left alone: notes.txt")
	require.Contains(t, r.stdout, "1 present already")

	lock, err := s.fs.Lock(filepath.Join(wal, segment.LockName), "siglakecol, pid 7")
	require.NoError(t, err)
	r = s.run("wal-recover", "--from", url, "--to", wal)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "held by siglakecol, pid 7; stop that process, or give --online")
	require.Equal(t, exitDamage, s.run("wal-recover", "--from", url, "--to", wal, "--online").code)
	require.NoError(t, lock.Close())
}

// The data directory of a collector with catalog and warehouse elsewhere is empty, and a root there would keep it from its log.
// Where it is the log, --wal says so. What is a root is taken, wherever it is.
func TestWALRecover_a_log_in_place_of_the_data_directory(t *testing.T) {
	t.Parallel()
	url, _ := bucketOf(t, map[string][]byte{"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3)})
	s := newPlace(t)
	for _, more := range [][]string{{"--dry-run"}, {}, {"--online"}, {"--wal", filepath.Join(s.dir, "wal", "x")}} {
		r := s.run(append([]string{"wal-recover", "--from", url, "--to", s.dir}, more...)...)
		require.Equal(t, exitUsage, r.code, r.stderr)
		entries, err := os.ReadDir(s.dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.dir, "--wal", s.dir), "1 segment, 3 rows")
	require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.dir), "1 present already")
	r := s.run("wal-recover", "--from", url, "--to", filepath.Join(s.dir, "a", "b", "c", "d", "e"), "--data", t.TempDir())
	require.Equal(t, exitUsage, r.code, r.stderr)
	require.Contains(t, r.stderr, "is inside one; give its root, "+s.dir, "at any depth")
}

// Within a mirror whose marker was deleted no place is offered for a new one: rows would go to the lanes of other directories.
func TestWALRecover_no_marker_within_a_mirror(t *testing.T) {
	t.Parallel()
	url, dir := bucketOf(t, map[string][]byte{
		"default/events/" + segmentID(1).FileName():            sealed(t, uuid.Nil, 3),
		"default/spans/" + segmentID(2).FileName():             sealed(t, uuid.Nil, 3),
		"_active/default/events/" + segmentID(3).PartialName(): partial(t, uuid.Nil, 1),
	})
	require.NoError(t, os.Remove(filepath.Join(dir, "siglake-mirror.json")))
	s := newPlace(t)
	for _, below := range []string{"/default", "/default/events", "/default/spans"} {
		r := s.run("wal-recover", "--from", url+below, "--to", s.walDir())
		require.Equal(t, exitUsage, r.code)
		require.Regexp(t, `lies? here without the directories of tenant and index that are below the root; it is probably `+url+`\n`, r.stderr)
		require.NotContains(t, r.stderr, "put an object")
	}
	for _, elsewhere := range []string{"/_active", "/_active/default", "/_active/default/events"} {
		require.NotContains(t, s.run("wal-recover", "--from", url+elsewhere, "--to", s.walDir()).stderr, "put an object", elsewhere)
	}
	require.NotContains(t, s.run("wal-recover", "--from", "file://"+filepath.Dir(dir), "--to", s.walDir()).stderr, "put an object")
	require.Contains(t, s.run("wal-recover", "--from", url, "--to", s.walDir()).stderr, "the marker of 3 segments was deleted: put an object")
}

// A mirror whose marker was deleted: the text says what to put there, and that helps.
func TestWALRecover_the_marker_is_gone(t *testing.T) {
	t.Parallel()
	url, dir := bucketOf(t, map[string][]byte{"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3)})
	marker := filepath.Join(dir, "siglake-mirror.json")
	require.NoError(t, os.Remove(marker))
	s := newPlace(t)
	r := s.run("wal-recover", "--from", url, "--to", s.walDir())
	require.Equal(t, exitUsage, r.code)
	_, content, ok := strings.Cut(r.stderr, "the marker of 1 segment was deleted: put an object siglake-mirror.json with the content ")
	require.True(t, ok, r.stderr)
	content, _, ok = strings.Cut(content, " there")
	require.True(t, ok, r.stderr)
	require.NoError(t, os.WriteFile(marker, []byte(content), 0o600))
	require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.walDir()), "1 segment, 3 rows")
}

// T-10: the copy of an open segment is recovered and its rows committed; then the whole segment is in the mirror. Recovered
// again it adds the rows behind the beginning, and no row is there twice, whatever of the log was lost in between.
func TestWALRecover_T10_the_whole_after_its_beginning(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		id := segmentID(1)
		url, dir := bucketOf(t, map[string][]byte{"_active/default/events/" + id.PartialName(): partial(t, uuid.Nil, 3)})
		s := newPlace(t)
		require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.walDir()), "1 segment, 3 rows")
		require.Contains(t, s.ok("drain", "--once"), "3 rows of 1 segment committed, in 1 lane")
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "default", "events"), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "default", "events", id.FileName()), sealed(t, uuid.Nil, 3, 4), 0o600))
		if lost {
			require.NoError(t, os.RemoveAll(s.walDir()))
		}
		out := s.ok("wal-recover", "--from", url, "--to", s.walDir())
		require.Contains(t, out, "1 segment, 7 rows")
		require.Equal(t, !lost, strings.Contains(out, "1 segment of which the root had only the beginning"), out)
		drained := s.ok("drain", "--once")
		require.Contains(t, drained, "4 rows of 1 segment committed, in 1 lane")
		require.Contains(t, drained, "3 rows were in the tables already and were not written again")
		require.Equal(t, []string{"7", "7", "7"}, s.counts(t))
		require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.walDir()), "1 present already")
	}
}

// counts are how many rows, how many of them different, and how many different texts the events have.
func (s *site) counts(t *testing.T) []string {
	t.Helper()
	rows := s.ok("sql", "-o", "csv", "SELECT count(*), count(DISTINCT (segment_id, segment_row)), count(DISTINCT body) FROM events")
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	return strings.Split(lines[len(lines)-1], ",")
}

// What retention has deleted is no loss: exit 0, and a text that says so.
func TestWALRecover_after_retention(t *testing.T) {
	t.Parallel()
	url, _ := bucketOf(t, map[string][]byte{
		"default/events/" + segmentID(5).FileName(): sealed(t, uuid.Nil, 3),
	})
	s := newPlace(t)
	out := s.ok("wal-recover", "--from", url, "--to", s.walDir())
	require.Regexp(t, `(?m)^no object: lane default/events, writer [0-9a-f]{12}, numbers 1 to 4$`, out)
	require.Contains(t, out, "as a rule, committed: the compactor deletes their copies")
	require.Contains(t, out, "1 segment, 3 rows")

	// The drain and status cannot tell it from a loss, until an operator who has looked says so.
	writer := segment.WriterName(segmentID(5).Writer)
	gap := "numbers 1 to 4 of writer " + writer
	r := s.run("drain", "--once")
	require.Contains(t, r.stderr, "gap in a writer's sequence numbers")
	require.Contains(t, s.run("status").stdout, "are missing, removed or lost: "+gap)
	require.NoError(t, os.WriteFile(filepath.Join(s.walDir(), "default", "events", writer+"-1-4.void"), nil, 0o600))
	require.NotContains(t, s.run("status").stdout, gap)
	s.run("drain", "--once")
	require.NotContains(t, s.run("status").stdout, gap)
}
