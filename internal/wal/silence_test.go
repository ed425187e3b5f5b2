package wal

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// hand is a clock that is set by hand.
type hand struct{ ns atomic.Int64 }

func (h *hand) now() time.Time          { return testTime.Add(time.Duration(h.ns.Load())) }
func (h *hand) advance(d time.Duration) { h.ns.Add(int64(d)) }

// On a volume without locks a root that is not shared is refused; a shared one is opened with a warning. A peer is
// left alone while it gives signs of life and for 120 s after the last, then what it left is adopted. OWN-1.
func TestSilence_adoption(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	_, err := Open(t.Context(), options(lockless{disk}, "/wal"))
	require.ErrorContains(t, err, "no file locks")
	require.ErrorContains(t, err, "wal.shared: true")

	da, clock := disk.Process(), &hand{}
	a := open(t, sharing(lockless{da}, "/wal", "a"))
	got, err := a.Append(t.Context(), request(t, WaitFor, 1, 2))
	require.NoError(t, err)
	opt := sharing(lockless{disk.Process()}, "/wal", "b")
	core, logs := observer.New(zap.WarnLevel)
	opt.Logger, opt.Now, opt.MaxAge = zap.New(core), clock.now, 24*time.Hour
	b := open(t, opt)
	require.Equal(t, 1, logs.FilterMessageSnippet("120 s").Len())

	for range 5 {
		clock.advance(silentFor)
		a.beat()
		b.adopt(t.Context())
	}
	require.Equal(t, []string{got.Segment.PartialName()}, names(t, disk, "/wal", segment.Active))
	kill(t, da, a)
	clock.advance(silentFor - 1)
	b.adopt(t.Context())
	require.Equal(t, []string{got.Segment.PartialName()}, names(t, disk, "/wal", segment.Active))
	clock.advance(1)
	b.adopt(t.Context())
	require.Empty(t, names(t, disk, "/wal", segment.Active))
	require.Empty(t, leases(t, disk))
	require.Empty(t, b.silence.seen)
	closeLog(t, b)
	require.Equal(t, []int64{1, 2}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
}

// A writer that was only stopped for long finds itself adopted: with a segment open, with one waiting to be sealed, and
// with none. It answers nothing from what is adopted, says so loudly, and goes on under another name. ACK-1, LOUD-1.
func TestSilence_wakes_up(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // no beat of real time falls in between
		disk, clock := simfs.New(nil), &hand{}
		reader := metric.NewManualReader()
		opt := sharing(lockless{disk.Process()}, "/wal", "a")
		opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
		core, logs := observer.New(zap.ErrorLevel)
		opt.Logger = zap.New(core)
		a := open(t, opt)
		peer := sharing(lockless{disk.Process()}, "/wal", "b")
		peer.Now = clock.now
		b := open(t, peer)
		adopt := func() {
			b.adopt(t.Context())
			clock.advance(silentFor)
			b.adopt(t.Context())
		}

		_, err := a.Append(t.Context(), request(t, WaitFor, 1))
		require.NoError(t, err)
		adopt()
		_, err = a.Append(t.Context(), request(t, WaitFor, 2))
		require.ErrorIs(t, err, segment.ErrLeaseLost)
		synctest.Wait() // it is told and counted beside the answer
		require.EqualValues(t, 1, sums(t, reader)["siglake_wal_segments_seized_total"])
		require.Equal(t, 1, logs.Len())

		_, err = a.Append(t.Context(), request(t, WaitFor, 3))
		require.NoError(t, err)
		adopt()
		require.ErrorIs(t, a.Seal(t.Context(), "t", "events"), segment.ErrLeaseLost)
		synctest.Wait() // it is told and counted beside the answer
		require.EqualValues(t, 2, sums(t, reader)["siglake_wal_segments_seized_total"])

		adopt() // nothing is open: the next request does not notice
		_, err = a.Append(t.Context(), request(t, WaitFor, 4))
		require.NoError(t, err)
		require.EqualValues(t, 2, sums(t, reader)["siglake_wal_segments_seized_total"])
		closeLog(t, a)
		closeLog(t, b)
		require.Empty(t, leases(t, disk))
		rows := idsIn(scan(t, disk, "/wal"), segment.Sealed)
		require.ElementsMatch(t, []int64{1, 2, 3, 4}, rows, "2 was refused, and may be there")
	})
}
