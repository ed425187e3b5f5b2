package segment_test

import (
	"io/fs"
	"path"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// ACK-1: what an earlier process made is synced again, every name from the root to the states; it may have been
// killed before it did.
func TestPrepare_syncs_what_it_finds(t *testing.T) {
	t.Parallel()
	s, _ := simLane(t)
	n := len(s.Ops())
	r, err := segment.Create(s, "/wal")
	require.NoError(t, err)
	require.Equal(t, []string{"syncdir /", "syncdir /wal"}, changes(s, n, nil))
	l, err := r.Lane("default", "events")
	require.NoError(t, err)
	n = len(s.Ops())
	require.NoError(t, l.Prepare())
	require.Equal(t, []string{"syncdir /wal/default/events", "syncdir /wal/default", "syncdir /wal"}, changes(s, n, nil))
}

// Directories are made first and synced afterwards, from the bottom up: three syncs for a lane of a new tenant and for
// one of a known tenant alike.
func TestPrepare_order(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	r, err := segment.Create(s, "/wal")
	require.NoError(t, err)
	for _, index := range []string{"events", "spans"} {
		var want []string
		if index == "events" {
			want = append(want, "mkdir /wal/default")
		}
		lane := "/wal/default/" + index
		want = append(want, "mkdir "+lane)
		for _, st := range append(states, segment.MirrorPending) {
			want = append(want, "mkdir "+lane+"/"+string(st))
		}
		want = append(want, "syncdir "+lane, "syncdir /wal/default", "syncdir /wal")
		l, err := r.Lane("default", index)
		require.NoError(t, err)
		n := len(s.Ops())
		require.NoError(t, l.Prepare())
		var got []string
		for _, op := range s.Ops()[n:] {
			if op.Kind.Changes() {
				got = append(got, string(op.Kind)+" "+op.Name)
			}
		}
		require.ElementsMatch(t, want, got)
		require.Equal(t, want[len(want)-3:], got[len(got)-3:])
	}
}

// Each of the three syncs is needed: without it a power loss takes names from a lane that was prepared. ACK-1.
func TestPrepare_needs_each_sync(t *testing.T) {
	t.Parallel()
	for _, skip := range []string{"/wal/default/events", "/wal/default", "/wal"} {
		s := simfs.New(nil)
		_, err := segment.Create(s, "/wal")
		require.NoError(t, err)
		l, err := laneOn(forgetful{s, skip})
		require.NoError(t, err)
		require.NoError(t, l.Prepare())
		_, err = s.Crash(simfs.KeepNone, seed(1)).Stat(l.Dir(segment.Active))
		require.ErrorIs(t, err, fs.ErrNotExist, skip)
	}
}

func laneOn(fsys vfs.FS) (segment.Lane, error) {
	r, err := segment.Open(fsys, "/wal")
	if err != nil {
		return segment.Lane{}, err
	}
	return r.Lane("default", "events")
}

// forgetful leaves one directory unsynced.
type forgetful struct {
	*simfs.FS
	skip string
}

func (f forgetful) SyncDir(dir string) error {
	if dir == f.skip {
		return nil
	}
	return f.FS.SyncDir(dir)
}

// A lane that waits for the disk holds up no other.
func TestPrepare_beside_another(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	r, err := segment.Create(s, "/wal")
	require.NoError(t, err)
	one, err := r.Lane("one", "events")
	require.NoError(t, err)
	two, err := r.Lane("two", "events")
	require.NoError(t, err)
	done := 0
	s.SetHook(func(op simfs.Op) error {
		if op.Kind != simfs.SyncDir || op.Name != one.Dir("") {
			return nil
		}
		done++
		return two.Prepare() // while the first one syncs
	})
	require.NoError(t, one.Prepare())
	require.Equal(t, 1, done)
}

// What has the place of a directory is an error at once, and left alone. LOUD-1.
func TestPrepare_refuses_a_file(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"/wal/default", "/wal/default/events", "/wal/default/events/sealed"} {
		s := simfs.New(nil)
		r, err := segment.Create(s, "/wal")
		require.NoError(t, err)
		require.NoError(t, s.MkdirAll(path.Dir(name)))
		place(t, s, name, "x")
		l, err := r.Lane("default", "events")
		require.NoError(t, err)
		require.ErrorIs(t, l.Prepare(), syscall.ENOTDIR, name)
		require.Equal(t, "x", contentOf(t, s, name))
	}
}
