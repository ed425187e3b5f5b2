package wal

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// flight is one admitted request of the model.
type flight struct {
	tenant string
	n      int64
}

// Whatever the order of requests and answers: no more than max is in flight but for a body alone; a tenant with
// several requests has at most half of what the others leave; who has none is refused only for want of room; and
// nothing is remembered of who has none (T-22).
func TestShare_holds_in_any_order(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test's order
		s := share{limit: limitInFlight, max: 1000, fair: true}
		var out []flight
		for range 500 {
			if len(out) > 0 && rnd.IntN(3) == 0 {
				i := rnd.IntN(len(out))
				s.give(out[i].tenant, out[i].n)
				out[i] = out[len(out)-1]
				out = out[:len(out)-1]
				continue
			}
			f := flight{strconv.Itoa(rnd.IntN(6)), 1 + rnd.Int64N(1+rnd.Int64N(1200))}
			total, held := s.total, s.held[f.tenant]
			refused := s.take(f.tenant, f.n)
			if refused == nil {
				out = append(out, f)
				require.True(t, total == 0 || s.total <= s.max, "seed %d", seed)
				if held > 0 {
					require.LessOrEqual(t, s.held[f.tenant], s.max-s.total, "seed %d: not more than is left free", seed)
				}
			} else {
				require.Equal(t, total, s.total)
				require.Positive(t, total, "alone everything gets in")
				if held == 0 {
					require.Greater(t, total+f.n, s.max, "seed %d: refused though there was room", seed)
				}
			}
			want := map[string]int64{}
			var sum int64
			for _, o := range out {
				want[o.tenant] += o.n
				sum += o.n
			}
			require.Equal(t, want, nonNil(s.held), "seed %d", seed)
			require.Equal(t, sum, s.total)
		}
	}
}

func nonNil(m map[string]int64) map[string]int64 {
	if m == nil {
		return map[string]int64{}
	}
	return m
}

// Tenants that ask without end leave room for one more, however many they are and whoever was first: after each
// has had its answers once, a share of max/(m+1) is free, but for the grain of a request.
func TestShare_leaves_room_for_one_more(t *testing.T) {
	t.Parallel()
	for greedy := 1; greedy <= 20; greedy++ {
		rnd := rand.New(rand.NewPCG(uint64(greedy), 2)) //nolint:gosec // a test's order
		s := share{limit: limitInFlight, max: 20_000, fair: true}
		var out []flight
		ask := func(from int) {
			for i := range greedy {
				f := flight{strconv.Itoa((from + i) % greedy), 10}
				for s.take(f.tenant, f.n) == nil {
					out = append(out, f)
				}
			}
		}
		ask(0)
		for range 10 * len(out) { // answers in any order, each followed by more requests of a greedy one
			i := rnd.IntN(len(out))
			s.give(out[i].tenant, out[i].n)
			out[i] = out[len(out)-1]
			out = out[:len(out)-1]
			ask(rnd.IntN(greedy))
		}
		free := s.max - s.total
		require.GreaterOrEqual(t, free, s.max/int64(greedy+1)-10*int64(greedy), "%d greedy tenants", greedy)
		require.Nil(t, s.take("newcomer", free), "all of it is there for another")
		require.LessOrEqual(t, s.largest(), max(free, s.max/int64(greedy+1)+10))
	}
}

// Without tenancy there is one tenant, and all of the limit is for it.
func TestShare_off(t *testing.T) {
	t.Parallel()
	s := share{limit: limitWaiting, max: 3}
	for range 3 {
		require.Nil(t, s.take("default", 1))
	}
	require.Equal(t, &LimitError{Limit: limitWaiting, Used: 3, Max: 3}, s.take("default", 1))
	fair := share{limit: limitWaiting, max: 4, fair: true}
	require.Nil(t, fair.take("a", 1))
	require.Nil(t, fair.take("a", 1))
	require.Equal(t, &LimitError{Limit: limitShare, Of: limitWaiting, Used: 2, Max: 2}, fair.take("a", 1))
	require.Nil(t, fair.take("b", 1))
}
