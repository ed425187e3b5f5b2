package siglakeexporter

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/siglakecol/siglakecol/internal/wal"
)

const (
	// mergedItems is the size up to which a request is merged with others: a batch costs as much as some 20 rows,
	// on disk and in the drain.
	mergedItems = 256
	// groupItems ends a group. What comes to more rows gains nothing from being one batch.
	groupItems = 1024
)

// request is one client's rows on their way into a batch.
type request[T any] struct {
	data   T
	items  int
	tenant string
	mode   wal.Mode

	err  error
	turn chan []*request[T] // one slot: the group to lead, or nil once err is the answer
}

// sameBatch tells whether two requests may share a batch: they go to one lane and wait for the same thing.
func (r *request[T]) sameBatch(o *request[T]) bool { return r.tenant == o.tenant && r.mode == o.mode }

// merger turns small requests that come at once into one batch. While fewer than leaders batches are on their way, a
// request is a batch of its own and waits for nobody; else it waits for one of them to end and shares the next
// batch with all who wait as well. So nothing is merged, and nothing waits, on a quiet server.
type merger[T any] struct {
	// commit stores a group as one batch and gives each of it its err.
	commit  func(group []*request[T])
	leaders int

	mu      sync.Mutex
	running int
	waiting []*request[T]
}

// newMerger has a batch encoded on each core, and at least one encoded while another one is synced.
func newMerger[T any](commit func([]*request[T])) *merger[T] {
	return &merger[T]{commit: commit, leaders: max(2, runtime.GOMAXPROCS(0))}
}

// do stores r and returns its err. ctx ends the wait for the next batch, not a batch on its way.
func (m *merger[T]) do(ctx context.Context, r *request[T]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.running < m.leaders {
		m.running++
		m.mu.Unlock()
		return m.lead(r, []*request[T]{r})
	}
	r.turn = make(chan []*request[T], 1)
	m.waiting = append(m.waiting, r)
	m.mu.Unlock()
	select {
	case group := <-r.turn:
		return m.lead(r, group)
	case <-ctx.Done():
		if m.leave(r) {
			return ctx.Err()
		}
		return m.lead(r, <-r.turn)
	}
}

// lead commits r's group, or nothing when another one has committed r.
func (m *merger[T]) lead(r *request[T], group []*request[T]) error {
	if group == nil {
		return r.err
	}
	m.commit(group)
	m.next()
	for _, o := range group {
		if o != r {
			o.turn <- nil
		}
	}
	return r.err
}

// next makes the first who waits the leader of all that may share its batch.
func (m *merger[T]) next() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		m.running--
		return
	}
	first := m.waiting[0]
	var group []*request[T]
	items := 0
	m.waiting = slices.DeleteFunc(m.waiting, func(r *request[T]) bool {
		if !r.sameBatch(first) || len(group) > 0 && items+r.items > groupItems {
			return false
		}
		group = append(group, r)
		items += r.items
		return true
	})
	first.turn <- group
}

// leave takes r out of those who wait; false when it is in a group already.
func (m *merger[T]) leave(r *request[T]) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.waiting, r)
	if i < 0 {
		return false
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
	return true
}
