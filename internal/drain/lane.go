package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// lane drains one (tenant, index). Everything but busy and the view belongs to the pass that runs; there is
// one at a time.
type lane struct {
	d   *drain
	dir segment.Lane
	log *zap.Logger

	busy  atomic.Bool
	step  atomic.Pointer[progress] // nil: no pass has begun
	woken atomic.Int64             // unix ns of the lane's drain.wake as last heeded; 0: none

	started  bool             // processing/ of the last life has been seen to
	listed   bool             // sealed/ has been listed in this life
	stranded bool             // a move went wrong: processing/ may hold segments of no batch
	files    map[string]*file // what is known of the names in sealed/ and in the batch
	doubts   map[string]bool  // names in sealed/ that are looked up before their rows are written
	urgent   map[string]bool  // names in sealed/ that do not wait for the gate
	tables   map[otelarrow.Signal]Table
	head     segment.Head  // as last read or written
	previous uuid.UUID     // the table the lane was bound to before this pass bound it anew
	limit    int           // most segments of the next batch; halved by failures, doubled by commits
	failed   int           // commits that failed in a row
	lateAge  time.Duration // the gate's age for late segments; 0: that of all (late.go)
	waits    bool          // it is in the queue for a turn with late segments
	lateTurn bool          // the next batch is of late segments, if some are due

	preparing, auditing, disposing, draining, retiring step

	numbers *segment.Numbers // the record of sequence numbers; nil: not read yet
	unsaved bool             // numbers is not on disk as it is
	auditAt time.Duration    // since() of the next audit

	marks map[string]*mark // what is known of the names in committed/
	clock clock
	told  map[string]bool // names logged once

	mu   sync.Mutex
	seen laneView
}

// laneView is what a pass publishes.
type laneView struct {
	pending     int       // names in sealed/ that are not held
	oldest      time.Time // seal time of the oldest of them
	due         time.Time // when the gate opens for the first one that is neither late nor has failed; zero: there is none
	orphansHeld int
	newerHeld   int
	retireHeld  int
	poison      int // segments in poison/ and in stale/, at the last audit
	stale       int
	err         error // what keeps the lane from its work; nil when nothing does
}

// file is a segment in sealed/ or in the batch.
type file struct {
	name   string
	id     segment.ID
	size   int64     // bytes
	sealed time.Time // modification time
	zstd   bool      // size is of the compressed body
	table  uuid.UUID // of the header; zero: no opinion
	late   bool      // it has rows of another time than its own (late.go)
	bad    error     // why its header is of no use; nil: it was read

	first    time.Duration // since() when it was first seen
	after    time.Duration // since() before which it is left alone
	reads    int           // times it was found damaged
	failures int           // commits it was in that failed
	forgiven bool          // failures were set back: the table was at fault
	written  int64         // rows of it that a commit of this life wrote that did not take all
	doubtful bool          // its rows may be in the table: look before writing them
	urgent   bool          // commit it without waiting for the gate
	newer    bool          // only a newer version reads it
}

func newLane(d *drain, dir segment.Lane) *lane {
	return &lane{
		d:      d,
		dir:    dir,
		log:    d.log.With(zap.String("lane", dir.Key())),
		files:  make(map[string]*file),
		doubts: make(map[string]bool),
		urgent: make(map[string]bool),
		tables: make(map[otelarrow.Signal]Table),
		limit:  maxBatch,
		marks:  make(map[string]*mark),
		told:   make(map[string]bool),

		preparing: step{what: "prepare"},
		auditing:  step{what: "numbers"},
		disposing: step{what: "orphans"},
		draining:  step{what: "commit"},
		retiring:  step{what: "retire"},
	}
}

// step is one part of a pass with waits of its own: trouble with orphans does not keep the drain from new segments.
type step struct {
	what  string
	err   error         // of the last try
	tries int           // that failed, in a row
	after time.Duration // since() before which it is not tried again
}

// pass does what there is to do in the lane and publishes what is wrong. What went wrong is logged here, once.
func (l *lane) pass(ctx, work context.Context) {
	l.at("look at the directories")
	l.waits = false
	l.try(ctx, &l.preparing, l.prepare)
	if l.preparing.err == nil {
		l.try(ctx, &l.auditing, func() error { return l.audit(ctx) })
		l.try(ctx, &l.disposing, func() error { return l.disposeOrphans(ctx, work) })
		l.try(ctx, &l.draining, func() error { return l.drainSealed(ctx, work) })
		l.tidy(ctx, work)     // the audit again, where something was set aside
		l.previous = uuid.Nil // nothing is in hand that was read before the lane was bound anew
	}
	if !l.waits {
		l.d.lates.leave(l)
	}
	if l.draining.tries == 0 && !l.anyFailed() {
		l.draining.err = nil // until then what failed waits for its turn, and is in trouble
	}
	err := Joined(l.preparing.err, l.auditing.err, l.disposing.err, l.draining.err, l.retiring.err)
	l.publish(func(v *laneView) { v.err = err })
}

func (l *lane) try(ctx context.Context, s *step, do func() error) {
	if ctx.Err() != nil || l.d.since() < s.after && !l.d.once {
		return
	}
	err := Joined(do())
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return // told to stop
	}
	if err == nil {
		s.tries, s.after = 0, 0
		if s != &l.draining {
			s.err = nil
		}
		return
	}
	s.err, s.tries = err, s.tries+1
	wait := l.d.backoff(s.tries)
	s.after = l.d.since() + wait
	fields := []zap.Field{zap.String("step", s.what), zap.Error(err), zap.Duration("wait", wait)}
	if _, back := errors.AsType[*lake.GoneBackError](err); back || errors.Is(err, lake.ErrMetadataGone) {
		l.log.Error("drain has stopped for this table until somebody repairs the catalog; rows wait in the log", fields...)
		return
	}
	l.log.Warn("drain is in trouble; it goes on by itself", fields...)
}

// anyFailed tells whether something in sealed/ has been in a commit that failed.
func (l *lane) anyFailed() bool {
	for _, f := range l.files {
		if f.failures > 0 {
			return true
		}
	}
	return false
}

// prepare makes the lane one that passes can work in.
func (l *lane) prepare() error {
	if err := l.start(); err != nil {
		return err
	}
	return l.rescue()
}

// start makes the directories and moves what the last life left in processing/ to orphans/. Idempotent;
// durable when it returns. Under the root's lock, so what is in processing/ is nobody's.
func (l *lane) start() error {
	if l.started {
		return nil
	}
	if err := l.dir.Prepare(); err != nil {
		return fmt.Errorf("prepare lane: %w", err)
	}
	resolved, err := l.dir.Resolve(segment.ByDrain)
	tellResolved(l.log, resolved)
	l.d.m.poisoned.add(len(resolved.Poisoned))
	if err != nil {
		return fmt.Errorf("resolve names: %w", err)
	}
	left, err := l.names(segment.Processing)
	if err != nil {
		return err
	}
	moved, err := l.dir.Move(segment.Processing, segment.Orphans, left)
	l.d.m.orphans.add(len(moved))
	if len(moved) > 0 {
		l.log.Info("segments of an interrupted commit set apart", zap.Int("segments", len(moved)))
	}
	if err != nil {
		return fmt.Errorf("move processing to orphans: %w", err)
	}
	l.started = true
	return nil
}

// isWoken tells whether the lane was woken since that was last heeded. One that cannot be asked is not: the gate opens
// in time.
func (l *lane) isWoken() bool {
	at, err := l.dir.Woken()
	return err == nil && !at.IsZero() && at.UnixNano() != l.woken.Load()
}

// heedWake is isWoken and heeds it.
func (l *lane) heedWake() bool {
	at, err := l.dir.Woken()
	return err == nil && !at.IsZero() && at.UnixNano() != l.woken.Swap(at.UnixNano())
}

// tellResolved reports what a crash left under two names.
func tellResolved(log *zap.Logger, r segment.Resolved) {
	for _, f := range r.Dropped {
		log.Info("second name of a segment removed", zap.String("segment", f.Name), zap.String("state", string(f.State)),
			zap.String("kept", string(f.Kept)), zap.String("reason", f.Reason))
	}
	for _, f := range r.Poisoned {
		log.Error("copies of one segment contradict each other; set aside in poison", zap.String("segment", f.Name),
			zap.String("state", string(f.State)), zap.String("reason", f.Reason))
	}
}

// rescue puts back what a failed move left in processing/. No batch is in flight between passes.
func (l *lane) rescue() error {
	if !l.stranded {
		return nil
	}
	left, err := l.names(segment.Processing)
	if err != nil {
		return err
	}
	for _, name := range left { // before: this move may fail too, with some of them in sealed/
		l.doubt(name)
	}
	if _, err := l.dir.Move(segment.Processing, segment.Sealed, left); err != nil {
		return fmt.Errorf("put back what a failed move left: %w", err)
	}
	l.stranded = false
	return nil
}

// names lists a state, without what is no segment; strangers are named once.
func (l *lane) names(st segment.State) ([]string, error) {
	entries, strangers, err := l.dir.List(st)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", st, err)
	}
	for _, s := range strangers {
		l.tellOnce(l.dir.Path(st, s), func() {
			l.log.Warn("not a segment, left alone", zap.String("dir", l.dir.Dir(st)), zap.String("name", s))
		})
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if !e.Partial { // an open segment's name has no business here; recovery renames it
			names = append(names, e.Name)
		}
	}
	return names, nil
}

func (l *lane) tellOnce(key string, tell func()) {
	if !l.told[key] {
		l.told[key] = true
		tell()
	}
}

// doubt makes a name one that is looked up in the table before its rows are written.
func (l *lane) doubt(name string) {
	l.doubts[name] = true
	if f := l.files[name]; f != nil {
		f.doubtful = true
	}
}

func (l *lane) view() laneView {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// publish changes the view.
func (l *lane) publish(change func(*laneView)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.seen)
}

// backoff is the wait after n failures in a row: Poll, twice, four times that … at most maxBackoff.
func (d *drain) backoff(n int) time.Duration {
	return min(d.opt.Poll<<min(max(n, 1)-1, 5), maxBackoff)
}
