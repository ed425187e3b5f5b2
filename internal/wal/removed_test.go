package wal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Nothing is acknowledged into a file that has lost its name: the group is refused, the loss is loud, and the next
// request has a segment of its own. ACK-1.
func TestRemoved_open_segment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opt := options(vfs.OS(), dir)
	reader := metric.NewManualReader()
	opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	l := open(t, opt)
	for _, mode := range []Mode{WaitFor, Auto} {
		_, err := l.Append(t.Context(), request(t, mode, 1))
		require.NoError(t, err)
		there := names(t, vfs.OS(), dir, segment.Active)
		require.Len(t, there, 1)
		require.NoError(t, os.Remove(filepath.Join(dir, "t", "events", "active", there[0])))
		_, err = l.Append(t.Context(), request(t, mode, 2))
		require.ErrorIs(t, err, errMoved)
		_, err = l.Append(t.Context(), request(t, mode, 3))
		require.NoError(t, err)
		require.NoError(t, l.Seal(t.Context(), "t", "events"))
	}
	require.EqualValues(t, 2, sums(t, reader)["siglake_wal_segments_seized_total"])
	closeLog(t, l)
	var ids []int64
	for _, s := range scan(t, vfs.OS(), dir) {
		ids = append(ids, s.ids...)
	}
	require.Equal(t, []int64{3, 3}, ids)
}

// Somebody removes the lock file and starts a second process, which takes the first one's open segment for a dead
// one's: every row that either acknowledges is there once. ACK-1, ONE-1.
func TestRemoved_lock_and_a_second_process(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opt := options(vfs.OS(), dir)
	opt.MaxEvents = 3
	first := open(t, opt)
	var acked []int64
	next := int64(0)
	send := func(l *Log) {
		next++
		if _, err := l.Append(t.Context(), request(t, WaitFor, next)); err == nil {
			acked = append(acked, next)
		}
	}
	for range 4 { // more than a segment: the next one is open, and the one after it made ahead
		send(first)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, segment.LockName)))
	second := open(t, opt)
	for range 20 {
		send(first)
		send(second)
	}
	closeLog(t, second)
	_ = first.Close(t.Context()) // it may say that its lock is not its own any more
	closeLog(t, open(t, opt))
	var ids []int64
	for _, s := range scan(t, vfs.OS(), dir) {
		require.Equal(t, segment.Sealed, s.state)
		ids = append(ids, s.ids...)
	}
	for _, id := range acked {
		require.Contains(t, ids, id)
	}
	require.GreaterOrEqual(t, len(acked), 30)
}
