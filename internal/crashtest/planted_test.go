package crashtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The sweep can fail: each planted bug breaks a promise in some state, and the flags that are printed with it
// lead to a state that breaks the same promise.
func TestPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("that the sweep can fail is not the race detector's to show")
	}
	t.Parallel()
	require.GreaterOrEqual(t, len(bodyOf([]int{1})), 3*512, "a row spans three sectors")
	for _, name := range names(bugs)[1:] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hunt(t, name)
			require.NotNil(t, f, "no state breaks a promise")
			t.Log(f)
			again := &sweep{at: f.at, id: bugs[name].breaks}
			again.first, again.second = f.chosen()
			again.run(t)
			require.NotNil(t, again.found, "not reproduced by %s", f.at)
			require.Equal(t, f.at, again.found.at)
		})
	}
}

// hunt sweeps until the promise is broken that the bug breaks.
func hunt(t *testing.T, name string) *finding {
	t.Helper()
	for n := 0; ; n++ {
		b := bugs[name]
		s := &sweep{at: at{policy: b.policy, seed: 1, k: every, k2: every, fault: b.fault, n: n, bug: name}, id: b.breaks}
		s.first, _ = s.chosen()
		s.second = func(k, k2 int) bool { return (k+k2)%16 == 0 }
		if s.fault != "" {
			s.first, s.second = s.few()
		}
		s.run(t)
		if s.found != nil || !s.fired {
			return s.found
		}
	}
}
