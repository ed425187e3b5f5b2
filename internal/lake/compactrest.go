package lake

import (
	"context"
	"time"
)

const (
	// giveWayStep and giveWaySteps are how long compaction waits for commits of rows before each chunk of its own: a
	// drain that never rests does not stop it. behindSteps are how long while the drain is behind: then compaction takes
	// a hundredth of a core.
	giveWayStep  = 100 * time.Millisecond
	giveWaySteps = 10
	behindSteps  = 100
)

// resting is called after each chunk of rows, with the time that it took.
type resting func(ctx context.Context, worked time.Duration) error

// rest lets others work for as long as compaction has, longer while rows are being committed, and much longer while
// rows wait that should have been.
func (k *compactor) rest(ctx context.Context, worked time.Duration) error {
	if err := k.lake.wait(ctx, worked); err != nil {
		return err
	}
	for i := 0; i < giveWaySteps && k.lake.busy.Load() > 0 || i < behindSteps && k.behind(); i++ {
		if err := k.lake.wait(ctx, giveWayStep); err != nil {
			return err
		}
	}
	return nil
}
