package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/killfs"
)

// A bucket with all that can be in one: gaps, what is damaged, exchanged, of a newer version, foreign, open and superseded.
// What can be restored is, once; counts and exit code tell the rest; the table is exact after the drain. F1, MIR-1, LOUD-1.
func TestWALRecover_all_that_a_bucket_can_hold_F1(t *testing.T) {
	t.Parallel()
	file := func(n int) string { return "default/events/" + segmentID(n).FileName() }
	open := func(n int) string { return "_active/default/events/" + segmentID(n).PartialName() }
	elsewhere := segment.ID{UUID: segmentID(10).UUID, Writer: [6]byte{0xCD}, Seq: 1}
	flipped := named(t, segmentID(4), 5)
	flipped[len(flipped)/2] ^= 1
	newer := named(t, segmentID(7), 5)
	newer[4] = 9
	url, dir := bucketOf(t, map[string][]byte{
		file(1): named(t, segmentID(1), 3), file(2): sealed(t, uuid.Nil, 2), // 2: an older writer's
		file(4): flipped,
		file(5): named(t, segmentID(6), 5), file(6): named(t, segmentID(5), 5), // exchanged
		file(7): newer,
		file(8): named(t, segmentID(8), 3, 1), open(8): partial(t, uuid.Nil, 3),
		open(9):                                 partial(t, uuid.Nil, 2),
		"team-a/events/" + elsewhere.FileName(): named(t, elsewhere, 1),
		"notes.txt":                             []byte("hello"), "default/events/deep/er/" + segmentID(1).FileName(): []byte("x"), "_active/x.tar": []byte("x"),
	})
	s := newPlace(t)
	recoverAll := func() (rep recovered) {
		t.Helper()
		r := s.run("wal-recover", "--from", url, "--to", s.walDir(), "-o", "json")
		require.Equal(t, exitDamage, r.code, r.stderr)
		require.Contains(t, r.stderr, "4 objects cannot be read as segments; all others are restored")
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &rep))
		var keys []string
		for _, f := range rep.Unreadable {
			keys = append(keys, f.Key)
		}
		require.Equal(t, []string{file(4), file(5), file(6), file(7)}, keys)
		require.Equal(t, [3]int{1, 3, 0}, [3]int{rep.Superseded, rep.Foreign, len(rep.Failed)})
		require.Equal(t, []mirror.LaneGap{{Lane: "default/events", Writer: segment.WriterName(segmentID(3).Writer), First: 3, Last: 3}}, rep.Gaps)
		return rep
	}
	rep := recoverAll()
	require.Equal(t, [2]int{5, 0}, [2]int{rep.Segments, rep.Present})
	require.EqualValues(t, 12, rep.Rows)
	rep = recoverAll()
	require.Equal(t, [2]int{0, 5}, [2]int{rep.Segments, rep.Present})
	drained := s.run("drain", "--once")
	require.Zero(t, drained.code, drained.stderr)
	require.Contains(t, drained.stdout, "12 rows of 5 segments committed, in 2 lanes")
	require.Contains(t, drained.stderr, `"first": 3, "last": 7`, "what is missing in the log, too, is told")
	require.Equal(t, []string{"11", "11", "4"}, s.counts(t))

	// Brought into the log by hand, the newer one waits for its version, and the exchanged one is found out.
	for _, n := range []int{5, 7} {
		body, err := os.ReadFile(filepath.Join(dir, file(n)))
		require.NoError(t, err)
		s.put(s.lane("default", "events"), segment.Sealed, n, body, time.Minute)
	}
	var last result
	for range 5 { // a segment is set aside after several failed reads
		if last = s.run("drain", "--once"); last.code == exitDamage {
			break
		}
	}
	require.Equal(t, exitDamage, last.code, "%s%s", last.stdout, last.stderr)
	require.Contains(t, last.stdout, "1 segment left to the newer version that wrote it")
	require.Contains(t, last.stdout, "1 segment unreadable and set aside")
	require.Equal(t, []string{"11", "11", "4"}, s.counts(t))
}

// Each operation of a recovery that changes the disk is cut by kill -9 of the process, and another one of the next try; the
// third ends the work: every object is in the root, byte for byte, and nothing else, and a drain makes the table exact.
func TestWALRecover_kill_exact(t *testing.T) {
	stride := 8
	if os.Getenv("SIGLAKE_SOAK") != "" {
		stride = 1
	}
	id := func(n int) segment.ID {
		if n < 4 {
			return segmentID(n)
		}
		return segment.ID{UUID: segmentID(n).UUID, Writer: [6]byte{0xCD}, Seq: 1}
	}
	objects := map[string][]byte{
		"default/events/" + id(1).FileName():                   named(t, id(1), 3),
		"default/events/" + id(2).FileName():                   named(t, id(2), 2),
		"_active/default/events/" + id(3).PartialName():        partial(t, uuid.Nil, 4),
		"tenant-a/a-user-index/" + id(4).FileName():            named(t, id(4), 1),
		"_active/tenant-a/a-user-index/" + id(4).PartialName(): partial(t, uuid.Nil, 1),
	}
	url, dir := "", ""
	steps := 0
	killfs.Walk{
		Work: func(dir string, fsys *killfs.FS, _ func(int)) error {
			url, err := os.ReadFile(filepath.Join(dir, "url"))
			if err != nil {
				return err
			}
			return commandOn(fsys, "wal-recover", "--from", string(url), "--to", filepath.Join(dir, "wal"), "--concurrency", "1")
		},
		Stride: stride, Spread: 41,
		Fresh: func() string {
			if url == "" {
				url, _ = bucketOf(t, objects)
			}
			require.NoError(t, os.RemoveAll(dir))
			dir = t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "url"), []byte(url), 0o600))
			return dir
		},
		Judge: func(k int, dir string, _ ...killfs.Life) {
			s := &site{tb: t, dir: dir, fs: vfs.OS(), stdin: strings.NewReader("")}
			var rep recovered
			require.NoError(t, json.Unmarshal([]byte(s.ok("wal-recover", "--from", url, "--to", s.walDir(), "-o", "json")), &rep), "k=%d", k)
			require.Equal(t, 4, rep.Segments+rep.Present, "k=%d", k)
			files := segmentFiles(t, s.walDir())
			require.Contains(t, files["tenant-a/a-user-index/holds"], "logs ", "k=%d", k)
			maps.DeleteFunc(files, func(path, _ string) bool { // also drafts of it, which the drain removes at its start
				return strings.HasPrefix(path, "tenant-a/a-user-index/holds")
			})
			require.Equal(t, map[string]string{
				"default/events/sealed/" + id(1).FileName():        string(objects["default/events/"+id(1).FileName()]),
				"default/events/sealed/" + id(2).FileName():        string(objects["default/events/"+id(2).FileName()]),
				"default/events/sealed/" + id(3).FileName():        string(objects["_active/default/events/"+id(3).PartialName()]),
				"tenant-a/a-user-index/sealed/" + id(4).FileName(): string(objects["tenant-a/a-user-index/"+id(4).FileName()]),
			}, files, "k=%d", k)
			if steps++; steps%5 == 1 {
				require.Contains(t, s.ok("drain", "--once"), "10 rows of 4 segments committed, in 2 lanes", "k=%d", k)
			}
		},
	}.Run(t)
}

// segmentFiles are all files in the lanes of a root, by path.
func segmentFiles(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		if err = errors.Join(err, relErr); err != nil || d.IsDir() || !strings.Contains(rel, string(filepath.Separator)) {
			return err
		}
		body, err := os.ReadFile(path)
		out[rel] = string(body)
		return err
	}))
	return out
}
