package drain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// TestSweep_power_loss_A6 cuts the power before every operation k of a drain that has orphans, damage, a partial and
// two tables to see to, under every policy of what the disk keeps; then once more inside the next life; and lets a
// third life finish. The table's proof remembers nothing, so that only what the drain itself knows prevents a
// double. LAKE-1, ONE-1, LOUD-1.
func TestSweep_power_loss_A6(t *testing.T) {
	t.Parallel()
	sweepCuts(t, 50, sweepOne)
}

// stride is the step of this package's sweeps of operations: 1, and in the race detector's run 7, for it is the same goroutines
// that are cut at each. Odd, as what comes after a cut takes turns.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// sweepCuts cuts before the operations 0, 1, 2, … until one does not come, which is after more than least, under every policy of
// what the disk keeps.
func sweepCuts(t *testing.T, least int, cut func(t *testing.T, policy simfs.Policy, n int, bytes encodings) (fired bool)) {
	t.Helper()
	for _, policy := range simfs.Policies() {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			n, bytes := 0, make(encodings)
			for cut(t, policy, n, bytes) {
				n += stride()
			}
			require.Greater(t, n, least)
			t.Logf("%d cuts", n/stride())
		})
	}
}

func sweepOne(t *testing.T, policy simfs.Policy, n int, bytes encodings) (fired bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("policy %s, cut before operation %d", policy, n)
		}
	}()
	rng := rand.New(rand.NewPCG(uint64(n), uint64(policy)))
	w := onDisk(t)
	w.bytes = bytes
	disk := w.fs.(*simfs.FS)
	w.tables.get("events").forget = true
	bad := w.busy()
	hook, isFired := simfs.CutAt(n)
	disk.SetHook(hook)
	w.die(disk)
	if !isFired() {
		return false
	}
	// The second life dies too, somewhere.
	disk = disk.Crash(policy, rng)
	w = w.on(t, disk)
	again, _ := simfs.CutAt(rng.IntN(60))
	disk.SetHook(again)
	w.die(disk)
	// The third one lives.
	w = w.on(t, disk.Crash(policy, rng))
	r := w.once()
	require.Empty(t, r.Failures)
	w.accounted()
	require.Equal(t, []string{bad}, w.in("events", segment.Poison))
	require.Equal(t, map[segment.State]int{segment.Committed: 4, segment.Poison: 1}, w.states("events"))
	require.Empty(t, w.strays())
	return true
}

// busy seals what a drain can meet and returns the name of the damaged segment.
func (w *world) busy() string {
	w.seal(spec{state: segment.Processing})
	w.seal(spec{})
	w.seal(spec{partial: true})
	w.seal(spec{})
	w.seal(spec{index: "other"})
	bad := w.seal(spec{mangle: func(b []byte) []byte { return b[:len(b)-3] }})
	id, _, err := segment.ParseName(bad)
	require.NoError(w.t, err)
	delete(w.want, id.String())
	return bad
}

// die runs a drain that the machine is switched off under. Its commits end with it.
func (w *world) die(disk *simfs.FS) {
	w.t.Helper()
	w.tables.mu.Lock()
	for _, table := range w.tables.tables {
		table.before = func(context.Context, []lake.Segment) error {
			if _, err := disk.Stat("/"); errors.Is(err, simfs.ErrOff) {
				return errors.New("dead")
			}
			return nil
		}
	}
	w.tables.mu.Unlock()
	_, err := once(w.t.Context(), w.options(), w.tables)
	if err != nil {
		require.ErrorIs(w.t, err, simfs.ErrOff)
	}
	for _, table := range w.tables.tables {
		table.before = nil
	}
}

// on is the same world on the disk that a crash left.
func (w *world) on(t *testing.T, disk *simfs.FS) *world {
	t.Helper()
	next := *w
	next.fs, next.opt.FS = disk, disk
	var err error
	next.root, err = segment.Open(disk, w.dir)
	require.NoError(t, err)
	return &next
}

// strays are the files in the lanes that are no segment and no record.
func (w *world) strays() []string {
	w.t.Helper()
	lanes, strays, err := w.root.Lanes()
	require.NoError(w.t, err)
	for _, l := range lanes {
		for _, st := range []segment.State{segment.Sealed, segment.Processing, segment.Committed, segment.Orphans, segment.Poison} {
			_, found, err := l.List(st)
			require.NoError(w.t, err)
			for _, name := range found {
				strays = append(strays, fmt.Sprint(l.Path(st, name)))
			}
		}
	}
	return strays
}

// TestSweep_faults fails single operations instead: the drain goes on, and what it could not do it does later.
func TestSweep_faults(t *testing.T) {
	t.Parallel()
	kinds := []simfs.Kind{
		simfs.Link, simfs.Remove, simfs.SyncDir, simfs.List, simfs.Stat, simfs.OpenRW, simfs.Touch,
		simfs.Rename, simfs.Create, simfs.Sync, simfs.Mkdir, simfs.Open, simfs.FileStat,
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			bytes := make(encodings)
			for n := 0; ; n += stride() {
				w := onDisk(t)
				w.bytes = bytes
				w.tables.get("events").forget = true
				w.busy()
				hook, fired := simfs.FailAt(n, kind.Is, errors.New("injected"))
				w.fs.(*simfs.FS).SetHook(hook)
				_, _ = once(t.Context(), w.options(), w.tables) // fails or not: what counts is the next
				if !fired() {
					break
				}
				_, err := once(t.Context(), w.options(), w.tables)
				require.NoError(t, err)
				w.accounted()
				require.Equal(t, map[segment.State]int{segment.Committed: 4, segment.Poison: 1}, w.states("events"), "%s %d", kind, n)
			}
		})
	}
}
