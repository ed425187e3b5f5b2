package mirror

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// sweepLoop sweeps at the start and at each interval, and uploads open segments at theirs.
func (m *Mirror) sweepLoop(ctx context.Context) {
	root := m.root(ctx)
	if root == nil {
		return
	}
	sweep, stopSweep := every(m.opt.SweepInterval)
	defer stopSweep()
	active, stopActive := every(m.opt.ActiveInterval)
	defer stopActive()
	if m.opt.SweepInterval > 0 {
		m.sweep(ctx, root)
	} else {
		m.markOnly(ctx, root)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep:
			m.sweep(ctx, root)
		case <-m.sweepNow:
			m.sweep(ctx, root)
		case <-active:
			m.uploadActives(ctx, root)
		}
	}
}

// every ticks, or never.
func every(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// sweep queues every pin, and every sealed segment that is not confirmed, of all lanes. One that is in trouble holds no
// other up.
func (m *Mirror) sweep(ctx context.Context, root *segment.Root) {
	m.missed.Store(false)
	m.syncUnpins()
	errs := []error{m.mark(ctx, root.UUID())}
	lanes, _, err := root.Lanes()
	errs = append(errs, err)
	for _, lane := range lanes {
		errs = append(errs, m.sweepLane(lane, segment.MirrorPending), m.sweepLane(lane, segment.Sealed))
	}
	errs = append(errs, m.sweepActives(ctx))
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		m.met.failed(reasonSweep)
		m.opt.Logger.Warn("sweep not complete, the next one tries again", zap.Error(err))
	}
}

// sweepLane queues what is in one directory.
func (m *Mirror) sweepLane(lane segment.Lane, st segment.State) error {
	entries, _, err := lane.List(st)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if st == segment.Sealed && m.seen.confirmed(e.ID) {
			continue
		}
		info, err := m.opt.FS.Stat(lane.Path(st, e.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // uploaded, or drained: then its pin was listed before
		}
		if err != nil {
			return err
		}
		m.add(&job{lane: lane, id: e.ID, since: info.ModTime, check: true})
	}
	return nil
}
