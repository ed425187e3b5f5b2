package drain

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// 04 §1: the gate stretches when a commit of each lane with something in it takes longer than its age, and no further than
// a minute. Late segments' commits have no part in it.
func TestGate_stretches(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.GateAge, w.opt.GateBytes = 10*time.Second, 1<<30
	d, l := w.laneOf("events")
	age := func(commit time.Duration, late bool, dirty int) time.Duration {
		d.commitTime = 0
		d.observeCommit(commit, late)
		d.stretch(dirty)
		return l.gateAge(&file{})
	}
	require.Equal(t, 10*time.Second, l.gateAge(&file{}), "before the first look")
	require.Equal(t, 10*time.Second, age(time.Second, false, lanesAtOnce), "a second for all")
	require.Equal(t, 20*time.Second, age(4*time.Second, false, 5*lanesAtOnce))
	require.Equal(t, longestRound, age(4*time.Second, false, 1000))
	require.Equal(t, 10*time.Second, age(4*time.Second, true, 1000), "late ones")

	d.commitTime = 80 * time.Second // the one lane: 20 s
	w.age(w.lane("events").Path(segment.Sealed, w.seal(spec{at: time.Now()})), 15*time.Second)
	d.lanes["events"] = l
	require.NoError(t, l.list())
	d.publish(nil)
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Sealed: 1}, w.states("events"), "stretched by the look at the lanes")
	d.commitTime = time.Second
	d.publish(nil)
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
	w.accounted()
}

// A drain that is stuck says so: in its status, in the log, once, and as a number; and says when it goes on.
func TestRun_tells_of_a_stall(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.StallAfter = 50 * time.Millisecond
	var status atomic.Pointer[error]
	w.opt.Status = func(err error) { status.Store(&err) }
	show := w.gauges()
	leave := make(chan struct{})
	w.tables.get("events").before = func(ctx context.Context, _ []lake.Segment) error {
		select {
		case <-leave:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.seal(spec{})
	stop := w.start()
	eventually(t, func() bool { return show("siglake_compactor_lanes_stalled") == 1 && *status.Load() != nil }, "told")
	require.ErrorContains(t, *status.Load(), "lane default/events: no progress since ")
	require.ErrorContains(t, *status.Load(), "commit of 1 segments")
	stuck := w.logs.FilterMessageSnippet("makes no progress").FilterField(zap.String("step", "commit of 1 segments"))
	require.Equal(t, 1, stuck.Len(), "logged once")
	close(leave)
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 }, "commit")
	eventually(t, func() bool { return show("siglake_compactor_lanes_stalled") == 0 && *status.Load() == nil }, "it goes on")
	require.NoError(t, stop())
	w.accounted()
}
