package segment_test

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// states are all directories that hold a segment's state.
var states = []segment.State{
	segment.Active, segment.Sealed, segment.Processing, segment.Orphans, segment.Stale, segment.Poison, segment.Committed,
}

// simLane is a prepared lane on a simulated disk.
func simLane(t *testing.T) (*simfs.FS, segment.Lane) {
	t.Helper()
	s := simfs.New(nil)
	r, err := segment.Create(s, "/wal")
	require.NoError(t, err)
	return s, newLane(t, r, "default", "events")
}

// reopen is the lane as the next process finds it.
func reopen(s *simfs.FS) (segment.Lane, error) {
	r, err := segment.Open(s, "/wal")
	if err != nil {
		return segment.Lane{}, err
	}
	return r.Lane("default", "events")
}

// ids are the names of n segments.
func ids(n int) []segment.ID {
	namer := segment.NewNamer([6]byte{7})
	out := make([]segment.ID, n)
	for i := range out {
		out[i] = namer.Next(time.UnixMilli(1_700_000_000_000))
	}
	return out
}

// body is what a segment holds: over several sectors, so that a lost one shows (crash-tests, lesson 1).
func body(id segment.ID) string { return strings.Repeat(id.String()+"|", 40) }

// place writes a file with synced bytes and a synced name.
func place(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.Writev([][]byte{[]byte(content)})
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.NoError(t, fsys.SyncDir(path.Dir(name)))
}

// placeAll puts segments into a state and returns their names there.
func placeAll(t *testing.T, fsys vfs.FS, l segment.Lane, st segment.State, all []segment.ID) []string {
	t.Helper()
	names := make([]string, len(all))
	for i, id := range all {
		if names[i] = id.FileName(); st == segment.Active {
			names[i] = id.PartialName()
		}
		place(t, fsys, l.Path(st, names[i]), body(id))
	}
	return names
}

// where lists all names of segments in a lane, as state/name with ids replaced by their number; pins too.
func where(t *testing.T, l segment.Lane, all []segment.ID) []string {
	t.Helper()
	var out []string
	for _, st := range append(states, segment.MirrorPending) {
		entries, strangers, err := l.List(st)
		require.NoError(t, err)
		require.Empty(t, strangers, st)
		for _, e := range entries {
			out = append(out, fmt.Sprintf("%s/%s", st, short(e.Name, all)))
		}
	}
	return out
}

func short(name string, all []segment.ID) string {
	for i, id := range all {
		name = strings.ReplaceAll(name, id.String(), strconv.Itoa(i))
	}
	return name
}

func contentOf(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	require.NoError(t, err)
	in, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, in.Size)
	if in.Size > 0 {
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return string(b)
}

// changes are the operations since the log had n entries that change the disk, with ids as numbers and paths
// below the lane.
func changes(s *simfs.FS, n int, all []segment.ID) []string {
	var out []string
	for _, op := range s.Ops()[n:] {
		if !op.Kind.Changes() {
			continue
		}
		line := string(op.Kind) + " " + op.Name
		if op.To != "" {
			line += " " + op.To
		}
		if op.Err != nil {
			line += " !"
		}
		out = append(out, strings.ReplaceAll(short(line, all), "/wal/default/events/", ""))
	}
	return out
}
