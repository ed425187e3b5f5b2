package siglakeexporter

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/siglakecol/siglakecol/internal/segment"
)

const (
	// mergedItems is the size up to which a request is merged with others: a batch costs as much as some 20 rows,
	// on disk and in the drain.
	mergedItems = 256
	// mergedBytes is the same in bytes of protobuf: large rows gain nothing, and hold up who waits with them.
	mergedBytes = 128 << 10
	// waitingBytes bounds what waits for its turn. What comes then is a batch of its own, which the log admits or
	// refuses by its size.
	waitingBytes = 16 << 20
	// groupItems ends a group. What comes to more rows gains nothing from being one batch.
	groupItems = 1024
)

// request is one client's rows on their way into a batch.
type request[T any] struct {
	data   T
	items  int
	size   int // bytes of protobuf
	tenant string
	index  string
	mode   promise

	segment segment.ID // that has the rows, once err is nil

	err  error
	turn chan []*request[T] // one slot: the group to lead, or nil once err is the answer
}

// merger turns small requests that come at once into one batch. While fewer than leaders batches of a tenant are on
// their way, a request is a batch of its own and waits for nobody; else it waits for one of them to end and shares the
// next batch with all who wait as well. So nothing is merged, and nothing waits, on a quiet server, and no tenant waits
// for another's disk writes.
type merger[T any] struct {
	// commit stores a group, of one tenant, one index and one mode, as one batch and gives each of it its err.
	commit  func(group []*request[T])
	leaders int

	mu     sync.Mutex
	queues map[string]*mergeQueue[T] // by tenant; those with a batch on its way
	bytes  int                       // that wait in all of them
}

type mergeQueue[T any] struct {
	running int // batches on their way
	waiting []*request[T]
}

// newMerger has a batch encoded on each core, and at least one encoded while another one is synced.
func newMerger[T any](commit func([]*request[T])) *merger[T] {
	return &merger[T]{commit: commit, leaders: max(2, runtime.GOMAXPROCS(0)), queues: map[string]*mergeQueue[T]{}}
}

// do stores r and returns its err. ctx ends the wait for the next batch, not a batch on its way.
func (m *merger[T]) do(ctx context.Context, r *request[T]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch m.enter(r) {
	case leads:
		return m.lead(r, []*request[T]{r})
	case alone:
		m.commit([]*request[T]{r})
		return r.err
	case waits:
	}
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

// entry is what becomes of a request that comes in.
type entry uint8

const (
	leads entry = iota // a batch of its own now, and whom it keeps waiting goes next
	waits              // for its turn
	alone              // a batch of its own beside the merger, where enough waits
)

func (m *merger[T]) enter(r *request[T]) entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[r.tenant]
	if q == nil {
		q = &mergeQueue[T]{}
		m.queues[r.tenant] = q
	}
	switch {
	case q.running < m.leaders:
		q.running++
		return leads
	case m.bytes+r.size > waitingBytes:
		return alone
	default:
		r.turn = make(chan []*request[T], 1)
		q.waiting = append(q.waiting, r)
		m.bytes += r.size
		return waits
	}
}

// lead commits r's group, or nothing when another one has committed r.
func (m *merger[T]) lead(r *request[T], group []*request[T]) error {
	if group == nil {
		return r.err
	}
	m.commit(group)
	m.next(r.tenant)
	for _, o := range group {
		if o != r {
			o.turn <- nil
		}
	}
	return r.err
}

// next makes the first of a tenant who waits the leader of all that may share its batch.
func (m *merger[T]) next(tenant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[tenant]
	if len(q.waiting) == 0 {
		if q.running--; q.running == 0 {
			delete(m.queues, tenant)
		}
		return
	}
	first := q.waiting[0]
	var group []*request[T]
	items := 0
	q.waiting = slices.DeleteFunc(q.waiting, func(r *request[T]) bool {
		if r.mode != first.mode || r.index != first.index || len(group) > 0 && items+r.items > groupItems {
			return false
		}
		group = append(group, r)
		items += r.items
		m.bytes -= r.size
		return true
	})
	first.turn <- group
}

// leave takes r out of those who wait; false when it is in a group already.
func (m *merger[T]) leave(r *request[T]) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[r.tenant]
	if q == nil {
		return false
	}
	i := slices.Index(q.waiting, r)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	m.bytes -= r.size
	return true
}
