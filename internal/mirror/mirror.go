package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	defaultConcurrency = 4
	defaultSweep       = 5 * time.Minute
	defaultAttempt     = 30 * time.Second
	// rootEvery is how often a root is looked for that its exporter has not made yet.
	rootEvery = 200 * time.Millisecond
)

// Options say what is copied where.
type Options struct {
	FS    vfs.FS         // nil: the real one
	Dir   string         // the WAL root
	Store objstore.Store // opened at the mirror's own URL, its prefix included; not closed

	// Concurrency is how many objects are uploaded at a time (4).
	Concurrency int
	// SweepInterval is how often sealed/ and mirror-pending/ are looked through, the first time at the start (5 min);
	// negative: never, not at the start either.
	SweepInterval time.Duration
	// ActiveInterval is how often the beginnings of open segments are uploaded; 0: never.
	ActiveInterval time.Duration
	// AttemptTimeout bounds one attempt to upload (30 s), and a second more for each MiB.
	AttemptTimeout time.Duration

	Logger *zap.Logger
	Meter  metric.Meter
	Now    func() time.Time
	// Draw is where the random part of a wait comes from: [0, n) (rand.Int64N).
	Draw func(n int64) int64
	// Status is told when uploads begin to fail for longer than a minute, and nil when they work again. Must not block.
	Status func(error)
}

func (o *Options) setDefaults() {
	o.FS = cmp.Or(o.FS, vfs.OS())
	o.Concurrency = cmp.Or(o.Concurrency, defaultConcurrency)
	o.SweepInterval = cmp.Or(o.SweepInterval, defaultSweep)
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, defaultAttempt)
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if o.Meter == nil {
		o.Meter = noop.Meter{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Draw == nil {
		o.Draw = rand.Int64N
	}
	if o.Status == nil {
		o.Status = func(error) {}
	}
}

// Mirror uploads the sealed segments of one WAL root. Several may share a store: names are unique for ever.
type Mirror struct {
	opt   Options
	met   *metrics
	queue queue
	seen  confirmations
	store trouble

	unpinned  unpins
	uploaders sync.WaitGroup
	idle      chan struct{} // one slot: an uploader has ended
	sweepNow  chan struct{} // one slot
	actives   map[segment.ID]int64
	activeMu  sync.Mutex  // guards actives: bytes uploaded of open segments
	missed    atomic.Bool // a segment found no room in the queue
	marked    atomic.Bool // the marker was seen in the store
	markMu    sync.Mutex  // held while an uploader writes the marker
	pins      seldom      // the log line of refused pins
}

// New returns a mirror that does nothing before Run; what Sealed is told meanwhile is kept.
func New(opt Options) (*Mirror, error) {
	opt.setDefaults()
	met, err := newMetrics(opt.Meter)
	if err != nil {
		return nil, err
	}
	m := &Mirror{
		opt: opt, met: met,
		queue: newQueue(opt.Now, opt.Draw), seen: newConfirmations(opt.Now),
		idle: make(chan struct{}, 1), sweepNow: make(chan struct{}, 1),
		actives: map[segment.ID]int64{},
	}
	m.store = trouble{log: opt.Logger, now: opt.Now, draw: opt.Draw, status: opt.Status}
	if err := met.observe(m); err != nil {
		return nil, err
	}
	return m, nil
}

// Sealed implements wal.Mirror: the segment is in sealed/, and pin says why it has no pin.
func (m *Mirror) Sealed(lane segment.Lane, id segment.ID, pin error) {
	if pin != nil {
		m.notPinned(lane, id, pin)
	}
	m.add(&job{lane: lane, id: id, since: m.opt.Now(), pinned: true})
}

// notPinned counts a segment that is uploaded without the protection of a pin.
func (m *Mirror) notPinned(lane segment.Lane, id segment.ID, err error) {
	m.met.failed(reasonPin)
	if !m.pins.now(m.opt.Now()) {
		return
	}
	m.opt.Logger.Warn("segment not pinned, and perhaps others since the last such line; if it is drained and retired before its upload, the mirror has no copy of it",
		zap.String("segment", id.String()), zap.String("dir", lane.Key()), zap.Error(err))
}

// seldom lets one line through in troubleEvery.
type seldom struct {
	mu   sync.Mutex
	last time.Time
}

func (s *seldom) now(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < troubleEvery {
		return false
	}
	s.last = now
	return true
}

// sweepSoon has the next sweep come now.
func (m *Mirror) sweepSoon() {
	select {
	case m.sweepNow <- struct{}{}:
	default:
	}
}

// add queues a job. When very many wait, the directories remember it: a sweep finds it later.
func (m *Mirror) add(j *job) {
	if !m.queue.add(j) {
		m.missed.Store(true)
	}
}

// Confirmed waits until the object of a segment of this process is confirmed. ctx ends the wait. Only the mirror's own
// confirmation counts: that a file or a pin is gone says nothing.
func (m *Mirror) Confirmed(ctx context.Context, id segment.ID) error {
	c := m.seen.wait(id)
	defer m.seen.forget(id, c)
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the mirror of %s: %w", id, ctx.Err())
	}
}

// Flush returns when nothing waits to be uploaded and nothing is on its way, or when ctx ends, with how many are left.
// What has failed is tried again at once. Run must be running.
func (m *Mirror) Flush(ctx context.Context) (left int) {
	for {
		m.queue.hurry()
		if left = m.queue.len(); left == 0 {
			return 0
		}
		select {
		case <-m.idle:
		case <-ctx.Done():
			return left
		}
	}
}

// Run uploads until ctx ends, and returns when what is under way has stopped. Call it once.
func (m *Mirror) Run(ctx context.Context) {
	defer m.met.stop()
	var loops sync.WaitGroup
	loops.Go(func() { m.sweepLoop(ctx) })
	m.dispatch(ctx)
	loops.Wait()
	m.uploaders.Wait()
	m.syncUnpins()
}

// dispatch gives the oldest job to an uploader whenever one is free.
func (m *Mirror) dispatch(ctx context.Context) {
	slots := make(chan struct{}, m.opt.Concurrency)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if !rest(ctx, m.store.pause(m.opt.Concurrency)) {
			return
		}
		j := m.queue.take(ctx)
		if j == nil {
			return
		}
		m.uploaders.Go(func() {
			m.work(ctx, j)
			<-slots
			select {
			case m.idle <- struct{}{}:
			default:
			}
		})
	}
}

// rest waits; false when ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// root waits for the root to be made; nil when ctx ends first.
func (m *Mirror) root(ctx context.Context) *segment.Root {
	told := false
	for {
		root, err := segment.Open(m.opt.FS, m.opt.Dir)
		if err == nil {
			return root
		}
		if !told && !errors.Is(err, segment.ErrNotRoot) && !errors.Is(err, fs.ErrNotExist) {
			told = true
			m.opt.Logger.Warn("WAL root not readable, will be tried again", zap.Error(err))
		}
		if !rest(ctx, rootEvery) {
			return nil
		}
	}
}
