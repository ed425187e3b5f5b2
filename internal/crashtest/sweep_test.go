package crashtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// sweep cuts the power before operations of one life and of each recovery from it. It stops at the first state
// that breaks a promise.
type sweep struct {
	at                      // policy, seed, fault and bug; k and k2 are set for each state
	first  func(k int) bool // which cuts of the life to look at
	second func(k, k2 int) bool
	id     string // only this promise; "" all

	states int
	fired  bool // the fault came
	found  *finding
}

// finding is a state that breaks a promise.
type finding struct {
	at
	op     simfs.Op // before which the power was cut last
	broken violations
}

func (f *finding) String() string {
	return fmt.Sprintf("%s\n  before %s\n  %s", f.broken, f.op, f.at)
}

// run lives once and recovers from every cut.
func (s *sweep) run(t *testing.T) {
	t.Helper()
	cuts := s.live(t)
	for i := range cuts {
		if s.found == nil {
			s.explore(t, cuts[i])
		}
		cuts[i] = cut{} // hundreds of disks are held until their turn
	}
}

// cut is a state and the operation before which it was made.
type cut struct {
	*state
	op simfs.Op
}

// live runs the life and returns what crashes before its operations leave.
func (s *sweep) live(t *testing.T) (cuts []cut) {
	t.Helper()
	a := s.at
	a.k, a.k2 = letThrough, letThrough
	m := newMachine(bugs[s.bug].life)
	snap := func(k int, op simfs.Op) {
		if (s.first(k) || s.k == every && op.Kind == theEnd) && matters(s.policy, op) {
			a.k = k
			cuts = append(cuts, cut{m.crashed(a, s.policy, forFirst, m.client.expect(s.policy == simfs.KeepAll)), op})
		}
	}
	end := 0
	rng := a.rng(forLife)
	fault := s.hook(m, false)
	simulate(t, rng, func(k int, op simfs.Op) error {
		end = k + 1
		snap(k, op)
		return fault(op)
	}, func(sc *sched) {
		m.under(sc)
		m.live(sc, rng)
		m.disk.SetHook(nil)
	})
	snap(end, simfs.Op{K: end, Kind: theEnd})
	return cuts
}

// hook is the fault, if it is one of the life or, late, of the recovery.
func (s *sweep) hook(m *machine, late bool) simfs.Hook {
	if s.fault == "" || s.late != late {
		return func(simfs.Op) error { return nil }
	}
	fault, fired := faults[s.fault].hook(s.n)
	return func(op simfs.Op) error {
		err := fault(op)
		s.fired = s.fired || fired()
		if errors.Is(err, errLost) {
			m.catalog.lose(err)
			return nil
		}
		return err
	}
}

// theEnd is the pseudo operation after the last one.
const theEnd simfs.Kind = "end"

// matters tells whether a cut before op can leave another disk than an earlier one, or one of which more was
// promised. What is lost without a sync is the same until the next sync.
func matters(p simfs.Policy, op simfs.Op) bool {
	if p != simfs.KeepNone {
		return true
	}
	switch op.Kind {
	case simfs.Sync, simfs.SyncDir, commitKind, theEnd:
		return true
	}
	return false
}

// explore recovers from a cut, and from a second one before every operation of that recovery.
func (s *sweep) explore(t *testing.T, first cut) {
	t.Helper()
	m := first.boot(bugs[s.bug].recovery)
	var again []cut
	openedAt, end := 0, 0
	snap := func(k2 int, op simfs.Op) {
		a := first.at
		a.k2 = k2
		// kill -9, then power loss, is harsher than twice the same.
		p := simfs.KeepNone
		if s.policy != simfs.KeepAll {
			p = simfs.Policies()[a.rng(forSecond).IntN(4)]
		}
		if (s.second(a.k, k2) || s.late && op.Kind == theEnd) && matters(p, op) {
			again = append(again, cut{m.crashed(a, p, forSecond, first.expect.again(m.client, p)), op})
		}
	}
	var broken violations
	fault := s.hook(m, true)
	simulate(t, first.rng(forRecovery), func(k2 int, op simfs.Op) error {
		end = k2 + 1
		snap(k2, op)
		return fault(op)
	}, func(sc *sched) {
		m.under(sc)
		broken = m.recover(first.expect, func() { openedAt = end })
		m.disk.SetHook(nil)
	})
	snap(end, simfs.Op{K: end, Kind: theEnd})
	if !s.late {
		s.judge(first.at, first.op, broken)
	}
	shown := m.catalog.all()
	for _, c := range again {
		if s.found != nil {
			return
		}
		if c.k2 > openedAt && !s.late {
			c.expect.show(shown)
		}
		s.judge(c.at, c.op, c.boot(bugs[s.bug].recovery).recover(c.expect, func() {}))
	}
}

func (s *sweep) judge(a at, op simfs.Op, broken violations) {
	s.states++
	if len(broken.of(s.id)) > 0 && s.found == nil {
		s.found = &finding{at: a, op: op, broken: broken}
	}
}

// again is what a second crash must leave of what the first one had to.
func (e *expect) again(c *client, p simfs.Policy) *expect {
	out := &expect{sent: e.sent, must: maps.Clone(e.must), pins: c.expect(p == simfs.KeepAll).pins}
	if p == simfs.KeepAll {
		out.kill = e.kill
	}
	return out
}

// show notes rows that a recovery has shown.
func (e *expect) show(rows map[string]map[string][]int) {
	for _, segs := range rows {
		for _, ids := range segs {
			for _, id := range ids {
				if e.must[id] == "" {
					e.must[id] = "SEE-1"
				}
			}
		}
	}
}

// chosen is what the flags choose. Of four neighboring cuts of the life one is followed by a cut before every
// operation of the recovery, the others by one before every tenth. Policies and seeds, which are other lives, take
// turns; -k looks at every second cut behind that one.
func (a at) chosen() (first func(k int) bool, second func(k, k2 int) bool) {
	first = func(k int) bool { return a.k == every || a.k == k }
	second = func(k, k2 int) bool {
		all := a.k != every || (k+int(a.policy)+int(a.seed))%4 == 0
		return a.k2 == k2 || a.k2 == every && (all || (k+k2)%10 == 0)
	}
	return first, second
}

// The states that the whole sweep looks at, at the least, so that it does not shrink in silence.
const (
	leastStates = 20_000
	leastShort  = 1_500
	shortStride = 11 // -short takes one cut of the life in so many
)

// The power is cut before every operation of a life, and a second time before every operation of the recovery
// from it (see chosen), under each policy of what a disk keeps. Every promise holds in every state.
func TestSweep(t *testing.T) {
	t.Parallel()
	a, policies, err := given()
	require.NoError(t, err)
	whole := a.k == every && a.k2 == every && len(policies) == 4
	var states atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d crash states", states.Load())
		least := int64(leastStates)
		if testing.Short() {
			least = leastShort
		}
		if whole && !t.Failed() {
			require.GreaterOrEqual(t, states.Load(), least)
		}
	})
	for _, p := range policies {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			a := a
			a.policy = p
			s := &sweep{at: a}
			s.first, s.second = a.chosen()
			if testing.Short() && whole {
				s.first = func(k int) bool { return k%shortStride == 0 }
			}
			s.run(t)
			states.Add(int64(s.states))
			require.NotZero(t, s.states)
			if s.found != nil {
				t.Fatal(s.found)
			}
		})
	}
}

func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
