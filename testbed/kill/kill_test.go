// Package kill ends the built collector in ways that are not clean, under load and during its own recovery, and reloads it:
// every acknowledged row is in the table exactly once (ACK-1, LAKE-1, ONE-1). Where exactly a kill hits is the business of
// testbed/accounted, and of TestKill_exact in internal/wal and internal/drain.
package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// times is how often a test does what it is about.
func times(few, many int) int {
	if testenv.Soak() {
		return many
	}
	return few
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(testenv.Int(t, "SIGLAKE_SEED", int(time.Now().UnixNano()&0xffffff)|1))
	t.Logf("SIGLAKE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// finish stops the load, waits for the drain, and holds the oracle.
func finish(t *testing.T, h *collector.Harness, p *collector.Process, tr *traffic.Traffic) {
	t.Helper()
	tr.End(t)
	traffic.Drained(t, h, p)
	h.Stop()
	traffic.Judge(t, h, tr.Book)
	entries, err := waldir.List(h.WAL())
	require.NoError(t, err)
	n := waldir.Count(entries)
	delete(n, "committed")
	require.Empty(t, n, "nothing may be left in the log (ONE-1, BND-1)")
}

// after waits for a moment that differs from life to life.
func after(t *testing.T, d time.Duration, p *collector.Process) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-p.Done():
		t.Fatalf("it ended by itself; last lines:\n%s", p.Tail(20))
	}
}

// TestKillAtRandom kills at any time: in the middle of the load, and at once again while it starts.
func TestKillAtRandom(t *testing.T) {
	rng := seeded(t)
	h := collector.New(t, traffic.Busy)
	p := h.Start()
	tr := traffic.Start(t, traffic.Plan(p, "random", "", 20))
	for range times(3, 30) {
		tr.Acked(t, 500+rng.IntN(2_000))
		p.Kill()
		p = h.Launch()
		after(t, time.Duration(rng.IntN(1_000))*time.Millisecond, p)
		p.Kill()
		p = h.Start()
	}
	finish(t, h, p, tr)
}

// TestKillDuringRecovery leaves a backlog of open segments, as after an outage of many writers, and kills one start after
// the other in the middle of it: when so many of them are in sealed/.
func TestKillDuringRecovery(t *testing.T) {
	rng := seeded(t)
	h := collector.New(t, "exporters: {siglake: {wal: {segment: {max_events: 1000000, max_age: 10m}}}}\nextensions: {lakecompactor: {gate: {age: 100ms}}}\n")
	p := h.Start()
	tr := traffic.Start(t, traffic.Plan(p, "recovery", "", 10))
	tr.Acked(t, 200)
	p.Kill()
	tr.End(t)
	lives := times(5, 30)
	segments := 60 * lives
	multiply(t, h, segments)
	for left := segments; lives > 0; lives-- {
		killAtSeal(t, h, 2+rng.IntN(49)) // at the first its open name would still be there
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		now := len(waldir.In(entries, "active"))
		require.Less(t, now, left, "each life gets further")
		require.Positive(t, now, "and dies in the middle")
		left = now
	}
	p = h.Start()
	traffic.Drained(t, h, p)
	h.Stop()
	found := traffic.Count(t, h, tr.Book.Shape.Run)
	acked, _ := tr.Book.Requests()
	batch := uint64(tr.Book.Shape.Batch)
	for _, request := range acked {
		for n := request * batch; n < (request+1)*batch; n++ {
			require.Equal(t, segments, found[n], "record %d is in each copy of the open segment, once", n)
		}
	}
}

// killAtSeal starts a life and kills it when the n-th of the open segments appears in sealed/. The drain of that life may put
// others there before, which an earlier one had claimed.
func killAtSeal(t *testing.T, h *collector.Harness, n int) {
	t.Helper()
	entries, err := waldir.List(h.WAL())
	require.NoError(t, err)
	open := map[string]bool{}
	for _, e := range waldir.In(entries, "active") {
		open[strings.TrimSuffix(e.Name, ".partial")] = true
	}
	p := (*collector.Process)(nil)
	started := make(chan struct{})
	watch, err := waldir.NewWatch(func(e waldir.Event) {
		if !e.Created() || !open[e.Name] {
			return
		}
		if n--; n == 0 {
			<-started
			_ = syscall.Kill(p.PID(), syscall.SIGKILL) // an error means that it is dead already
		}
	})
	require.NoError(t, err)
	require.NoError(t, watch.AddAll(filepath.Join(h.WAL(), "*", "*", "sealed")))
	p = h.Launch()
	close(started)
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatalf("it recovers nothing; last lines:\n%s", p.Tail(20))
	}
	require.NoError(t, watch.Close())
}

// multiply makes n open segments of the one there is: same rows, other ids, as other writers would have left them.
func multiply(t *testing.T, h *collector.Harness, n int) {
	t.Helper()
	entries, err := waldir.List(h.WAL())
	require.NoError(t, err)
	open := waldir.In(entries, "active")
	require.Len(t, open, 1)
	data, err := os.ReadFile(open[0].Path)
	require.NoError(t, err)
	writer := regexp.MustCompile(`-[0-9a-f]{12}-(\d+)\.`)
	require.Regexp(t, writer, open[0].Name)
	for i := range n - 1 {
		path := writer.ReplaceAllString(open[0].Path, fmt.Sprintf("-%012x-${1}.", i))
		named, err := waldir.Called(data, strings.TrimSuffix(filepath.Base(path), ".arrow.partial"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, named, 0o640))
	}
}

// TestSIGHUPUnderLoad_C9 reloads the configuration again and again while requests are under way: the log is closed and
// opened in one process, its lock given back in time.
func TestSIGHUPUnderLoad_C9(t *testing.T) {
	h := collector.New(t, traffic.Busy)
	p := h.Start()
	tr := traffic.Start(t, traffic.Plan(p, "reload", "", 20))
	const ready = "Everything is ready"
	for i := range times(5, 50) {
		tr.Acked(t, 300)
		require.NoError(t, syscall.Kill(p.PID(), syscall.SIGHUP))
		require.Eventually(t, func() bool { return strings.Count(p.Output(), ready) >= i+2 }, time.Minute, 10*time.Millisecond,
			"reload %d must come to its end; last lines:\n%s", i+1, p.Tail(20))
	}
	tr.Acked(t, 300)
	require.NotContains(t, p.Output(), "held by", "the lock must be free when the log is opened again")
	finish(t, h, p, tr)
}

// TestGraceThenSIGKILL_C10 is an orchestrator without patience: SIGTERM under full load, five seconds, SIGKILL. What the
// collector ends by itself within them it ends well.
func TestGraceThenSIGKILL_C10(t *testing.T) {
	h := collector.New(t, traffic.Busy)
	p := h.Start()
	tr := traffic.Start(t, traffic.Plan(p, "grace", "", 50))
	inTime := 0
	for range times(2, 20) {
		tr.Acked(t, 3_000)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if code, _, err := p.Stop(ctx); err == nil {
			require.Zero(t, code, "last lines:\n%s", p.Tail(20))
			inTime++
		}
		cancel()
		p.Kill()
		p = h.Start()
	}
	t.Logf("ended within the grace: %d", inTime)
	finish(t, h, p, tr)
}
