package wal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// sent is one request of a workload and its answer.
type sent struct {
	ids     []int64
	mode    Mode
	err     error
	receipt Receipt
}

// history is what a client knows: what it sent, in order, and what it was told.
type history struct {
	tb   testing.TB
	l    *Log
	next int64
	sent []sent
}

func (h *history) requests(modes ...Mode) []Request {
	var out []Request
	for i, m := range modes {
		ids := []int64{h.next + 1}
		if i%2 == 0 {
			ids = append(ids, h.next+2)
		}
		h.next += int64(len(ids))
		out = append(out, request(h.tb, m, ids...))
		h.sent = append(h.sent, sent{ids: ids, mode: m})
	}
	return out
}

func (h *history) one(m Mode) {
	r := h.requests(m)[0]
	s := &h.sent[len(h.sent)-1]
	s.receipt, s.err = h.l.Append(h.tb.Context(), r)
}

func (h *history) group(modes ...Mode) {
	from := len(h.sent)
	receipts, errs := together(h.tb, h.l, h.requests(modes...)...)
	for i := range errs {
		h.sent[from+i].receipt, h.sent[from+i].err = receipts[i], errs[i]
	}
}

// run appends, seals and closes: segments of one request and of several, with and without a sync, sealed by
// events, on request, and by Close. It goes on after errors, as clients do.
func (h *history) run(fsys vfs.FS) error { return h.runWith(options(fsys, "/wal")) }

func (h *history) runWith(opt Options) error {
	opt.MaxEvents = 6
	l, err := Open(h.tb.Context(), opt)
	if err != nil {
		return err
	}
	h.l = l
	h.one(WaitFor)
	h.one(Auto)
	h.group(Auto, WaitFor, Auto) // fills the segment
	h.one(Auto)
	h.group(WaitFor, WaitFor)
	_ = l.Seal(h.tb.Context(), "t", "events")
	h.one(Auto)
	h.group(Auto, Auto, Auto, Auto) // unsynced, and filled
	h.one(WaitFor)
	h.one(Auto)
	done, cancel := context.WithCancel(h.tb.Context())
	if errors.Is(h.sent[len(h.sent)-1].err, simfs.ErrOff) {
		cancel() // do not wait for a machine that is off
	}
	defer cancel()
	return l.Close(done)
}

// verify holds a recovered disk against what the client knows.
func (h *history) verify(tb testing.TB, disk *simfs.FS, policy simfs.Policy) []found {
	tb.Helper()
	segs := scan(tb, disk, "/wal")
	require.Empty(tb, temps(tb, disk), "ONE-1")
	require.Empty(tb, gaps(tb, disk), "ORD-1")
	h.judge(tb, segs, policy)
	return segs
}

// judge holds the segments of a life against what its client knows.
func (h *history) judge(tb testing.TB, segs []found, policy simfs.Policy) {
	tb.Helper()
	state := map[segment.ID]segment.State{}
	times := map[int64]int{}
	for _, s := range segs {
		require.Empty(tb, state[s.id], "ONE-1 %s", s.id)
		state[s.id] = s.state
		require.Equal(tb, segment.Sealed, s.state, "ONE-1 %s", s.id)
		require.True(tb, slices.IsSorted(s.ids), "ORD-1 %v", s.ids)
		for _, id := range s.ids {
			times[id]++
			require.LessOrEqual(tb, id, h.next, "ACK-2")
		}
	}
	covered := false // a later request of the same life was acknowledged under wait_for
	for _, s := range slices.Backward(h.sent) {
		covered = covered || s.err == nil && s.mode == WaitFor
		for i, id := range s.ids {
			require.LessOrEqual(tb, times[id], 1, "row %d twice", id)
			require.Equal(tb, times[s.ids[0]], times[id], "ACK-2 row %d of %v", i, s.ids)
			if s.err == nil && (covered || policy == simfs.KeepAll) {
				require.Equal(tb, 1, times[id], "ACK-1, ORD-1 row %d, %s, %s", id, s.mode, s.receipt.Segment)
			}
		}
	}
}

// gaps are the numbers that a drain would report as lost.
func gaps(tb testing.TB, disk *simfs.FS) (all []segment.Gap) {
	tb.Helper()
	root, err := segment.Open(disk, "/wal")
	require.NoError(tb, err)
	lanes, _, err := root.Lanes()
	require.NoError(tb, err)
	for _, ln := range lanes {
		found, err := ln.Gaps()
		require.NoError(tb, err)
		all = append(all, found...)
	}
	return all
}

func temps(tb testing.TB, disk *simfs.FS) []string {
	tb.Helper()
	var out []string
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := disk.List(dir)
		require.NoError(tb, err)
		for _, e := range entries {
			name := filepath.Join(dir, e.Name)
			if e.IsDir {
				walk(name)
			} else if vfs.IsTemp(e.Name) && filepath.Base(dir) == "active" {
				out = append(out, name)
			}
		}
	}
	walk("/wal")
	return out
}

// recoverOnce opens and closes, as a process that finds the disk and is stopped at once.
func recoverOnce(tb testing.TB, disk *simfs.FS) error {
	tb.Helper()
	l, err := Open(tb.Context(), options(disk, "/wal"))
	if err != nil {
		return err
	}
	done, cancel := context.WithCancel(tb.Context())
	cancel()
	return l.Close(done)
}

// verdict names the crash in every failure.
type verdict struct {
	testing.TB
	where string
}

func (v verdict) Errorf(format string, args ...any) {
	v.TB.Helper()
	v.TB.Errorf("%s: "+format, append([]any{v.where}, args...)...)
}

// Every write, sync and name operation fails once, and the machine goes on; then it crashes at the end or in the
// middle. Refused requests may be there or not; acknowledged ones must. ACK-1 (T-02, T-03, T-04).
func TestCrash_faults(t *testing.T) {
	t.Parallel()
	for _, fault := range append(diskFaults(), diskFault{simfs.Writev, syscall.EIO}) {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			for k := 0; ; k++ {
				hook, fired := simfs.FailAt(k, fault.kind.Is, fault.err)
				disk := simfs.New(nil)
				disk.SetHook(hook)
				h := &history{tb: t}
				_ = h.run(disk)
				for _, policy := range simfs.Policies() {
					rng := rand.New(rand.NewPCG(uint64(k), uint64(policy)))
					after := disk.Crash(policy, rng)
					require.NoError(t, recoverOnce(t, after))
					h.verify(verdict{t, fmt.Sprintf("k=%d %s", k, policy)}, after, policy)
				}
				if !fired() {
					return
				}
			}
		})
	}
}
