package wal

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// childDir names the root to a process that this test binary starts of itself.
const childDir = "SIGLAKE_TEST_WAL_CHILD"

// child is a process that shares a root: it acknowledges rows 1 to 3 and then does nothing, until it is killed.
func child(dir string) {
	tb := new(testing.T)
	l, err := Open(context.Background(), sharing(vfs.OS(), dir, "child"))
	for i, mode := range []Mode{WaitFor, Auto, Auto} {
		if err == nil {
			_, err = l.Append(context.Background(), request(tb, mode, int64(i+1)))
		}
	}
	fmt.Println("ready", err)
	if err != nil {
		os.Exit(1)
	}
	select {}
}

// Two processes on a real volume: the open segment of one is left alone while it lives, by a start and by a look, and
// adopted once it is killed; a start that does not share is refused with the pid of the living (T-07, T-08). ACK-1,
// OWN-1.
func TestShared_two_processes_R8(t *testing.T) {
	// Not parallel: between a fork and its exec the child has copies of the locks of tests beside it.
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready <nil>\n", said)

	_, err = Open(t.Context(), options(vfs.OS(), dir))
	require.ErrorContains(t, err, fmt.Sprintf("child, host %s, pid %d, since", hostname(t), cmd.Process.Pid))
	l := open(t, sharing(vfs.OS(), dir, "peer"))
	l.adopt(t.Context())
	open := names(t, vfs.OS(), dir, segment.Active)
	require.Len(t, open, 1)
	require.EqualValues(t, 1, l.peers.Load())

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	// The watcher of the log does it by itself.
	require.Eventually(t, func() bool {
		return len(names(t, vfs.OS(), dir, segment.Active)) == 0
	}, time.Minute, 20*time.Millisecond)
	closeLog(t, l)
	require.Equal(t, []int64{1, 2, 3}, idsIn(scan(t, vfs.OS(), dir), segment.Sealed))
}

func hostname(tb testing.TB) string {
	tb.Helper()
	name, err := os.Hostname()
	require.NoError(tb, err)
	return name
}
