package wal

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// waitFor waits in the background for the commit of a segment.
func waitFor(ctx context.Context, l *Log, id segment.ID) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Committed(ctx, "t", "events", id) }()
	return done
}

// A segment may be anywhere: only its name in committed/ ends the wait. In sealed/ the drain is woken for it, in the lane and
// in the root, and again when it comes back.
func TestCommitted_only_what_is_in_committed_T15(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, options(vfs.OS(), dir))
	defer closeLog(t, l)
	r, err := l.Append(t.Context(), request(t, WaitFor, 1))
	require.NoError(t, err)
	rolled, err := l.Append(t.Context(), Request{
		Tenant: "t", Index: "events", Schema: testSchemas[1], Body: body(t, testSchemas[1], 2), Rows: 1, MinTime: 2, MaxTime: 2, Mode: WaitFor,
	})
	require.NoError(t, err)
	require.NotEqual(t, r.Segment, rolled.Segment, "another schema has another segment")
	lane, err := l.root.Lane("t", "events")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return l.isIn(&awaited{lane: lane, id: r.Segment}, segment.Sealed) }, time.Minute, time.Millisecond)

	done := waitFor(t.Context(), l, r.Segment)
	again := waitFor(t.Context(), l, r.Segment)
	last := time.Time{}
	woken := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			at, err := lane.Woken()
			require.NoError(t, err)
			inRoot, err := l.root.Woken()
			require.NoError(t, err)
			if at.Equal(last) || !inRoot.Equal(at) {
				return false
			}
			last = at
			return true
		}, time.Minute, time.Millisecond)
	}
	woken()
	name := r.Segment.FileName()
	for _, step := range []struct{ from, to segment.State }{
		{segment.Sealed, segment.Processing},
		{segment.Processing, segment.Orphans},
		{segment.Orphans, segment.Poison},
		{segment.Poison, segment.Stale},
		{segment.Stale, segment.Sealed}, // given back
		{segment.Sealed, segment.Processing},
		{segment.Processing, segment.Committed},
	} {
		select {
		case err := <-done:
			require.Fail(t, "answered", "in %s: %v", step.from, err)
		case <-time.After(5 * lookEvery):
		}
		require.NoError(t, vfs.OS().Rename(lane.Path(step.from, name), lane.Path(step.to, name)))
		if step.to == segment.Sealed {
			woken()
		}
	}
	require.NoError(t, <-done)
	require.NoError(t, <-again)
	require.NoError(t, l.Committed(t.Context(), "t", "events", r.Segment), "who asks late")

	short, cancel := context.WithTimeout(t.Context(), 10*lookEvery)
	defer cancel()
	require.ErrorIs(t, l.Committed(short, "t", "events", rolled.Segment), context.DeadlineExceeded, "the segment that came after it is another one")
	require.Empty(t, l.committing.segments, "nobody waits")
}

// The end of the log ends all waits, early and late ones, and says that it does not know.
func TestCommitted_ends_with_the_log(t *testing.T) {
	t.Parallel()
	l := open(t, options(vfs.OS(), t.TempDir()))
	r, err := l.Append(t.Context(), request(t, WaitFor, 1))
	require.NoError(t, err)
	done := waitFor(t.Context(), l, r.Segment)
	require.Eventually(t, func() bool {
		l.committing.mu.Lock()
		defer l.committing.mu.Unlock()
		return len(l.committing.segments) == 1
	}, time.Minute, time.Millisecond)
	l.committing.mu.Lock()
	l.committing.segments[r.Segment].since = time.Now().Add(-time.Hour) // looked for seldom
	l.committing.mu.Unlock()
	closeLog(t, l)
	require.ErrorIs(t, <-done, ErrClosed)
	require.ErrorIs(t, l.Committed(t.Context(), "t", "events", r.Segment), ErrClosed)
}

// A drain runs while its lock is held, and is believed to for a while after.
func TestDrained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, options(vfs.OS(), dir))
	defer closeLog(t, l)
	again := func(err error) {
		t.Helper()
		l.drain.asked = time.Time{}
		require.ErrorIs(t, l.Drained(), err)
	}
	again(ErrNoDrainYet)
	l.drain.opened = time.Now().Add(-drainKept)
	again(ErrNoDrain)
	lock, err := vfs.OS().Lock(filepath.Join(dir, segment.DrainLockName), "a drain")
	require.NoError(t, err)
	again(nil)
	require.NoError(t, lock.Close())
	again(nil) // another one may be about to take over
	l.drain.seen = time.Now().Add(-drainKept)
	again(ErrNoDrain)
}
