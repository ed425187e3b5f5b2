package siglakeexporter

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// held is a merger whose commits wait until the test lets them go.
type held struct {
	*merger[int]
	commits chan []*request[int] // what is being committed
	release chan struct{}
	wg      sync.WaitGroup
}

func newHeld(leaders int) *held {
	h := &held{commits: make(chan []*request[int], 100), release: make(chan struct{})}
	h.merger = newMerger(func(group []*request[int]) {
		h.commits <- slices.Clone(group)
		<-h.release
		for _, r := range group {
			r.err = errors.New(strconv.Itoa(r.data))
		}
	})
	h.leaders = leaders
	return h
}

// send hands a request in and returns when it leads, waits, or its answer when it has one.
func (h *held) send(ctx context.Context, t *testing.T, r *request[int]) <-chan error {
	t.Helper()
	h.mu.Lock()
	q := h.queues[r.tenant]
	leads, before := q == nil || q.running < h.leaders, 0
	if !leads {
		before = len(q.waiting)
	}
	h.mu.Unlock()
	answer := make(chan error, 1)
	h.wg.Go(func() { answer <- h.do(ctx, r) })
	if !leads {
		require.Eventually(t, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(q.waiting) == before+1
		}, time.Minute, time.Millisecond)
	}
	return answer
}

// finish lets all go on: each request of answers gets its own, and the merger is at rest.
func (h *held) finish(t *testing.T, answers []<-chan error) {
	t.Helper()
	close(h.release)
	for i, a := range answers {
		require.EqualError(t, <-a, strconv.Itoa(i))
	}
	h.wg.Wait()
	require.Empty(t, h.queues)
}

func numbers(group []*request[int]) []int {
	var out []int
	for _, r := range group {
		out = append(out, r.data)
	}
	return out
}

// What comes while the leaders are busy shares the next batch: in order, one mode each, and no batch of very many rows.
// Each request gets its own answer.
func TestMerger_groups(t *testing.T) {
	t.Parallel()
	h := newHeld(2)
	requests := []*request[int]{
		{data: 0, items: 1},
		{data: 1, items: 1}, // lead at once
		{data: 2, items: 600},
		{data: 3, items: 400},
		{data: 4, items: 1, mode: promise{wal: wal.WaitFor}},
		{data: 5, items: 25},
		{data: 6, items: 24},
		{data: 7, items: 5000},
		{data: 8, items: 1},
	}
	var answers []<-chan error
	for i, r := range requests {
		answers = append(answers, h.send(t.Context(), t, r))
		if i < 2 {
			require.Equal(t, []int{i}, numbers(<-h.commits), "nobody waits on a quiet server")
		}
	}
	for _, want := range [][]int{{2, 3, 6}, {4}, {5, 8}, {7}} {
		h.release <- struct{}{}
		require.Equal(t, want, numbers(<-h.commits))
	}
	h.finish(t, answers)
}

// No tenant waits for the batches of another, and a tenant without a request is forgotten.
func TestMerger_tenants_do_not_wait_for_each_other(t *testing.T) {
	t.Parallel()
	h := newHeld(1)
	var answers []<-chan error
	for i, tenant := range []string{"a", "b", "a"} {
		answers = append(answers, h.send(t.Context(), t, &request[int]{data: i, tenant: tenant}))
		if i < 2 {
			require.Equal(t, []int{i}, numbers(<-h.commits))
		}
	}
	h.finish(t, answers)
}

// What waits is bounded in bytes: more goes past it, and a request that leaves makes room.
func TestMerger_bounds_what_waits(t *testing.T) {
	t.Parallel()
	h := newHeld(1)
	ctx, leave := context.WithCancel(t.Context())
	first := h.send(t.Context(), t, &request[int]{data: 1, size: waitingBytes})
	require.Equal(t, []int{1}, numbers(<-h.commits))
	gone := h.send(ctx, t, &request[int]{data: 2, size: waitingBytes})
	past := make(chan error, 1)
	h.wg.Go(func() { past <- h.do(t.Context(), &request[int]{data: 3, size: 1}) })
	require.Equal(t, []int{3}, numbers(<-h.commits), "no room to wait")
	leave()
	require.ErrorIs(t, <-gone, context.Canceled)
	waits := h.send(t.Context(), t, &request[int]{data: 4, size: 1})
	close(h.release)
	require.EqualError(t, <-first, "1")
	require.EqualError(t, <-past, "3")
	require.EqualError(t, <-waits, "4")
	h.wg.Wait()
	require.Zero(t, h.bytes)
	require.Empty(t, h.queues)
}

// A client that leaves while it waits is in no batch; one that leaves later does not end the batch of others.
func TestMerger_a_client_leaves(t *testing.T) {
	t.Parallel()
	h := newHeld(1)
	ctx, leave := context.WithCancel(t.Context())
	first := h.send(ctx, t, &request[int]{data: 1})
	require.Equal(t, []int{1}, numbers(<-h.commits))
	gone := h.send(ctx, t, &request[int]{data: 2})
	stays := h.send(t.Context(), t, &request[int]{data: 3})
	leave()
	require.ErrorIs(t, <-gone, context.Canceled)
	h.release <- struct{}{}
	require.EqualError(t, <-first, "1", "its batch was on its way")
	require.Equal(t, []int{3}, numbers(<-h.commits))
	h.release <- struct{}{}
	require.EqualError(t, <-stays, "3")
	require.ErrorIs(t, h.do(ctx, &request[int]{data: 4}), context.Canceled, "gone before")
	require.Empty(t, h.commits)
	h.wg.Wait()
}

// Very many at once: each gets its own answer, and the merger is at rest after them. For -race.
func TestMerger_many(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[int]int{}
	m := newMerger(func(group []*request[int]) {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range group {
			seen[r.data]++
			r.err = errors.New(strconv.Itoa(r.data))
		}
	})
	const clients, rounds = 64, 50
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for n := range rounds {
				id := c*rounds + n
				err := m.do(t.Context(), &request[int]{data: id, items: id % 300, tenant: strconv.Itoa(c % 3)})
				if err == nil || err.Error() != strconv.Itoa(id) {
					t.Errorf("request %d: %v", id, err)
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, clients*rounds)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
	require.Empty(t, m.queues)
}

// One request whose rows cannot be stored does not fail those it would have shared a batch with, and a disk that
// refuses the batch refuses all of it. T-20.
func TestExporter_merged_requests_fail_on_their_own(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, err := newLogs(r.set, r.cfg, newRegistry(r.log.open))
	require.NoError(t, err)
	require.NoError(t, e.start(t.Context(), r.host))
	good := func(n int) *request[plog.Logs] {
		ld := plog.NewLogs()
		records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
		for range n {
			records.AppendEmpty().Body().SetStr("good")
		}
		return &request[plog.Logs]{data: ld, items: n, tenant: segment.DefaultTenant, mode: promise{wal: wal.WaitFor}}
	}
	bad := good(200) // its rows repeat a resource to more than what one request may hold
	bad.data.ResourceLogs().At(0).Resource().Attributes().PutStr("big", strings.Repeat("x", 30<<20))
	group := []*request[plog.Logs]{good(1), bad, good(2)}
	e.commit(group)
	require.NoError(t, group[0].err)
	require.ErrorIs(t, group[1].err, errContent)
	require.NoError(t, group[2].err)
	var rows []int
	for _, a := range r.log.taken() {
		rows = append(rows, a.Rows)
	}
	require.Equal(t, []int{1, 2}, rows)

	refused := errors.New("disk")
	r.log.failWith(refused)
	group = []*request[plog.Logs]{good(1), good(2)}
	e.commit(group)
	require.ErrorIs(t, group[0].err, refused)
	require.ErrorIs(t, group[1].err, refused)
	group = []*request[plog.Logs]{good(1), good(2)}
	e.commit(group)
	require.NoError(t, errors.Join(group[0].err, group[1].err))
	require.Equal(t, 3, r.log.taken()[1].Rows, "one batch")

	r.log.failWith(&wal.LimitError{Limit: "max_in_flight"}, nil, &wal.LimitError{Limit: "max_in_flight"})
	group = []*request[plog.Logs]{good(1), good(2)}
	e.commit(group)
	require.NoError(t, group[0].err, "there is no room for both, and room for one")
	require.ErrorIs(t, group[1].err, wal.ErrFull)
	require.NoError(t, e.shutdown(t.Context()))
}
