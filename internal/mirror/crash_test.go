package mirror_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// power switches machine and network off at operation at, of the disk's and the store's together.
type power struct {
	mu   sync.Mutex
	at   int
	n    int
	done bool // the store's operation at the cut happens, and its answer is lost
	off  bool
}

func (p *power) step() (cut, off bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return false, true
	}
	if p.n++; p.n > p.at {
		p.off = true
	}
	return p.off, p.off
}

func (p *power) disk(op simfs.Op) error {
	if !op.Kind.Changes() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.off {
			return errCut
		}
		return nil
	}
	if _, off := p.step(); off {
		return errCut
	}
	return nil
}

func (p *power) store(storetest.Op) *storetest.Fault {
	cut, off := p.step()
	switch {
	case cut:
		return &storetest.Fault{Err: errCut, After: p.done}
	case off:
		return &storetest.Fault{Err: errCut}
	}
	return nil
}

// world is what is outside of the machine: the store, and what clients were told.
type world struct {
	store *storetest.Store
	sent  map[int64]bool
	acked []int64
}

// live is one life: append, pin, seal, upload, confirm, unpin, and a drain that claims, marks and retires what has no pin. It goes
// on after errors, as they all do.
func (w *world) live(t *testing.T, disk vfs.FS, segments int) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	m, err := mirror.New(mirror.Options{FS: disk, Dir: rootDir, Store: w.store, ActiveInterval: 40 * time.Millisecond, SweepInterval: 300 * time.Millisecond})
	require.NoError(t, err)
	log, err := wal.Open(ctx, wal.Options{FS: disk, Dir: rootDir, MaxAge: time.Hour, MaxBytes: 1 << 40, MinFree: 1, Mirror: m})
	if err != nil {
		return
	}
	var run sync.WaitGroup
	run.Go(func() { m.Run(ctx) })
	for range segments {
		for range 2 {
			id := int64(len(w.sent) + 1)
			w.sent[id] = true
			if _, err := log.Append(ctx, wal.Request{
				Tenant: "t", Index: "events", Schema: rowSchema, Body: batch(t, id), Rows: 1, MinTime: id, MaxTime: id, Mode: wal.WaitFor,
			}); err == nil {
				w.acked = append(w.acked, id)
			}
			time.Sleep(50 * time.Millisecond)
		}
		sealing, stop := context.WithTimeout(ctx, time.Second)
		_ = log.Seal(sealing, "t", "events")
		stop()
		drainOnce(disk)
	}
	time.Sleep(time.Second)
	drainOnce(disk)
	closing, stop := context.WithTimeout(ctx, time.Second)
	_ = log.Close(closing)
	_ = m.Flush(closing)
	stop()
	cancel()
	run.Wait()
}

// drainOnce claims, marks and retires, as the drain does with pins.
func drainOnce(disk vfs.FS) {
	root, err := segment.Open(disk, rootDir)
	if err != nil {
		return
	}
	l, err := root.Lane("t", "events")
	if err != nil {
		return
	}
	for _, step := range [][2]segment.State{{segment.Sealed, segment.Processing}, {segment.Processing, segment.Committed}} {
		if _, err := l.Move(step[0], step[1], namesIn(l, step[0])); err != nil {
			return
		}
	}
	committed := namesIn(l, segment.Committed)
	pinned := namesIn(l, segment.MirrorPending)
	_ = l.Retire(slices.DeleteFunc(committed, func(n string) bool { return slices.Contains(pinned, n) }))
}

func namesIn(l segment.Lane, st segment.State) (names []string) {
	entries, _, err := l.List(st)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// check holds the store against what was sent: MIR-1 each object is whole and its rows are in no other one; at the end of a
// recovery all that was acknowledged is there.
func (w *world) check(t *testing.T, all bool) (wrong []string) {
	t.Helper()
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	seen := map[int64]string{}
	for name, body := range w.store.Objects() {
		if strings.HasPrefix(name, "_active/") && all {
			note("%s is left", name)
		}
		if !strings.HasSuffix(name, ".arrow") {
			continue
		}
		for _, id := range rows(t, body) {
			if !w.sent[id] || seen[id] != "" {
				note("row %d is in %s, sent %t, and in %q", id, name, w.sent[id], seen[id])
			}
			seen[id] = name
		}
	}
	for _, id := range w.acked {
		if all && seen[id] == "" {
			note("acknowledged row %d is not in the mirror", id)
		}
	}
	return wrong
}

// checkPins: PIN-1, what a pin keeps after a crash reads whole.
func checkPins(t *testing.T, disk vfs.FS) {
	t.Helper()
	root, err := segment.Open(disk, rootDir)
	if err != nil {
		return
	}
	l, err := root.Lane("t", "events")
	require.NoError(t, err)
	for _, name := range namesIn(l, segment.MirrorPending) {
		f, err := disk.Open(l.Path(segment.MirrorPending, name))
		require.NoError(t, err)
		require.NotEmpty(t, rows(t, content(t, f)))
	}
}

// PIN-1, MIR-1, D8: the machine is cut off before each operation of disk and store in append, pin, seal, upload, confirm,
// unpin, claim, mark and retire, under each policy; what was put at the cut is there or not. After the next life every
// acknowledged row is in the mirror once, no pin is left, and no beginning of an open segment.
func TestCrash_D8_sweep(t *testing.T) {
	t.Parallel()
	for _, policy := range []simfs.Policy{simfs.KeepNone, simfs.KeepPrefix, simfs.KeepAny, simfs.KeepAll} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %t", policy, done), func(t *testing.T) {
				t.Parallel()
				cuts := 0
				for k := 0; ; k++ {
					cut, wrong := sweepAt(t, honest, policy, k, done)
					require.Empty(t, wrong, "cut at %d", k)
					if !cut {
						break
					}
					cuts++
				}
				require.Greater(t, cuts, 60)
			})
		}
	}
}

// The sweep can fail: it finds a pin that is not synced, and a disk that drops the pin where it was to be kept.
func TestCrash_sweep_finds_planted_bugs(t *testing.T) {
	if testing.Short() {
		t.Skip("that the sweep can fail is not the race detector's to show")
	}
	t.Parallel()
	for name, plant := range map[string]func(vfs.FS) vfs.FS{
		"the pin is not synced": func(f vfs.FS) vfs.FS { return unsyncedPins{f} },
		"no pin is made":        func(f vfs.FS) vfs.FS { return noPins{f} },
	} {
		found := false
		for k := 0; !found; k++ {
			cut, wrong := sweepAt(t, plant, simfs.KeepNone, k, false)
			found = len(wrong) > 0
			require.True(t, cut || found, "%s: not found by %d cuts", name, k)
		}
	}
}

func honest(f vfs.FS) vfs.FS { return f }

// unsyncedPins does not sync mirror-pending/.
type unsyncedPins struct{ vfs.FS }

func (u unsyncedPins) SyncDir(dir string) error {
	if base(dir) == string(segment.MirrorPending) {
		return nil
	}
	return u.FS.SyncDir(dir)
}

// noPins says that a pin was made.
type noPins struct{ vfs.FS }

func (n noPins) Link(from, to string) error {
	if base(dir(to)) == string(segment.MirrorPending) {
		return nil
	}
	return n.FS.Link(from, to)
}

// sweepAt is one cut and the life after it; cut is false when the life ends before operation k.
func sweepAt(t *testing.T, plant func(vfs.FS) vfs.FS, policy simfs.Policy, k int, done bool) (cut bool, wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: &storetest.Store{}, sent: map[int64]bool{}}
		disk := simfs.New(nil)
		p := &power{at: k, done: done}
		disk.SetHook(p.disk)
		w.store.SetHook(p.store)
		w.live(t, plant(disk), 2)
		cut = p.off
		wrong = w.check(t, false)
		after := disk.Crash(policy, seed(uint64(k)))
		checkPins(t, after)
		w.store.SetHook(nil)
		w.live(t, after, 1)
		wrong = append(wrong, w.check(t, true)...)
		root, err := segment.Open(after, rootDir)
		require.NoError(t, err)
		l, err := root.Lane("t", "events")
		require.NoError(t, err)
		for _, name := range namesIn(l, segment.MirrorPending) {
			wrong = append(wrong, "pin left: "+name)
		}
	})
	return cut, wrong
}
