package mirror_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// lose ends a life as the loss of machine and volume does: nothing more is written, anywhere.
func (r *rig) lose() {
	r.t.Helper()
	r.cancel()
	r.run.Wait()
	r.disk.SetHook(func(simfs.Op) error { return errCut })
	closing, stop := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Second)
	defer stop()
	_ = r.log.Close(closing) // the disk is off
}

// another is a machine of its own with the same store and the same tenant and index, whose rows are numbered from first.
func (r *rig) another(first int64) *rig {
	r.t.Helper()
	o := newRig(r.t)
	o.store, o.next = r.store, first-1
	o.opt.Store, o.opt.ActiveInterval = r.store, r.opt.ActiveInterval
	return o
}

// notOverwritten: of the objects that were there before all are there, the same, but for the marker and those that may go.
func notOverwritten(t *testing.T, store *storetest.Store, before map[string][]byte, gone ...string) {
	t.Helper()
	now := store.Objects()
	for k, body := range before {
		if k != "siglake-mirror.json" && !slices.Contains(gone, k) {
			require.Equal(t, body, now[k], k)
		}
	}
	for _, op := range store.Ops() {
		if op.Kind == "replace" {
			require.True(t, strings.HasPrefix(op.Key, "_active/") || op.Key == "siglake-mirror.json", "%v", op)
		}
	}
}

// allRows are the rows of a map of segments, in order.
func allRows(segments map[string][]int64) []int64 {
	return slices.Sorted(func(yield func(int64) bool) {
		for _, ids := range segments {
			for _, id := range ids {
				if !yield(id) {
					return
				}
			}
		}
	})
}

// upTo are the numbers from 1 to n.
func upTo(n int64) (out []int64) {
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

// F8, MIR-1: the volume is lost, and the pod is back with the same name, bucket, tenant and index. Its log begins anew beside the
// copies of the one before: nothing is overwritten, the open segment of the first life stays, and a recovery has both lives.
func TestMirror_F8_two_lives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := newRig(t)
		one.opt.ActiveInterval = 10 * time.Second
		one.start()
		one.sealed(3) // rows 1 to 6
		open := one.append(2).Segment
		settled(11 * time.Second)
		one.lose()
		before := one.store.Objects()
		require.NotNil(t, before[activeKey(open)])

		two := one.another(9)
		two.start()
		two.sealed(3) // rows 9 to 14
		two.append(2)
		settled(11 * time.Minute) // sweeps
		require.Zero(t, two.stop(time.Minute))
		notOverwritten(t, one.store, before)
		require.Zero(t, two.counter("conflicts_total"))
		marker := string(one.store.Objects()["siglake-mirror.json"])
		require.Contains(t, marker, two.uuid())

		third := simfs.New(nil)
		rep, err := restore(t, third, one.store)
		require.NoError(t, err)
		require.Equal(t, 8, rep.Lanes[0].Restored)
		require.Equal(t, upTo(16), allRows(restoredRows(t, third)))
		rep, err = restore(t, two.disk, one.store) // into the log that went on
		require.NoError(t, err)
		require.Equal(t, [2]int{4, 4}, [2]int{rep.Lanes[0].Restored, rep.Lanes[0].Present})
		require.Equal(t, upTo(16), allRows(restoredRows(t, two.disk)))

		// It is started on what was restored: the copies are there, the beginning gets a name of its own, and nothing else changes.
		before = one.store.Objects()
		two.start()
		settled(6 * time.Minute) // the second sweep
		require.Zero(t, two.stop(time.Minute))
		notOverwritten(t, one.store, before, activeKey(open))
		require.Equal(t, before[activeKey(open)], one.store.Objects()[key(open)])
		require.Nil(t, one.store.Objects()[activeKey(open)])
		require.Zero(t, two.counter("conflicts_total"))
	})
}

// MIR-1: two roots under one prefix at once, with the same tenant and index: each has its objects, neither touches the other's,
// and what one loses is recovered with what the other has.
func TestMirror_two_roots_under_one_prefix(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := newRig(t)
		one.opt.ActiveInterval = 10 * time.Second
		two := one.another(101)
		one.start()
		two.start()
		var open []segment.ID
		for range 5 {
			one.sealed(2)
			two.sealed(1)
			open = []segment.ID{one.append(1).Segment, two.append(1).Segment}
			settled(11 * time.Second)
			for _, id := range open {
				require.NotNil(t, one.store.Objects()[activeKey(id)])
			}
			settled(6 * time.Minute) // sweeps of both
			for _, id := range open {
				require.NotNil(t, one.store.Objects()[activeKey(id)], "no sweep takes what is open")
			}
			require.NoError(t, one.log.Seal(t.Context(), "t", "events"))
			require.NoError(t, two.log.Seal(t.Context(), "t", "events"))
		}
		settled(time.Minute)
		require.Zero(t, one.stop(time.Minute))
		require.Zero(t, two.stop(time.Minute))
		notOverwritten(t, one.store, nil)
		for _, r := range []*rig{one, two} {
			require.Empty(t, r.pins())
			require.Zero(t, r.counter("conflicts_total"))
			require.Contains(t, string(one.store.Objects()["siglake-mirror.json"]), r.uuid())
		}
		require.Empty(t, slices.DeleteFunc(slices.Sorted(maps.Keys(one.store.Objects())), func(k string) bool { return !strings.HasPrefix(k, "_active/") }))
		disk := simfs.New(nil)
		rep, err := restore(t, disk, one.store)
		require.NoError(t, err)
		require.Equal(t, 15+10, rep.Lanes[0].Restored)
		require.Empty(t, rep.Gaps)
		got := allRows(restoredRows(t, disk))
		require.Equal(t, upTo(25), got[:25])
		require.Len(t, got, 25+15)
	})
}

// F8: the volume is taken away under a process that lives on, while copies are owed. What is gone is counted and named, nobody is
// told that it was copied, the mirror comes to rest, and what was copied before is all that a recovery has.
func TestMirror_F8_the_volume_goes_under_it(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "wal")
	r.opt.FS, r.opt.Dir, r.opt.SweepInterval = vfs.OS(), dir, 50*time.Millisecond
	m, err := mirror.New(r.opt)
	require.NoError(t, err)
	log, err := wal.Open(t.Context(), wal.Options{Dir: dir, MaxAge: time.Hour, MaxBytes: 1 << 40, MinFree: 1, Mirror: m})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.run.Go(func() { m.Run(ctx) })
	write := func(id int64) (segment.ID, error) {
		receipt, err := log.Append(t.Context(), wal.Request{
			Tenant: "t", Index: "events", Schema: rowSchema, Body: batch(t, id), Rows: 1, MinTime: id, MaxTime: id, Mode: wal.WaitFor,
		})
		return receipt.Segment, errors.Join(err, log.Seal(t.Context(), "t", "events"))
	}
	copied, err := write(1)
	require.NoError(t, err)
	require.NoError(t, m.Confirmed(t.Context(), copied))
	r.store.SetHook(func(storetest.Op) *storetest.Fault { return &storetest.Fault{Err: errors.New("503 SlowDown")} })
	owed, err := write(2)
	require.NoError(t, err)
	eventually(t, func() bool { return r.counter("failures_total", "upload") > 0 }, "its upload fails")
	require.NoError(t, os.RemoveAll(dir))
	eventually(t, func() bool { return r.counter("sources_gone_total") == 1 }, "the loss is counted")
	r.store.SetHook(nil)
	require.Len(t, r.logs.FilterMessageSnippet("the mirror has no copy of it").All(), 1)
	asking, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	require.ErrorIs(t, m.Confirmed(asking, owed), context.DeadlineExceeded)
	if id, err := write(3); err == nil { // the log makes its lane anew, or refuses
		require.NoError(t, m.Confirmed(t.Context(), id))
	}
	closing, stopped := context.WithTimeout(t.Context(), time.Minute)
	defer stopped()
	_ = log.Close(closing) // its directory is gone
	require.Zero(t, m.Flush(closing))
	cancel()
	r.run.Wait()
	disk := simfs.New(nil)
	_, err = restore(t, disk, r.store)
	require.NoError(t, err)
	got := allRows(restoredRows(t, disk))
	require.Contains(t, got, int64(1))
	require.NotContains(t, got, int64(2))
}
