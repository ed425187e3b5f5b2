package drain

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// What the gauges say: the cases of the reference system (R, docs/cases.md) that showed something else than there was.

const (
	pendingGauge = "siglake_compactor_sealed_pending"
	orphansGauge = "siglake_compactor_orphans_held"
)

// gauges gives the world a meter and returns what it shows.
func (w *world) gauges() func(name string) int64 {
	w.t.Helper()
	reader := sdkmetric.NewManualReader()
	w.opt.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("drain")
	return func(name string) int64 {
		var rm metricdata.ResourceMetrics
		require.NoError(w.t, reader.Collect(context.Background(), &rm))
		for _, scope := range rm.ScopeMetrics {
			for _, m := range scope.Metrics {
				if c, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
					return c.DataPoints[0].Value
				}
				if g, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == name {
					require.Len(w.t, g.DataPoints, 1)
					return g.DataPoints[0].Value
				}
			}
		}
		return -1 // not yet
	}
}

// sealOf seals segments of a tenant with one lane that is not default's.
func (w *world) sealOf(tenant string, n int) {
	w.t.Helper()
	lane, err := w.root.Lane(tenant, "events")
	require.NoError(w.t, err)
	require.NoError(w.t, lane.Prepare())
	namer := segment.NewNamer([6]byte{7, byte(len(tenant)), tenant[0]})
	for range n {
		put(w.t, w.fs, lane.Path(segment.Sealed, namer.Next(time.Now()).FileName()), w.bytes.of(w.t, spec{rows: 3}))
	}
}

// Several lanes of a tenant and several tenants: the gauge is their sum, in whatever order they are looked at. A tenant that
// is taken away counts no more.
func TestRun_gauges_are_sums_R42_R43(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vfs.OS(), filepath.Join(t.TempDir(), "wal"))
	w.opt.GateAge, w.opt.GateBytes = time.Hour, 1<<40
	show := w.gauges()
	for index, n := range map[string]int{"events": 2, "audit": 3, "spans": 5} {
		for range n {
			w.seal(spec{index: index})
		}
	}
	w.sealOf("acme", 4)
	lane, err := w.root.Lane("acme", "events")
	require.NoError(t, err)
	_, err = lane.Move(segment.Sealed, segment.Orphans, w.namesOf(lane, segment.Sealed)[:1])
	require.NoError(t, err)
	w.tables.ensure = func(string) error { return errors.New("catalog away") }
	stop := w.start()
	eventually(t, func() bool { return show(pendingGauge) == 2+3+5+3 && show(orphansGauge) == 1 }, "the sum")
	require.NoError(t, vfs.OS().Rename(filepath.Join(w.dir, "acme"), filepath.Join(t.TempDir(), "acme")))
	eventually(t, func() bool { return show(pendingGauge) == 2+3+5 && show(orphansGauge) == 0 }, "without the tenant")
	require.NoError(t, stop())
}

func (w *world) namesOf(lane segment.Lane, st segment.State) []string {
	w.t.Helper()
	entries, _, err := lane.List(st)
	require.NoError(w.t, err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names
}

// While a batch is being committed the gauge shows all that waits and not only what was claimed; when all is committed, nothing.
func TestRun_the_queue_is_counted_not_the_batch_R44(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vfs.OS(), filepath.Join(t.TempDir(), "wal"))
	size := int64(len(encode(t, spec{}.orDefault())))
	w.opt.MaxBytesInFlight = 8 * size // batches of two, because they are late
	show := w.gauges()
	for range 9 {
		w.seal(spec{})
	}
	entered, leave := make(chan int), make(chan struct{})
	w.tables.get("events").before = func(_ context.Context, segs []lake.Segment) error {
		entered <- len(segs)
		<-leave
		return nil
	}
	stop := w.start()
	require.Equal(t, 2, <-entered)
	eventually(t, func() bool { return show(pendingGauge) == 9 }, "the queue")
	close(leave)
	go func() {
		for range entered {
		}
	}()
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 9 && show(pendingGauge) == 0 }, "nothing waits")
	require.NoError(t, stop())
	close(entered)
	w.accounted()
}

// Orphans that could not be asked for are shown while they are held, and no longer.
func TestRun_orphans_held_goes_back_to_zero_R45(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vfs.OS(), filepath.Join(t.TempDir(), "wal"))
	show := w.gauges()
	w.seal(spec{state: segment.Processing})
	w.seal(spec{state: segment.Orphans})
	table := w.tables.get("events")
	table.mu.Lock()
	table.lookup = errors.New("table unreadable")
	table.mu.Unlock()
	stop := w.start()
	eventually(t, func() bool { return show(orphansGauge) == 2 }, "held")
	table.mu.Lock()
	table.lookup = nil
	table.mu.Unlock()
	eventually(t, func() bool { return show(orphansGauge) == 0 && w.states("events")[segment.Committed] == 2 }, "disposed of")
	require.NoError(t, stop())
	w.accounted()
}

// One queue, several drains: who stands by shows none of it, so that a sum over all of them is what there is.
func TestRun_a_standby_counts_nothing_R47(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vfs.OS(), filepath.Join(t.TempDir(), "wal"))
	w.opt.GateAge, w.opt.GateBytes = time.Hour, 1<<40
	for range 3 {
		w.seal(spec{})
	}
	first := w.gauges()
	stopFirst := w.start()
	eventually(t, func() bool { return first(pendingGauge) == 3 }, "the first")
	second := w.gauges()
	standing := make(chan error, 10)
	w.opt.Status = func(err error) { standing <- err }
	stopSecond := w.start()
	require.ErrorContains(t, <-standing, "stand by")
	require.Equal(t, int64(3), first(pendingGauge)+second(pendingGauge))
	require.NoError(t, stopFirst())
	eventually(t, func() bool { return second(pendingGauge) == 3 }, "it has taken over")
	require.NoError(t, stopSecond())
	w.once()
	w.accounted()
}
