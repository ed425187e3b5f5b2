package mirror

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/internal/segment"
)

const (
	// maxQueued bounds what is remembered in memory; some 20 MB. The directories hold the rest.
	maxQueued = 65536

	retryFirst   = 200 * time.Millisecond
	retryLongest = 30 * time.Second
)

// job is one segment to upload.
type job struct {
	lane  segment.Lane
	id    segment.ID
	since time.Time // when it was sealed; the oldest goes first
	check bool      // found by a sweep: the object may be there

	pinned  bool // or tried
	damaged bool // as last read
	tries   int
	due     time.Time // not before
	queued  time.Time
}

// queue orders jobs by age; those that failed wait for their time.
type queue struct {
	now  func() time.Time
	draw func(int64) int64
	wake chan struct{} // one slot

	mu    sync.Mutex
	known map[segment.ID]*job // waiting or in work
	ready jobHeap             // by since
	later jobHeap             // by due
}

func newQueue(now func() time.Time, draw func(int64) int64) queue {
	return queue{
		now: now, draw: draw, wake: make(chan struct{}, 1), known: map[segment.ID]*job{},
		ready: jobHeap{less: func(a, b *job) bool { return a.since.Before(b.since) }},
		later: jobHeap{less: func(a, b *job) bool { return a.due.Before(b.due) }},
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add takes a job in unless it is known; false when there is no room.
func (q *queue) add(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[j.id] != nil {
		return true
	}
	if len(q.known) >= maxQueued {
		return false
	}
	j.queued = q.now()
	q.known[j.id] = j
	heap.Push(&q.ready, j)
	q.signal()
	return true
}

// take waits for the oldest job that may be done; nil when ctx ends. It stays known until done.
func (q *queue) take(ctx context.Context) *job {
	for {
		j, wait := q.next()
		if j != nil {
			return j
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-q.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// next returns a job, or how long to wait for one.
func (q *queue) next() (*job, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for len(q.later.jobs) > 0 && !q.later.jobs[0].due.After(now) {
		heap.Push(&q.ready, heap.Pop(&q.later))
	}
	if len(q.ready.jobs) > 0 {
		j := heap.Pop(&q.ready).(*job) //nolint:errcheck,forcetypeassert // nothing else is in it
		if len(q.ready.jobs) > 0 {
			q.signal() // one signal may stand for several jobs: pass it on
		}
		return j, 0
	}
	if len(q.later.jobs) > 0 {
		return nil, q.later.jobs[0].due.Sub(now)
	}
	return nil, retryLongest
}

// done forgets a job.
func (q *queue) done(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.known, j.id)
}

// again puts a failed job back, to be taken after a while that doubles with each try.
func (q *queue) again(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.tries++
	j.due = q.now().Add(backoff(j.tries, retryFirst, retryLongest, q.draw))
	heap.Push(&q.later, j)
	q.signal()
}

// hurry makes everything due.
func (q *queue) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.later.jobs) > 0 {
		heap.Push(&q.ready, heap.Pop(&q.later))
	}
	q.signal()
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.known)
}

// oldest is the age of the oldest job, 0 without any.
func (q *queue) oldest() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var age time.Duration
	for _, j := range q.known {
		age = max(age, now.Sub(j.since))
	}
	return age
}

// backoff doubles from first with each try up to longest, and draws from the upper half, so that many do not come back
// at once.
func backoff(tries int, first, longest time.Duration, draw func(int64) int64) time.Duration {
	d := longest
	if shift := tries - 1; shift < 20 {
		d = min(first<<shift, longest)
	}
	return d/2 + time.Duration(draw(int64(d/2+1)))
}

// jobHeap implements heap.Interface.
type jobHeap struct {
	less func(a, b *job) bool
	jobs []*job
}

func (h *jobHeap) Len() int           { return len(h.jobs) }
func (h *jobHeap) Less(i, j int) bool { return h.less(h.jobs[i], h.jobs[j]) }
func (h *jobHeap) Swap(i, j int)      { h.jobs[i], h.jobs[j] = h.jobs[j], h.jobs[i] }

func (h *jobHeap) Push(x any) {
	h.jobs = append(h.jobs, x.(*job)) //nolint:errcheck,forcetypeassert // the queue pushes nothing else
}

func (h *jobHeap) Pop() any {
	last := len(h.jobs) - 1
	j := h.jobs[last]
	h.jobs[last] = nil
	h.jobs = h.jobs[:last]
	return j
}
