//go:build cgo

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// bodies asks for all bodies of a table, the log included.
func (s *site) bodies(table string, args ...string) string {
	s.tb.Helper()
	r := s.run(append([]string{"sql", "--with-wal", "-o", "csv", "SELECT body FROM " + table + " ORDER BY timestamp_ns"}, args...)...)
	require.Zero(s.tb, r.code, r.stderr)
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(r.stdout, "body\n"), "\n"), "\n", ",")
}

// rowNames are the bodies that logs makes.
func rowNames(from, to int) string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("row %d", i))
	}
	return strings.Join(out, ",")
}

// Rows of every state a segment can be in before its commit are shown once, beside those that are in the table.
func TestWithWAL_every_state(t *testing.T) {
	t.Parallel()
	for _, st := range []segment.State{segment.Active, segment.Sealed, segment.Processing, segment.Orphans} {
		t.Run(string(st), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			l := s.lane("default", "events")
			file := partial(t, uuid.Nil, 3, 2)
			if st != segment.Active {
				file = sealed(t, uuid.Nil, 3, 2)
			}
			s.put(l, st, 1, file, time.Minute)
			require.Equal(t, rowNames(0, 5), s.bodies("events"), "before there is a catalog")
			require.Equal(t, exitUsage, s.run("sql", "SELECT 1").code)
		})
	}
}

// A crash leaves an open segment with a torn tail: whole batches are shown, and nothing of the file changes.
func TestWithWAL_torn_tail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.lane("default", "events")
	file := partial(t, uuid.Nil, 3, 2)
	id := s.put(l, segment.Active, 1, file[:len(file)-10], 0)
	s.put(l, segment.Active, 2, partial(t, uuid.Nil), 0) // nothing in it
	require.Equal(t, rowNames(0, 3), s.bodies("events"))
	b, err := os.ReadFile(l.Path(segment.Active, id.PartialName()))
	require.NoError(t, err)
	require.Equal(t, file[:len(file)-10], b)
}

// Committed rows and their segment, still in the log, are one.
func TestWithWAL_committed_rows_are_not_shown_twice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 3, 2)
	l := s.lane("default", "events")
	s.ok("drain", "--once")
	require.Equal(t, rowNames(0, 5), s.bodies("events"))
	// As a crash between commit and mark leaves it, and one before the drain's next start.
	entries, _, err := l.List(segment.Committed)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	for _, st := range []segment.State{segment.Processing, segment.Orphans, segment.Sealed} {
		b, err := os.ReadFile(l.Path(segment.Committed, entries[0].Name))
		require.NoError(t, err)
		path := l.Path(st, entries[0].Name)
		require.NoError(t, os.WriteFile(path, b, 0o640))
		require.Equal(t, rowNames(0, 5), s.bodies("events"), st)
		require.NoError(t, os.Remove(path))
	}
	s.put(l, segment.Sealed, 1, sealed(t, uuid.Nil, 2), 0)
	require.Equal(t, "row 0,row 0,row 1,row 1,row 2,row 3,row 4", s.bodies("events"))
}

func TestWithWAL_other_lanes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 1)
	s.ok("drain", "--once")
	s.put(s.lane("team-a", "events"), segment.Sealed, 1, sealed(t, uuid.Nil, 2), 0)
	s.put(s.lane("default", "audit"), segment.Active, 2, partial(t, uuid.Nil, 3), 0)
	require.Equal(t, rowNames(0, 2), s.bodies(`"tenant_team-a".events`))
	require.Equal(t, rowNames(0, 3), s.bodies("audit"))
	require.Equal(t, rowNames(0, 1), s.bodies("events"))
	require.Contains(t, s.ok("sql", "--with-wal", "SHOW ALL TABLES"), "audit")
	r := s.run("sql", "--with-wal", "FROM nothing")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "siglake.audit")
	require.Contains(t, s.run("sql", "FROM audit").stderr, "does not exist")
}

// What no drain would take is not shown, and that is said; a damaged segment hides no other.
func TestWithWAL_set_aside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 1)
	s.ok("drain", "--once")
	l := s.lane("default", "events")
	s.put(l, segment.Poison, 1, sealed(t, uuid.Nil, 2), 0)
	s.put(l, segment.Stale, 2, sealed(t, testTable, 2), 0)
	s.put(l, segment.Sealed, 3, sealed(t, testTable, 2), 0) // of another table, not yet set aside
	bad := sealed(t, uuid.Nil, 2)
	bad[len(bad)-20] ^= 1
	s.put(l, segment.Sealed, 4, bad, 0)
	r := s.run("sql", "--with-wal", "-o", "csv", "SELECT body FROM events")
	require.Equal(t, exitDamage, r.code)
	require.Equal(t, "body\nrow 0\n", r.stdout)
	s.golden("with_wal_set_aside.txt", r.stderr)
	shell := piped(t, s, "SELECT count(*) AS n FROM events;\nSELECT 2 AS two;\n", "--with-wal", "-o", "csv")
	require.Equal(t, exitDamage, shell.code)
	require.Equal(t, "n\n1\ntwo\n2\n", shell.stdout, "it is the last word, not the end")
	require.Zero(t, s.run("sql", "--with-wal", "SELECT 1").code, "no table was asked for")

	id := segmentID(4)
	require.NoError(t, s.fs.Remove(l.Path(segment.Sealed, id.FileName())))
	require.Zero(t, s.run("sql", "--with-wal", "SELECT body FROM events").code, "what is set aside is known")
}

// The log and its times prune by what headers say, the table by its manifests, and both keep to the bounds exactly.
func TestWithWAL_since_until(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 5)
	s.ok("drain", "--once")
	s.put(s.lane("default", "events"), segment.Sealed, 1, sealed(t, uuid.Nil, 5), 0)
	at := func(i int) string { return testNow.Add(time.Duration(i) * time.Second).Format(time.RFC3339) }
	require.Equal(t, "row 3,row 3,row 4,row 4", s.bodies("events", "--since", at(3)))
	require.Equal(t, "row 0,row 0", s.bodies("events", "--until", at(1)))
	require.Equal(t, "row 2,row 2", s.bodies("events", "--since", at(2), "--until", at(3)))
	require.Empty(t, s.bodies("events", "--since", at(5)))
	require.Empty(t, s.bodies("events", "--until", "1m"))
	s.terminal = true
	r := s.run("sql", "--with-wal", "--until", "1h", "SELECT count(*) FROM events")
	require.Contains(t, r.stderr, "planned 0 rows in 0 files (1 left out by --since and --until)")
	for _, span := range [][]string{{"1h", "2h"}, {at(3), at(3)}} {
		r := s.run("sql", "--since", span[0], "--until", span[1], "SELECT 1")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "--since "+span[0]+" is not before --until "+span[1])
	}
	for _, value := range []string{"yesterday", "-1h", "1x"} {
		require.Equal(t, exitUsage, s.run("sql", "--since", value, "SELECT 1").code, value)
	}
}

// LAKE-1 for a reader: whatever a writer and drains do meanwhile, each row that was acknowledged before the question
// is in the answer once, and no row twice.
func TestWithWAL_each_row_once_beside_a_drain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ok("drain", "--once")
	l, err := wal.Open(t.Context(), wal.Options{FS: s.fs, Dir: s.walDir(), MaxEvents: 6})
	require.NoError(t, err)
	stop := make(chan struct{})
	drained := make(chan error, 1)
	go func() {
		defer close(drained)
		other := *s
		for {
			select {
			case <-stop:
				return
			default:
				if r := other.run("drain", "--once"); r.code != 0 {
					drained <- fmt.Errorf("drain: %s", r.stderr)
					return
				}
			}
		}
	}()
	const rounds, each = 25, 4
	for i := range rounds {
		body, b := message(t, logs(i*each, each))
		_, err := l.Append(t.Context(), wal.Request{
			Tenant: "default", Index: "events", Schema: otelarrow.WALSchema(otelarrow.Logs), Body: body, Rows: each,
			MinTime: b.MinTime, MaxTime: b.MaxTime, Mode: wal.WaitFor,
		})
		require.NoError(t, err)
		require.Equal(t, rowNames(0, (i+1)*each), s.bodies("events"), "after request %d", i)
	}
	close(stop)
	require.NoError(t, <-drained)
	require.NoError(t, l.Close(t.Context()))
	require.Equal(t, rowNames(0, rounds*each), s.bodies("events"))
	s.ok("drain", "--once")
	require.Equal(t, rowNames(0, rounds*each), s.bodies("events"))
}

// What was acknowledged is shown while the writer lives, after a kill -9 of it, and once after its recovery. Not parallel, as
// terminalOf says.
func TestWithWAL_killed_writer(t *testing.T) {
	s := newSite(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asWriter+"="+s.walDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, rowNames(0, 3), s.bodies("events"))
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Equal(t, rowNames(0, 3), s.bodies("events"))
	s.write("default", "events", 1) // another writer recovers the segment, and adds a row of its own
	require.Equal(t, "row 0,row 0,row 1,row 2", s.bodies("events"))
	s.ok("drain", "--once")
	require.Equal(t, "row 0,row 0,row 1,row 2", s.bodies("events"))
}

// Nothing is left in the place for temporary files.
func TestWithWAL_removes_its_files(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s.put(s.lane("default", "events"), segment.Sealed, 1, sealed(t, uuid.Nil, 2), 0)
	require.Equal(t, rowNames(0, 2), s.bodies("events"))
	require.Equal(t, exitFailed, s.run("sql", "--with-wal", "SELECT nope FROM events").code)
	left, err := filepath.Glob(filepath.Join(dir, "siglake-sql-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
