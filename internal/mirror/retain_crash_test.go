package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// lakeWorld is a world with tables and a retention. What is deleted is held against them at once.
type lakeWorld struct {
	world

	tables tables
	plant  retentionBug
	wrong  []string
	wrongs sync.Mutex
}

// retentionBug is a mistake of a retention.
type retentionBug struct {
	store  func(objstore.Store) objstore.Store
	tables func(*lakeWorld) mirrorTables
}

type mirrorTables func(context.Context, string, string, []segment.ID) (map[segment.ID]int64, error)

func (w *lakeWorld) note(format string, args ...any) {
	w.wrongs.Lock()
	defer w.wrongs.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// watched is the store of the retention: what goes through it must be proved, and the open segment's copy gone.
type watched struct {
	objstore.Store
	w *lakeWorld
}

func (s watched) Delete(ctx context.Context, k string) error {
	there := s.w.store.Objects()
	name := k[strings.LastIndexByte(k, '/')+1:]
	id, _, err := segment.ParseName(name)
	if err != nil {
		s.w.note("%s is deleted and is no segment", k)
	}
	s.w.tables.mu.Lock()
	have := s.w.tables.rows[id]
	s.w.tables.mu.Unlock()
	if body, ok := there[k]; ok {
		if n := int64(len(rowsOf(body))); have < n {
			s.w.note("%s is deleted with %d of %d rows in the table", k, have, n)
		}
	}
	if _, open := there[activeKey(id)]; open && k == key(id) {
		s.w.note("%s is deleted before %s", k, activeKey(id))
	}
	return s.Store.Delete(ctx, k)
}

// stubborn does not let the uploader delete, as a store may that gives it no right to.
type stubborn struct{ objstore.Store }

func (stubborn) Delete(context.Context, string) error { return errors.New("AccessDenied") }

// live is one life as world.live, with a drain that commits to the tables, and a retention until all is over.
func (w *lakeWorld) live(t *testing.T, disk vfs.FS, segments int) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	m, err := mirror.New(mirror.Options{FS: disk, Dir: rootDir, Store: stubborn{w.store}, ActiveInterval: 40 * time.Millisecond})
	require.NoError(t, err)
	log, err := wal.Open(ctx, wal.Options{FS: disk, Dir: rootDir, MaxAge: time.Hour, MaxBytes: 1 << 40, MinFree: 1, Mirror: m})
	if err != nil {
		return
	}
	mirroring, done := context.WithCancel(ctx)
	defer done()
	var run, copying sync.WaitGroup
	copying.Go(func() { m.Run(mirroring) })
	run.Go(func() { w.retain(ctx, disk) })
	for range segments {
		id := int64(len(w.sent) + 1)
		w.sent[id] = true
		if _, err := log.Append(ctx, wal.Request{
			Tenant: "t", Index: "events", Schema: rowSchema, Body: batch(t, id), Rows: 1, MinTime: id, MaxTime: id, Mode: wal.WaitFor,
		}); err == nil {
			w.acked = append(w.acked, id)
		}
		time.Sleep(100 * time.Millisecond)
		sealing, stop := context.WithTimeout(ctx, time.Second)
		_ = log.Seal(sealing, "t", "events")
		stop()
		w.commit(disk)
	}
	time.Sleep(time.Second)
	closing, stop := context.WithTimeout(ctx, time.Second)
	_ = log.Close(closing)
	_ = m.Flush(closing)
	stop()
	done()
	copying.Wait()
	w.commit(disk)
	time.Sleep(2*mirror.LeastKeep + time.Second) // the compactor goes on alone
	cancel()
	run.Wait()
}

func (w *lakeWorld) retain(ctx context.Context, disk vfs.FS) {
	root, err := segment.Open(disk, rootDir)
	if err != nil {
		return
	}
	var store objstore.Store = watched{w.store, w}
	committed := mirrorTables(w.tables.committed)
	if w.plant.store != nil {
		store = w.plant.store(store)
	}
	if w.plant.tables != nil {
		committed = w.plant.tables(w)
	}
	r, err := mirror.NewRetention(mirror.RetentionOptions{Store: store, Keep: mirror.LeastKeep})
	if err == nil {
		r.Run(ctx, root, committed)
	}
}

// commit claims, commits to the tables, marks and retires what has no pin.
func (w *lakeWorld) commit(disk vfs.FS) {
	root, err := segment.Open(disk, rootDir)
	if err != nil {
		return
	}
	l, err := root.Lane("t", "events")
	if err != nil {
		return
	}
	if _, err := l.Move(segment.Sealed, segment.Processing, namesIn(l, segment.Sealed)); err != nil {
		return
	}
	for _, name := range namesIn(l, segment.Processing) {
		f, err := disk.Open(l.Path(segment.Processing, name))
		if err != nil {
			return
		}
		info, err := f.Stat()
		body := make([]byte, info.Size)
		if err == nil {
			_, err = f.ReadAt(body, 0)
		}
		_ = f.Close()
		id, _, perr := segment.ParseName(name)
		if err != nil || perr != nil {
			return
		}
		w.tables.set(int64(len(rowsOf(body))), id)
	}
	drainOnce(disk)
}

// BND-1, RET-1: machine and network are cut off before each operation of disk and store in append, pin, seal, upload,
// confirm, unpin, commit, retire and deletion from the mirror. No object goes that its table does not show, none before
// the copy of the open segment; after the next life nothing is left in the mirror nor on the volume, and all that was
// acknowledged is in the table. Where the volume is lost at the cut, what the tables do not have is in the mirror, and is
// restored from there.
func TestCrash_retention_sweep(t *testing.T) {
	t.Parallel()
	stride := 1
	if testing.Short() { // under the race detector
		stride = 5
	}
	for _, policy := range []simfs.Policy{simfs.KeepNone, simfs.KeepPrefix, simfs.KeepAny, simfs.KeepAll} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %t", policy, done), func(t *testing.T) {
				t.Parallel()
				k := 0
				for ; ; k += stride {
					cut, wrong := retentionAt(t, retentionBug{}, cutAt{policy: policy, k: k, done: done})
					require.Empty(t, wrong, "cut at %d", k)
					if !cut {
						break
					}
				}
				require.Greater(t, k, 60)
			})
		}
	}
	t.Run("volume lost", func(t *testing.T) {
		t.Parallel()
		for k := 0; ; k += stride {
			cut, wrong := retentionAt(t, retentionBug{}, cutAt{k: k, done: true, lost: true})
			require.Empty(t, wrong, "cut at %d", k)
			if !cut {
				break
			}
		}
	})
}

// cutAt is where a life ends, and what is left of its disk.
type cutAt struct {
	policy simfs.Policy
	k      int
	done   bool
	lost   bool // nothing
}

// The sweep can fail.
func TestCrash_retention_sweep_finds_planted_bugs(t *testing.T) {
	if testing.Short() {
		t.Skip("that the sweep can fail is not the race detector's to show")
	}
	t.Parallel()
	for name, bug := range map[string]retentionBug{
		"all is taken for committed": {tables: func(*lakeWorld) mirrorTables {
			return func(_ context.Context, _, _ string, ids []segment.ID) (map[segment.ID]int64, error) {
				out := map[segment.ID]int64{}
				for _, id := range ids {
					out[id] = math.MaxInt64
				}
				return out, nil
			}
		}},
		"the whole one goes first":                 {store: func(s objstore.Store) objstore.Store { return &reversed{Store: s} }},
		"the copy of the open segment is left":     {store: func(s objstore.Store) objstore.Store { return withoutActive{s} }},
		"a deletion that was not done is believed": {store: func(s objstore.Store) objstore.Store { return liar{s} }},
	} {
		found := false
		for k := 0; !found; k++ {
			cut, wrong := retentionAt(t, bug, cutAt{policy: simfs.KeepNone, k: k, lost: bug.tables != nil})
			found = len(wrong) > 0
			require.True(t, cut || found, "%s: not found by %d cuts", name, k)
		}
	}
}

// reversed deletes the copy of an open segment after the whole one.
type reversed struct {
	objstore.Store
	mu   sync.Mutex
	late []string
}

func (r *reversed) Delete(ctx context.Context, k string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasPrefix(k, "_active/") {
		r.late = append(r.late, k)
		return nil
	}
	err := r.Store.Delete(ctx, k)
	for _, k := range r.late {
		err = errors.Join(err, r.Store.Delete(ctx, k))
	}
	r.late = nil
	return err
}

type withoutActive struct{ objstore.Store }

func (s withoutActive) Delete(ctx context.Context, k string) error {
	if strings.HasPrefix(k, "_active/") {
		return nil
	}
	return s.Store.Delete(ctx, k)
}

type liar struct{ objstore.Store }

func (liar) Delete(context.Context, string) error { return nil }

// retentionAt is one cut and the life after it; cut is false when the life ends before operation k.
func retentionAt(t *testing.T, bug retentionBug, at cutAt) (cut bool, wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &lakeWorld{world: world{store: &storetest.Store{}, sent: map[int64]bool{}}, plant: bug}
		disk := simfs.New(nil)
		p := &power{at: at.k, done: at.done}
		disk.SetHook(p.disk)
		w.store.SetHook(p.store)
		w.live(t, disk, 2)
		cut = p.off
		after := disk.Crash(at.policy, seed(uint64(at.k)))
		w.store.SetHook(nil)
		if at.lost {
			after, w.acked = simfs.New(nil), nil
			w.live(t, after, 1)
			_, err := mirror.Restore(t.Context(), mirror.RestoreOptions{FS: after, Dir: rootDir, Store: w.store})
			if _, none := errors.AsType[*mirror.NoMirrorError](err); !none {
				require.NoError(t, err)
			}
		}
		w.live(t, after, 1)
		w.settled(t, after, at.policy)
		wrong = w.wrong
	})
	return cut, wrong
}

// settled looks at what is left at rest.
func (w *lakeWorld) settled(t *testing.T, disk vfs.FS, policy simfs.Policy) {
	t.Helper()
	for k := range w.store.Objects() {
		if k != "siglake-mirror.json" {
			w.note("%s is left in the mirror", k)
		}
	}
	root, err := segment.Open(disk, rootDir)
	require.NoError(t, err)
	l, err := root.Lane("t", "events")
	require.NoError(t, err)
	for _, st := range []segment.State{segment.MirrorPending, segment.Sealed, segment.Processing, segment.Committed, segment.Poison} {
		for _, name := range namesIn(l, st) {
			if st == segment.Poison && strings.HasSuffix(name, ".partial") && policy == simfs.KeepAny {
				continue // of a write that nobody was told of the power kept the end and not the beginning: set aside, as it should be
			}
			w.note("%s/%s is left on the volume", st, name)
		}
	}
	if _, err := disk.Stat(rootDir + "/" + segment.RetentionName + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
		w.note("a temporary file is left: %v", err)
	}
	var have int64
	for _, n := range w.tables.rows {
		have += n
	}
	if have < int64(len(w.acked)) {
		w.note("%d rows in the table, %d acknowledged", have, len(w.acked))
	}
}
