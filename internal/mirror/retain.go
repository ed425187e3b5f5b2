package mirror

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
)

const (
	// LeastKeep is the shortest retention: what an uploader has on its way when a segment is retired, and its next
	// sweep, are over by then.
	LeastKeep = 901 * time.Second

	// runEvery is the pace of runs, start to start, at least; with a long Keep they come keepShare times within it,
	// and at least each runSeldom. A run lists the whole mirror.
	runEvery  = 5 * time.Minute
	runSeldom = time.Hour
	keepShare = 24
	// runPage is how many objects one question to a table is about, and runMost how many a run deletes, and how many
	// it asks about, before the next one begins.
	runPage = 512
	runMost = 16384

	// clockJump is how far wall clock and monotonic clock may part between two runs before the times in the record are
	// believed no more.
	clockJump = time.Hour
)

// RetentionOptions say what goes when.
type RetentionOptions struct {
	Store objstore.Store // as of Options
	// Keep is how long an object stays after its segment was first found committed, with no name left on the volume.
	Keep time.Duration

	Logger *zap.Logger
	Meter  metric.Meter
	Now    func() time.Time
}

// Retention deletes the objects of a mirror whose segments are committed.
type Retention struct {
	opt   RetentionOptions
	met   *retentionMetrics
	most  int    // runMost
	asked string // the last run had no more questions left behind this key; "": it got to the end

	wall, mono time.Time // of the last look at the clock
}

// NewRetention returns a retention that does nothing before Run.
func NewRetention(opt RetentionOptions) (*Retention, error) {
	if opt.Logger == nil {
		opt.Logger = zap.NewNop()
	}
	if opt.Meter == nil {
		opt.Meter = noop.Meter{}
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	met, err := newRetentionMetrics(opt.Meter)
	return &Retention{opt: opt, met: met, most: runMost}, err
}

// Run deletes, until ctx ends, each object of which all this is true:
//
//   - its segment has no name left in the root, in no state, and no pin;
//   - its table has now, in the catalog that is there now, as many rows of the segment as the object or more;
//   - that it has some was found Keep ago, and is recorded in mirror-retention.json of the root.
//
// The beginning of an open segment (_active/X) goes before X. What cannot be proved stays and is counted. The caller
// holds drain.lock of the root. Idempotent across crashes: a run begins from what is in the store and in the tables.
// Holds MIR-1, RET-1, BND-1.
//
//	committed  how many rows of each segment its table has; an error means "not known"
func (r *Retention) Run(ctx context.Context, root *segment.Root, committed func(context.Context, string, string, []segment.ID) (map[segment.ID]int64, error)) {
	for ctx.Err() == nil {
		start := time.Now()
		p := &pass{r: r, root: root, committed: committed, now: r.opt.Now().Round(0)}
		err := p.run(ctx)
		if ctx.Err() != nil {
			return
		}
		r.met.took(time.Since(start))
		r.report(p, err)
		wait := r.pace()
		switch {
		case err != nil:
			wait = runEvery
		case p.bounded:
			wait = 0
		}
		if !rest(ctx, wait-time.Since(start)) {
			return
		}
	}
}

// pace is the time from the start of a run to that of the next.
func (r *Retention) pace() time.Duration {
	return max(runEvery, min(r.opt.Keep/keepShare, runSeldom))
}

// report says what a run has done.
func (r *Retention) report(p *pass, err error) {
	if err != nil {
		r.opt.Logger.Warn("run of the mirror's retention not complete; what it left stays until a later one", zap.Error(err))
	} else {
		r.met.completed(p.now, p.counts)
	}
	if p.deleted > 0 || p.counts[stateUnproved] > 0 || p.counts[stateOverdue] > 0 {
		r.opt.Logger.Info("retention of the mirror", zap.Int("deleted", p.deleted), zap.Int64("bytes", p.bytes),
			zap.Int("waiting", p.counts[stateWaiting]), zap.Int("on_volume", p.counts[stateOnVolume]),
			zap.Int("unproved", p.counts[stateUnproved]), zap.Int("overdue", p.counts[stateOverdue]))
	}
}

// jumped tells by how much the wall clock was set since the last look, if by more than clockJump.
func (r *Retention) jumped(now time.Time) (by time.Duration, yes bool) {
	mono := time.Now()
	if !r.wall.IsZero() {
		by = now.Sub(r.wall) - mono.Sub(r.mono)
	}
	r.wall, r.mono = now, mono
	return by, by.Abs() > clockJump
}

// load reads the record; a damaged one is begun anew, so every object waits once more.
func (r *Retention) load(root *segment.Root) (sinces, error) {
	rec, err := readRecord(root)
	if errors.Is(err, segment.ErrRecord) {
		r.opt.Logger.Warn("record of the mirror's retention is damaged and begun anew; its objects stay for another term", zap.Error(err))
		return sinces{}, nil
	}
	return rec, err
}
