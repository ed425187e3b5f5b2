// Package killfs kills a process with SIGKILL before an exact change of the real file system, for tests. The test runs
// itself again as a child, which does the work and dies; the test goes on with the disk that is left. A kill keeps the page
// cache: what is shown is that recovery is right after a death anywhere, not that anything was synced. That is what simfs
// is for.
package killfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The environment of a child. What it wants to be known it writes to file 3.
const (
	dirKey = "SIGLAKE_KILL_DIR"
	atKey  = "SIGLAKE_KILL_AT"
)

// Work is what a life does to the disk below dir, through fsys. It may call ack with numbers of its own.
type Work func(dir string, fsys *FS, ack func(n int)) error

// Life is what is known of a process that has ended.
type Life struct {
	Acked []int  // in order
	Died  string // the change that never came; "": it ended by itself
}

// Walk is a work and how it is watched.
type Walk struct {
	Work Work
	// Stride is the distance from one first death to the next: 1 dies before every change. From is the first of them.
	From, Stride int
	// Spread is before how many different changes of the next life the second death comes, from 0 on.
	Spread int
	// Fresh makes the directory of a walk's next step.
	Fresh func() string
	// Judge looks at a directory in which two lives have ended. k, the first one's death, is for its texts.
	Judge func(k int, dir string, lives ...Life)
}

// Run makes w.Work live and die before its changes From, From+Stride, … until it runs through. Each death is followed by a
// second one, without rest, in a next life that does the same work. Called first in a test, because in a child it does
// the work and ends the process. Under the race detector, which makes the start of each life slow, it is skipped.
func (w Walk) Run(t *testing.T) {
	t.Helper()
	if dir := os.Getenv(dirKey); dir != "" {
		die(w.Work, dir)
	}
	if testing.Short() {
		t.Skip("a process that is killed tells the race detector nothing")
	}
	died, again := map[string]int{}, map[int]bool{}
	deaths := 0
	for k := w.From; ; k += w.Stride {
		dir := w.Fresh()
		one := live(t, dir, k)
		at := deaths * 17 % w.Spread
		two := live(t, dir, at)
		w.Judge(k, dir, one, two)
		if one.Died == "" {
			break
		}
		deaths++
		died[one.Died]++
		if two.Died != "" {
			again[at] = true
		}
	}
	t.Logf("%d deaths, by the change that never came: %v; then again, before %d different changes", deaths, died, len(again))
	require.Greater(t, deaths, 30/w.Stride, "a walk of few deaths shows little")
	require.Greater(t, len(again), min(deaths, w.Spread)/2)
}

// die is the child's life. It does not return.
func die(work Work, dir string) {
	k, err := strconv.ParseInt(os.Getenv(atKey), 10, 64)
	if err == nil {
		tell := os.NewFile(3, "tell")
		err = work(dir, newFS(k, tell), func(n int) { _, _ = fmt.Fprintf(tell, "acked %d\n", n) })
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// live runs a child that dies before its k-th change.
func live(t *testing.T, dir string, k int) Life {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), dirKey+"="+dir, atKey+"="+strconv.Itoa(k))
	child.ExtraFiles = []*os.File{w}
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	child.Stderr = &said
	require.NoError(t, child.Start())
	require.NoError(t, w.Close())
	out := hear(t, r)
	require.NoError(t, r.Close())
	err = child.Wait()
	if out.Died == "" {
		require.NoError(t, err, "k=%d: %s", k, said.String())
		return out
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal(), "k=%d: %s", k, said.String())
	return out
}

// hear reads to the child's end.
func hear(t *testing.T, r io.Reader) (out Life) {
	t.Helper()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		if verb == "died" {
			out.Died = rest
			continue
		}
		require.Equal(t, "acked", verb)
		n, err := strconv.Atoi(rest)
		require.NoError(t, err)
		out.Acked = append(out.Acked, n)
	}
	require.NoError(t, lines.Err())
	return out
}
