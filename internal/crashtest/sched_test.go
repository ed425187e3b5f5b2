package crashtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// sched lets one goroutine go at a time, so that a seed gives one order of operations. Every operation that
// changes the disk, every commit and every step of a client waits for its turn; when all are waiting the random
// source says whose it is. Between two turns nothing changes, which is where the power is cut.
type sched struct {
	step func(k int, op simfs.Op) error // before each operation, with its number; the error is the operation's
	pace func() time.Duration           // how long an operation takes of synctest's time; nil: none

	favored string // those whose key begins so have, of three times, two before the others; "": all are equal

	steps   sync.Mutex // held during a step: what waits for no turn may come at once
	mu      sync.Mutex
	rng     *rand.Rand
	k       int
	waiting []*turn
	arrived chan struct{} // one slot
}

// turn is one goroutine that waits.
type turn struct {
	key  string
	op   simfs.Op // Kind "" for a client, which changes nothing
	step func(k int, op simfs.Op) error
	gone chan error
}

// commitKind is the pseudo operation before rows get into the table.
const commitKind simfs.Kind = "commit"

// simulate runs f and everything it starts, and returns when all of it has ended. Time is synctest's.
func simulate(t *testing.T, rng *rand.Rand, step func(k int, op simfs.Op) error, f func(s *sched)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s := &sched{step: step, rng: rng, arrived: make(chan struct{}, 1)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			f(s)
		}()
		for s.next(done) {
		}
	})
}

// next gives one turn. False: f has ended.
func (s *sched) next(done chan struct{}) bool {
	synctest.Wait()
	t := s.pick()
	if t == nil {
		select {
		case <-done:
			return false
		case <-s.arrived:
			return true
		}
	}
	var err error
	if t.op.Kind != "" {
		err = s.take(t.op, t.step)
	}
	t.gone <- err
	if s.pace != nil {
		time.Sleep(s.pace())
	}
	return true
}

func (s *sched) pick() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return nil
	}
	slices.SortFunc(s.waiting, func(a, b *turn) int { return cmp.Compare(a.key, b.key) })
	from := s.waiting
	if s.favored != "" && s.rng.IntN(3) > 0 {
		is := func(t *turn) bool { return strings.HasPrefix(t.key, s.favored) }
		from = slices.DeleteFunc(slices.Clone(from), func(t *turn) bool { return !is(t) })
	}
	if len(from) == 0 {
		from = s.waiting
	}
	i := slices.Index(s.waiting, from[s.rng.IntN(len(from))])
	t := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return t
}

func (s *sched) take(op simfs.Op, step func(int, simfs.Op) error) error {
	s.steps.Lock()
	defer s.steps.Unlock()
	s.mu.Lock()
	op.K = s.k // among those that change something
	s.k++
	s.mu.Unlock()
	return step(op.K, op)
}

func (s *sched) wait(t *turn) error {
	t.gone = make(chan error)
	s.mu.Lock()
	s.waiting = append(s.waiting, t)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	return <-t.gone
}

// client waits for the turn of somebody who is about to call the log or the drain.
func (s *sched) client(name string) { _ = s.wait(&turn{key: "client " + name}) }

// commit waits for the turn of a commit.
func (s *sched) commit(lane string) error {
	op := simfs.Op{Kind: commitKind, Name: lane}
	return s.wait(&turn{key: string(commitKind) + lane, op: op, step: s.step})
}

// held tells whether an operation waits for its turn. The making of a directory does not: that of a tenant happens
// with a mutex held, on which another goroutine could wait outside of what synctest sees.
func held(op simfs.Op) bool { return op.Kind != simfs.Mkdir }

// hook is for the disk.
func (s *sched) hook(op simfs.Op) error {
	switch {
	case !op.Kind.Changes():
		return nil
	case !held(op):
		return s.take(op, s.step)
	}
	return s.wait(&turn{key: fmt.Sprintf("%s %s", op.Kind, stable(op.Name)), op: op, step: s.step})
}

func isState(base string) bool {
	return slices.Contains(append(slices.Clone(states), segment.Active, segment.MirrorPending), segment.State(base))
}

// stable is a path without what is random in the name of a segment.
func stable(path string) string {
	dir, base := filepath.Split(path)
	if i := strings.LastIndexByte(base, '-'); i > 0 {
		base = base[i:]
	}
	return dir + base
}
