package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// settled lets d pass and everything that it brings.
func settled(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// PIN-1, MIR-1: a sealed segment is in the store, byte for byte, and its pin is gone.
func TestMirror_uploads_what_is_sealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		ids := r.sealed(3)
		synctest.Wait()
		for _, id := range ids {
			require.Equal(t, r.file(id), r.store.Objects()[key(id)])
		}
		require.Empty(t, r.pins())
		require.NoError(t, r.m.Confirmed(t.Context(), ids[0]), "asked late")
		require.JSONEq(t, fmt.Sprintf(`{"format":1,"roots":[%q]}`, r.uuid()), string(r.store.Objects()["siglake-mirror.json"]))
		require.EqualValues(t, 3, r.counter("segments_total", "ok"))
		require.Zero(t, r.counter("failures_total"))
		require.Zero(t, r.stop(time.Second))
	})
}

// A sweep may find a segment, upload it, and a drain retire it, before its writer tells of it: nothing is put twice, and no loss is told.
func TestMirror_told_of_a_segment_late(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newRig(t).start(), &tables{}
		ids := r.uploaded(1)
		r.drained(b)
		ops := len(r.store.Ops())
		r.m.Sealed(r.lane(), ids[0], nil)
		synctest.Wait()
		require.Len(t, r.store.Ops(), ops)
		require.Zero(t, r.counter("sources_gone_total"))
		require.Zero(t, r.stop(time.Second))
	})
}

// MIR-1: a segment that the disk returns otherwise than it was written is uploaded as it is, told of, and confirmed to nobody.
func TestMirror_damaged_before_its_upload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.store.SetHook(func(storetest.Op) *storetest.Fault { return &storetest.Fault{Err: errors.New("503")} })
		id := r.append(2).Segment
		require.NoError(t, r.log.Seal(t.Context(), "t", "events"))
		settled(time.Second)
		f, err := r.disk.OpenRW(r.lane().Path(segment.Sealed, id.FileName()))
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{0x55}, info.Size-100)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		r.store.SetHook(nil)
		settled(time.Minute)
		require.Contains(t, r.store.Objects(), key(id))
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, r.m.Confirmed(ctx, id), context.DeadlineExceeded)
		require.EqualValues(t, 1, r.counter("failures_total", "damaged"))
		require.Empty(t, namesIn(r.lane(), segment.MirrorPending))
		require.Zero(t, r.stop(time.Second))
	})
}

func (r *rig) uuid() string {
	root, err := segment.Open(r.disk, rootDir)
	require.NoError(r.t, err)
	return root.UUID().String()
}

// The pin is there, durably, before the name is in sealed/.
func TestMirror_pins_before_sealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.append(2)
		n := len(r.disk.Ops())
		require.NoError(t, r.log.Seal(t.Context(), "t", "events"))
		var order []string
		for _, op := range r.disk.Ops()[n:] {
			if op.Kind == simfs.Link || op.Kind == simfs.SyncDir {
				order = append(order, op.String())
			}
		}
		require.GreaterOrEqual(t, len(order), 3)
		require.Contains(t, order[0], "mirror-pending")
		require.Contains(t, order[1], "mirror-pending")
		require.Contains(t, order[2], "sealed")
		require.Zero(t, r.stop(time.Second))
	})
}

// What a store may do to a call, once or for a while: acknowledgements go on, the segment arrives once and whole, and the pin
// goes only then.
func TestMirror_store_faults(t *testing.T) {
	t.Parallel()
	slow, denied, bad := errors.New("503 SlowDown"), errors.New("403 RequestTimeTooSkewed"), errors.New("400 XAmzContentSHA256Mismatch")
	reset := errors.New("connection reset by peer")
	for _, tc := range []struct {
		name  string
		kind  string
		fault storetest.Fault
		times int
		arg   string // what is counted
		want  int64
	}{
		{"put fails after it has worked", "put", storetest.Fault{Err: reset, After: true}, 1, "upload", 1},
		{"put hangs", "put", storetest.Fault{Hang: true}, 2, "upload", 2},
		{"put 503", "put", storetest.Fault{Err: slow}, 5, "upload", 5},
		{"put 403", "put", storetest.Fault{Err: denied}, 2, "upload", 2},
		{"put 400", "put", storetest.Fault{Err: bad}, 3, "upload", 3},
		{"put 200 with an error body", "put", storetest.Fault{Lie: true}, 2, "upload", 0},
		{"put reset in the middle", "put", storetest.Fault{Err: reset}, 1, "upload", 1},
		{"stat fails", "stat", storetest.Fault{Err: slow}, 3, "post_upload_stat", 3},
		{"stat hangs", "stat", storetest.Fault{Hang: true}, 1, "post_upload_stat", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				settled(time.Second) // the marker is written
				left := tc.times
				r.store.SetHook(func(op storetest.Op) *storetest.Fault {
					if op.Kind != tc.kind || left == 0 {
						return nil
					}
					left--
					return &tc.fault
				})
				id := r.sealed(1)[0]
				settled(5 * time.Minute)
				require.Equal(t, r.file(id), r.store.Objects()[key(id)])
				require.Empty(t, r.pins())
				require.Equal(t, tc.want, r.counter("failures_total", tc.arg))
				require.EqualValues(t, 1, r.counter("segments_total", "ok"))
				require.NoError(t, r.m.Confirmed(t.Context(), id))
				require.Zero(t, r.stop(time.Second))
			})
		})
	}
}

// A volume may be lost at any moment: there is never an object that recovery would refuse for want of the marker.
func TestMirror_no_object_without_the_marker(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{"fails": {Err: errors.New("503 SlowDown")}, "lies": {Lie: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.opt.ActiveInterval = time.Second
				var away atomic.Bool
				away.Store(true)
				r.store.SetHook(func(op storetest.Op) *storetest.Fault {
					if away.Load() && op.Kind != "get" && op.Key == "siglake-mirror.json" {
						return &fault
					}
					return nil
				})
				r.start()
				ids := r.sealed(6)
				r.append(2)
				settled(10 * time.Second)
				require.Empty(t, r.store.Objects())
				require.Len(t, r.pins(), 6)
				require.Positive(t, r.counter("failures_total", `"upload"`))
				require.Positive(t, r.counter("failures_total", "active_upload"))
				away.Store(false)
				settled(time.Minute)
				require.Len(t, r.store.Objects(), 8, "the marker, what is sealed, what is open")
				require.Contains(t, r.store.Objects(), "siglake-mirror.json")
				require.NoError(t, r.m.Confirmed(t.Context(), ids[5]))
				require.Zero(t, r.stop(time.Second))
			})
		})
	}
}

// F6: an hour without credentials. Rows are acknowledged, nothing is dropped, the metrics and the status tell, and all of
// it arrives afterwards, oldest first.
func TestMirror_F6_an_hour_without_credentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		settled(time.Second)
		away := errors.New("no EC2 IMDS role found")
		r.store.SetHook(func(storetest.Op) *storetest.Fault { return &storetest.Fault{Err: away} })
		var ids []segment.ID
		for range 60 {
			ids = append(ids, r.sealed(1)...)
			settled(time.Minute)
		}
		require.Len(t, r.pins(), 60)
		require.Positive(t, r.counter("failures_total", "upload"))
		require.Less(t, len(r.store.Ops()), 20_000, "a store that is away is not asked without a pause")
		require.Len(t, r.status, 1)
		require.ErrorIs(t, r.status[0], away)
		n := len(r.store.Ops())
		r.store.SetHook(nil)
		settled(time.Minute)
		require.Empty(t, r.pins())
		require.NoError(t, r.status[1])
		var puts []string
		for _, op := range r.store.Ops()[n:] {
			if op.Kind == "put" {
				puts = append(puts, op.Key)
			}
		}
		require.Len(t, puts, 60)
		for _, id := range ids {
			require.Equal(t, r.file(id), r.store.Objects()[key(id)])
		}
		require.Zero(t, r.stop(time.Second))
	})
}

// F3: one of ten fails for a while. The nine are done with one upload each, and only that one is tried again.
func TestMirror_F3_only_what_failed_is_tried_again(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		settled(time.Second)
		var mu sync.Mutex
		var ids []segment.ID
		fails := 3
		r.store.SetHook(func(op storetest.Op) *storetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if len(ids) < 7 && op.Kind == "put" {
				return &storetest.Fault{Err: errors.New("not yet")}
			}
			if op.Kind == "put" && op.Key == key(ids[6]) && fails > 0 {
				fails--
				return &storetest.Fault{Err: errors.New("503")}
			}
			return nil
		})
		for range 10 {
			id := r.append(2).Segment
			mu.Lock()
			ids = append(ids, id)
			mu.Unlock()
			require.NoError(t, r.log.Seal(t.Context(), "t", "events"))
		}
		settled(time.Minute)
		require.Empty(t, r.pins())
		require.Zero(t, fails)
		require.EqualValues(t, 10, r.counter("segments_total", "ok"))
		for _, id := range ids {
			require.Equal(t, r.file(id), r.store.Objects()[key(id)])
		}
		require.Zero(t, r.stop(time.Second))
	})
}

// F3, MIR-1: an object that is the segment counts as done; another one is an alarm, is not overwritten, and the pin stays.
func TestMirror_F3_an_object_is_there(t *testing.T) {
	t.Parallel()
	for _, noDigest := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.opt.SweepInterval = -1
			r.start()
			settled(time.Second)
			r.store.NoDigest = noDigest
			r.store.SetHook(func(storetest.Op) *storetest.Fault { return &storetest.Fault{Err: errors.New("away")} })
			ids := r.sealed(2)
			other := slices.Clone(r.file(ids[1]))
			other[len(other)-20] ^= 1
			r.store.Set(key(ids[0]), r.file(ids[0]))
			r.store.Set(key(ids[1]), other)
			r.store.SetHook(nil)
			settled(time.Minute)
			require.Equal(t, []string{ids[1].FileName()}, r.pins())
			require.Equal(t, other, r.store.Objects()[key(ids[1])])
			require.EqualValues(t, 1, r.counter("conflicts_total"))
			require.EqualValues(t, 1, r.counter("segments_total", "ok"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.ErrorIs(t, r.m.Confirmed(ctx, ids[1]), context.DeadlineExceeded)
			require.Zero(t, r.stop(time.Second))
		})
	}
}

// B6: a volume that refuses the link. It is counted, the segment is sealed and uploaded all the same.
func TestMirror_link_refused(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{syscall.EPERM, syscall.EOPNOTSUPP, syscall.EMLINK, syscall.EXDEV, syscall.EIO} {
		t.Run(refusal.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.disk.SetHook(func(op simfs.Op) error {
					if op.Kind == simfs.Link && segment.State(base(dir(op.To))) == segment.MirrorPending {
						return refusal
					}
					return nil
				})
				r.start()
				settled(time.Second) // the sweep at the start is over: it would try to pin as well
				id := r.sealed(1)[0]
				settled(time.Second)
				require.EqualValues(t, 1, r.counter("failures_total", "pin"))
				require.Equal(t, r.file(id), r.store.Objects()[key(id)])
				require.Zero(t, r.stop(time.Second))
			})
		})
	}
}

// A process that dies leaves pins; the next one's sweep uploads them, whatever state the segment is in, and removes the
// pins of what is there already.
func TestMirror_sweep_at_start_R7(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		settled(time.Second)
		r.store.SetHook(func(storetest.Op) *storetest.Fault { return &storetest.Fault{Err: errors.New("away")} })
		ids := r.sealed(5)
		require.Equal(t, 5, r.stop(time.Second), "the end is bounded")
		require.Len(t, r.pins(), 5)
		// Drained meanwhile, and one was uploaded without having been unpinned. One lost its pin.
		l := r.lane()
		_, err := l.Move(segment.Sealed, segment.Processing, []string{ids[0].FileName(), ids[1].FileName(), ids[4].FileName()})
		require.NoError(t, err)
		_, err = l.Move(segment.Processing, segment.Committed, []string{ids[0].FileName(), ids[4].FileName()})
		require.NoError(t, err)
		require.NoError(t, l.Retire([]string{ids[0].FileName()}))
		r.store.Set(key(ids[2]), r.file(ids[2]))
		require.NoError(t, l.Unpin(ids[3]))
		r.store.SetHook(nil)
		n := len(r.store.Ops())
		r.start()
		settled(time.Second)
		require.Empty(t, r.pins())
		require.Equal(t, []int64{1, 2}, rows(t, r.store.Objects()[key(ids[0])]), "only the pin had it")
		for _, id := range ids[1:] {
			require.Equal(t, r.file(id), r.store.Objects()[key(id)])
		}
		for _, op := range r.store.Ops()[n:] {
			require.NotEqual(t, storetest.Op{Kind: "put", Key: key(ids[2])}, op, "what is there is not sent again")
		}
		require.EqualValues(t, 4, r.counter("sweep_uploads_total"))
		require.Equal(t, []string{ids[4].FileName()}, namesIn(l, segment.Committed), "what was committed is not drained again")
		require.Equal(t, []string{ids[1].FileName()}, namesIn(l, segment.Processing))
		require.Len(t, namesIn(l, segment.Sealed), 2)
		require.Zero(t, r.stop(time.Second))
	})
}

// syncsOfPins counts the syncs of mirror-pending/ so far.
func (r *rig) syncsOfPins() (n int) {
	for _, op := range r.disk.Ops() {
		if op.Kind == simfs.SyncDir && base(op.Name) == string(segment.MirrorPending) {
			n++
		}
	}
	return n
}

// A pin costs one sync, before its segment is in sealed/. That pins are gone is synced by the next sweep and at the end, for all of
// them at once; until then a crash brings back those since the last pin, and the next life looks them up.
func TestMirror_unpins_are_synced_together(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opt.SweepInterval = 10 * time.Second
		r.start()
		settled(time.Second)
		before := r.syncsOfPins()
		for range 3 {
			r.sealed(1)
			settled(time.Second)
		}
		require.Empty(t, r.pins())
		require.Equal(t, 3, r.syncsOfPins()-before)
		back := r.disk.Crash(simfs.KeepNone, seed(1))
		require.Len(t, namesIn(laneOf(t, back), segment.MirrorPending), 1)
		settled(10 * time.Second)
		require.Equal(t, 4, r.syncsOfPins()-before)
		require.Empty(t, namesIn(laneOf(t, r.disk.Crash(simfs.KeepNone, seed(1))), segment.MirrorPending))
		settled(10 * time.Second)
		require.Equal(t, 4, r.syncsOfPins()-before, "nothing was unpinned since")
		r.sealed(1)
		require.Zero(t, r.stop(time.Second))
		require.Equal(t, 6, r.syncsOfPins()-before)
		require.Empty(t, namesIn(laneOf(t, r.disk.Crash(simfs.KeepNone, seed(1))), segment.MirrorPending))

		puts := len(r.store.Objects())
		r.disk, r.opt.FS = back, back
		r.start()
		settled(time.Second)
		require.Empty(t, r.pins())
		require.Len(t, r.store.Objects(), puts, "it was there")
		require.Zero(t, r.stop(time.Second))
	})
}

// T-18: at the end what is left is uploaded, for a bounded time; what does not come through keeps its pin.
func TestMirror_T18_the_end_is_waited_for(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		settled(time.Second)
		slow := 2
		r.store.SetHook(func(op storetest.Op) *storetest.Fault {
			if op.Kind == "put" && slow > 0 {
				slow--
				return &storetest.Fault{Err: errors.New("503 SlowDown")}
			}
			return nil
		})
		id := r.append(2).Segment // open until the log is closed
		require.Zero(t, r.stop(time.Minute))
		require.Equal(t, []int64{1, 2}, rows(t, r.store.Objects()[key(id)]))
		require.Empty(t, r.pins())
		r.start()
		r.store.SetHook(func(storetest.Op) *storetest.Fault { return &storetest.Fault{Hang: true} })
		r.append(2)
		begin := time.Now()
		require.Equal(t, 1, r.stop(10*time.Second))
		require.Less(t, time.Since(begin), 20*time.Second)
		require.Len(t, r.pins(), 1)
	})
}
