package wal

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// FuzzRecoverOps makes a list of operations of any bytes, two for each: append, group, seal, fault, crash, a crash with
// another inside the recovery, stop. After each start the ids of docs/invariants.md hold: ACK-1, ACK-2, ORD-1, ONE-1,
// and for all that an earlier start has shown SEE-1.
func FuzzRecoverOps(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 5, 0})
	f.Add([]byte{1, 0, 4, 0, 1, 0, 1, 1, 3, 0, 5, 2, 1, 0, 6, 9, 2, 255, 5, 1})
	f.Add([]byte{0, 0, 4, 3, 2, 170, 1, 0, 5, 0, 0, 0, 0, 0, 4, 7, 3, 0, 1, 0, 6, 3})
	f.Add([]byte{2, 90, 4, 1, 1, 0, 4, 10, 0, 0, 1, 0, 7, 0, 1, 0, 5, 3})
	f.Fuzz(func(t *testing.T, script []byte) {
		const most = 120
		w := &lives{t: t, disk: simfs.New(nil), shown: map[int64]bool{}}
		w.start()
		for i := 0; i+1 < min(len(script), most); i += 2 {
			w.step(script[i], script[i+1])
		}
		w.crash(simfs.KeepNone, 1, -1)
		w.end()
	})
}

// lives are those of one log on one disk.
type lives struct {
	t       *testing.T
	disk    *simfs.FS
	h       *history // of this life
	faulted bool     // in this life
	shown   map[int64]bool
}

func (w *lives) start() {
	w.t.Helper()
	opt := options(w.disk, "/wal")
	opt.MaxEvents = 6
	next := int64(0)
	if w.h != nil {
		next = w.h.next
	}
	w.h = &history{tb: w.t, l: open(w.t, opt), next: next}
	w.faulted = false
}

// end closes the log without waiting for a disk that refuses.
func (w *lives) end() {
	w.t.Helper()
	done, cancel := context.WithCancel(w.t.Context())
	cancel()
	if err := w.h.l.Close(done); !w.faulted {
		require.True(w.t, err == nil || errors.Is(err, simfs.ErrOff), "%v", err)
	}
	w.disk.SetHook(nil)
}

func (w *lives) step(op, arg byte) {
	w.t.Helper()
	switch op % 8 {
	case 0:
		w.h.one(Auto)
	case 1:
		w.h.one(WaitFor)
	case 2:
		modes := []Mode{Mode(arg & 1), Mode(arg >> 1 & 1), Mode(arg >> 2 & 1), Mode(arg >> 3 & 1)}
		w.h.group(modes[:1+arg>>4&3]...)
	case 3:
		err := w.h.l.Seal(w.t.Context(), "t", "events")
		require.True(w.t, err == nil || w.faulted, "%v", err)
	case 4:
		faults := diskFaults()
		fault := faults[int(arg)%len(faults)]
		hook, _ := simfs.FailAt(int(arg)/len(faults)%4, fault.kind.Is, fault.err)
		w.disk.SetHook(hook)
		w.faulted = true
	case 5:
		w.crash(simfs.Policies()[int(arg)%len(simfs.Policies())], arg, -1)
	case 6:
		w.crash(simfs.Policies()[int(arg)%len(simfs.Policies())], arg, int(arg)/4)
	case 7:
		w.end()
		w.restart(simfs.KeepAll)
	}
}

// crash switches the machine off and starts again. With cut not negative it is switched off once more before that
// change of the recovery.
func (w *lives) crash(policy simfs.Policy, seed byte, cut int) {
	w.t.Helper()
	w.disk.PowerOff()
	w.end()
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(policy)))
	w.disk = w.disk.Crash(policy, rng)
	if cut >= 0 {
		hook, _ := simfs.CutAt(cut)
		w.disk.SetHook(hook)
		_ = recoverOnce(w.t, w.disk)
		w.disk.PowerOff()
		w.disk = w.disk.Crash(policy, rng)
	}
	w.restart(policy)
}

// restart recovers, holds what is there against what was promised, and goes on with the next life.
func (w *lives) restart(policy simfs.Policy) {
	w.t.Helper()
	sent, faulted := w.h.sent, w.faulted
	w.start()
	times := map[int64]int{}
	ids := map[segment.ID]bool{}
	for _, s := range scan(w.t, w.disk, "/wal") {
		require.False(w.t, ids[s.id], "ONE-1 %s", s.id)
		ids[s.id] = true
		require.Equal(w.t, segment.Sealed, s.state, "ONE-1 %s", s.id)
		require.True(w.t, slices.IsSorted(s.ids), "ORD-1 %v", s.ids)
		for _, id := range s.ids {
			times[id]++
			require.LessOrEqual(w.t, id, w.h.next, "ACK-2")
			require.Equal(w.t, 1, times[id], "row %d twice", id)
		}
	}
	require.Empty(w.t, temps(w.t, w.disk), "ONE-1")
	for id, there := range w.shown {
		require.Equal(w.t, there, times[id] == 1, "SEE-1 row %d", id)
	}
	covered := false // a later request of the same life was acknowledged under wait_for
	for _, s := range slices.Backward(sent) {
		acked := s.err == nil
		covered = covered || acked && s.mode == WaitFor
		there := times[s.ids[0]]
		for _, id := range s.ids {
			require.Equal(w.t, there, times[id], "ACK-2 a part of %v", s.ids)
			w.shown[id] = there == 1
		}
		if acked && (s.mode == WaitFor || !faulted && (covered || policy == simfs.KeepAll)) {
			require.Equal(w.t, 1, there, "ACK-1 rows %v, %s, %s, faults: %t", s.ids, s.mode, policy, faulted)
		}
	}
}
