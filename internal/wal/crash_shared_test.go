package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// farID separates the rows of two processes in a test.
const farID = 1 << 20

// two are processes on one machine that share a root. Each writes its own rows.
type two struct {
	disk, da, db *simfs.FS
	a, b         *history
	fsA, fsB     vfs.FS       // da and db, or with a planted mistake over them
	hours        atomic.Int64 // how far ahead the clock of b is
}

func newTwo(t *testing.T) *two {
	t.Helper()
	disk := simfs.New(nil)
	w := &two{
		disk: disk, da: disk.Process(), db: disk.Process(),
		a: &history{tb: t}, b: &history{tb: t, next: farID},
	}
	w.fsA, w.fsB = w.da, w.db
	return w
}

// verify holds a disk without an open segment against what both clients know.
func (w *two) verify(tb testing.TB, disk *simfs.FS, policyA, policyB simfs.Policy) []found {
	tb.Helper()
	segs := scan(tb, disk, "/wal")
	require.Empty(tb, temps(tb, disk), "ONE-1")
	require.Empty(tb, gaps(tb, disk), "ORD-1")
	require.Empty(tb, leases(tb, disk), "no lease is left")
	var ofA, ofB []found
	for _, s := range segs {
		if slices.Max(s.ids) <= farID {
			ofA = append(ofA, s)
		} else {
			ofB = append(ofB, s)
		}
	}
	w.a.judge(tb, ofA, policyA)
	w.b.judge(tb, ofB, policyB)
	return segs
}

// One of two processes is killed before every operation of its workload. The other looks for dead peers while the
// victim stands at that operation, and touches nothing; once it is dead it adopts; all the time it writes itself. Then
// the power goes, at once, in the middle of the adoption, or after it. OWN-1, ACK-1, ACK-2, ORD-1, ONE-1, SEE-1 for
// both.
func TestCrash_shared_sweep(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name   string
		killed bool
		run    func(t *testing.T, w *two, rng *rand.Rand, where string)
	}{
		{"nobody dies", false, peerGoesOn},
		{"peer goes on", true, peerGoesOn},
		{"peer is killed adopting", true, peerIsKilled},
		{"power goes", true, powerGoes},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for fired := true; fired; n++ {
				w := newTwo(t)
				fired = w.run(n, end.killed)
				rng := rand.New(rand.NewPCG(uint64(n), uint64(len(end.name))))
				end.run(t, w, rng, fmt.Sprintf("n=%d %s", n, end.name))
			}
			t.Logf("%d kills", n)
		})
	}
}

// run runs both. Before the n-th change of the first the second looks for dead peers, then the first is killed or
// goes on to its end. It returns false when there was no such change.
func (w *two) run(n int, killed bool) bool {
	opt := sharing(w.fsB, "/wal", "b")
	opt.MaxEvents = 6
	opt.Now = func() time.Time { return time.Now().Add(time.Duration(w.hours.Load()) * time.Hour) }
	w.b.l = open(w.b.tb, opt)
	w.b.one(WaitFor)
	var changes atomic.Int64
	w.da.SetHook(func(op simfs.Op) error {
		if !op.Kind.Changes() || changes.Add(1) != int64(n)+1 {
			return nil
		}
		w.look() // it lives, and stands just here
		if killed {
			return simfs.ErrOff
		}
		return nil
	})
	_ = w.a.runWith(sharing(w.fsA, "/wal", "a")) // the answers are in the history
	w.da.PowerOff()
	w.b.one(Auto)
	return changes.Load() > int64(n)
}

// look lets the second look for dead peers, for a long time.
func (w *two) look() {
	w.b.l.adopt(context.Background())
	w.hours.Add(1)
	w.b.l.adopt(context.Background())
}

// peerGoesOn: nothing that was answered is lost, under auto neither; and what was adopted is durable.
func peerGoesOn(t *testing.T, w *two, rng *rand.Rand, where string) {
	t.Helper()
	tb := verdict{t, where}
	w.b.l.adopt(t.Context())
	w.b.group(WaitFor, Auto)
	require.NoError(tb, w.b.l.Close(t.Context()))
	shown := w.verify(tb, w.disk, simfs.KeepAll, simfs.KeepAll)
	after := w.disk.Crash(simfs.KeepNone, rng)
	require.NoError(tb, recoverShared(t, after))
	require.Equal(tb, shown, scan(tb, after, "/wal"), "SEE-1")
}

// peerIsKilled: the adopter dies at a random operation of the adoption, a third process adopts what both left.
func peerIsKilled(t *testing.T, w *two, rng *rand.Rand, where string) {
	t.Helper()
	cut, _ := simfs.CutAt(rng.IntN(30))
	w.db.SetHook(cut)
	w.b.l.adopt(t.Context())
	kill(t, w.db, w.b.l)
	require.NoError(t, recoverShared(t, w.disk), where)
	w.verify(verdict{t, where}, w.disk, simfs.KeepAll, simfs.KeepAll)
}

// powerGoes: the machine dies in the adoption, under each policy of what a disk keeps.
func powerGoes(t *testing.T, w *two, rng *rand.Rand, where string) {
	t.Helper()
	cut, _ := simfs.CutAt(rng.IntN(30))
	w.db.SetHook(cut)
	w.b.l.adopt(t.Context())
	for _, policy := range simfs.Policies() {
		after := w.disk.Crash(policy, rng)
		again, _ := simfs.CutAt(rng.IntN(40))
		p := after.Process()
		p.SetHook(again)
		_ = recoverShared(t, p)
		p.PowerOff()
		third := after.Crash(policy, rng)
		require.NoError(t, recoverShared(t, third), where)
		w.verify(verdict{t, where + " " + policy.String()}, third, policy, policy)
	}
	kill(t, w.db, w.b.l)
}

// recoverShared is recoverOnce of a process that shares the root.
func recoverShared(tb testing.TB, disk *simfs.FS) error {
	tb.Helper()
	l, err := Open(tb.Context(), sharing(disk, "/wal", "late"))
	if err != nil {
		return err
	}
	done, cancel := context.WithCancel(tb.Context())
	cancel()
	return l.Close(done)
}

// deaf is a disk on which this process gets every lease, as on a volume whose locks do nothing.
type deaf struct{ vfs.FS }

func (d deaf) Lock(name, text string) (io.Closer, error) {
	lock, err := d.FS.Lock(name, text)
	if filepath.Base(filepath.Dir(name)) == "leases" && errors.As(err, new(*vfs.LockedError)) {
		return io.NopCloser(nil), nil
	}
	return lock, err
}

// onlooker takes note of failures in place of reporting them.
type onlooker struct {
	testing.TB
	log    bool
	failed atomic.Bool
}

func (o *onlooker) Errorf(format string, args ...any) {
	o.failed.Store(true)
	if o.log {
		o.Logf(format, args...)
	}
}

func (o *onlooker) FailNow() {
	o.failed.Store(true)
	runtime.Goexit()
}

// blind is a disk on which this process sees every lease that it has ever made, and does not see that an open segment
// was taken away.
type blind struct {
	vfs.FS

	opened *sync.Map // vfs.Info by name
}

func newBlind(fsys vfs.FS) blind { return blind{fsys, &sync.Map{}} }

func (b blind) Stat(name string) (vfs.Info, error) {
	if filepath.Base(filepath.Dir(name)) == "leases" {
		return vfs.Info{Inode: 1}, nil
	}
	if seen, ok := b.opened.Load(name); ok {
		return seen.(vfs.Info), nil
	}
	return b.FS.Stat(name)
}

func (b blind) Create(name string) (vfs.File, error) {
	f, err := b.FS.Create(name)
	if err == nil && filepath.Base(filepath.Dir(name)) == "leases" {
		err = b.FS.Link(name, name+".seen") // a second name that Open finds
	}
	if err == nil && filepath.Ext(name) == ".partial" {
		var info vfs.Info
		info, err = f.Stat()
		b.opened.Store(name, info)
	}
	return f, err
}

// Link is where a seal finds out after all.
func (b blind) Link(oldname, newname string) error {
	err := b.FS.Link(oldname, newname)
	if err != nil {
		b.opened.Delete(oldname)
	}
	return err
}

func (b blind) Open(name string) (vfs.File, error) {
	if filepath.Base(filepath.Dir(name)) == "leases" {
		name += ".seen"
	}
	return b.FS.Open(name)
}

// lockless is a volume without file locks.
type lockless struct{ vfs.FS }

func (lockless) Lock(name, _ string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "flock", Path: name, Err: syscall.ENOLCK}
}

func (l lockless) LockShared(name, text string) (io.Closer, error) { return l.Lock(name, text) }

// A peer adopts from the living, at every operation: because it gets every lease, or because there are no locks and
// it has heard nothing for long. The living look after their lease, and after the
// name of the segment, before each answer, so nothing that was answered is
// lost or doubled; where they do not, the sweep finds it. ACK-1.
func TestCrash_shared_taken_for_dead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		blind  bool
		volume func(a, b vfs.FS) (vfs.FS, vfs.FS)
	}{
		{"locks that do nothing", false, func(a, b vfs.FS) (vfs.FS, vfs.FS) { return a, deaf{b} }},
		{"locks that do nothing, nothing looked after", true, func(a, b vfs.FS) (vfs.FS, vfs.FS) { return newBlind(a), deaf{b} }},
		{"no locks", false, func(a, b vfs.FS) (vfs.FS, vfs.FS) { return lockless{a}, lockless{b} }},
		{"no locks, nothing looked after", true, func(a, b vfs.FS) (vfs.FS, vfs.FS) { return newBlind(lockless{a}), lockless{b} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			caught := 0
			for n, fired := 0, true; fired; n++ {
				w := newTwo(t)
				w.fsA, w.fsB = tc.volume(w.da, w.db)
				fired = w.run(n, false)
				w.look()
				require.NoError(t, w.b.l.Close(t.Context()))
				tb := &onlooker{TB: t, log: !tc.blind}
				var done sync.WaitGroup
				done.Go(func() { w.verify(tb, w.disk, simfs.KeepAll, simfs.KeepAll) })
				done.Wait()
				if tb.failed.Load() {
					caught++
				}
			}
			require.Equal(t, tc.blind, caught > 0, "%d violations", caught)
			t.Logf("%d violations", caught)
		})
	}
}

// Every operation of a kind fails once for one of two processes, at the lease too, and the machine goes on; then it
// crashes and a third one adopts what both have left. ACK-1, OWN-1 (T-02, T-03, T-04).
func TestCrash_shared_faults(t *testing.T) {
	t.Parallel()
	for _, fault := range []diskFault{
		{simfs.Lock, syscall.EIO},
		{simfs.Stat, syscall.EIO},
		{simfs.Create, syscall.ENOSPC},
		{simfs.Writev, syscall.ENOSPC},
		{simfs.Sync, syscall.EIO},
		{simfs.SyncDir, syscall.EIO},
		{simfs.Remove, syscall.EIO},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			for k, fired := 0, true; fired; k++ {
				w := newTwo(t)
				w.b.l = open(t, sharing(w.db, "/wal", "b"))
				w.b.one(WaitFor)
				hook, done := simfs.FailAt(k, fault.kind.Is, fault.err)
				w.da.SetHook(hook)
				_ = w.a.runWith(sharing(w.da, "/wal", "a")) // the answers are in the history
				fired = done()
				w.da.PowerOff()
				w.b.l.adopt(t.Context())
				w.b.one(WaitFor)
				for _, policy := range simfs.Policies() {
					after := w.disk.Crash(policy, rand.New(rand.NewPCG(uint64(k), uint64(policy))))
					require.NoError(t, recoverShared(t, after))
					w.verify(verdict{t, fmt.Sprintf("k=%d %s", k, policy)}, after, policy, policy)
				}
				require.NoError(t, w.b.l.Close(t.Context()))
			}
		})
	}
}
