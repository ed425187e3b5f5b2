package crashtest

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

const root = "/wal"

// machine is a disk, what is beside it, and who uses it.
type machine struct {
	disk    *simfs.FS
	fs      vfs.FS // disk as the product sees it
	catalog *catalog
	clock   *clock
	client  *client

	retiredMu sync.Mutex
	retired   []string // paths in committed/ that were unlinked, or were about to be
}

// scripts are what three clients send, each in its order: two to one lane, one to another.
func scripts() (all []sent, of [][]int) {
	id := 0
	add := func(lane string, mode wal.Mode, rows int) int {
		s := sent{lane: lane, mode: mode}
		for range rows {
			id++
			s.ids = append(s.ids, id)
		}
		all = append(all, s)
		return len(all) - 1
	}
	of = [][]int{
		{add("a", wal.WaitFor, 2), add("a", wal.Auto, 1), add("a", wal.WaitFor, 1), add("a", wal.Auto, 2)},
		{add("a", wal.Auto, 1), add("a", wal.Auto, 1), add("a", wal.WaitFor, 1)},
		{add("b", wal.Auto, 2), add("b", wal.Auto, 3), add("b", wal.WaitFor, 1)},
	}
	return all, of
}

// maxEvents is how many rows fill a segment.
const maxEvents = 4

func newMachine(wrap func(vfs.FS) vfs.FS) *machine {
	c := newClock(0)
	disk := simfs.New(c.now)
	disk.NoLog()
	return &machine{
		disk: disk, fs: wrap(disk), catalog: newCatalog(), clock: c, client: &client{pins: map[string]*pin{}},
	}
}

func (m *machine) open() (*wal.Log, error) {
	return wal.Open(context.Background(), wal.Options{
		FS: m.fs, Dir: root, MaxEvents: maxEvents, MaxAge: time.Hour, MaxBytes: 1 << 40, MinFree: 1, Now: m.clock.now, Mirror: m,
	})
}

func (m *machine) drain() (drain.Report, error) {
	return drain.Once(context.Background(), drain.Options{
		FS: m.fs, WAL: root, Catalog: m.catalog, Now: m.clock.now, Retain: retain, RetainPartial: retain,
	})
}

// live is a whole life: append, seal, pin, claim, commit, mark, unpin, retire. Clients, an operator, a drain and
// the log, which pins, work side by side in an order that the scheduler draws. It goes on after errors, as they do.
func (m *machine) live(s *sched, rng *rand.Rand) {
	l, err := m.open()
	if err != nil {
		return
	}
	ctx := context.Background()
	var of [][]int
	m.client.sent, of = scripts()
	var wg sync.WaitGroup
	beside := func(name string, turns int, do func()) {
		wg.Go(func() {
			for range turns {
				s.client(name)
			}
			do()
		})
	}
	for n, script := range of {
		beside("client "+string(rune('1'+n)), 0, func() {
			for _, i := range script {
				s.client("client " + string(rune('1'+n)))
				r, err := l.Append(ctx, m.client.calling(i))
				m.client.answered(i, r, err)
			}
		})
	}
	beside("operator", 1+rng.IntN(12), func() {
		which := m.client.acked("a")
		if l.Seal(ctx, "a", index) == nil {
			m.client.sealed(which)
		}
	})
	beside("drain", 10+rng.IntN(10), func() { _, _ = m.drain() })
	wg.Wait()
	which := m.client.acked("")
	if l.Close(ctx) == nil {
		m.client.sealed(which)
	}
	_, _ = m.drain()
	m.clock.forward(2 * retain)
	_, _ = m.drain()
	_ = m.unpin()
	_, _ = m.drain()
}

// under lets the scheduler decide when the machine's operations happen.
func (m *machine) under(s *sched) {
	m.watch(s.hook)
	m.catalog.turn = s.commit
}

// watch notes what is retired, and asks the hook too.
func (m *machine) watch(hook simfs.Hook) {
	m.disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Remove && filepath.Base(filepath.Dir(op.Name)) == string(segment.Committed) {
			m.retiredMu.Lock()
			m.retired = append(m.retired, op.Name)
			m.retiredMu.Unlock()
		}
		return hook(op)
	})
}

// lanes opens the root as an observer does.
func (m *machine) lanes() ([]segment.Lane, error) {
	r, err := segment.Open(m.disk, root)
	if err != nil {
		return nil, err
	}
	lanes, _, err := r.Lanes()
	return lanes, err
}

// Sealed notes the pin that the log has made before the segment was in sealed/. The machine is the log's mirror.
func (m *machine) Sealed(l segment.Lane, id segment.ID, pinned error) {
	path := l.Path(segment.MirrorPending, id.FileName())
	if bytes, err := contentOf(m.disk, path); pinned == nil && err == nil {
		m.client.pinned(path, pin{bytes})
	}
}

// unpin removes every pin: all is uploaded.
func (m *machine) unpin() error {
	m.client.unpinning()
	lanes, err := m.lanes()
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range lanes {
		entries, _, err := l.List(segment.MirrorPending)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := m.fs.Remove(l.Path(segment.MirrorPending, e.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		if len(entries) > 0 {
			errs = append(errs, m.fs.SyncDir(l.Dir(segment.MirrorPending)))
		}
	}
	return errors.Join(errs...)
}

func (c *client) pinned(path string, p pin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pins[path] = &p
}

func (c *client) unpinning() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.pins)
}

func contentOf(fsys vfs.FS, path string) (string, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	b := make([]byte, info.Size)
	_, err = f.ReadAt(b, 0)
	return string(b), err
}
