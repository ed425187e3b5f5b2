package drain

import (
	"context"
	"errors"
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

// The drain is behind when a segment that may be committed has not been for a while after its gate opened: not while the
// gate is shut, not for late segments, which wait longer, and not for those of a lane whose trouble is told.
func TestPublish_tells_whether_the_drain_is_behind(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.GateAge, w.opt.GateBytes = 10*time.Second, 1<<30
	var behind atomic.Bool
	w.opt.Behind = behind.Store
	d, l := w.laneOf("events")
	d.lanes["events"] = l
	look := func() bool {
		require.NoError(t, l.list())
		d.publish(nil)
		return behind.Load()
	}
	require.False(t, look(), "nothing waits")
	path := w.lane("events").Path(segment.Sealed, w.seal(spec{at: time.Now()}))
	w.age(path, 10*time.Second+behindAfter/2)
	require.False(t, look(), "the gate has just opened")
	w.age(path, 12*time.Second+behindAfter)
	clear(l.files) // or it is not looked at again
	require.True(t, look())
	l.publish(func(v *laneView) { v.err = errors.New("no table") })
	require.False(t, look(), "a lane in trouble")
	l.publish(func(v *laneView) { v.err = nil })
	require.True(t, look())
	for _, f := range l.files {
		f.late = true
	}
	l.lateAge = time.Hour
	require.False(t, look(), "late rows")
}
