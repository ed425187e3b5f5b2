package segment_test

import (
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// A lease has one holder. Its end removes the file, unless that is another's by now; its loss is noticed. OWN-1.
func TestLease(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	root, err := segment.Create(disk, "/wal")
	require.NoError(t, err)
	none, err := root.Leases()
	require.NoError(t, err)
	require.Empty(t, none)
	require.NoError(t, root.PrepareLeases())
	one, two := [6]byte{1}, [6]byte{2}
	first, err := root.Lease(one, "first")
	require.NoError(t, err)
	_, err = root.Lease(one, "second")
	var locked *vfs.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, &vfs.LockedError{Name: "/wal/leases/010000000000.lock", Holder: "first"}, locked)
	unlocked, err := root.LeaseUnlocked(two, "third")
	require.NoError(t, err)
	_, err = root.LeaseUnlocked(two, "fourth")
	require.ErrorIs(t, err, fs.ErrExist)
	touch := func(name string) {
		f, err := disk.Create(filepath.Join("/wal/leases", name))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	touch("x")
	touch("01000000000g.lock")
	got, err := root.Leases()
	require.NoError(t, err)
	require.Equal(t, [][6]byte{one, two}, got)

	beat := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, l := range []*segment.Lease{first, unlocked} {
		require.NoError(t, l.Check())
		require.NoError(t, l.Beat(beat))
	}
	at, err := root.LastBeat(two)
	require.NoError(t, err)
	require.True(t, beat.Equal(at))

	fence, err := root.Fence(two)
	require.NoError(t, err)
	require.NoError(t, fence.End())
	_, err = root.Fence(two)
	require.NoError(t, err, "idempotent")
	require.ErrorIs(t, unlocked.Check(), segment.ErrLeaseLost)
	require.ErrorIs(t, unlocked.Beat(beat), segment.ErrLeaseLost)
	require.NoError(t, unlocked.End())

	// Somebody removes the file of a lease that is held, and another takes its place.
	require.NoError(t, disk.Remove("/wal/leases/010000000000.lock"))
	require.ErrorIs(t, first.Check(), segment.ErrLeaseLost)
	other, err := root.Lease(one, "other")
	require.NoError(t, err)
	require.ErrorIs(t, first.Check(), segment.ErrLeaseLost)
	require.NoError(t, first.End())
	require.NoError(t, other.Check(), "the file is not removed from under another")
	_, err = root.Adopt(one, "adopter")
	require.ErrorAs(t, err, &locked, "of the living")
	require.NoError(t, other.Check())
	require.NoError(t, other.End())
	adopted, err := root.Adopt(one, "adopter")
	require.NoError(t, err)
	_, err = root.Adopt(one, "another")
	require.ErrorAs(t, err, &locked, "one at a time")
	require.NoError(t, adopted.End())
	require.ErrorIs(t, other.Check(), segment.ErrLeaseLost)
	got, err = root.Leases()
	require.NoError(t, err)
	require.Empty(t, got)
}

// What belongs to a writer that is not mine stays as it is: a name between link and unlink, a copy, a note and its
// temporary file. Of mine it is resolved. OWN-1.
func TestResolveOf(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	all := ids(4)
	for _, id := range all {
		place(t, s, l.Path(segment.Active, id.PartialName()), body(id))
	}
	for _, id := range all[:2] {
		require.NoError(t, s.Link(l.Path(segment.Active, id.PartialName()), l.Path(segment.Sealed, id.FileName())))
	}
	for _, id := range all[2:] {
		place(t, s, l.Path(segment.Poison, id.PartialName()+".json"), "{}")
		place(t, s, l.Path(segment.Poison, id.PartialName()+".json.tmp"), "{")
	}
	mine := func(id segment.ID) bool { return id == all[1] || id == all[3] }
	done, err := l.ResolveOf(mine)
	require.NoError(t, err)
	require.Len(t, done.Dropped, 1)
	require.Len(t, done.Temps, 2)
	require.Equal(t, []string{"active/0.arrow.partial", "active/2.arrow.partial", "active/3.arrow.partial", "sealed/0.arrow", "sealed/1.arrow"}, where(t, l, all))
	left, err := s.List(l.Dir(segment.Poison))
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.Equal(t, "2.arrow.partial.json", short(left[0].Name, all))

	done, err = l.ResolveOf(func(segment.ID) bool { return false })
	require.NoError(t, err)
	require.Equal(t, segment.Resolved{}, done)
}
