package segment_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// List tells segments from strangers by the state's rules.
func TestList(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	id := ids(1)[0]
	files := []string{
		id.FileName(), id.PartialName(), id.FileName() + ".json", id.FileName() + ".2", id.FileName() + ".1",
		id.FileName() + ".02", id.FileName() + ".json.tmp", "README", ".nfs0001",
	}
	for _, st := range []segment.State{segment.Active, segment.Sealed, segment.Poison} {
		for _, f := range files {
			place(t, s, l.Path(st, f), "")
		}
		require.NoError(t, s.MkdirAll(l.Path(st, "dir")))
	}
	for st, want := range map[segment.State][2][]string{
		segment.Active: {{id.PartialName()}, {".nfs0001", id.FileName(), id.FileName() + ".02", id.FileName() + ".1", id.FileName() + ".2", id.FileName() + ".json", "README", "dir"}},
		segment.Sealed: {{id.FileName()}, {".nfs0001", id.FileName() + ".02", id.FileName() + ".1", id.FileName() + ".2", id.FileName() + ".json", id.PartialName(), "README", "dir"}},
		segment.Poison: {{id.FileName(), id.FileName() + ".2", id.PartialName()}, {".nfs0001", id.FileName() + ".02", id.FileName() + ".1", "README", "dir"}},
	} {
		entries, strangers, err := l.List(st)
		require.NoError(t, err)
		var names []string
		for _, e := range entries {
			require.Equal(t, id, e.ID)
			require.Equal(t, e.Name == id.PartialName(), e.Partial)
			names = append(names, e.Name)
		}
		require.Equal(t, want[0], names, st)
		require.ElementsMatch(t, want[1], strangers, st)
	}
	require.NoError(t, s.Remove(l.Dir(segment.Orphans)))
	entries, strangers, err := l.List(segment.Orphans)
	require.NoError(t, err, "a directory that is not there is empty")
	require.Empty(t, entries)
	require.Empty(t, strangers)
	hook, _ := simfs.FailAt(0, simfs.List.Is, errors.New("EIO"))
	s.SetHook(hook)
	_, _, err = l.List(segment.Sealed)
	require.ErrorContains(t, err, "list sealed of lane default/events")
}

// A record that cannot be read is an error, never "none".
func TestOwner_and_head(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	u, err := l.Owner()
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, u)
	_, ok, err := l.Head()
	require.NoError(t, err)
	require.False(t, ok)

	table := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	require.NoError(t, l.WriteOwner(table))
	u, err = l.Owner()
	require.NoError(t, err)
	require.Equal(t, table, u)
	want := segment.Head{Table: table, Sequence: 7, Metadata: "file:///w/00007.metadata.json"}
	require.NoError(t, l.WriteHead(want))
	got, ok, err := l.Head()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)

	other := uuid.MustParse("22222222-2222-4333-8444-555555555555")
	require.NoError(t, l.WriteHead(segment.Head{Table: other, Sequence: 1}))
	require.NoError(t, l.WriteHead(segment.Head{Table: other, Sequence: 2}))
	formers, err := l.Formers()
	require.NoError(t, err)
	require.Equal(t, []segment.Head{want}, formers)
	entries, strangers, err := l.List(segment.Stale)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Empty(t, strangers)

	kept := "/wal/default/events/stale/" + table.String() + "/head"
	require.NoError(t, s.Remove(kept))
	place(t, s, kept, "")
	_, err = l.Formers()
	require.ErrorContains(t, err, "read head of lane default/events")
	for _, name := range []string{"owner", "head"} {
		require.NoError(t, s.Remove("/wal/default/events/"+name))
		place(t, s, "/wal/default/events/"+name, "")
	}
	_, err = l.Owner()
	require.ErrorContains(t, err, "read owner of lane default/events")
	_, _, err = l.Head()
	require.ErrorContains(t, err, "read head of lane default/events")
}
