package mirror_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// dryAndReal restores twice: the plan and the work say the same.
func dryAndReal(t *testing.T, store *storetest.Store) (*simfs.FS, mirror.Report) {
	t.Helper()
	disk := simfs.New(nil)
	plan, err := mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, Concurrency: 1, DryRun: true})
	require.NoError(t, err)
	rep, err := restore(t, disk, store)
	require.NoError(t, err)
	require.Equal(t, plan, rep)
	return disk, rep
}

// MIR-1: where the best object of a segment cannot be read, the next one that can is restored, and both are named. That is a
// beginning beside a damaged whole one, a whole one in another lane beside one that is another segment, and so on.
func TestRestore_the_next_object_that_reads_well(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 4)
	there := store.Objects()
	whole := func(i int) []byte { return there[key(ids[i])] }
	store.Set(activeKey(ids[0]), beginningOf(t, whole(0)))
	store.Set(key(ids[0]), whole(0)[:len(whole(0))-9])
	store.Set("other/lane/"+ids[1].FileName(), whole(1))
	store.Set(key(ids[1]), whole(2))
	store.Set("other/lane/"+ids[3].FileName(), append(whole(3), "longer, and no segment"...))
	disk, rep := dryAndReal(t, store)
	require.Equal(t, map[string][]int64{
		key(ids[0]): {1, 2}, "other/lane/" + ids[1].FileName(): {3, 4}, key(ids[2]): {5, 6}, key(ids[3]): {7, 8},
	}, restoredRows(t, disk))
	require.Len(t, rep.Unreadable, 2, "%+v", rep)
	require.Equal(t, [2]string{key(ids[0]), activeKey(ids[0])}, [2]string{rep.Unreadable[0].Key, rep.Unreadable[0].Instead})
	require.Equal(t, [2]string{key(ids[1]), "other/lane/" + ids[1].FileName()}, [2]string{rep.Unreadable[1].Key, rep.Unreadable[1].Instead})
	require.Equal(t, []mirror.Copy{{
		Key: "other/lane/" + ids[3].FileName(), Size: int64(len(whole(3)) + 22), Used: key(ids[3]), OtherLane: true,
	}}, rep.Superseded)

	// A second run has nothing to do; the whole object, when it is back, adds what is behind the beginning.
	rep, err := restore(t, disk, store)
	require.NoError(t, err)
	require.Len(t, rep.Lanes, 1)
	require.Equal(t, [2]int{0, 4}, [2]int{rep.Lanes[0].Restored, rep.Lanes[0].Present})
	store.Set(key(ids[0]), whole(0))
	rep, err = restore(t, disk, store)
	require.NoError(t, err)
	require.Empty(t, rep.Unreadable)
}

// A writer serves one lane: the object there is taken, not one of the same size or a larger one that somebody copied to another.
func TestRestore_the_lane_of_the_writer_R11(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 3)
	store.Set("a/first/"+ids[0].FileName(), store.Objects()[key(ids[0])])
	disk, rep := dryAndReal(t, store)
	require.Equal(t, map[string][]int64{key(ids[0]): {1, 2}, key(ids[1]): {3, 4}, key(ids[2]): {5, 6}}, restoredRows(t, disk))
	require.Len(t, rep.Superseded, 1)
	require.True(t, rep.Superseded[0].OtherLane)
}

// While the store does not give the best object its beginning is restored, but no copy of another lane: the next run puts the
// better one in the place of the first, and would find the second present.
func TestRestore_the_next_object_of_a_store_that_fails(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 3)
	there := store.Objects()
	store.Set("other/lane/"+ids[0].FileName(), there[key(ids[0])])
	store.Set("other/lane/"+ids[1].FileName(), there[key(ids[1])])
	store.Set(activeKey(ids[0]), beginningOf(t, there[key(ids[0])]))
	synctest.Test(t, func(t *testing.T) {
		store.SetHook(func(op storetest.Op) *storetest.Fault {
			if op.Kind == "get" && (op.Key == key(ids[0]) || op.Key == key(ids[1])) {
				return &storetest.Fault{Err: errors.New("503 SlowDown")}
			}
			return nil
		})
		disk, rep := dryAndReal(t, store)
		require.Equal(t, map[string][]int64{key(ids[0]): {1, 2}, key(ids[2]): {5, 6}}, restoredRows(t, disk))
		require.Len(t, rep.Failed, 2)
		require.Len(t, rep.Superseded, 2)
		store.SetHook(nil)
		rep, err := restore(t, disk, store)
		require.NoError(t, err)
		require.Empty(t, rep.Failed)
		require.Equal(t, map[string][]int64{key(ids[0]): {1, 2}, key(ids[1]): {3, 4}, key(ids[2]): {5, 6}}, restoredRows(t, disk))
	})
}
