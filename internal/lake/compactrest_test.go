package lake

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While the drain is behind a round of compaction makes no step that it does not wait for, and a merge that has begun
// stops between two chunks of rows; when the drain has caught up it goes on where it was. No time is measured: the
// test's clock is the waiting itself.
func TestCompact_rests_while_the_drain_is_behind(t *testing.T) {
	t.Parallel()
	var waited []time.Duration
	l := lakeAt(t, t.TempDir(), hooks{
		limits: limits{chunkRows: 4},
		wait: func(_ context.Context, d time.Duration) error {
			waited = append(waited, d)
			return nil
		},
	})
	segs := commitEach(t, events(t, l), mergeFiles)
	waited = nil
	c := newCompactor(l)
	steps := 0 // waits for the drain since the round began
	behind, stop := true, 3*behindSteps
	c.behind = func() bool {
		steps++
		return behind
	}
	enough := errors.New("enough")
	l.wait = func(_ context.Context, d time.Duration) error {
		waited = append(waited, d)
		if len(waited) == stop {
			return enough
		}
		return nil
	}
	require.ErrorIs(t, c.round(t.Context()), enough)
	require.Len(t, manifestFiles(t, l), mergeFiles, "it has not come far")
	full := 0
	for _, d := range waited {
		if d == giveWayStep {
			full++
		}
	}
	require.GreaterOrEqual(t, full, stop-4, "two steps of its own, and else it waited: %v", waited)

	// It is not stopped for ever by a drain that stays behind: it takes a step, and waits again.
	stop = -1
	waited = nil
	require.NoError(t, c.round(t.Context()))
	require.Len(t, manifestFiles(t, l), 1)
	require.Greater(t, len(waited), mergeFiles*behindSteps)
	requireExactly(t, l, segs...)

	// Where nobody waits, it rests as long as it worked and no longer.
	more := commitEach(t, events(t, l), mergeFiles)
	waited, behind, steps = nil, false, 0
	require.NoError(t, c.round(t.Context()))
	require.Positive(t, steps)
	require.NotContains(t, waited, giveWayStep)
	requireExactly(t, l, append(segs, more...)...)
}
