package lake

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// drops is a table with days that are due, one whose youngest segment is too young, and others that are not old.
type drops struct {
	dir  string
	disk *spyDisk
	cat  *faultyCatalog
	h    hooks
	l    *Lake
	now  time.Time
	segs []Segment
}

func newDrops(tb testing.TB) *drops {
	tb.Helper()
	d := &drops{dir: tb.TempDir(), disk: &spyDisk{}, cat: &faultyCatalog{}, now: time.Now().UTC()}
	d.h = spied(tb, d.disk)
	d.h.wrap = faults(d.cat).wrap
	d.l = lakeAt(tb, d.dir, d.h)
	d.segs = []Segment{
		arrived(tb, 1, 20*day, 3, d.now, 20, 19, 5), arrived(tb, 2, 12*day, 2, d.now, 20, 5), arrived(tb, 3, time.Minute, 2, d.now, 18, 1),
	}
	tbl := events(tb, d.l)
	for i := range d.segs {
		_, err := tbl.Commit(tb.Context(), d.segs[i:i+1])
		require.NoError(tb, err)
	}
	setProperty(tb, d.l, "events", table.MetadataPreviousVersionsMaxKey, "1")
	return d
}

// days are those that stay; with old the others, too, which are due.
func (d *drops) days(old bool) map[string]int {
	out := map[string]int{dayBefore(d.now, 18): 2, dayBefore(d.now, 5): 5, dayBefore(d.now, 1): 2}
	if old {
		out[dayBefore(d.now, 20)], out[dayBefore(d.now, 19)] = 5, 3
	}
	return out
}

// next is another process after the stop: it finds the days whole or gone, and the next round ends what was begun.
// LAKE-1, BND-1.
func (d *drops) next(t *testing.T) {
	next := lakeAt(t, d.dir, hooks{scheme: d.h.scheme, limits: limits{orphanAge: time.Nanosecond}})
	requireDays(t, next, d.days(len(readAll(t, next)) > 9))
	for i := range d.segs {
		d.segs[i].Doubtful = true
	}
	out, err := events(t, next).Commit(t.Context(), d.segs)
	require.NoError(t, err)
	require.Zero(t, out.RowsWritten)
	require.Equal(t, committed(d.segs...), out.Committed)

	require.NoError(t, next.dropRound(t.Context(), keepTen(), d.now))
	requireDays(t, next, d.days(false))
	after := metaOf(t, next).LastSequenceNumber()
	require.NoError(t, next.dropRound(t.Context(), keepTen(), d.now))
	require.Equal(t, after, metaOf(t, next).LastSequenceNumber(), "nothing is left to do")

	// What was dropped, and what the stop left, is no orphan for ever.
	require.NoError(t, newKeeper(next, 1).round(t.Context()))
	for _, n := range []string{"1", "2", "3"} { // past the metadata files that name what has expired
		setProperty(t, next, "events", "n", n)
	}
	agedBy(t, d.dir+"/warehouse", time.Hour)
	done := collectOne(t, next, GC{Apply: true})
	require.NoError(t, done.Err)
	require.Equal(t, len(done.Orphans), done.Deleted)
	require.GreaterOrEqual(t, done.Deleted, 3, "the files of two days at least")
	require.Len(t, filesUnder(t, d.dir+"/warehouse/siglake.db/events/data", ".parquet"), len(manifestFiles(t, next)))
	require.Empty(t, collectOne(t, next, GC{}).Orphans)
	requireDays(t, next, d.days(false))
}

// LAKE-1, BND-1: a deletion of old days that stops at any step of the disk, or before or after the step of the catalog,
// leaves the days or not; rows of the others are there once. The next round ends it, and gc-orphans finds every file.
func TestRetention_survives_a_stop_at_every_step(t *testing.T) {
	t.Parallel()
	count := func() int {
		d := newDrops(t)
		before := d.disk.ops
		require.NoError(t, d.l.dropRound(t.Context(), keepTen(), d.now))
		requireDays(t, d.l, d.days(false))
		return d.disk.ops - before
	}()
	require.Greater(t, count, 6)
	var stopped atomic.Int64
	t.Cleanup(func() { require.Positive(t, stopped.Load()) })
	for _, stop := range stops(count) {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			t.Parallel()
			d := newDrops(t)
			d.disk.stop = d.disk.ops + stop
			if err := d.l.dropRound(t.Context(), keepTen(), d.now); err != nil {
				stopped.Add(1)
			}
			d.disk.mu.Lock()
			d.disk.stop = 0
			d.disk.mu.Unlock()
			d.next(t)
		})
	}
	for name, said := range map[string]answer{"before the catalog": lost, "after the catalog": landedUnheard} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDrops(t)
			ctx, stop := context.WithCancel(t.Context())
			d.cat.answers = []answer{func(c context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
				stop()
				return said(c, do)
			}}
			require.ErrorIs(t, d.l.dropRound(ctx, keepTen(), d.now), errInjected)
			requireDays(t, d.l, d.days(name == "before the catalog"))
			d.next(t)
		})
	}
}
