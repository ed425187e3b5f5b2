package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, name string, sync bool) *os.File {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	_, err = f.WriteString("content")
	require.NoError(t, err)
	if sync {
		require.NoError(t, f.Sync())
	}
	return f
}

// The cut must lose what was not synced, or a test with it proves nothing.
func TestACutKeepsWhatWasSyncedAndLosesTheRest(t *testing.T) {
	for kind := range makers {
		v := Loop(t, kind, 512<<20)
		synced := write(t, filepath.Join(v.Dir, "synced"), true)
		lost := write(t, filepath.Join(v.Dir, "lost"), false)
		v.Cut(t)
		require.Error(t, synced.Sync(), "%s: a cut disk takes nothing", kind)
		require.NoError(t, synced.Close())
		require.NoError(t, lost.Close())
		v.Remount(t)
		data, err := os.ReadFile(filepath.Join(v.Dir, "synced"))
		require.NoError(t, err, kind)
		require.Equal(t, "content", string(data), kind)
		require.NoFileExists(t, filepath.Join(v.Dir, "lost"), kind)
	}
}

func TestMemoryIsFullAtItsSize(t *testing.T) {
	v := Memory(t, 1<<20)
	err := os.WriteFile(filepath.Join(v.Dir, "large"), make([]byte, 2<<20), 0o600)
	require.ErrorIs(t, err, unix.ENOSPC)
}

// A test that was killed leaves its mount; the next one takes it away.
func TestSweepTakesWhatTheDeadHaveLeft(t *testing.T) {
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	dir, err := os.MkdirTemp("", prefix+strconv.Itoa(dead.Process.Pid)+"-")
	require.NoError(t, err)
	mnt := filepath.Join(dir, "mnt")
	require.NoError(t, os.Mkdir(mnt, 0o750))
	require.NoError(t, run("mount", "-t", "tmpfs", "tmpfs", mnt))
	require.NoError(t, sweep())
	require.NoDirExists(t, dir)
}
