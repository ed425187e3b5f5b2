package mirror_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// ofKinds is a mirror with a segment of each kind in a lane, in the order of their ids.
func ofKinds(t *testing.T, lane string, kinds ...string) (*storetest.Store, []string) {
	t.Helper()
	store, _ := mirrored(t, 1)
	var keys []string
	namer := segment.NewNamer([6]byte{9})
	for _, kind := range kinds {
		id := namer.Next(time.UnixMilli(1_700_000_000_000))
		md := arrow.MetadataFrom(map[string]string{"siglake.signal": kind})
		file := frame.Header{Partial: true}.Encode()
		head, err := frame.EncodeSchema(id.Name(arrow.NewSchema(rowSchema.Fields(), &md)))
		require.NoError(t, err)
		keys = append(keys, fmt.Sprintf("%s/%s", lane, id.FileName()))
		store.Set(keys[len(keys)-1], append(append(file[:], head...), batch(t, 1, 2)...))
	}
	return store, keys
}

func holdsOf(t *testing.T, disk *simfs.FS, index string) string {
	t.Helper()
	root, err := segment.Open(disk, rootDir)
	require.NoError(t, err)
	l, err := root.Lane("t", index)
	require.NoError(t, err)
	have, err := l.Holds()
	require.NoError(t, err)
	return have
}

// After a recovery a user index holds what most of its segments say, durably, and no request decides it anew.
func TestRestore_what_an_index_holds(t *testing.T) {
	t.Parallel()
	store, keys := ofKinds(t, "t/aaa", "logs", "traces", "traces")
	disk := simfs.New(nil)
	want := []mirror.Unlike{{Lane: "t/aaa", Holds: "traces", Rows: "logs", Segments: 1, Key: keys[0]}}
	rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, want, rep.Unlike)
	rep, err = restore(t, disk, store)
	require.NoError(t, err)
	require.Equal(t, want, rep.Unlike)
	after := disk.Crash(simfs.KeepNone, seed(1))
	require.Equal(t, "traces", holdsOf(t, after, "aaa"))
	require.Empty(t, holdsOf(t, after, "events"), "its name says it")
	rep, err = restore(t, after, store)
	require.NoError(t, err)
	require.Empty(t, rep.Unlike, "nothing was restored")
	require.Equal(t, "traces", holdsOf(t, after, "aaa"))
}

// What is recorded stays, and so does what the name of an index says. Segments that say otherwise are named.
func TestRestore_an_index_that_holds_something_else(t *testing.T) {
	t.Parallel()
	store, keys := ofKinds(t, "t/aaa", "logs")
	disk := simfs.New(nil)
	root, err := segment.Create(disk, rootDir)
	require.NoError(t, err)
	l, err := root.Lane("t", "aaa")
	require.NoError(t, err)
	require.NoError(t, l.Prepare())
	require.NoError(t, vfs.WriteFile(disk, rootDir+"/t/aaa/holds", []byte("traces\n")))
	rep, err := restore(t, disk, store)
	require.NoError(t, err)
	require.Equal(t, []mirror.Unlike{{Lane: "t/aaa", Holds: "traces", Rows: "logs", Segments: 1, Key: keys[0]}}, rep.Unlike)
	require.Equal(t, "traces", holdsOf(t, disk, "aaa"))

	store, keys = ofKinds(t, "t/spans", "logs")
	rep, err = restore(t, simfs.New(nil), store)
	require.NoError(t, err)
	require.Equal(t, []mirror.Unlike{{Lane: "t/spans", Holds: "traces", Rows: "logs", Segments: 1, Key: keys[0]}}, rep.Unlike)
}

// Interrupted at each operation and run again, it comes to the same end.
func TestRestore_interrupted_what_an_index_holds(t *testing.T) {
	t.Parallel()
	store, _ := ofKinds(t, "t/aaa", "logs", "logs")
	for _, policy := range []simfs.Policy{simfs.KeepNone, simfs.KeepAll, simfs.KeepAny} {
		for k := 0; ; k++ {
			disk := simfs.New(nil)
			hook, fired := simfs.FailAt(k, simfs.Kind.Changes, errCut)
			disk.SetHook(func(op simfs.Op) error {
				if fired() {
					return errCut
				}
				return hook(op)
			})
			if _, err := restore(t, disk, store); !fired() {
				require.NoError(t, err)
				require.Greater(t, k, 20)
				break
			}
			after := disk.Crash(policy, seed(uint64(k)))
			_, err := restore(t, after, store)
			require.NoError(t, err, "cut at %d", k)
			require.Equal(t, "logs", holdsOf(t, after.Crash(simfs.KeepNone, seed(1)), "aaa"), "cut at %d", k)
		}
	}
}
