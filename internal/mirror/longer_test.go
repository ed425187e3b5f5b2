package mirror_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
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

// grown is a segment as the mirror had it while it was open, two rows, and as it was sealed, four.
func grown(t *testing.T) (id segment.ID, beginning, whole []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opt.ActiveInterval = 10 * time.Second
		r.start()
		id = r.append(2).Segment
		settled(11 * time.Second)
		beginning = r.store.Objects()[activeKey(id)]
		r.append(2)
		require.NoError(t, r.log.Seal(t.Context(), "t", "events"))
		settled(time.Second)
		whole = r.store.Objects()[key(id)]
		require.Zero(t, r.stop(time.Second))
	})
	require.Equal(t, []int64{1, 2}, rows(t, beginning))
	require.Equal(t, []int64{1, 2, 3, 4}, rows(t, whole))
	return id, beginning, whole
}

// marked is a mirror with these objects.
func marked(objects map[string][]byte) *storetest.Store {
	s := &storetest.Store{}
	s.Set("siglake-mirror.json", []byte(`{"format":1,"roots":[]}`))
	for k, body := range objects {
		s.Set(k, body)
	}
	return s
}

// T-10: a beginning that was restored first, and is in whatever state by now, does not hide the whole segment when the mirror
// has it. The longer copy is restored, once, and it is the one that is left when the drain starts.
func TestRestore_T10_the_whole_after_its_beginning(t *testing.T) {
	t.Parallel()
	id, beginning, whole := grown(t)
	for _, st := range []segment.State{segment.Sealed, segment.Processing, segment.Orphans, segment.Committed} {
		t.Run(string(st), func(t *testing.T) {
			t.Parallel()
			disk := simfs.New(nil)
			rep, err := restore(t, disk, marked(map[string][]byte{activeKey(id): beginning}))
			require.NoError(t, err)
			require.Equal(t, 1, rep.Lanes[0].Open)
			root, err := segment.Open(disk, rootDir)
			require.NoError(t, err)
			l, err := root.Lane("t", "events")
			require.NoError(t, err)
			if st != segment.Sealed {
				_, err = l.Move(segment.Sealed, st, []string{id.FileName()})
				require.NoError(t, err)
			}
			store := marked(map[string][]byte{activeKey(id): beginning, key(id): whole})
			beside, err := mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: store, Online: true})
			require.NoError(t, err)
			require.Len(t, beside.Failed, 1, "%+v", beside)
			require.Contains(t, beside.Failed[0].Reason, "run it again without --online")
			rep, err = restore(t, disk, store)
			require.NoError(t, err)
			require.Equal(t, [3]int{1, 1, 0}, [3]int{rep.Lanes[0].Restored, rep.Lanes[0].Longer, rep.Lanes[0].Present})
			require.EqualValues(t, 4, rep.Lanes[0].Rows)
			rep, err = restore(t, disk, store)
			require.NoError(t, err)
			require.Equal(t, [2]int{0, 1}, [2]int{rep.Lanes[0].Restored, rep.Lanes[0].Present}, "a second time nothing is left to do")
			after := disk.Crash(simfs.KeepNone, seed(1))
			root, err = segment.Open(after, rootDir)
			require.NoError(t, err)
			l, err = root.Lane("t", "events")
			require.NoError(t, err)
			resolved, err := l.Resolve(segment.ByDrain)
			require.NoError(t, err)
			require.Empty(t, resolved.Poisoned)
			require.Equal(t, map[string][]int64{key(id): {1, 2, 3, 4}}, restoredRows(t, after))
		})
	}
}

// T-10: a power cut leaves of an open segment its name, and perhaps a torn part. Where the mirror has more of it that comes
// back, and the next writer keeps the longer one.
func TestRestore_T10_what_the_power_took(t *testing.T) {
	t.Parallel()
	id, beginning, whole := grown(t)
	for name, there := range map[string][]byte{
		"a name": nil, "a part of the header": beginning[:20], "no whole batch": beginning[:len(beginning)/2],
		"zeros": make([]byte, 4096), "a torn batch": whole[:len(whole)-len(whole)/5],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := simfs.New(nil)
			root, err := segment.Create(disk, rootDir)
			require.NoError(t, err)
			l, err := root.Lane("t", "events")
			require.NoError(t, err)
			require.NoError(t, l.Prepare())
			require.NoError(t, vfs.WriteNew(disk, l.Path(segment.Active, id.PartialName()), there))
			rep, err := restore(t, disk, marked(map[string][]byte{key(id): whole}))
			require.NoError(t, err)
			require.Equal(t, [2]int{1, 0}, [2]int{rep.Lanes[0].Restored, rep.Lanes[0].Present}, "%+v", rep)
			_, err = l.Resolve(segment.ByDrain)
			require.NoError(t, err)
			_, err = l.Resolve(segment.ByWriter)
			require.NoError(t, err)
			require.Equal(t, map[string][]int64{key(id): {1, 2, 3, 4}}, restoredRows(t, disk))
			require.Empty(t, namesIn(l, segment.Active))
		})
	}
}

// T-10: what the root has is not touched where the mirror has no more of it, where it is damaged or set aside, or in another
// lane. A copy that does not go on where the root's ends is named.
func TestRestore_T10_no_longer_copy(t *testing.T) {
	t.Parallel()
	id, beginning, whole := grown(t)
	other := bytes.Clone(beginning)
	other[len(other)-8] ^= 1 // a bit of the last row: damaged, which is the drain's to tell
	for name, tc := range map[string]struct {
		there   []byte
		state   segment.State
		objects map[string][]byte
		present int
	}{
		"the same":         {beginning, segment.Sealed, map[string][]byte{activeKey(id): beginning}, 1},
		"shorter":          {whole, segment.Committed, map[string][]byte{activeKey(id): beginning}, 1},
		"whole":            {whole, segment.Sealed, map[string][]byte{key(id): whole}, 1},
		"damaged":          {other, segment.Sealed, map[string][]byte{key(id): whole}, 1},
		"set aside":        {beginning, segment.Poison, map[string][]byte{key(id): whole}, 1},
		"in another lane":  {beginning, segment.Sealed, map[string][]byte{"other/events/" + id.FileName(): whole}, 1},
		"another segment":  {beginning, segment.Sealed, map[string][]byte{key(id): anotherWhole(t)}, 0},
		"the flat old way": {beginning, segment.Sealed, map[string][]byte{"_active/" + id.PartialName(): beginning}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := simfs.New(nil)
			root, err := segment.Create(disk, rootDir)
			require.NoError(t, err)
			l, err := root.Lane("t", "events")
			require.NoError(t, err)
			require.NoError(t, l.Prepare())
			require.NoError(t, vfs.WriteNew(disk, l.Path(tc.state, id.FileName()), tc.there))
			n := len(disk.Ops())
			rep, err := restore(t, disk, marked(tc.objects))
			require.NoError(t, err)
			require.Equal(t, [2]int{tc.present, 1 - tc.present}, [2]int{rep.Lanes[0].Present + rep.Lanes[0].Poison, rep.Lanes[0].Unreadable})
			require.Equal(t, tc.state == segment.Poison, rep.Lanes[0].Poison == 1)
			if tc.present == 0 {
				require.Contains(t, rep.Unreadable[0].Reason, "not the beginning of this one (sealed)")
			}
			for _, op := range disk.Ops()[n:] {
				require.False(t, op.Kind.Changes() && op.Kind != simfs.Lock, "%s", op)
			}
		})
	}
}

// anotherWhole is a longer segment of other rows, by a writer that does not name segments.
func anotherWhole(t *testing.T) []byte {
	t.Helper()
	body, err := frame.EncodeSchema(rowSchema)
	require.NoError(t, err)
	body = slices.Concat(body, slices.Repeat(batch(t, 101, 102, 103), 9), frame.EOS())
	h := frame.Header{MinTime: 101, MaxTime: 103, BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body)}.Encode()
	return append(h[:], body...)
}

// MIR-1, T-10: a recovery uploads the beginning of a segment under its name. The whole one, wherever it turns up, takes its
// place; the beginning beside the whole one is no conflict, and neither leaves a pin.
func TestMirror_T10_a_beginning_gives_way(t *testing.T) {
	t.Parallel()
	for _, hold := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.opt.ActiveInterval = 10 * time.Second
			r.start()
			id := r.append(2).Segment
			settled(11 * time.Second)
			beginning := r.store.Objects()[activeKey(id)]
			r.store.Set(key(id), beginning) // by the recovered root
			r.store.NoDigest = hold
			r.append(2)
			require.NoError(t, r.log.Seal(t.Context(), "t", "events"))
			settled(time.Minute)
			require.Equal(t, []int64{1, 2, 3, 4}, rows(t, r.store.Objects()[key(id)]))
			require.Empty(t, r.pins())
			require.NoError(t, r.m.Confirmed(t.Context(), id))
			require.Zero(t, r.counter("conflicts_total"))
			require.Zero(t, r.stop(time.Second))

			whole := r.store.Objects()[key(id)]
			two := &rig{t: t, disk: simfs.New(nil), store: r.store, logs: r.logs, read: r.read, opt: r.opt}
			two.opt.FS = two.disk
			_, err := restore(t, two.disk, marked(map[string][]byte{activeKey(id): beginning}))
			require.NoError(t, err)
			require.NoError(t, two.lane().Pin(segment.Sealed, id.FileName()))
			two.start()
			settled(time.Minute)
			require.Equal(t, whole, r.store.Objects()[key(id)])
			require.Empty(t, two.pins())
			require.Zero(t, two.stop(time.Second))
			require.Zero(t, r.counter("conflicts_total"), fmt.Sprint(hold))
		})
	}
}
