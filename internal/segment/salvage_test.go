package segment_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// quarantined is a lane with one segment in poison/.
func quarantined(t *testing.T) (*simfs.FS, segment.Lane, segment.ID) {
	t.Helper()
	s, l := simLane(t)
	id := ids(1)[0]
	place(t, s, l.Path(segment.Sealed, id.FileName()), body(id))
	require.NoError(t, l.Quarantine(segment.Sealed, id.FileName(), note))
	return s, l, id
}

// A segment goes back under the name that it has in sealed/, whatever it was called in poison/, and its note goes.
func TestRequeue_names(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{".arrow", ".arrow.partial", ".arrow.2", ".arrow.partial.3"} {
		s, l := simLane(t)
		id := ids(1)[0]
		name := id.String() + suffix
		place(t, s, l.Path(segment.Poison, name), body(id))
		place(t, s, l.Path(segment.Poison, name+".json"), "{}")
		moved, err := l.Requeue(name)
		require.NoError(t, err)
		require.True(t, moved)
		entries, err := s.List(l.Dir(segment.Poison))
		require.NoError(t, err)
		require.Empty(t, entries, suffix)
		require.Equal(t, body(id), contentOf(t, s, l.Path(segment.Sealed, id.FileName())))
		moved, err = l.Requeue(name)
		require.NoError(t, err)
		require.False(t, moved, "it was gone")
	}
	_, l := simLane(t)
	_, err := l.Requeue("README")
	require.ErrorIs(t, err, segment.ErrNotID)
	_, err = l.Salvage("README", nil, note)
	require.ErrorIs(t, err, segment.ErrNotID)
}

// LOUD-1: nothing takes the place of another file.
func TestRequeue_and_Salvage_over_another_file(t *testing.T) {
	t.Parallel()
	s, l, id := quarantined(t)
	place(t, s, l.Path(segment.Sealed, id.FileName()), "another")
	_, err := l.Requeue(id.FileName())
	require.ErrorIs(t, err, segment.ErrConflict)
	_, err = l.Salvage(id.FileName(), []byte(beginning(id)), lost)
	require.ErrorIs(t, err, segment.ErrConflict)
	require.Equal(t, "another", contentOf(t, s, l.Path(segment.Sealed, id.FileName())))
	require.Equal(t, body(id), contentOf(t, s, l.Path(segment.Poison, id.FileName())))
	got, err := l.ReadNote(id.FileName())
	require.NoError(t, err)
	require.Equal(t, note, got)
}

// A segment that was salvaged, and came back damaged under its id, is not salvaged over the first original.
func TestSalvage_again(t *testing.T) {
	t.Parallel()
	s, l, id := quarantined(t)
	done, err := l.Salvage(id.FileName(), []byte(beginning(id)), lost)
	require.NoError(t, err)
	require.True(t, done)
	done, err = l.Salvage(id.FileName(), []byte(beginning(id)), lost)
	require.NoError(t, err)
	require.False(t, done, "it was gone")

	require.NoError(t, l.Quarantine(segment.Sealed, id.FileName(), note))
	resolved, err := l.Resolve(segment.ByDrain)
	require.NoError(t, err)
	require.Empty(t, resolved, "the original is no copy, and the other stays")
	_, err = l.Salvage(id.FileName(), []byte("x"), note)
	require.ErrorIs(t, err, segment.ErrKept)
	require.ErrorContains(t, err, "move "+l.Path(segment.Poison, id.FileName()+".salvaged")+" and its note out of the log first")
	require.Equal(t, body(id), contentOf(t, s, l.Path(segment.Poison, id.FileName()+".salvaged")))
	got, err := l.ReadNote(id.FileName() + ".salvaged")
	require.NoError(t, err)
	require.Equal(t, lost, got)
}

// An original is no segment in poison/: not listed, not counted, no copy, no stranger.
func TestSalvage_keeps_no_second_copy(t *testing.T) {
	t.Parallel()
	s, l, id := quarantined(t)
	_, err := l.Salvage(id.FileName(), []byte(beginning(id)), lost)
	require.NoError(t, err)
	require.Equal(t, []string{"sealed/0.arrow"}, where(t, l, []segment.ID{id}))
	copies, err := l.Copies()
	require.NoError(t, err)
	require.Equal(t, map[segment.ID][]string{id: {"sealed/" + id.FileName()}}, copies)
	kept, err := l.Kept()
	require.NoError(t, err)
	require.Equal(t, []string{id.FileName() + ".salvaged"}, kept)
	gaps, err := l.Gaps()
	require.NoError(t, err)
	require.Empty(t, gaps)
	census, err := l.Census()
	require.NoError(t, err)
	require.Zero(t, census.Count(segment.Poison))
	// Elsewhere such a name means nothing.
	place(t, s, l.Path(segment.Sealed, id.FileName()+".salvaged"), "")
	_, strangers, err := l.List(segment.Sealed)
	require.NoError(t, err)
	require.Equal(t, []string{id.FileName() + ".salvaged"}, strangers)
}

func TestCopies(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	id := ids(1)[0]
	for _, name := range []string{"active/" + id.PartialName(), "sealed/" + id.FileName(), "poison/" + id.FileName() + ".2"} {
		place(t, s, l.Path("", name), body(id))
	}
	require.NoError(t, s.MkdirAll(l.Path(segment.Stale, oldTable.String())))
	place(t, s, l.Path(segment.Stale, oldTable.String()+"/"+id.FileName()), body(id))
	require.NoError(t, l.Pin(segment.Sealed, id.FileName()))
	copies, err := l.Copies()
	require.NoError(t, err)
	require.Equal(t, map[segment.ID][]string{id: {
		"active/" + id.PartialName(), "sealed/" + id.FileName(), "stale/" + oldTable.String() + "/" + id.FileName(), "poison/" + id.FileName() + ".2",
	}}, copies)
}

// Where the volume refuses links the steps are renames.
func TestRequeue_and_Salvage_without_links(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{syscall.EPERM, syscall.EOPNOTSUPP} {
		s, l, id := quarantined(t)
		s.SetHook(func(op simfs.Op) error {
			if op.Kind == simfs.Link {
				return refusal
			}
			return nil
		})
		done, err := l.Salvage(id.FileName(), []byte(beginning(id)), lost)
		require.NoError(t, err)
		require.True(t, done)
		require.Equal(t, []string{"sealed/0.arrow"}, where(t, l, []segment.ID{id}))
		require.Equal(t, body(id), contentOf(t, s, l.Path(segment.Poison, id.FileName()+".salvaged")))
		_, err = s.Stat(l.Path(segment.Poison, id.FileName()+".json"))
		require.ErrorIs(t, err, fs.ErrNotExist)

		require.NoError(t, l.Quarantine(segment.Sealed, id.FileName(), note))
		moved, err := l.Requeue(id.FileName())
		require.NoError(t, err)
		require.True(t, moved)
		require.Equal(t, []string{"sealed/0.arrow"}, where(t, l, []segment.ID{id}))
	}
}
