package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// roomy is a volume with room, and an fsync that takes its time, whatever the machine of the test has.
type roomy struct{ vfs.FS }

func (roomy) Space(string) (vfs.Space, error) {
	return vfs.Space{Free: 80 << 30, Total: 100 << 30}, nil
}

func (r roomy) OpenRW(name string) (vfs.File, error) {
	f, err := r.FS.OpenRW(name)
	return slow{f}, err
}

type slow struct{ vfs.File }

func (s slow) Sync() error {
	time.Sleep(10 * fastest)
	return s.File.Sync()
}

// drained is a site with a table and room on its volume.
func drained(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.write("default", "events", 3)
	s.ok("drain", "--once")
	s.fs = roomy{s.fs}
	return s
}

// anyTook are times that doctor measures, and how often it does.
var anyTook = regexp.MustCompile(`\b[\d.]+(ns|µs|ms|s)\b|\b\d+( fsyncs)`)

func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		out = append(out, name)
		return err
	}))
	return out
}

// Everything passes, and nothing of the doctor stays: not in the log, not in the mirror, not in the warehouse.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := drained(t)
	url, _ := bucketOf(t, map[string][]byte{})
	bucket := strings.TrimPrefix(url, "file://")
	before, copies := tree(t, s.dir), tree(t, bucket)
	got := s.ok("doctor", "--write", "--mirror", url)
	got = anyTook.ReplaceAllString(strings.ReplaceAll(got, url, "MIRROR"), "N$2")
	s.golden("doctor.txt", strings.ReplaceAll(got, bucket, "BUCKET"))
	require.Equal(t, before, tree(t, s.dir))
	require.Equal(t, copies, tree(t, bucket))
	require.Contains(t, s.ok("tables"), "siglake.events     3")
}

// Catalog and warehouse are read only without --write.
func TestDoctor_reads_only(t *testing.T) {
	t.Parallel()
	s := drained(t)
	stamp := func() (out []time.Time) {
		for _, name := range tree(t, filepath.Join(s.dir, "warehouse")) {
			info, err := os.Stat(name)
			require.NoError(t, err)
			out = append(out, info.ModTime())
		}
		return out
	}
	before := stamp()
	catalog, err := os.ReadFile(filepath.Join(s.dir, "catalog.db"))
	require.NoError(t, err)
	rep := doctorJSON(t, s)
	require.Equal(t, skipped, rep["catalog-write"].Result)
	require.Equal(t, skipped, rep["catalog-compare-and-set"].Result)
	require.Equal(t, skipped, rep["warehouse-write"].Result)
	require.Equal(t, passed, rep["catalog-tables"].Result)
	require.Equal(t, before, stamp())
	after, err := os.ReadFile(filepath.Join(s.dir, "catalog.db"))
	require.NoError(t, err)
	require.Equal(t, catalog, after)
}

// doctorJSON runs doctor and returns its findings by name.
func doctorJSON(t *testing.T, s *site, args ...string) map[string]finding {
	t.Helper()
	r := s.run(append([]string{"doctor", "-o", "json"}, args...)...)
	var rep doctorReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &rep), "%s", r.stderr)
	out := map[string]finding{}
	var failures int
	for _, f := range rep.Checks {
		require.NotEmpty(t, f.Seen, f.Check)
		require.NotEmpty(t, f.Costs, f.Check)
		require.NotEmpty(t, f.Fix, f.Check)
		require.NotContains(t, out, f.Check)
		out[f.Check] = f
		if f.Result == failed {
			failures++
			require.Contains(t, r.stderr, f.Check)
		}
	}
	require.Equal(t, rep.Failed, failures)
	if failures > 0 {
		require.Equal(t, exitUnfit, r.code)
	} else {
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	return out
}

func TestDoctor_usage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, tc := range []struct{ flag, value, want string }{
		{"--mirror", "ftp://x", "--mirror: "},
		{"--mirror", "s3://u:not-to-be-seen@b", "--mirror: "},
		{"--timeout", "0s", "--timeout: 0s is no time"},
	} {
		r := s.run("doctor", tc.flag, tc.value)
		require.Equal(t, exitUsage, r.code, tc)
		require.Contains(t, r.stderr, tc.want)
		require.NotContains(t, r.stdout+r.stderr, "not-to-be-seen")
	}
}

func TestDoctor_judgements(t *testing.T) {
	t.Parallel()
	slow := []time.Duration{time.Millisecond, time.Microsecond, 2 * time.Millisecond}
	require.Equal(t, passed, judgeSyncs(slow).result)
	fast := []time.Duration{time.Microsecond, time.Second, 9 * time.Microsecond}
	require.Equal(t, warned, judgeSyncs(fast).result)
	require.Contains(t, judgeSyncs(fast).seen, "may do nothing")

	require.Equal(t, passed, judgeClock(time.Second, time.Second).result)
	require.Equal(t, warned, judgeClock(-time.Hour, time.Second).result)

	for off, want := range map[time.Duration]string{
		0: passed, -5 * time.Second: passed, 40 * time.Second: warned, -40 * time.Second: warned, time.Hour: failed, -time.Hour: failed,
	} {
		require.Equal(t, want, judgeSkew(testNow.Add(off), testNow, testNow.Add(time.Second)).result, off)
	}

	past := lake.TableInfo{LastCommit: time.Now().Add(-time.Hour)}
	require.Equal(t, skipped, judgeCommits(nil).result)
	require.Equal(t, passed, judgeCommits([]lake.TableInfo{past, {LastCommit: time.Now().Add(10 * time.Second)}}).result)
	require.Equal(t, failed, judgeCommits([]lake.TableInfo{past, {LastCommit: time.Now().Add(time.Hour)}}).result)
}

// The clock of the kernel.
func TestDoctor_clock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kept bool
		err  error
		want string
	}{{true, nil, passed}, {false, nil, warned}, {false, syscall.EPERM, unknown}} {
		d := &doctor{app: &app{}, doctorFlags: doctorFlags{timeout: time.Minute}}
		d.kernel.synchronised = func() (bool, error) { return tc.kept, tc.err }
		d.checkClock(t.Context(), time.Now())
		require.Equal(t, tc.want, d.found[0].Result)
	}
	_, err := synchronised()
	require.NoError(t, err, "this kernel tells")
}

// Beside a collector that has the log open: its lock and its lanes are left alone, and it does not take what the doctor
// makes for a stranger.
func TestDoctor_beside_a_writer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fs = roomy{s.fs}
	l, err := wal.Open(t.Context(), wal.Options{FS: s.fs, Dir: s.walDir(), Holder: "a collector"})
	require.NoError(t, err)
	lock, err := os.ReadFile(filepath.Join(s.walDir(), segment.LockName))
	require.NoError(t, err)
	var seen [][]string
	s.fs = watching{s.fs, func() {
		_, strangers, err := s.root().Lanes()
		require.NoError(t, err)
		seen = append(seen, strangers)
	}}
	before := tree(t, s.walDir())
	rep := doctorJSON(t, s)
	require.Contains(t, rep["wal-directory"].Seen, "its LOCK last held by a collector")
	for name, f := range rep {
		if strings.HasPrefix(name, "wal-") {
			require.Equal(t, passed, f.Result, "%s: %s", name, f.Seen)
		}
	}
	require.NotEmpty(t, seen)
	for _, strangers := range seen {
		require.Empty(t, strangers)
	}
	require.Equal(t, before, tree(t, s.walDir()))
	after, err := os.ReadFile(filepath.Join(s.walDir(), segment.LockName))
	require.NoError(t, err)
	require.Equal(t, lock, after)
	require.NoError(t, l.Close(t.Context()))
}

// watching calls look when a file gets a second name.
type watching struct {
	vfs.FS

	look func()
}

func (w watching) Link(from, to string) error {
	w.look()
	return w.FS.Link(from, to)
}

// What a doctor that was killed has left goes with the next one; one that runs is not disturbed.
func TestDoctor_after_a_kill_and_beside_another(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fs = roomy{s.fs}
	dir := filepath.Join(s.walDir(), segment.DoctorName)
	require.NoError(t, os.Mkdir(dir, 0o750))
	for _, name := range []string{probeFile, "link", probeLock} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	other, err := s.fs.Lock(filepath.Join(dir, probeLock), "siglake doctor, pid 7")
	require.NoError(t, err)
	f := doctorJSON(t, s)["wal-write"]
	require.Equal(t, failed, f.Result)
	require.Contains(t, f.Seen, "another doctor is at it: siglake doctor, pid 7")
	require.FileExists(t, filepath.Join(dir, "link"))
	require.NoError(t, other.Close())
	require.Equal(t, passed, doctorJSON(t, s)["wal-write"].Result)
	require.NoDirExists(t, dir)
}

// Ctrl-C at any operation ends the doctor, and nothing of it stays.
func TestDoctor_interrupted(t *testing.T) {
	t.Parallel()
	s, disk := simSite(t)
	const far = 1000
	var cuts int
	for n := range far {
		ctx, cancel := context.WithCancel(t.Context())
		at := 0
		disk.SetHook(func(op simfs.Op) error {
			if strings.Contains(op.Name, segment.DoctorName) {
				if at == n {
					cancel()
				}
				at++
			}
			return nil
		})
		var out, errs bytes.Buffer
		code := run(ctx, environment{
			fs: disk, kernel: testKernel(), now: time.Now, stdin: s.stdin, stdout: &out, stderr: &errs, interrupt: context.WithCancel,
			getenv: func(name string) string { return map[string]string{"SIGLAKE_DATA": s.dir}[name] },
		}, []string{"doctor"})
		over := ctx.Err() == nil
		cancel()
		disk.SetHook(nil)
		_, err := disk.Stat(filepath.Join(s.walDir(), segment.DoctorName))
		require.ErrorIs(t, err, fs.ErrNotExist, n)
		if over {
			break
		}
		require.Equal(t, exitFailed, code, n)
		require.Contains(t, errs.String(), "interrupted")
		require.Empty(t, out.String())
		cuts++
	}
	require.Greater(t, cuts, 20)
	require.Less(t, cuts, far)
}

// A verdict on an error is a failure.
func TestOK(t *testing.T) {
	t.Parallel()
	require.Equal(t, verdict{failed, "no", ""}, ok(errors.New("no"), "yes"))
	require.Equal(t, verdict{passed, "yes 1", ""}, ok(nil, "yes %d", 1))
}

func isDirectory(t *testing.T, name string) bool {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	return info.IsDir()
}

// docs/operations/doctor.md says of each check what a failure costs, as the command does.
func TestDoctor_document(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "doctor.md"))
	require.NoError(t, err)
	checks := append([]check{
		walDirectory, walFileSystem, walRoom, mirrorReach, mirrorPlace, catalogReach, catalogFileSystem, catalogTables, catalogClock, warehouseDisk,
		clockSync, clockSteady,
	}, walTries()...)
	checks = append(append(checks, mirrorTries()...), lakeTries()...)
	rows := 0
	for line := range strings.Lines(string(b)) {
		for _, c := range checks {
			if strings.HasPrefix(line, "| `"+c.name+"`") {
				require.True(t, strings.HasSuffix(line, " | "+c.costs+" |\n"), "%s costs: %s", c.name, c.costs)
				rows++
			}
		}
	}
	require.Equal(t, len(checks), rows)
}
