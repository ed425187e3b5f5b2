package wal

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// holdSyncs makes every file sync wait until the returned channel is closed, and tells when one waits.
func holdSyncs(disk *simfs.FS) (free chan struct{}, waiting chan struct{}) {
	free, waiting = make(chan struct{}), make(chan struct{}, 1)
	disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Sync {
			signal(waiting)
			<-free
		}
		return nil
	})
	return free, waiting
}

// Bodies beyond max_in_flight are refused at once while the disk is slow, and let in when it has caught up. One
// alone is never refused for its size (C3, B4).
func TestLimit_in_flight(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.MaxInFlight = 100
	l := open(t, opt)
	free, waiting := holdSyncs(disk)
	answers := make(chan error, 1)
	go func() {
		_, err := l.Append(ctx, request(t, WaitFor, 1)) // larger than the limit, alone
		answers <- err
	}()
	<-waiting
	_, err := l.Append(ctx, request(t, WaitFor, 2))
	require.ErrorIs(t, err, ErrFull)
	var full *LimitError
	require.ErrorAs(t, err, &full)
	require.Equal(t, &LimitError{Limit: limitInFlight, Used: int64(len(request(t, WaitFor, 1).Body)), Max: 100}, full)
	close(free)
	require.NoError(t, <-answers)
	_, err = l.Append(ctx, request(t, WaitFor, 3))
	require.NoError(t, err)
	closeLog(t, l)
	require.Equal(t, []int64{1, 3}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
}

// At 80 % of max_bytes auto is refused, at all of it everything, before a byte is written; what the drain
// deletes makes room again without a restart. Refusals are counted by limit.
func TestLimit_bytes_B4(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		disk := simfs.New(nil)
		opt := options(disk, "/wal")
		opt.MaxBytes = 30_000
		reader := metric.NewManualReader()
		opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
		l := open(t, opt)
		var acked []int64
		var autoRefusedAt, used int64
		for id := int64(1); ; id++ {
			require.Less(t, id, int64(30))
			if _, err := l.Append(ctx, request(t, Auto, 1000+id)); err != nil {
				require.ErrorIs(t, err, ErrFull)
				if autoRefusedAt == 0 {
					autoRefusedAt = l.space.look().used
				}
			} else {
				require.Zero(t, autoRefusedAt)
				acked = append(acked, 1000+id)
			}
			used = l.space.look().used
			if _, err := l.Append(ctx, request(t, WaitFor, id)); err != nil {
				var full *LimitError
				require.ErrorAs(t, err, &full)
				require.Equal(t, limitBytes, full.Limit)
				require.EqualValues(t, 30_000, full.Max)
				require.Greater(t, full.Used, full.Max, "this request would have been too much")
				break
			}
			acked = append(acked, id)
		}
		require.Equal(t, used, l.space.look().used, "nothing was written")
		require.InDelta(t, 24_000, autoRefusedAt, 1500)
		require.LessOrEqual(t, used, int64(30_000))
		require.NoError(t, l.space.measure(ctx))
		require.Equal(t, used, l.space.look().used, "own writes and the walk agree")

		require.NoError(t, l.Seal(ctx, "t", "events"))
		require.Equal(t, acked, idsIn(scan(t, disk, "/wal"), segment.Sealed))
		for _, name := range names(t, disk, "/wal", segment.Sealed) {
			require.NoError(t, disk.Remove("/wal/t/events/sealed/"+name))
		}
		_, err := l.Append(ctx, request(t, WaitFor, 99))
		require.ErrorIs(t, err, ErrFull)
		time.Sleep(watchEvery + time.Second) // in the bubble: the watcher measures
		synctest.Wait()
		_, err = l.Append(ctx, request(t, Auto, 99))
		require.NoError(t, err)
		got := sums(t, reader)
		require.Positive(t, got["siglake_wal_refused_total"])
		require.EqualValues(t, 30_000, got["siglake_wal_limit_bytes"])
		require.Positive(t, got["siglake_wal_used_bytes"])
		closeLog(t, l)
	})
}

// The floor of free space refuses before the disk is full, and counts what was written since it was measured.
func TestLimit_free(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk := simfs.New(nil)
	disk.SetSpace(vfs.Space{Free: 5000, Total: 100_000})
	opt := options(disk, "/wal")
	opt.MinFree = 2000
	l := open(t, opt)
	n := int64(0)
	for {
		_, err := l.Append(ctx, request(t, WaitFor, n+1))
		if err != nil {
			var full *LimitError
			require.ErrorAs(t, err, &full)
			require.Equal(t, limitFree, full.Limit)
			require.EqualValues(t, 2000, full.Max)
			break
		}
		n++
	}
	require.EqualValues(t, 1, n)
	require.GreaterOrEqual(t, 5000-l.space.written.Load(), int64(2000))
	closeLog(t, l)
}

// Without settings: three quarters of the volume, and the larger of 5 % and 512 MiB free.
func TestLimit_defaults(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	l := open(t, Options{FS: disk, Dir: "/wal"})
	l.space.mu.Lock()
	l.space.volume = vfs.Space{Total: 100 << 30}
	require.InDelta(t, 75<<30, l.space.limitLocked(), 100)
	require.InDelta(t, 5<<30, l.space.floorLocked(), 100)
	l.space.volume = vfs.Space{Total: 1 << 30}
	require.EqualValues(t, 512<<20, l.space.floorLocked())
	l.space.mu.Unlock()
	closeLog(t, l)
}

// A file with several names counts once; what cannot be read counts nothing.
func TestSpace_walk(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	require.NoError(t, disk.MkdirAll("/wal/t/events/sealed"))
	require.NoError(t, disk.MkdirAll("/wal/t/events/mirror-pending"))
	require.NoError(t, vfs.WriteFile(disk, "/wal/t/events/sealed/a", make([]byte, 100)))
	require.NoError(t, disk.Link("/wal/t/events/sealed/a", "/wal/t/events/mirror-pending/a"))
	require.NoError(t, vfs.WriteFile(disk, "/wal/t/events/sealed/b", make([]byte, 11)))
	s := newSpace(&Options{Dir: "/wal", Now: time.Now}, disk)
	require.NoError(t, s.measure(t.Context()))
	require.EqualValues(t, 111, s.look().used)
}

// A lane with an open segment has one goroutine, an idle one none: it ends when its segment is sealed by age.
// The age of the oldest unsealed row is exported meanwhile.
func TestIdleLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := simfs.New(nil)
		opt := options(disk, "/wal")
		opt.MaxAge = 5 * time.Second
		reader := metric.NewManualReader()
		opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
		l := open(t, opt)
		for range 2 {
			_, err := l.Append(t.Context(), request(t, WaitFor, 1))
			require.NoError(t, err)
			ln, err := l.lane("t", "events")
			require.NoError(t, err)
			running := func() bool { ln.mu.Lock(); defer ln.mu.Unlock(); return ln.running || ln.sealing }
			time.Sleep(3 * time.Second)
			synctest.Wait()
			require.True(t, running())
			require.InDelta(t, 3, gauge(t, reader, "siglake_wal_oldest_unsealed_age_seconds"), 0.001)
			time.Sleep(2*time.Second + time.Millisecond)
			synctest.Wait()
			require.False(t, running())
			require.Zero(t, gauge(t, reader, "siglake_wal_oldest_unsealed_age_seconds"))
		}
		require.Len(t, names(t, disk, "/wal", segment.Sealed), 2)
		closeLog(t, l)
	})
}

func gauge(t *testing.T, reader metric.Reader, name string) float64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &rm))
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if g, ok := m.Data.(metricdata.Gauge[float64]); ok && m.Name == name {
				return g.DataPoints[0].Value
			}
			if g, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == name {
				return float64(g.DataPoints[0].Value)
			}
		}
	}
	require.Fail(t, "no gauge", name)
	return 0
}

// A lane that fills segments keeps one open ahead of need; when it goes idle nothing of that is left, and its
// numbers have no gap.
func TestSpare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := simfs.New(nil)
		opt := options(disk, "/wal")
		opt.MaxEvents, opt.MaxAge = 2, 5*time.Second
		l := open(t, opt)
		for id := range int64(5) {
			_, err := l.Append(t.Context(), request(t, WaitFor, id*2+1, id*2+2))
			require.NoError(t, err)
			synctest.Wait()
		}
		_, err := l.Append(t.Context(), request(t, WaitFor, 11))
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, names(t, disk, "/wal", segment.Active), 2, "the open one and the spare")
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Empty(t, names(t, disk, "/wal", segment.Active))
		_, err = l.Append(t.Context(), request(t, WaitFor, 12))
		require.NoError(t, err)
		closeLog(t, l)
		segs := scan(t, disk, "/wal")
		require.Len(t, segs, 7)
		for i, s := range segs {
			require.EqualValues(t, i+1, s.id.Seq)
		}
	})
}

// The number of a segment that was removed before it had a row is used before that of the spare behind it: what
// a writer numbers later was written later. A spare for another schema or table is not used. ORD-1.
func TestSpare_not_used(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.MaxEvents = 2
	l := open(t, opt)
	hot := func(id int64) Request { return request(t, WaitFor, id, id+1) }
	_, errs := together(t, l, hot(1), hot(3)) // the third segment has a spare behind it
	require.Equal(t, make([]error, 2), errs)
	broken := false
	disk.SetHook(func(op simfs.Op) error {
		switch {
		case op.Kind == simfs.Writev && op.Bytes > 2000 && !broken: // a batch, no header and no end of stream
			broken = true
			return syscall.EIO
		case op.Kind == simfs.Truncate:
			return syscall.EIO
		}
		return nil
	})
	other := hot(11)
	other.Schema, other.Body = testSchemas[1], body(t, testSchemas[1], 11, 12)
	_, errs = together(t, l, hot(5), hot(7), hot(9), other)
	require.ErrorIs(t, errs[0], syscall.EIO)
	require.Equal(t, make([]error, 3), errs[1:])
	closeLog(t, l)
	segs := scan(t, disk, "/wal")
	require.Len(t, segs, 5)
	for i, want := range [][]int64{{1, 2}, {3, 4}, {7, 8}, {9, 10}, {11, 12}} {
		require.EqualValues(t, i+1, segs[i].id.Seq)
		require.Equal(t, want, segs[i].ids)
	}
}
