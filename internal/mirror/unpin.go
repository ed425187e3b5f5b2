package mirror

import (
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// unpins are the lanes that lost pins since their last sync. A sync for each pin would be a commit of the volume's journal more
// for each segment, and answers under wait_for wait for those.
type unpins struct {
	mu    sync.Mutex
	lanes map[string]segment.Lane
}

func (u *unpins) add(l segment.Lane) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lanes == nil {
		u.lanes = map[string]segment.Lane{}
	}
	u.lanes[l.Key()] = l
}

func (u *unpins) take() []segment.Lane {
	u.mu.Lock()
	defer u.mu.Unlock()
	lanes := make([]segment.Lane, 0, len(u.lanes))
	for _, key := range slices.Sorted(maps.Keys(u.lanes)) {
		lanes = append(lanes, u.lanes[key])
	}
	clear(u.lanes)
	return lanes
}

// unpin removes the pin of a confirmed segment. The next sweep, or the end, makes that durable.
func (m *Mirror) unpin(j *job) {
	if err := j.lane.Unpin(j.id); err != nil {
		m.met.failed(reasonUnpin)
		m.opt.Logger.Warn("pin of an uploaded segment not removed, the next sweep does it",
			zap.String("segment", j.id.String()), zap.Error(err))
		return
	}
	m.unpinned.add(j.lane)
}

// syncUnpins makes durable which pins are gone.
func (m *Mirror) syncUnpins() {
	for _, l := range m.unpinned.take() {
		if err := l.SyncPins(); err != nil {
			m.unpinned.add(l)
			m.met.failed(reasonUnpin)
			m.opt.Logger.Warn("the end of pins not synced, the next sweep does it; after a crash they are looked up again", zap.Error(err))
		}
	}
}
