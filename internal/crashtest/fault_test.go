package crashtest

import (
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// fault is what operations of some kinds return instead of being done, as many in a row as times.
type fault struct {
	kinds []simfs.Kind
	err   error
	times int
}

var faults = map[string]fault{
	"":                 {},
	"sync-eio":         {[]simfs.Kind{simfs.Sync}, syscall.EIO, 1},
	"syncdir-eio":      {[]simfs.Kind{simfs.SyncDir}, syscall.EIO, 1},
	"writev-eio":       {[]simfs.Kind{simfs.Writev}, syscall.EIO, 1},
	"writev-enospc":    {[]simfs.Kind{simfs.Writev}, syscall.ENOSPC, 1},
	"writev-short-900": {[]simfs.Kind{simfs.Writev}, &simfs.ShortWrite{Bytes: 900, Err: syscall.ENOSPC}, 1},
	"writev-short-4k":  {[]simfs.Kind{simfs.Writev}, &simfs.ShortWrite{Bytes: 4096, Err: syscall.EIO}, 1},
	"writeat-eio":      {[]simfs.Kind{simfs.WriteAt}, syscall.EIO, 1},
	"truncate-eio":     {[]simfs.Kind{simfs.Truncate, simfs.Sync}, syscall.EIO, 2},
	"names-eio":        {[]simfs.Kind{simfs.Create, simfs.Link, simfs.Rename, simfs.Remove, simfs.Touch}, syscall.EIO, 1},
	"disk-full":        {[]simfs.Kind{simfs.Writev, simfs.Create, simfs.Link, simfs.Rename, simfs.Mkdir}, syscall.ENOSPC, 12},
	"commit-refused":   {[]simfs.Kind{commitKind}, syscall.ECONNREFUSED, 1},
	"commit-lost":      {[]simfs.Kind{commitKind}, errLost, 1},
}

// hook fails the n-th operation that matches and those behind it.
func (f fault) hook(n int) (hook func(simfs.Op) error, fired func() bool) {
	var seen atomic.Int64
	hook = func(op simfs.Op) error {
		if !slices.Contains(f.kinds, op.Kind) {
			return nil
		}
		if i := int(seen.Add(1)) - 1; i >= n && i < n+f.times {
			return f.err
		}
		return nil
	}
	return hook, func() bool { return int(seen.Load()) > n }
}

// Every operation of a life fails once, in each way that it can, and everybody goes on. Then the machine crashes
// somewhere behind the fault and at the end. What was acknowledged all the same is there.
func TestFaults(t *testing.T) {
	t.Parallel()
	sweepFaults(t, 5_000, func(n int) at {
		return at{policy: simfs.Policies()[n%4], seed: 1, k: every}
	}, at.few)
}

// The same with the operations of recoveries from kill -9.
func TestFaults_in_recovery(t *testing.T) {
	t.Parallel()
	sweepFaults(t, 2_500, func(int) at { return at{policy: simfs.KeepAll, seed: 1, k: every, late: true} }, at.few)
}

// sweepFaults takes each fault to the operations 0, 1, 2, … until it does not come any more.
func sweepFaults(t *testing.T, least int64, where func(n int) at, cuts func(at) (func(int) bool, func(int, int) bool)) {
	t.Helper()
	var states atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d crash states", states.Load())
		if !t.Failed() && !testing.Short() {
			require.Greater(t, states.Load(), least)
		}
	})
	for _, name := range names(faults)[1:] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stride := 1
			if testing.Short() {
				stride = 21 // under the race detector; odd, for the policies take turns
			}
			for n := 0; ; n += stride {
				a := where(n)
				a.fault, a.n = name, n
				s := &sweep{at: a}
				s.first, s.second = cuts(a)
				s.run(t)
				states.Add(int64(s.states))
				if s.found != nil {
					t.Fatal(s.found)
				}
				if !s.fired {
					return
				}
			}
		})
	}
}

// few chooses cuts of a life with a fault: one in thirty-two, and of the recovery one in sixty-four.
func (a at) few() (first func(k int) bool, second func(k, k2 int) bool) {
	first = func(k int) bool { return (k+a.n)%32 == 0 }
	second = func(k, k2 int) bool { return (k+k2)%64 == 0 }
	return first, second
}
