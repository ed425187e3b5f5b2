package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// mirrored is a store with n segments of two rows each, made by a real log, and their ids.
func mirrored(t *testing.T, n int) (*storetest.Store, []segment.ID) {
	t.Helper()
	var store *storetest.Store
	var ids []segment.ID
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		settled(time.Second)
		ids = r.sealed(n)
		settled(time.Second)
		require.Zero(t, r.stop(time.Minute))
		store = r.store
	})
	return store, ids
}

func restore(t *testing.T, disk *simfs.FS, store *storetest.Store) (mirror.Report, error) {
	t.Helper()
	return mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, Holder: "test", Concurrency: 1})
}

// restoredRows are the rows in sealed/ of the restored root, by segment.
func restoredRows(t *testing.T, disk *simfs.FS) map[string][]int64 {
	t.Helper()
	root, err := segment.Open(disk, rootDir)
	require.NoError(t, err)
	lanes, strangers, err := root.Lanes()
	require.NoError(t, err)
	require.Empty(t, strangers)
	out := map[string][]int64{}
	for _, l := range lanes {
		entries, strangers, err := l.List(segment.Sealed)
		require.NoError(t, err)
		require.Empty(t, strangers)
		for _, e := range entries {
			f, err := disk.Open(l.Path(segment.Sealed, e.Name))
			require.NoError(t, err)
			out[l.Key()+"/"+e.Name] = rows(t, content(t, f))
		}
	}
	return out
}

// MIR-1: an empty root gets every segment of the mirror, durably; a second time nothing is left to do.
func TestRestore_twice(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 5)
	disk := simfs.New(nil)
	rep, err := restore(t, disk, store)
	require.NoError(t, err)
	require.Equal(t, []mirror.LaneReport{{Tenant: "t", Index: "events", Restored: 5, Rows: 10, Bytes: rep.Lanes[0].Bytes, MinTime: 1, MaxTime: 10}}, rep.Lanes)
	require.Empty(t, rep.Gaps)
	after := disk.Crash(simfs.KeepNone, seed(1))
	got := restoredRows(t, after)
	require.Len(t, got, 5)
	for i, id := range ids {
		require.Equal(t, []int64{int64(2*i + 1), int64(2*i + 2)}, got[key(id)])
	}
	rep, err = restore(t, after, store)
	require.NoError(t, err)
	require.Equal(t, []mirror.LaneReport{{Tenant: "t", Index: "events", Present: 5}}, rep.Lanes)
}

// An interrupted recovery, at each operation, by kill -9 and by power loss: run again it comes to the same end, and no half
// of a segment is ever seen.
func TestRestore_interrupted(t *testing.T) {
	t.Parallel()
	store, _ := mirrored(t, 2)
	whole := simfs.New(nil)
	_, err := restore(t, whole, store)
	require.NoError(t, err)
	want := restoredRows(t, whole)
	for _, policy := range []simfs.Policy{simfs.KeepNone, simfs.KeepAll, simfs.KeepAny} {
		cut := 0
		for k := 0; ; k++ {
			disk := simfs.New(nil)
			hook, fired := simfs.FailAt(k, simfs.Kind.Changes, errCut)
			disk.SetHook(func(op simfs.Op) error {
				if fired() {
					return errCut // the machine is off
				}
				return hook(op)
			})
			_, err := restore(t, disk, store)
			if !fired() {
				break
			}
			require.Error(t, err)
			cut++
			after := disk.Crash(policy, seed(uint64(k)))
			if _, err := segment.Open(after, rootDir); err == nil {
				for name, rows := range restoredRows(t, after) {
					require.Equal(t, want[name], rows, "cut at %d", k)
				}
			}
			_, err = restore(t, after, store)
			require.NoError(t, err, "cut at %d", k)
			require.Equal(t, want, restoredRows(t, after), "cut at %d", k)
			require.Empty(t, temps(t, after), "cut at %d", k)
		}
		require.Greater(t, cut, 30)
	}
}

// What is in the bucket and is no whole segment is named and left out; the rest is restored. F1.
func TestRestore_what_is_no_segment_F1(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 4)
	half := store.Objects()[key(ids[1])]
	store.Set(key(ids[1]), half[:len(half)/2])
	newer := append([]byte(nil), store.Objects()[key(ids[2])]...)
	newer[4] = 9
	store.Set(key(ids[2]), newer)
	store.Set("t/events/README.txt", []byte("hello"))
	store.Set("other/thing", []byte("hello"))
	store.Set("T/events/../x.arrow", []byte("hello"))
	disk := simfs.New(nil)
	rep, err := restore(t, disk, store)
	require.NoError(t, err)
	require.Equal(t, 2, rep.Lanes[0].Restored)
	require.Equal(t, 2, rep.Lanes[0].Unreadable)
	require.Equal(t, 1, rep.Lanes[0].Newer)
	require.Equal(t, []string{key(ids[1]), key(ids[2])}, []string{rep.Unreadable[0].Key, rep.Unreadable[1].Key})
	require.Contains(t, rep.Unreadable[1].Reason, "version")
	require.Equal(t, 3, rep.Foreign)
	require.Len(t, restoredRows(t, disk), 2)
}

// Numbers without an object are reported, by lane and writer.
func TestRestore_gaps(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 6)
	for _, i := range []int{0, 2, 3} {
		store.Remove(key(ids[i]))
	}
	rep, err := restore(t, simfs.New(nil), store)
	require.NoError(t, err)
	w := segment.WriterName(ids[0].Writer)
	require.Equal(t, []mirror.LaneGap{
		{Lane: "t/events", Writer: w, First: ids[0].Seq, Last: ids[0].Seq},
		{Lane: "t/events", Writer: w, First: ids[2].Seq, Last: ids[3].Seq},
	}, rep.Gaps)
}

// A segment that the root has in any state is not restored again. One that it has in poison/ only is told apart: its rows are in
// no table.
func TestRestore_present_in_any_state_R9(t *testing.T) {
	t.Parallel()
	states := []segment.State{segment.Sealed, segment.Processing, segment.Committed, segment.Orphans, segment.Poison}
	store, ids := mirrored(t, len(states))
	disk := simfs.New(nil)
	_, err := restore(t, disk, store)
	require.NoError(t, err)
	root, err := segment.Open(disk, rootDir)
	require.NoError(t, err)
	l, err := root.Lane("t", "events")
	require.NoError(t, err)
	for i, st := range states[1:] {
		_, err := l.Move(segment.Sealed, st, []string{ids[i+1].FileName()})
		require.NoError(t, err)
	}
	rep, err := restore(t, disk, store)
	require.NoError(t, err)
	require.Equal(t, []mirror.LaneReport{{Tenant: "t", Index: "events", Present: len(states) - 1, Poison: 1}}, rep.Lanes)
	require.Equal(t, []string{"t/events/poison/" + ids[len(states)-1].FileName()}, rep.Poison)
}

// T-10: the beginning of an open segment counts only where the whole one is not there, in both layouts.
func TestRestore_active_T10(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 3)
	for _, id := range ids {
		store.Set(activeKey(id), beginningOf(t, store.Objects()[key(id)]))
	}
	flat := store.Objects()[activeKey(ids[2])]
	store.Remove(activeKey(ids[2]))
	store.Set("_active/"+ids[2].PartialName(), flat)
	store.Remove(key(ids[1]))
	store.Remove(key(ids[2]))
	disk := simfs.New(nil)
	rep, err := restore(t, disk, store)
	require.NoError(t, err)
	require.Equal(t, []mirror.Copy{{Key: activeKey(ids[0]), Size: rep.Superseded[0].Size, Used: key(ids[0])}}, rep.Superseded)
	got := restoredRows(t, disk)
	require.Equal(t, map[string][]int64{
		key(ids[0]): {1, 2}, key(ids[1]): {3, 4}, "default/events/" + ids[2].FileName(): {5, 6},
	}, got)
	require.Equal(t, 1, rep.Lanes[0].Open)
	require.Equal(t, 1, rep.Lanes[1].Open)
}

// beginningOf is what an active upload makes of a segment.
func beginningOf(t *testing.T, sealed []byte) []byte {
	t.Helper()
	h, err := frame.ParseHeader(sealed)
	require.NoError(t, err)
	head := frame.Header{Partial: true, Table: h.Table}.Encode()
	return append(head[:], sealed[len(head):]...)
}

// A place that is no mirror is an error that knows the right one if it is below.
func TestRestore_wrong_place(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 1)
	high := &storetest.Store{}
	for k, body := range store.Objects() {
		high.Set("wal-mirror/"+k, body)
	}
	low := &storetest.Store{}
	low.Set("events/"+ids[0].FileName(), store.Objects()[key(ids[0])])
	for name, tc := range map[string]struct {
		store *storetest.Store
		want  mirror.NoMirrorError
	}{
		"empty":    {&storetest.Store{}, mirror.NoMirrorError{}},
		"too high": {high, mirror.NoMirrorError{Below: []string{"wal-mirror"}, Objects: 2}},
		"too low":  {low, mirror.NoMirrorError{Objects: 1, Inner: 1, Levels: 1}},
	} {
		disk := simfs.New(nil)
		_, err := restore(t, disk, tc.store)
		require.ErrorIs(t, err, mirror.ErrNoMirror, name)
		got, ok := errors.AsType[*mirror.NoMirrorError](err)
		require.True(t, ok)
		require.Equal(t, tc.want, *got, name)
		_, err = disk.List(rootDir)
		require.Error(t, err, "nothing was made")
	}
}

// A root that somebody has is refused, unless told otherwise. A directory that is none is left alone.
func TestRestore_root_in_use(t *testing.T) {
	t.Parallel()
	store, _ := mirrored(t, 1)
	for _, name := range []string{segment.LockName, segment.DrainLockName} {
		disk := simfs.New(nil)
		_, err := segment.Create(disk, rootDir)
		require.NoError(t, err)
		lock, err := disk.Lock(rootDir+"/"+name, "somebody")
		require.NoError(t, err)
		_, err = restore(t, disk, store)
		locked, ok := errors.AsType[*vfs.LockedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "somebody", locked.Holder)
		rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, Online: true})
		require.NoError(t, err)
		require.Equal(t, 1, rep.Lanes[0].Restored)
		require.NoError(t, lock.Close())
	}
	disk := simfs.New(nil)
	require.NoError(t, disk.MkdirAll(rootDir+"/photos"))
	_, err := restore(t, disk, store)
	require.ErrorIs(t, err, segment.ErrNotEmpty)
}

// A directory that is no root yet is made one by one process at a time, also beside others: a writer makes it at its first
// start.
func TestRestore_online_does_not_make_the_root_beside_a_writer(t *testing.T) {
	t.Parallel()
	store, _ := mirrored(t, 1)
	disk := simfs.New(nil)
	require.NoError(t, disk.MkdirAll(rootDir))
	lock, err := disk.Lock(rootDir+"/"+segment.LockName, "a writer")
	require.NoError(t, err)
	_, err = mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, Online: true})
	locked, ok := errors.AsType[*vfs.LockedError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "a writer", locked.Holder)
	_, err = segment.Open(disk, rootDir)
	require.ErrorIs(t, err, segment.ErrNotRoot)
	require.NoError(t, lock.Close())
	locks := 0
	disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Create { // the lock is free again before anything is written
			held, err := disk.Held(rootDir + "/" + segment.LockName)
			require.NoError(t, err)
			if held {
				locks++
				require.Contains(t, op.Name, "siglake-wal.json")
			}
		}
		return nil
	})
	rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, Online: true})
	require.NoError(t, err)
	require.Equal(t, 1, rep.Lanes[0].Restored)
	require.Equal(t, 1, locks)
}

// Beside a drain the lock that tells it of segments on their way is held while they come, and free when all are there. Who meets it
// waits.
func TestRestore_online_announces_what_comes(t *testing.T) {
	t.Parallel()
	store, _ := mirrored(t, 3)
	disk := simfs.New(nil)
	_, err := segment.Create(disk, rootDir)
	require.NoError(t, err)
	other, err := disk.Lock(rootDir+"/"+segment.RestoreLockName, "another")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	opt := mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, Online: true, Step: func(step string) {
		if step == "waiting for another" {
			once.Do(cancel)
		}
	}}
	rep, err := mirror.Restore(ctx, opt)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, rep.Lanes)
	require.NoError(t, other.Close())
	came := 0
	disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Link {
			came++
			held, err := disk.Held(rootDir + "/" + segment.RestoreLockName)
			require.NoError(t, err)
			require.True(t, held, op.To)
		}
		return nil
	})
	rep, err = mirror.Restore(t.Context(), opt)
	require.NoError(t, err)
	require.Equal(t, []int{3, 3}, []int{rep.Lanes[0].Restored, came})
	held, err := disk.Held(rootDir + "/" + segment.RestoreLockName)
	require.NoError(t, err)
	require.False(t, held)
}

// What an online run that died has left beside a finished segment, the next online run removes; what may be another run's
// it leaves.
func TestRestore_online_again(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 2)
	disk := simfs.New(nil)
	opt := mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, Online: true, Concurrency: 1}
	hook, _ := simfs.FailAt(1, func(k simfs.Kind) bool { return k == simfs.Remove }, simfs.ErrOff) // the second temporary file
	run := disk.Process()
	run.SetHook(hook)
	opt.FS = run
	_, err := mirror.Restore(t.Context(), opt)
	require.ErrorIs(t, err, simfs.ErrOff)
	orphans := laneOf(t, disk).Dir(segment.Orphans)
	_, err = disk.Stat(orphans + "/" + ids[1].FileName() + ".tmp")
	require.NoError(t, err)
	others := orphans + "/" + segment.NewNamer([6]byte{9}).Next(time.Now()).FileName() + ".tmp"
	f, err := disk.Create(others)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	opt.FS = disk
	_, err = mirror.Restore(t.Context(), opt)
	require.NoError(t, err)
	entries, err := disk.List(orphans)
	require.NoError(t, err)
	var temps []string
	for _, e := range entries {
		if vfs.IsTemp(e.Name) {
			temps = append(temps, orphans+"/"+e.Name)
		}
	}
	require.Equal(t, []string{others}, temps)
}

// A dry run reads and writes nothing, not even the root.
func TestRestore_dry_run(t *testing.T) {
	t.Parallel()
	store, _ := mirrored(t, 3)
	disk := simfs.New(nil)
	n := len(disk.Ops())
	rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, 3, rep.Lanes[0].Restored)
	require.EqualValues(t, 6, rep.Lanes[0].Rows)
	for _, op := range disk.Ops()[n:] {
		require.False(t, op.Kind.Changes(), "%s", op)
	}
}

// A store that fails for a while is asked again; an object that it never gives is named, and the others come.
func TestRestore_store_faults(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 3)
	synctest.Test(t, func(t *testing.T) {
		tries := map[string]int{}
		store.SetHook(func(op storetest.Op) *storetest.Fault {
			if op.Kind != "get" {
				return nil
			}
			tries[op.Key]++
			switch {
			case op.Key == key(ids[0]) && tries[op.Key] < 3:
				return &storetest.Fault{Err: errors.New("connection reset by peer"), Cut: 100}
			case op.Key == key(ids[1]):
				return &storetest.Fault{Err: errors.New("503 SlowDown")}
			}
			return nil
		})
		disk := simfs.New(nil)
		rep, err := restore(t, disk, store)
		require.NoError(t, err)
		require.Equal(t, 2, rep.Lanes[0].Restored)
		require.Equal(t, 1, rep.Lanes[0].Failed)
		require.Equal(t, key(ids[1]), rep.Failed[0].Key)
		require.Len(t, restoredRows(t, disk), 2)
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := mirror.Restore(ctx, mirror.RestoreOptions{FS: simfs.New(nil), Dir: rootDir, Store: store})
	require.ErrorIs(t, err, context.Canceled)
}

// errCut is what a machine answers that is switched off.
var errCut = fmt.Errorf("power cut: %w", syscall.EIO)

// temps are the temporary files below the root.
func temps(t *testing.T, disk *simfs.FS) (out []string) {
	t.Helper()
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := disk.List(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir {
				walk(dir + "/" + e.Name)
			} else if vfs.IsTemp(e.Name) {
				out = append(out, dir+"/"+e.Name)
			}
		}
	}
	walk(rootDir)
	return out
}
