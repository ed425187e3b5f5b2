package wal

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// deadWriter leaves six open segments: of its numbers 2 and 6 have no row, 3 no whole batch, 4 damage behind one.
func deadWriter(t *testing.T) (*simfs.FS, segment.Lane) {
	t.Helper()
	disk, lane := simLane(t)
	whole, ends := partial(t, uuid.Nil)
	junk := func(n int) []byte {
		b := append([]byte{}, whole[:n]...)
		for range 600 {
			b = append(b, 0xab)
		}
		return b
	}
	ids := someIDs(6)
	for i, b := range [][]byte{whole, whole[:ends[1]], junk(ends[1]), junk(ends[2]), whole, nil} {
		f, err := disk.Create(lane.Path(segment.Active, ids[i].PartialName()))
		require.NoError(t, err)
		_, err = f.Writev([][]byte{b})
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
	require.NoError(t, disk.SyncDir(lane.Dir(segment.Active)))
	return disk, lane
}

// emptyPoison is an operator who does not want to see it any more.
func emptyPoison(t *testing.T, disk *simfs.FS, lane segment.Lane) {
	t.Helper()
	entries, err := disk.List(lane.Dir(segment.Poison))
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, disk.Remove(lane.Path(segment.Poison, e.Name)))
	}
}

// Recovery accounts for the numbers it removes and sets aside, before any drain has looked. ORD-1.
func TestRecover_numbers(t *testing.T) {
	t.Parallel()
	disk, lane := deadWriter(t)
	require.NoError(t, recoverOnce(t, disk))
	require.Len(t, names(t, disk, "/wal", segment.Sealed), 3)
	require.Len(t, names(t, disk, "/wal", segment.Poison), 4, "two pieces and two notes")
	emptyPoison(t, disk, lane)
	require.Empty(t, gaps(t, disk))

	entries, err := disk.List(lane.Dir(""))
	require.NoError(t, err)
	marks := 0
	for _, e := range entries {
		if filepath.Ext(e.Name) == ".void" {
			marks++
			require.NoError(t, disk.Remove(filepath.Join(lane.Dir(""), e.Name)))
		}
	}
	require.Equal(t, 4, marks, "2, 3 and 6, and the piece that was cut off 4")
	require.Equal(t, []segment.Gap{{Writer: "010203000000", First: 2, Last: 3}}, gaps(t, disk), "the marks are what accounts for them")
}

// TestSweep_numbers cuts the power before every operation of that recovery, under every policy: the next one leaves
// no gap, whatever the first had removed.
func TestSweep_numbers(t *testing.T) {
	t.Parallel()
	for _, policy := range simfs.Policies() {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			for k := 0; ; k++ {
				disk, lane := deadWriter(t)
				cut, fired := simfs.CutAt(k)
				disk.SetHook(cut)
				_ = recoverOnce(t, disk)
				disk.SetHook(nil)
				disk.PowerOff()
				for seed := range uint64(3) {
					where := fmt.Sprintf("k=%d seed %d", k, seed)
					after := disk.Crash(policy, rand.New(rand.NewPCG(uint64(k), seed)))
					require.NoError(t, recoverOnce(t, after), where)
					require.Len(t, names(t, after, "/wal", segment.Sealed), 3, where)
					emptyPoison(t, after, lane)
					require.Empty(t, gaps(t, after), where)
				}
				if !fired() {
					require.Greater(t, k, 40)
					return
				}
			}
		})
	}
}
