package wal

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

func TestPace_decide(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		after         time.Duration
		bytes, second int64 // the backlog, and what the drain takes out in each of the last seconds
		want          int64
	}{
		"off":                             {0, 9000 * mib, mib, 0},
		"little is little at any rate":    {10 * time.Second, 255 * mib, 1, 0},
		"a drain that keeps up":           {10 * time.Second, 400 * mib, 100 * mib, 0},
		"half of the time is not noticed": {10 * time.Second, 370 * mib, 80 * mib, 0},
		"a little more than half":         {10 * time.Second, 400 * mib, 50 * mib, 62.5 * mib},
		"all of the time":                 {10 * time.Second, 500 * mib, 50 * mib, 50 * mib},
		"far behind after an outage":      {10 * time.Second, 9000 * mib, 50 * mib, 45 * mib},
		"the drain is away":               {10 * time.Second, 9000 * mib, 0, 0},
	} {
		b := newBacklog(testTime)
		b.bytes = tc.bytes
		for i := range longLook {
			b.marked[i] = tc.second
		}
		p := newPace(tc.after)
		require.InDelta(t, tc.want, p.decide(b), 0.06*float64(tc.want), name) // a rate over ten seconds knows nine and a half
	}
}

// What the drain takes out is told from the marks, whatever the retention leaves of them.
func TestBacklog_rate(t *testing.T) {
	t.Parallel()
	b := newBacklog(testTime)
	mark := func(ago time.Duration, n int64) {
		b.note("/wal/t/events/committed", vfs.Info{Size: n, ModTime: testTime.Add(-ago)})
	}
	require.Zero(t, b.rate())
	mark(-time.Minute, 1<<40)
	mark(time.Minute, 1<<40)
	require.Zero(t, b.rate(), "marks of another time, or of another clock")
	mark(20*time.Second, 1<<40)
	require.Zero(t, b.rate(), "what one commit took nobody knows")
	mark(12*time.Second, 410)
	require.InDelta(t, 20, b.rate(), 1e-9)
	mark(4*time.Second, 7)
	mark(2*time.Second, 900)
	require.InDelta(t, 200, b.rate(), 1e-9, "it works harder than before")
}

func TestPace_take(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPace(time.Second)
		require.Zero(t, p.take(1<<30), "no rate")
		p.rate.Store(1000)
		time.Sleep(time.Minute)
		require.Equal(t, -paceSlack, p.take(100), "the first waits for nobody")
		require.Equal(t, 100*time.Millisecond-paceSlack, p.take(200))
		require.Equal(t, 300*time.Millisecond-paceSlack, p.take(5000))
		require.Equal(t, mostHeld, p.take(1), "a queue of any length")
		time.Sleep(time.Minute)
		require.Equal(t, -paceSlack, p.take(100), "time in which nothing came is not kept")
		require.Equal(t, 100*time.Millisecond-paceSlack, p.take(100))
	})
}

// A lane whose tables are behind is held to what the drain takes out; one that has hardly a part in it waits for nothing, and
// so does everybody once the backlog is gone.
func TestPace_lane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := simfs.New(nil)
		opt := options(disk, "/wal")
		opt.PaceAfter = 10 * time.Second
		opt.Now = time.Now
		reader := metric.NewManualReader()
		opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
		l := open(t, opt)
		l.pace.least = 1000
		append1 := func(ctx context.Context, tenant string) (time.Duration, error) {
			r := request(t, Auto, 1)
			r.Tenant = tenant
			begin := time.Now()
			_, err := l.Append(ctx, r)
			return time.Since(begin), err
		}
		for _, tenant := range []string{"loud", "quiet"} {
			_, err := append1(t.Context(), tenant)
			require.NoError(t, err)
			require.NoError(t, l.Seal(t.Context(), tenant, "events"))
		}
		stuff := func(st segment.State, name string, n int, mark time.Time) {
			path := "/wal/loud/events/" + string(st) + "/" + name
			require.NoError(t, vfs.WriteFile(disk, path, make([]byte, n)))
			f, err := disk.OpenRW(path)
			require.NoError(t, err)
			require.NoError(t, f.Touch(mark))
			require.NoError(t, f.Close())
		}
		look := func() {
			time.Sleep(watchEvery + 500*time.Millisecond)
			synctest.Wait()
		}
		for range 3 {
			took, err := append1(t.Context(), "loud")
			require.NoError(t, err)
			require.Zero(t, took)
		}
		now := time.Now()
		stuff(segment.Sealed, "a", 500_000, now)
		stuff(segment.Processing, "b", 500_000, now)
		for i := range 5 {
			stuff(segment.Committed, fmt.Sprint("c", i), 20_000, now.Add(-time.Duration(i)*time.Second))
		}
		look()
		require.Greater(t, gauge(t, reader, "siglake_wal_backlog_bytes"), 1e6)
		rate := gauge(t, reader, "siglake_wal_pace_bytes_per_second")
		require.Greater(t, rate, 1000.)
		size := float64(len(request(t, Auto, 1).Body))
		begin := time.Now()
		for range 10 { // in less time than until the next look
			_, err := append1(t.Context(), "loud")
			require.NoError(t, err)
		}
		require.InEpsilon(t, 9*size/rate, (time.Since(begin) + paceSlack).Seconds(), 0.01) // in the bubble: exact
		took, err := append1(t.Context(), "quiet")
		require.NoError(t, err)
		require.Zero(t, took)

		before := gauge(t, reader, "siglake_wal_in_flight_bytes")
		l.pace.rate.Store(1)
		for range 2 { // the first uses the rate up
			gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err = append1(gone, "loud")
			cancel()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, before, gauge(t, reader, "siglake_wal_in_flight_bytes"))

		require.NoError(t, disk.Remove("/wal/loud/events/sealed/a"))
		require.NoError(t, disk.Remove("/wal/loud/events/processing/b"))
		look()
		look()
		require.Zero(t, gauge(t, reader, "siglake_wal_pace_bytes_per_second"))
		took, err = append1(t.Context(), "loud")
		require.NoError(t, err)
		require.Zero(t, took)
		closeLog(t, l)
	})
}
