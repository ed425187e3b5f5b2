package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

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
