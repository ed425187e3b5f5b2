package drain

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// sweepCommand cuts the power before every operation of an operator's command, under every policy of what the disk keeps,
// then once more inside what comes next: the command again, or a drain. check sees what is left of that.
func sweepCommand(t *testing.T, least int, prepare func(w *world) (command func(*world) error, check func(*world))) {
	t.Helper()
	sweepCuts(t, least, func(t *testing.T, policy simfs.Policy, n int, _ encodings) bool {
		return cutCommand(t, policy, n, prepare)
	})
}

// cutCommand is false when the command ends before its n-th operation.
func cutCommand(t *testing.T, policy simfs.Policy, n int, prepare func(*world) (func(*world) error, func(*world))) bool {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("policy %s, cut before operation %d", policy, n)
		}
	}()
	rng := rand.New(rand.NewPCG(uint64(n), uint64(policy)))
	w := onDisk(t)
	disk := w.fs.(*simfs.FS)
	command, check := prepare(w)
	w.tables.get("events").forget = true // only that the drain doubts prevents a double
	hook, isFired := simfs.CutAt(n)
	disk.SetHook(hook)
	err := command(w)
	if !isFired() {
		require.NoError(t, err)
		return false
	}
	require.ErrorIs(t, err, simfs.ErrOff)
	disk = disk.Crash(policy, rng)
	w = w.on(t, disk)
	again, _ := simfs.CutAt(rng.IntN(60))
	disk.SetHook(again)
	if n%2 == 0 {
		_ = command(w)
	} else {
		w.die(disk)
	}
	check(w.on(t, disk.Crash(policy, rng)))
	return true
}
