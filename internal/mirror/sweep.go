package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// maxMarker bounds what is read as siglake-mirror.json.
const maxMarker = 1 << 20

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

// markOnly writes the marker where no sweep does.
func (m *Mirror) markOnly(ctx context.Context, root *segment.Root) {
	for tries := 1; ; tries++ {
		err := m.mark(ctx, root.UUID())
		if err == nil || !rest(ctx, backoff(tries, retryFirst, retryLongest)) {
			return
		}
		m.met.failed(reasonSweep)
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

// mark writes siglake-mirror.json, or adds this root to it. Several mirrors that do so at once may drop one another's
// entry; the next sweep puts it back.
func (m *Mirror) mark(ctx context.Context, root uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, m.opt.AttemptTimeout)
	defer cancel()
	have, err := readMarker(ctx, m.opt.Store)
	fresh := errors.Is(err, objstore.ErrNotFound)
	if err != nil && !fresh {
		return err
	}
	if slices.Contains(have.Roots, root) {
		return nil
	}
	b, err := json.Marshal(marker{Format: markerFormat, Roots: append(have.Roots, root)})
	if err != nil {
		return fmt.Errorf("write %s: %w", markerKey, err)
	}
	body := bytes.NewReader(append(b, '\n'))
	sum, err := objstore.Sum(body, body.Size())
	if err != nil {
		return fmt.Errorf("write %s: %w", markerKey, err)
	}
	if fresh {
		err := m.opt.Store.Put(ctx, markerKey, body, body.Size(), sum)
		if errors.Is(err, objstore.ErrExists) {
			return nil // another mirror was faster; the next sweep adds this one
		}
		return err
	}
	return m.opt.Store.Replace(ctx, markerKey, body, body.Size(), sum)
}

func readMarker(ctx context.Context, s objstore.Store) (marker, error) {
	r, err := s.Get(ctx, markerKey)
	if err != nil {
		return marker{}, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxMarker))
	if err = errors.Join(err, r.Close()); err != nil {
		return marker{}, fmt.Errorf("read %s: %w", markerKey, err)
	}
	return parseMarker(b)
}
