// Package volume gives a test a file system of its own: on a loop device, where the power can be cut, or in memory, where
// the disk can be full. It needs root. Everything is unmounted when the test ends, also when it fails; what a test that
// was killed has left is unmounted by the next one.
package volume

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// prefix and the process id name the folders of this process.
const prefix = "siglake-volume-"

// Volume is a mounted file system.
type Volume struct {
	Dir string // where it is mounted

	kind   string
	source string // image, or the kind for one without
	option string
}

// makers are the programs that make a file system of a kind on an image, with the Debian package that has them.
var makers = map[string][3]string{
	"ext4": {"mkfs.ext4", "-qF", "e2fsprogs"},
	"xfs":  {"mkfs.xfs", "-qf", "xfsprogs"},
}

// Loop makes a file system of a kind (ext4, xfs) in an image of so many bytes and mounts it.
func Loop(t testing.TB, kind string, size int64) *Volume {
	t.Helper()
	dir := scratch(t)
	v := &Volume{Dir: filepath.Join(dir, "mnt"), kind: kind, source: filepath.Join(dir, "image"), option: "loop"}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Fatalf("find loop devices: %v: `modprobe loop`", err)
	}
	make := makers[kind]
	program, err := testenv.Tool(make[0], make[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(v.source, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(v.source, size); err != nil {
		t.Fatal(err)
	}
	if err := run(program, make[1], v.source); err != nil {
		t.Fatal(err)
	}
	v.begin(t)
	return v
}

// Memory mounts a file system in memory that holds so many bytes.
func Memory(t testing.TB, size int64) *Volume {
	t.Helper()
	v := &Volume{Dir: filepath.Join(scratch(t), "mnt"), kind: "tmpfs", source: "tmpfs", option: "size=" + strconv.FormatInt(size, 10)}
	v.begin(t)
	return v
}

// scratch makes the folder of a volume, which goes when the test ends.
func scratch(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("mount a file system: only root may: `sudo -E env PATH=$PATH make e2e`")
	}
	if err := sweep(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	return dir
}

func (v *Volume) begin(t testing.TB) {
	t.Helper()
	if err := os.Mkdir(v.Dir, 0o750); err != nil {
		t.Fatal(err)
	}
	v.mount(t)
	// Lazily: a process that still has files open must not keep the rest of the clean-up from its work.
	t.Cleanup(func() {
		if err := unix.Unmount(v.Dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("unmount %s: %v", v.Dir, err)
		}
	})
}

// mount lets mount(8) find a loop device, which the kernel frees with the last use of it.
func (v *Volume) mount(t testing.TB) {
	t.Helper()
	program, err := testenv.Tool("mount", "mount")
	if err != nil {
		t.Fatal(err)
	}
	if err := run(program, "-t", v.kind, "-o", v.option, v.source, v.Dir); err != nil {
		t.Fatalf("%v\nIf the kernel does not know %s: `modprobe %[2]s`", err, v.kind)
	}
}

const (
	// ioctlShutdown is FS_IOC_SHUTDOWN of linux/fs.h, _IOR('X', 125, __u32); ext4 and xfs know it.
	ioctlShutdown = 0x8004587d
	// noLogFlush drops what is in memory, the journal's too.
	noLogFlush = 2
)

// Cut stops the file system as a power cut would: nothing that has not reached the device will, and every call fails
// until Remount.
func (v *Volume) Cut(t testing.TB) {
	t.Helper()
	dir, err := os.Open(v.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }() // opened for reading
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), ioctlShutdown, noLogFlush); err != nil {
		t.Fatalf("cut %s: %v", v.Dir, err)
	}
}

// Remount unmounts and mounts again, which replays the journal. No process may have files open there.
func (v *Volume) Remount(t testing.TB) {
	t.Helper()
	// A process that was reaped a moment ago may still be giving its files back.
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := unix.Unmount(v.Dir, 0)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			t.Fatalf("unmount %s: %v", v.Dir, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	v.mount(t)
}

func run(program string, args ...string) error {
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// sweep unmounts and removes what processes that are no more have left: a test that runs out of time cleans nothing up.
func sweep() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		pid, err := strconv.Atoi(text)
		if err != nil || unix.Kill(pid, 0) == nil {
			continue
		}
		err = unix.Unmount(filepath.Join(dir, "mnt"), unix.MNT_DETACH)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount what is left in %s: %w", dir, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
