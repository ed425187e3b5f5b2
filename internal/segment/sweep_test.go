package segment_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// seeds is how many disks are drawn per cut. KeepNone and KeepAll draw only where the recovery is cut. Four of
// KeepAny find each planted bug of TestSweep_finds_planted_bugs.
func seeds(p simfs.Policy) uint64 {
	switch p {
	case simfs.KeepAny:
		return 16
	case simfs.KeepPrefix:
		return 8
	default:
		return 6
	}
}

// scene is one event of the life cycle, cut and faulted everywhere.
type scene struct {
	name  string
	start segment.State // where the segments are
	count int
	// event runs what is tested. It may be called again after a fault.
	event func(s *simfs.FS, l segment.Lane, names []string) error
	// done lists where the segments are, as where does, once the event has returned nil.
	done []string
	// gone tells that the event deletes: after a crash a segment may be in start or nowhere.
	gone []int
	// salvages tells that the event leaves a beginning of each segment in sealed/ and keeps the original.
	salvages bool
	// stamps tells that the event leaves a copy of each segment for newTable in sealed/.
	stamps bool
}

// holds is what a segment has in a state.
func (sc scene) holds(st segment.State, id segment.ID) string {
	if sc.salvages && st == segment.Sealed {
		return beginning(id)
	}
	if sc.stamps && st == segment.Sealed {
		return stamped(id)
	}
	return body(id)
}

// stamped is a segment as one of newTable.
func stamped(id segment.ID) string {
	file, err := frame.Stamp([]byte(body(id)), newTable)
	if err != nil {
		panic(err)
	}
	return string(file)
}

// beginning is what is salvaged of a segment.
func beginning(id segment.ID) string { return body(id)[:1000] }

var (
	oldTable = uuid.MustParse("11111111-2222-4333-8444-555555555555")
	newTable = uuid.MustParse("99999999-2222-4333-8444-555555555555")
	decided  = segment.Into{Table: newTable, Time: time.Unix(1_700_000_002, 0).UTC(), By: "test"}
	lost     = segment.Note{Reason: "rows from 7 on", Attempts: 3, Time: time.Unix(1_700_000_001, 0).UTC()}
	note     = segment.Note{Reason: "bytes 52 to 60: length", Attempts: 3, Time: time.Unix(1_700_000_000, 0).UTC()}
)

func move(from, to segment.State) func(*simfs.FS, segment.Lane, []string) error {
	return func(_ *simfs.FS, l segment.Lane, names []string) error {
		_, err := l.Move(from, to, names)
		return err
	}
}

func each(do func(l segment.Lane, name string) error) func(*simfs.FS, segment.Lane, []string) error {
	return func(_ *simfs.FS, l segment.Lane, names []string) error {
		for _, name := range names {
			if err := do(l, name); err != nil {
				return err
			}
		}
		return nil
	}
}

func scenes() []scene {
	in := func(st segment.State) []string {
		return []string{string(st) + "/0.arrow", string(st) + "/1.arrow", string(st) + "/2.arrow"}
	}
	return []scene{
		{name: "claim", start: segment.Sealed, count: 3, event: move(segment.Sealed, segment.Processing), done: in(segment.Processing)},
		{name: "mark", start: segment.Processing, count: 3, event: move(segment.Processing, segment.Committed), done: in(segment.Committed)},
		{name: "release", start: segment.Processing, count: 3, event: move(segment.Processing, segment.Sealed), done: in(segment.Sealed)},
		{name: "set apart", start: segment.Processing, count: 3, event: move(segment.Processing, segment.Orphans), done: in(segment.Orphans)},
		{name: "requeue", start: segment.Orphans, count: 3, event: move(segment.Orphans, segment.Sealed), done: in(segment.Sealed)},
		{
			name: "claim and mark", start: segment.Sealed, count: 2,
			event: func(s *simfs.FS, l segment.Lane, names []string) error {
				return errors.Join(move(segment.Sealed, segment.Processing)(s, l, names), move(segment.Processing, segment.Committed)(s, l, names))
			},
			done: in(segment.Committed)[:2],
		},
		{
			name: "seal", start: segment.Active, count: 2, event: each(func(l segment.Lane, name string) error { _, err := l.Seal(name); return err }),
			done: []string{"sealed/0.arrow", "sealed/1.arrow"},
		},
		{
			name: "quarantine", start: segment.Processing, count: 2,
			event: each(func(l segment.Lane, name string) error { return l.Quarantine(segment.Processing, name, note) }),
			done:  []string{"poison/0.arrow", "poison/1.arrow"},
		},
		{
			name: "quarantine of an open one", start: segment.Active, count: 1,
			event: each(func(l segment.Lane, name string) error { return l.Quarantine(segment.Active, name, note) }),
			done:  []string{"poison/0.arrow.partial"},
		},
		{
			name: "stale", start: segment.Processing, count: 2,
			event: each(func(l segment.Lane, name string) error { return l.MoveStale(segment.Processing, name, oldTable) }),
			done:  []string{"stale/" + oldTable.String() + "/0.arrow", "stale/" + oldTable.String() + "/1.arrow"},
		},
		{
			name: "requeue from poison", start: segment.Poison, count: 3,
			event: each(func(l segment.Lane, name string) error { _, err := l.Requeue(name); return err }),
			done:  in(segment.Sealed),
		},
		{
			name: "salvage", start: segment.Poison, count: 2, salvages: true,
			event: each(func(l segment.Lane, name string) error {
				id, _, err := segment.ParseName(name)
				if err == nil {
					_, err = l.Salvage(name, []byte(beginning(id)), lost)
				}
				return err
			}),
			done: in(segment.Sealed)[:2],
		},
		{
			name: "requeue from stale", start: segment.Stale, count: 2, stamps: true,
			event: each(func(l segment.Lane, name string) error {
				id, _, err := segment.ParseName(path.Base(name))
				if err == nil {
					_, err = l.RequeueStale(name, []byte(stamped(id)), decided)
				}
				return err
			}),
			done: in(segment.Sealed)[:2],
		},
		{
			name: "discard", start: segment.Orphans, count: 3, gone: []int{0, 2},
			event: func(_ *simfs.FS, l segment.Lane, names []string) error {
				return errors.Join(l.Discard(names[0]), l.Discard(names[2]))
			},
			done: []string{"orphans/1.arrow"},
		},
		{
			name: "retire", start: segment.Committed, count: 3, gone: []int{0, 2},
			event: func(_ *simfs.FS, l segment.Lane, names []string) error { return l.Retire([]string{names[0], names[2]}) },
			done:  []string{"committed/1.arrow"},
		},
		{
			name: "owner and head", start: segment.Sealed, count: 1,
			event: func(_ *simfs.FS, l segment.Lane, _ []string) error {
				return errors.Join(l.WriteOwner(newTable), l.WriteHead(segment.Head{Table: newTable, Sequence: 2}))
			},
			done: []string{"sealed/0.arrow"},
		},
	}
}

// stage is a disk before the event: everything durable, each segment pinned, an old owner and head.
func (sc scene) stage(t *testing.T) (*simfs.FS, segment.Lane, []segment.ID, []string) {
	t.Helper()
	s, l := simLane(t)
	all := ids(sc.count)
	from := sc.start
	if from == segment.Poison || from == segment.Stale {
		from = segment.Sealed
	}
	names := placeAll(t, s, l, from, all)
	for i, name := range names {
		switch sc.start {
		case segment.Poison:
			require.NoError(t, l.Quarantine(from, name, note))
		case segment.Stale:
			require.NoError(t, l.MoveStale(from, name, oldTable))
			names[i] = oldTable.String() + "/" + name
		}
	}
	for i, id := range all {
		require.NoError(t, s.Link(l.Path(sc.start, names[i]), l.Path(segment.MirrorPending, id.FileName())))
	}
	require.NoError(t, s.SyncDir(l.Dir(segment.MirrorPending)))
	require.NoError(t, l.WriteOwner(oldTable))
	require.NoError(t, l.WriteHead(segment.Head{Table: oldTable, Sequence: 1}))
	return s, l, all, names
}

// Every event cut before every operation, under every policy, then recovered with one more crash inside the
// recovery: no id is lost, one state per id, bytes as they were, no temporary file, pins untouched, records old
// or new (ONE-1, LOUD-1, RET-1). An event that returned nil is durable.
func TestSweep_crash(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	for _, sc := range scenes() {
		t.Run(strings.ReplaceAll(sc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			tried, err := sweep(t, sc)
			require.NoError(t, err)
			require.Greater(t, tried, 100)
			t.Logf("%d crash states", tried)
		})
	}
}

// sweep returns the first violation and how many crash states it looked at.
func sweep(t *testing.T, sc scene) (tried int, err error) {
	t.Helper()
	for k := 0; ; k++ {
		s, l, all, names := sc.stage(t)
		hook, fired := simfs.CutAt(k)
		s.SetHook(hook)
		eventErr := sc.event(s, l, names)
		complete := !fired()
		if complete {
			require.NoError(t, eventErr)
		} else {
			require.ErrorIs(t, eventErr, simfs.ErrOff)
		}
		for _, p := range simfs.Policies() {
			for n := range seeds(p) {
				tried++
				if err := sc.crash(t, s, all, p, n, complete); err != nil {
					return tried, fmt.Errorf("cut before operation %d, %s, seed %d: %w", k, p, n, err)
				}
			}
		}
		if complete {
			return tried, nil
		}
	}
}

// crash looks at one disk: crashed, recovered in part, crashed again, recovered for good.
func (sc scene) crash(t *testing.T, s *simfs.FS, all []segment.ID, p simfs.Policy, n uint64, complete bool) error {
	t.Helper()
	rng := seed(n)
	after := s.Crash(p, rng)
	if err := sc.checkDone(t, after, all, complete && p == simfs.KeepNone); err != nil {
		return err
	}
	hook, fired := simfs.CutAt(rng.IntN(14))
	after.SetHook(hook)
	if err := recoverLane(after); !fired() && err != nil {
		return fmt.Errorf("first recovery: %w", err)
	}
	// kill -9, then power loss, is harsher than twice the same.
	second := map[simfs.Policy]simfs.Policy{simfs.KeepAll: simfs.KeepNone, simfs.KeepPrefix: simfs.KeepAll}
	p2, ok := second[p]
	if !ok {
		p2 = p
	}
	final := after.Crash(p2, rng)
	if err := recoverLane(final); err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	l, err := reopen(final)
	if err != nil {
		return err
	}
	return errors.Join(sc.checkStates(t, final, l, all, complete), sc.checkKept(t, final, l, all), sc.checkRecords(l, complete),
		sc.checkDecision(l, complete), checkPins(t, final, l, all), noTemps(final))
}

// recoverLane is what a writer and a drain do to a lane at their start.
func recoverLane(s *simfs.FS) error {
	l, err := reopen(s)
	if err != nil {
		return err
	}
	if err := l.Prepare(); err != nil {
		return err
	}
	if _, err := l.Resolve(segment.ByWriter); err != nil {
		return err
	}
	_, err = l.Resolve(segment.ByDrain)
	return err
}

// A fault at any operation, then the same event again: done, as if nothing had been; durable.
func TestSweep_fault(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	for _, sc := range scenes() {
		t.Run(strings.ReplaceAll(sc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for k := 0; ; k++ {
				s, l, all, names := sc.stage(t)
				hook, fired := simfs.FailAt(k, simfs.Kind.Changes, syscall.EIO)
				s.SetHook(hook)
				err := sc.event(s, l, names)
				if !fired() {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, syscall.EIO, "fault at %d is told", k)
				require.NoError(t, sc.event(s, l, names), "again, after a fault at %d", k)
				for _, p := range simfs.Policies() {
					require.NoError(t, sc.crash(t, s, all, p, uint64(k), true), "fault at %d, %s", k, p)
				}
			}
		})
	}
}
