package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
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

// simSite is a log on a simulated disk.
func simSite(t *testing.T) (*site, *simfs.FS) {
	t.Helper()
	disk := simfs.New(nil)
	s := &site{tb: t, dir: t.TempDir(), fs: disk, stdin: strings.NewReader("")}
	_, err := segment.Create(disk, s.walDir())
	require.NoError(t, err)
	return s, disk
}

// Each fault of the volume is told by the check that is about it, and by no other.
func TestDoctor_volume_faults(t *testing.T) {
	t.Parallel()
	inProbe := func(op simfs.Op, name string) bool {
		return strings.HasSuffix(op.Name, segment.DoctorName+name) || strings.HasSuffix(op.To, segment.DoctorName+name)
	}
	for _, tc := range []struct {
		name, check, result, seen string
		hook                      simfs.Hook
	}{
		{"no right to write", "wal-write", failed, "may not write there", func(op simfs.Op) error {
			if op.Kind == simfs.Mkdir {
				return syscall.EACCES
			}
			return nil
		}},
		{"a full volume", "wal-write", failed, "no space left", func(op simfs.Op) error {
			if op.Kind == simfs.Writev {
				return syscall.ENOSPC
			}
			return nil
		}},
		{"no hard links", "wal-hard-links", warned, "operation not permitted", func(op simfs.Op) error {
			if op.Kind == simfs.Link {
				return syscall.EPERM
			}
			return nil
		}},
		{"links fail", "wal-hard-links", failed, "input/output error", func(op simfs.Op) error {
			if op.Kind == simfs.Link {
				return syscall.EIO
			}
			return nil
		}},
		{"no rename", "wal-rename", failed, "input/output error", func(op simfs.Op) error {
			if op.Kind == simfs.Rename {
				return syscall.EIO
			}
			return nil
		}},
		{"no locks", "wal-locks", failed, "no locks available", func(op simfs.Op) error {
			if op.Kind == simfs.Lock {
				return syscall.ENOLCK
			}
			return nil
		}},
		{"fsync of a file fails", "wal-fsync", failed, "input/output error", func(op simfs.Op) error {
			if op.Kind == simfs.Sync && inProbe(op, "/file") {
				return syscall.EIO
			}
			return nil
		}},
		{"fsync of a directory fails", "wal-fsync", failed, "invalid argument", func(op simfs.Op) error {
			if op.Kind == simfs.SyncDir && inProbe(op, "") {
				return syscall.EINVAL
			}
			return nil
		}},
		{"the room cannot be asked", "wal-room", failed, "input/output error", func(op simfs.Op) error {
			if op.Kind == simfs.Space {
				return syscall.EIO
			}
			return nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, disk := simSite(t)
			disk.SetHook(tc.hook)
			rep := doctorJSON(t, s)
			require.Equal(t, tc.result, rep[tc.check].Result, rep[tc.check].Seen)
			require.Contains(t, rep[tc.check].Seen, tc.seen)
			for name, f := range rep {
				// The records of rename are synced as well, and a failed fsync of a file fails the time of one.
				related := strings.HasPrefix(tc.check, "wal-fsync") && (name == "wal-rename" || name == "wal-fsync-time")
				if name != tc.check && !related {
					require.NotEqual(t, failed, f.Result, "%s: %s", name, f.Seen)
				}
			}
			disk.SetHook(nil)
			_, err := disk.Stat(filepath.Join(s.walDir(), segment.DoctorName))
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// lying is a volume that says yes and does nothing.
type lying struct {
	roomy

	what string
}

func (l lying) Lock(name, text string) (io.Closer, error) {
	if l.what == "lock" && strings.HasSuffix(name, "/locked") {
		return io.NopCloser(nil), nil
	}
	return l.roomy.Lock(name, text)
}

func (l lying) Rename(from, to string) error {
	if l.what == "rename" {
		return l.Remove(from)
	}
	return l.roomy.Rename(from, to)
}

func (l lying) Link(from, to string) error {
	if l.what == "link" {
		return vfs.WriteFile(l.roomy, to, []byte("a copy"))
	}
	return l.roomy.Link(from, to)
}

type forgetting struct{ vfs.File }

func (forgetting) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

func (l lying) Create(name string) (vfs.File, error) {
	f, err := l.roomy.Create(name)
	if l.what == "write" && err == nil {
		return forgetting{f}, nil
	}
	return f, err
}

func TestDoctor_volume_lies(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]struct{ check, seen string }{
		"lock":   {"wal-locks", "two holders at once"},
		"rename": {"wal-rename", "no such file"},
		"link":   {"wal-hard-links", "two files"},
		"write":  {"wal-write", "other bytes came back"},
	} {
		s := newSite(t)
		s.fs = lying{roomy{vfs.OS()}, what}
		f := doctorJSON(t, s)[want.check]
		require.Equal(t, failed, f.Result, what)
		require.Contains(t, f.Seen, want.seen, what)
		require.NoDirExists(t, filepath.Join(s.walDir(), segment.DoctorName))
	}
}

func TestDoctor_file_systems(t *testing.T) {
	t.Parallel()
	d := &doctor{app: &app{}}
	for _, tc := range []struct {
		fsType, option string
		result         string
	}{
		{"ext4", "rw", passed},
		{"xfs", "noatime", passed},
		{"ext4", "nobarrier", failed},
		{"ext4", "barrier=0", failed},
		{"overlay", "volatile", failed},
		{"overlay", "rw", failed},
		{"tmpfs", "rw", failed},
		{"nfs4", "vers=4.2", warned},
		{"fuse.s3fs", "rw", warned},
		{"btrfs", "rw", warned},
	} {
		d.kernel.volume = func(string) (vfs.Volume, error) {
			return vfs.Volume{Type: tc.fsType, Source: "/dev/x", Mount: "/x", Options: []string{tc.option}}, nil
		}
		require.Equal(t, tc.result, d.fileSystem("/x").result, tc)
	}
	d.kernel.volume = func(string) (vfs.Volume, error) { return vfs.Volume{}, syscall.ENOSYS }
	require.Equal(t, unknown, d.fileSystem("/x").result)
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

func TestDoctor_room(t *testing.T) {
	t.Parallel()
	for free, want := range map[int64]string{4 << 30: failed, 7 << 30: warned, 80 << 30: passed} {
		s, disk := simSite(t)
		disk.SetSpace(vfs.Space{Free: free, Total: 100 << 30})
		f := doctorJSON(t, s)["wal-room"]
		require.Equal(t, want, f.Result)
		require.Contains(t, f.Seen, "wal::max_bytes is 75.0 GiB and wal::min_free keeps 5.0 GiB")
	}
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

// What is no log, and what is none yet.
func TestDoctor_places(t *testing.T) {
	t.Parallel()
	at := func(s *site) finding { return doctorJSON(t, s)["wal-directory"] }

	fresh := newPlace(t)
	f := at(fresh)
	require.Equal(t, passed, f.Result)
	require.Contains(t, f.Seen, "wal is not there yet; looked at "+fresh.dir)
	require.Equal(t, []string{fresh.dir}, tree(t, fresh.dir))

	empty := newPlace(t)
	require.NoError(t, os.Mkdir(empty.walDir(), 0o750))
	require.Contains(t, at(empty).Seen, "is empty")

	taken := newPlace(t)
	require.NoError(t, os.Mkdir(taken.walDir(), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(taken.walDir(), "notes"), nil, 0o600))
	rep := doctorJSON(t, taken)
	require.Equal(t, failed, rep["wal-directory"].Result)
	require.Contains(t, rep["wal-directory"].Seen, `holds "notes"`)
	require.Equal(t, skipped, rep["wal-write"].Result)
	require.Len(t, tree(t, taken.walDir()), 2)

	file := newPlace(t)
	require.NoError(t, os.WriteFile(file.walDir(), nil, 0o600))
	require.Equal(t, failed, at(file).Result)

	damaged := newSite(t)
	require.NoError(t, os.WriteFile(filepath.Join(damaged.walDir(), "siglake-wal.json"), []byte("{"), 0o600))
	require.Equal(t, warned, at(damaged).Result)
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
	require.Contains(t, rep["wal-directory"].Seen, "last writer a collector")
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

// A volume that does not answer costs one check's time, and the others of it are not tried.
func TestDoctor_hang(t *testing.T) {
	t.Parallel()
	s, disk := simSite(t)
	release := make(chan struct{})
	disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Link {
			<-release
		}
		return nil
	})
	rep := doctorJSON(t, s, "--timeout", "20ms")
	close(release)
	require.Equal(t, failed, rep["wal-hard-links"].Result)
	require.Equal(t, "no answer within 20ms", rep["wal-hard-links"].Seen)
	require.Equal(t, skipped, rep["wal-rename"].Result)
	require.Equal(t, skipped, rep["wal-fsync"].Result)
	require.NotEqual(t, skipped, rep["clock-steady"].Result)
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
