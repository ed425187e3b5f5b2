package crashtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A seed is one order of operations: what fails can be looked at again.
func TestSimulation_is_reproduced(t *testing.T) {
	t.Parallel()
	seeds := uint64(40)
	if testing.Short() {
		seeds = 3
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		plan := planOf(seed)
		require.Equal(t, simulateSeed(t, plan, simBug{}, 1<<20).trace, simulateSeed(t, plan, simBug{}, 1<<20).trace, "seed %d", seed)
	}
}
