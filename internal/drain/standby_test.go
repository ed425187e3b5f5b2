package drain

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const standbyDir = "SIGLAKE_TEST_STANDBY_DIR" // tells the child where its root is

// One drain per root: when the one that works is killed, the kernel gives its lock up, and a standby takes over with its
// next look. What was in hand is found. The log says how long it took (docs/evidence.md).
func TestRun_standby_takes_over_after_kill_9(t *testing.T) {
	// Not parallel: between a fork and its exec the child has copies of the locks of tests beside it.
	if dir := os.Getenv(standbyDir); dir != "" {
		l, err := lake.Open(t.Context(), lake.Options{
			Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse"),
		})
		require.NoError(t, err)
		_ = Run(t.Context(), Options{FS: vfs.OS(), WAL: filepath.Join(dir, "wal"), Lake: l, Poll: 5 * time.Millisecond, GateAge: 1, Holder: "the child"})
		return // not reached: it is killed
	}
	w, l := realWorld(t)
	w.opt.Poll = time.Second // as shipped
	w.opt.GateAge = time.Nanosecond
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), standbyDir+"="+filepath.Dir(w.dir))
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() }) // it is dead by then, or the test has failed
	w.seal(spec{})
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 }, "the child works")

	told := make(chan error, 100)
	w.opt.Status = func(err error) { told <- err }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, w.opt) }()
	require.ErrorContains(t, <-told, "held by the child")
	for range 5 {
		w.seal(spec{})
	}
	require.NoError(t, child.Process.Kill())
	killed := time.Now()
	_ = child.Wait()
	w.seal(spec{})
	select {
	case err := <-told:
		require.NoError(t, err, "the standby works")
	case <-time.After(time.Minute):
		require.Fail(t, "the standby does not take over")
	}
	took := time.Since(killed)
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 7 }, "commit")
	t.Logf("took over %s after the kill, all committed after %s", took.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
	cancel()
	require.NoError(t, <-done)
	w.accountedIn(l)
}
