package drain

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// The cases of the reference system (R, docs/cases.md) that have no better home.

// watch counts operations of a kind on names that a function picks.
func (w *world) watch(kind simfs.Kind, of func(op simfs.Op) bool) (count func() int) {
	w.t.Helper()
	seen := make(chan struct{}, 10_000)
	w.fs.(*simfs.FS).SetHook(func(op simfs.Op) error {
		if op.Kind == kind && of(op) {
			seen <- struct{}{}
		}
		return nil
	})
	return func() int { return len(seen) }
}

// A lane that was brought back without its directory sealed/, with what it has elsewhere, is visited and made whole.
func TestOnce_a_lane_without_sealed_R15(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	name := w.seal(spec{})
	lane := w.lane("events")
	data, err := vfs.ReadFile(w.fs, lane.Path(segment.Sealed, name))
	require.NoError(t, err)
	w.fs = simfs.New(nil)
	w.opt.FS = w.fs
	w.root, err = segment.Create(w.fs, w.dir)
	require.NoError(t, err)
	orphans := filepath.Join(w.dir, "default", "events", string(segment.Orphans))
	require.NoError(t, w.fs.MkdirAll(orphans))
	put(t, w.fs, filepath.Join(orphans, name), data)
	require.Equal(t, Report{Lanes: 1, Segments: 1, Rows: 3, Requeued: 1}, w.once())
	w.accounted()
}

// A tenant's directory may be a lane itself, as the reference system has it: what is in it and what is in <tenant>/events
// goes into one table, and neither hides the other.
func TestOnce_a_tenant_directory_that_is_a_lane_R22(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{rows: 2})
	another := segment.NewNamer([6]byte{6}) // each writer has one lane
	name := w.seal(spec{rows: 4, name: another.Next(time.Now()).FileName()})
	sealed := w.lane("events").Path(segment.Sealed, name)
	old := filepath.Join(w.dir, "default", string(segment.Sealed))
	require.NoError(t, w.fs.MkdirAll(old))
	require.NoError(t, w.fs.Rename(sealed, filepath.Join(old, name)))
	for range 2 { // the second finds both lanes bound to the table
		w.once()
	}
	w.accounted()
	w.seal(spec{})
	require.Equal(t, Report{Lanes: 2, Segments: 1, Rows: 3}, w.once())
	w.accounted()
}

// A segment that fails is claimed once in a pass of a running drain, and by Once as often as a read may fail.
func TestPass_a_failing_segment_is_claimed_few_times_R28(t *testing.T) {
	t.Parallel()
	claims := func(op simfs.Op) bool { return segment.State(filepath.Base(filepath.Dir(op.To))) == segment.Processing }
	fails := func(context.Context, []lake.Segment) error { return errors.New("no commit accepts it") }
	damage := func(b []byte) []byte { return b[:len(b)-9] }
	for name, s := range map[string]spec{"not_accepted": {}, "damaged": {mangle: damage}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			w.seal(s)
			w.tables.get("events").before = fails
			_, l := w.laneOf("events")
			count := w.watch(simfs.Link, claims)
			l.pass(t.Context(), t.Context())
			require.Equal(t, 1, count())
			l.pass(t.Context(), t.Context())
			require.Equal(t, 1, count(), "it waits")

			w = onDisk(t)
			w.seal(s)
			w.tables.get("events").before = fails
			count = w.watch(simfs.Link, claims)
			w.once()
			require.Equal(t, maxReads, count())
		})
	}
}

// What can never be drained is known by its header: another table's is set aside, a newer format's left, with one look and
// no claim, however often the drain comes by.
func TestPass_a_refusal_for_good_costs_one_look_R35(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]spec{
		"another_table": {table: uuid.New()},
		"newer_format":  {mangle: func(b []byte) []byte { b[4] = 9; return b }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			_, l := w.laneOf("events")
			w.seal(spec{})
			w.pass(l) // the table is known
			bad := w.seal(s)
			claims := w.watch(simfs.Link, func(op simfs.Op) bool { return segment.State(filepath.Base(filepath.Dir(op.To))) == segment.Processing })
			for range 5 {
				w.pass(l)
			}
			require.Zero(t, claims())
			looks := w.watch(simfs.Open, func(op simfs.Op) bool { return filepath.Base(op.Name) == bad })
			for range 5 {
				w.pass(l)
			}
			require.Zero(t, looks(), "not looked at again")
		})
	}
}

// A lane is bound to a table that was made anew, and the machine stops at any operation of that: the owner is written last, so
// the next life does it again, and no row of the old table's segments gets into the new one.
func TestSweep_bind_R38(t *testing.T) {
	t.Parallel()
	sweepCuts(t, 20, bindOnce)
}

func bindOnce(t *testing.T, policy simfs.Policy, n int, bytes encodings) (fired bool) {
	t.Helper()
	w := onDisk(t)
	w.bytes = bytes
	w.seal(spec{})
	w.once()
	w.accounted()
	for _, st := range []segment.State{segment.Sealed, segment.Sealed, segment.Orphans} {
		w.seal(spec{state: st, rows: 2}) // of the old table: unstamped
	}
	w.tables.recreate("events")
	clear(w.want)
	w.seal(spec{table: w.tables.get("events").uuid, rows: 7})
	disk := w.fs.(*simfs.FS)
	hook, isFired := simfs.CutAt(n)
	disk.SetHook(hook)
	w.die(disk)
	if !isFired() {
		return false
	}
	w = w.on(t, disk.Crash(policy, rand.New(rand.NewPCG(uint64(n), uint64(policy)))))
	r := w.once()
	require.Empty(t, r.Failures, "cut at %d", n)
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 1, segment.Stale: 4}, w.states("events"), "cut at %d", n)
	owner, err := w.lane("events").Owner()
	require.NoError(t, err)
	require.Equal(t, w.tables.get("events").uuid, owner)
	return true
}

// A lane without anything to drain is swept all the same: one that nothing comes to any more, one whose gate is shut, one
// whose commits fail, and the lane of an index like that of events.
func TestRetire_idle_lanes_R39(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]func(*world, *lane){
		"nothing_comes": func(*world, *lane) {},
		"gate_shut": func(w *world, l *lane) {
			l.d.opt.GateAge, l.d.opt.GateBytes = time.Hour*100, 1<<40
			w.seal(spec{index: l.dir.Index()})
		},
		"commits_fail": func(w *world, l *lane) {
			w.tables.get(l.dir.Index()).before = func(context.Context, []lake.Segment) error { return errors.New("refused") }
			w.seal(spec{index: l.dir.Index()})
		},
	} {
		for _, index := range []string{"events", "audit"} {
			t.Run(name+"_"+index, func(t *testing.T) {
				t.Parallel()
				w := onDisk(t)
				now := time.Now()
				w.opt.Now = func() time.Time { return now }
				w.opt.Retain = time.Minute
				for range 3 {
					w.seal(spec{index: index})
				}
				_, l := w.laneOf(index)
				w.pass(l)
				require.Equal(t, 3, w.states(index)[segment.Committed])
				busy(w, l)
				now = now.Add(time.Minute)
				l.pass(t.Context(), t.Context())
				require.Zero(t, w.states(index)[segment.Committed])
			})
		}
	}
}

// To claim a batch is one move: as many syncs for fifty segments as for one.
func TestPass_a_batch_is_claimed_at_once_R49(t *testing.T) {
	t.Parallel()
	syncs := func(segments int) int {
		w := onDisk(t)
		_, l := w.laneOf("events")
		w.pass(l)
		for range segments {
			w.seal(spec{})
		}
		count := w.watch(simfs.SyncDir, func(op simfs.Op) bool { return segment.State(filepath.Base(op.Name)) == segment.Processing })
		w.pass(l)
		require.Equal(t, segments, w.states("events")[segment.Committed])
		return count()
	}
	require.Equal(t, syncs(1), syncs(50))
}

// One of six commits fails, before or after it has landed, and the drain is started anew three times over: each row is there once.
func TestPass_one_of_six_fails_and_three_restarts_D7(t *testing.T) {
	t.Parallel()
	for name, landed := range map[string]bool{"lost": false, "landed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			table := w.tables.get("events")
			table.forget = true // nothing but the rows tells what was committed
			_, l := w.laneOf("events")
			w.pass(l) // the lane is known: what comes now is not doubtful
			for flush := range 6 {
				w.seal(spec{})
				lost := func() error {
					if flush == 3 {
						return errors.New("connection reset")
					}
					return nil
				}
				table.before, table.after = func(context.Context, []lake.Segment) error { return lost() }, nil
				if landed {
					table.before, table.after = nil, func([]lake.Segment) error { return lost() }
				}
				l.pass(t.Context(), t.Context())
				l.atOnce()
			}
			table.before, table.after = nil, nil
			w.accounted()
			w.seal(spec{})
			for range 3 {
				_, l = w.laneOf("events") // the last one has died
				w.pass(l)
				w.accounted()
			}
			require.Equal(t, map[segment.State]int{segment.Committed: 7}, w.states("events"))
		})
	}
}

// What works beside the drain, as the mirror's retention does, waits for a store that never answers: segments are committed
// all the same.
func TestRun_what_hangs_beside_holds_nothing_up_R31(t *testing.T) {
	t.Parallel()
	w, l := realWorld(t)
	hanging := make(chan struct{})
	w.opt.Beside = func(ctx context.Context, _ *lake.Lake) {
		close(hanging)
		<-ctx.Done()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, w.opt) }()
	<-hanging
	for n := range 3 {
		w.seal(spec{})
		eventually(t, func() bool { return w.states("events")[segment.Committed] == n+1 }, "commit")
	}
	cancel()
	require.NoError(t, <-done)
	w.accountedIn(l)
}
