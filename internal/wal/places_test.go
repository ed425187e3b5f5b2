package wal

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// requestOf is a batch of another lane.
func requestOf(t *testing.T, tenant, index string, mode Mode, ids ...int64) Request {
	t.Helper()
	r := request(t, mode, ids...)
	r.Tenant, r.Index = tenant, index
	return r
}

func refusedBy(t *testing.T, err error, want LimitError) {
	t.Helper()
	var full *LimitError
	require.ErrorAs(t, err, &full)
	require.Equal(t, want, *full)
}

// A client cannot make directories without bound: past max_tenants and max_lanes a new name is refused before
// anything is made, while those that are there are served, also after a restart with lower limits. T-22.
func TestLimit_lanes_and_tenants_T22(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.MaxTenants, opt.MaxLanes = 2, 4
	l := open(t, opt)
	put := func(tenant, index string) error {
		_, err := l.Append(ctx, requestOf(t, tenant, index, WaitFor, 1))
		return err
	}
	require.NoError(t, put("a", "events"))
	require.NoError(t, put("b", "events"))
	for i := range 100 {
		refusedBy(t, put(fmt.Sprintf("x%d", i), "events"), LimitError{Limit: limitTenants, Used: 2, Max: 2})
	}
	require.ErrorIs(t, put("A", "events"), ErrFull)
	require.NoError(t, put("a", "spans"))
	require.NoError(t, put("b", "spans"))
	refusedBy(t, put("a", "metrics"), LimitError{Limit: limitLanes, Used: 4, Max: 4})
	require.NoError(t, put("a", "spans"))
	entries, err := disk.List("/wal")
	require.NoError(t, err)
	var dirs []string
	for _, e := range entries {
		if e.IsDir {
			dirs = append(dirs, e.Name)
		}
	}
	require.Equal(t, []string{"a", "b"}, dirs)
	closeLog(t, l)

	opt.MaxTenants, opt.MaxLanes = 1, 1
	reader := metric.NewManualReader()
	opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	l = open(t, opt)
	require.NoError(t, put("b", "spans"), "what is on disk is served")
	refusedBy(t, put("c", "events"), LimitError{Limit: limitLanes, Used: 4, Max: 1})
	got := sums(t, reader)
	require.EqualValues(t, 4, got["siglake_wal_lanes"])
	require.EqualValues(t, 1, got["siglake_wal_lanes_limit"])
	require.EqualValues(t, 2, got["siglake_wal_tenants"])
	require.EqualValues(t, 1, got["siglake_wal_tenants_limit"])
	require.EqualValues(t, 1, refusedSum(t, reader, limitLanes))
	closeLog(t, l)
}

// A name whose rows are refused takes no place: a full log does not fill up with tenants that have nothing.
func TestLimit_refused_rows_take_no_place(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.MaxBytes = 1
	l := open(t, opt)
	_, err := l.Append(t.Context(), requestOf(t, "a", "events", WaitFor, 1))
	require.ErrorIs(t, err, ErrFull)
	lanes, tenants := l.laneCounts()
	require.Zero(t, lanes+tenants)
	closeLog(t, l)
}

// refusedSum is the counter of refusals of one limit.
func refusedSum(t *testing.T, reader metric.Reader, limit string) int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &rm))
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok || m.Name != "siglake_wal_refused_total" {
				continue
			}
			require.Len(t, sum.DataPoints, len(limits()), "each limit is there from the start")
			for _, dp := range sum.DataPoints {
				if v, _ := dp.Attributes.Value("limit"); v.AsString() == limit {
					return dp.Value
				}
			}
		}
	}
	require.Fail(t, "not counted", limit)
	return 0
}

// Requests that wait are bounded in number, and with tenancy one tenant leaves room for others, of requests as of
// bytes. B4: used and limit are there to see before it happens, and each refusal is counted.
func TestLimit_waiting_and_shares(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.MaxWaiting, opt.FairShare = 4, true
	opt.MaxInFlight = 4 * int64(len(request(t, WaitFor, 1).Body))
	reader := metric.NewManualReader()
	opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	l := open(t, opt)

	require.NoError(t, l.Enter("a"))
	require.NoError(t, l.Enter("a"))
	refusedBy(t, l.Enter("a"), LimitError{Limit: limitShare, Of: limitWaiting, Used: 2, Max: 2})
	require.NoError(t, l.Enter("b"))
	require.NoError(t, l.Enter("c"))
	refusedBy(t, l.Enter("d"), LimitError{Limit: limitWaiting, Used: 4, Max: 4})
	got := sums(t, reader)
	require.EqualValues(t, 4, got["siglake_wal_waiting_requests"])
	require.EqualValues(t, 4, got["siglake_wal_waiting_limit_requests"])
	for _, tenant := range []string{"a", "a", "b", "c"} {
		l.Leave(tenant)
	}
	require.NoError(t, l.Enter("d"))
	l.Leave("d")

	free, waiting := holdSyncs(disk)
	answers := make(chan error, 3)
	send := func(tenant string, id int64) {
		go func() {
			_, err := l.Append(t.Context(), requestOf(t, tenant, "events", WaitFor, id))
			answers <- err
		}()
	}
	inFlight := func(want int64) {
		require.Eventually(t, func() bool { return sums(t, reader)["siglake_wal_in_flight_bytes"] == want*opt.MaxInFlight/4 },
			time.Minute, time.Millisecond)
	}
	send("a", 1)
	<-waiting
	inFlight(1)
	send("a", 2)
	inFlight(2)
	_, err := l.Append(t.Context(), requestOf(t, "a", "events", WaitFor, 3))
	refusedBy(t, err, LimitError{Limit: limitShare, Of: limitInFlight, Used: opt.MaxInFlight / 2, Max: opt.MaxInFlight / 2})
	send("b", 4)
	inFlight(3)
	require.Equal(t, opt.MaxInFlight/2, sums(t, reader)["siglake_wal_in_flight_largest_tenant_bytes"])
	close(free)
	for range 3 {
		require.NoError(t, <-answers)
	}
	require.EqualValues(t, 2, refusedSum(t, reader, limitShare))
	require.EqualValues(t, 1, refusedSum(t, reader, limitWaiting))
	require.Empty(t, l.space.inFlight.held, "nothing is remembered of who has nothing in flight")
	require.Empty(t, l.space.waiting.held)
	closeLog(t, l)
}

// One line when a limit begins to refuse and one when it has been quiet, whatever the number of requests.
func TestLimit_is_logged_once(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		disk := simfs.New(nil)
		opt := options(disk, "/wal")
		opt.MaxWaiting = 1
		opt.Logger = zap.New(core)
		l := open(t, opt)
		lines := func(text string) int { return logs.FilterMessage(text).Len() }
		const starts, stops = "a limit refuses requests; clients are told when to send again", "a limit refuses no more"
		require.NoError(t, l.Enter("a"))
		for range 2 {
			logs.TakeAll()
			for range 20 { // for longer than quietFor
				require.ErrorIs(t, l.Enter("a"), ErrFull)
				time.Sleep(time.Second)
			}
			require.Equal(t, 1, lines(starts))
			require.Zero(t, lines(stops))
			time.Sleep(quietFor + 2*watchEvery)
			synctest.Wait()
			require.Equal(t, 1, lines(stops))
			require.EqualValues(t, 20, logs.FilterMessage(stops).All()[0].ContextMap()["requests"])
		}
		l.Leave("a")
		closeLog(t, l)
	})
}
