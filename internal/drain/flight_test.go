package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// flight counts the commits in hand, all and by table.
type flight struct {
	mu        sync.Mutex
	now, most int
	byTable   map[string]int
	twice     bool // two at a time to one table
	full      chan struct{}
	want      int // full is closed when so many are in hand
	deadline  context.Context
}

func newFlight(t *testing.T, want int) *flight {
	t.Helper()
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &flight{byTable: map[string]int{}, full: make(chan struct{}), want: want, deadline: deadline}
}

func (f *flight) enter(table string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now++
	f.byTable[table]++
	f.twice = f.twice || f.byTable[table] > 1
	if f.now > f.most {
		f.most = f.now
		if f.most == f.want {
			close(f.full)
		}
	}
}

func (f *flight) leave(table string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	f.byTable[table]--
}

// has tells whether a commit to the table is in hand.
func (f *flight) has(table string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byTable[table] > 0
}

// wait until as many are in hand as wanted. The error is for a test that would hang.
func (f *flight) wait() error {
	select {
	case <-f.full:
		return nil
	case <-f.deadline.Done():
		return errors.New("they are not in hand at one time")
	}
}

// 04 §1: commits to several tables are in hand at a time, and never two to one.
func TestFlight_tables_side_by_side(t *testing.T) {
	t.Parallel()
	w, now := onDisk(t), time.Now()
	f := newFlight(t, lanesAtOnce)
	for i := range lanesAtOnce {
		index := fmt.Sprint("lane", i)
		for range 20 {
			w.seal(spec{index: index, at: now})
		}
		w.tables.get(index).before = func(context.Context, []lake.Segment) error {
			f.enter(index)
			defer f.leave(index)
			return f.wait() // all of them are in their first one
		}
	}
	require.Equal(t, int64(20*lanesAtOnce), w.once().Segments)
	require.Equal(t, lanesAtOnce, f.most)
	require.False(t, f.twice)
}

// Commits of late rows, which may take long, never take all turns and all memory: rows of today are committed beside them.
func TestFlight_late_rows_leave_room(t *testing.T) {
	t.Parallel()
	w, now := onDisk(t), time.Now()
	f := newFlight(t, lateAtOnce)
	size := int64(len(encode(t, spec{at: now})))
	w.opt.MaxBytesInFlight = 4 * size
	let := make(chan struct{})
	for i := range 2 * lateAtOnce {
		index := fmt.Sprint("late", i)
		for range 3 {
			w.seal(spec{index: index, at: now.AddDate(-1, 0, 0)})
		}
		w.tables.get(index).before = func(ctx context.Context, _ []lake.Segment) error {
			f.enter(index)
			defer f.leave(index)
			select {
			case <-let:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	stop := w.start()
	require.NoError(t, f.wait())
	for n := range 5 {
		w.seal(spec{at: now})
		eventually(t, func() bool { return w.states("events")[segment.Committed] == n+1 }, "today's")
	}
	// Not in the lanes of those commits, but in the ones that wait for a turn with their late rows.
	beside := 0
	for i := range 2 * lateAtOnce {
		index := fmt.Sprint("late", i)
		if f.has(index) {
			continue
		}
		beside++
		table := w.tables.get(index)
		table.mu.Lock()
		table.before = nil
		table.mu.Unlock()
		w.seal(spec{index: index, at: now})
		eventually(t, func() bool { return w.states(index)[segment.Committed] == 1 }, "today's of a lane that waits")
	}
	require.Equal(t, lateAtOnce, beside)
	require.Equal(t, lateAtOnce, f.most)
	close(let)
	for i := range 2 * lateAtOnce {
		eventually(t, func() bool { return w.states(fmt.Sprint("late", i))[segment.Sealed] == 0 }, "late ones")
	}
	require.NoError(t, stop())
	require.Equal(t, lateAtOnce, f.most)
	w.accounted()
}

// 04 §1: no directory starves another. Lanes with long backlogs take turns, batch by batch, and one that comes with a single
// segment waits for no more than a turn of each.
func TestFairness_between_directories(t *testing.T) {
	t.Parallel()
	w, now := onDisk(t), time.Now()
	const lanes, each = 2 * lanesAtOnce, 50
	w.opt.MaxBytesInFlight = 2 * int64(len(encode(t, spec{at: now}))) // a segment a batch
	var commits, at atomic.Int64
	count := func(context.Context, []lake.Segment) error {
		commits.Add(1)
		return nil
	}
	for i := range lanes {
		index := fmt.Sprint("lane", i)
		for range each {
			w.seal(spec{index: index, at: now})
		}
		w.tables.get(index).before = count
	}
	first := w.tables.get("lane0")
	first.before = func(ctx context.Context, segs []lake.Segment) error {
		if first.commits == each/2 { // the others are as far, more or less
			w.seal(spec{at: now})
			at.Store(commits.Load())
		}
		return count(ctx, segs)
	}
	var waited int64
	w.tables.get("events").before = func(context.Context, []lake.Segment) error {
		waited = commits.Load() - at.Load()
		return nil
	}
	w.lane("events") // known before
	stop := w.start()
	for i := range lanes {
		eventually(t, func() bool { return w.states(fmt.Sprint("lane", i))[segment.Committed] == each }, "backlog")
	}
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 }, "the single one")
	require.NoError(t, stop())
	require.Positive(t, at.Load())
	require.Less(t, waited, int64(lanes*each/4), "of %d commits that were to come", lanes*each/2)
	w.accounted()
}
