package mirror_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// The cases of the reference system (R, docs/cases.md) that have no better home.

// What is open is copied of every lane, whichever tenant and index it is of.
func TestActive_of_every_lane_R13(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opt.ActiveInterval = 10 * time.Second
		r.start()
		want := map[string][]int64{}
		for i, lane := range [][2]string{{"default", "events"}, {"default", "audit"}, {"acme", "events"}, {"acme", "spans"}} {
			n := int64(i)
			receipt, err := r.log.Append(t.Context(), wal.Request{
				Tenant: lane[0], Index: lane[1], Schema: rowSchema, Body: batch(t, n), Rows: 1, MinTime: n, MaxTime: n, Mode: wal.WaitFor,
			})
			require.NoError(t, err)
			want["_active/"+lane[0]+"/"+lane[1]+"/"+receipt.Segment.PartialName()] = []int64{n}
		}
		settled(11 * time.Second)
		for key, ids := range want {
			require.Equal(t, ids, rows(t, r.store.Objects()[key]), key)
		}
		require.Zero(t, r.stop(time.Minute))
	})
}

// An object of no bytes, or of a header only, below _active/ is no better than nothing: it is named and left, and what the root has
// of the segment stays as it is.
func TestRestore_an_empty_active_object_R16(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 3)
	whole := store.Objects()[key(ids[0])]
	store.Remove(key(ids[0]))
	store.Remove(key(ids[1]))
	store.Set(activeKey(ids[0]), nil)
	store.Set(activeKey(ids[1]), beginningOf(t, whole)[:60])
	disk := simfs.New(nil)
	root, err := segment.Create(disk, rootDir)
	require.NoError(t, err)
	l, err := root.Lane("t", "events")
	require.NoError(t, err)
	require.NoError(t, l.Prepare())
	local := l.Path(segment.Active, ids[0].PartialName())
	f, err := disk.Create(local)
	require.NoError(t, err)
	_, err = f.Writev([][]byte{whole})
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	for range 2 {
		rep, err := restore(t, disk, store)
		require.NoError(t, err)
		var keys []string
		for _, f := range rep.Unreadable {
			keys = append(keys, f.Key)
		}
		require.Equal(t, []string{activeKey(ids[1])}, keys, "of what the root lacks")
		f, err = disk.Open(local)
		require.NoError(t, err)
		require.Equal(t, whole, content(t, f))
		require.Equal(t, []string{ids[2].FileName()}, namesIn(l, segment.Sealed))
	}
}
