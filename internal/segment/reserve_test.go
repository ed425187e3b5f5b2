package segment

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// full is a hook of a disk without room until the reserve is given up.
func full(reserve string) func(simfs.Op) error {
	there := true
	return func(op simfs.Op) error {
		switch op.Kind {
		case simfs.Remove:
			there = there && op.Name != reserve
		case simfs.Writev, simfs.Create, simfs.Link, simfs.Mkdir:
			if there {
				return syscall.ENOSPC
			}
		}
		return nil
	}
}

// A full volume must not keep the drain from emptying it (case B1): owner, head and notes find room, and so does a Move.
func TestReserve_B1(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l Lane, segment string) error{
		"owner":      func(l Lane, _ string) error { return l.WriteOwner(uuid.New()) },
		"claim":      func(l Lane, s string) error { _, err := l.Move(Sealed, Processing, []string{s}); return err },
		"stale":      func(l Lane, s string) error { return l.MoveStale(Sealed, s, uuid.New()) },
		"quarantine": func(l Lane, s string) error { return l.Quarantine(Sealed, s, Note{Reason: "test"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := simfs.New(nil)
			root, err := Create(disk, "/wal")
			require.NoError(t, err)
			lane, err := root.Lane("t", "events")
			require.NoError(t, err)
			require.NoError(t, lane.Prepare())
			require.NoError(t, root.KeepReserve())
			require.NoError(t, root.KeepReserve(), "again, with nothing to do")
			info, err := disk.Stat(filepath.Join("/wal", reserveName))
			require.NoError(t, err)
			require.EqualValues(t, ReserveBytes, info.Size)
			sealed := NewNamer([6]byte{1}).Next(time.Unix(1, 0)).FileName()
			f, err := disk.Create(lane.Path(Sealed, sealed))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			disk.SetHook(full(filepath.Join("/wal", reserveName)))
			require.NoError(t, change(lane, sealed))
			_, err = disk.Stat(filepath.Join("/wal", reserveName))
			require.Error(t, err, "it was given up")
			require.NoError(t, root.KeepReserve())
		})
	}
}
