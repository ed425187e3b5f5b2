package lake

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the positions, runs hold what sets would.
func TestRuns(t *testing.T) {
	t.Parallel()
	for range 2000 {
		var sets [2]map[int64]bool
		var have [2]runs
		for i := range sets {
			sets[i] = map[int64]bool{}
			var at []int64
			for range rand.IntN(8) {
				n := rand.Int64N(9)
				sets[i][n] = true
				at = append(at, n)
			}
			have[i] = runsOf(at)
			require.EqualValues(t, len(sets[i]), have[i].size())
		}
		both := int64(0)
		union := map[int64]bool{}
		for i, set := range sets {
			for n := range set {
				union[n] = true
				if i == 0 && sets[1][n] {
					both++
				}
			}
		}
		require.Equal(t, both, have[0].common(have[1]), "%v", have)
		all := have[0].with(have[1])
		require.EqualValues(t, len(union), all.size(), "%v", have)
		gap := int64(0)
		for union[gap] {
			gap++
		}
		at, whole := all.gap()
		require.Equal(t, gap, at, "%v", all)
		require.Equal(t, int(gap) == len(union), whole, "%v", all)
	}
}
