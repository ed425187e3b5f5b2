package mirror_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// MIR-1: two objects that were exchanged, and one that was copied under another name, are whole segments and are not those
// that their keys say. Restored they would be looked up, and committed, under the wrong id: one twice, the other never.
func TestRestore_objects_under_other_names(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 4)
	there := store.Objects()
	store.Set(key(ids[0]), there[key(ids[1])])
	store.Set(key(ids[1]), there[key(ids[0])])
	store.Set(activeKey(ids[3]), beginningOf(t, there[key(ids[2])]))
	store.Remove(key(ids[3]))
	disk := simfs.New(nil)
	rep, err := restore(t, disk, store)
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 3}, [2]int{rep.Lanes[0].Restored, rep.Lanes[0].Unreadable})
	for _, f := range rep.Unreadable {
		require.Contains(t, f.Reason, "the bytes are another segment's")
	}
	require.Equal(t, map[string][]int64{key(ids[2]): {5, 6}}, restoredRows(t, disk))
}
