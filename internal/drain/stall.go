package drain

import (
	"fmt"
	"time"

	"go.uber.org/zap"
)

// progress is the step that a pass is at.
type progress struct {
	what string
	mono time.Duration // since() when it began
	wall time.Time
	told bool // the loop's own
}

// at notes the step that the lane's pass comes to.
func (l *lane) at(what string) {
	l.step.Store(&progress{what: what, mono: l.d.since(), wall: wall(l.d.opt.Now())})
}

// stalled is the error of a lane that has been at one step for StallAfter. The step is not torn: each answer of a catalog
// and of a store has a time limit of its own in the lake, and an operation of a file system cannot be given up.
func (l *lane) stalled() error {
	p := l.step.Load()
	if p == nil || !l.busy.Load() || l.d.since()-p.mono < l.d.opt.StallAfter {
		return nil
	}
	since := p.wall.UTC().Format(time.RFC3339)
	if !p.told {
		p.told = true
		l.log.Error("drain makes no progress; look at the disk, the catalog and the store. What is acknowledged is safe in the log",
			zap.String("step", p.what), zap.String("since", since))
	}
	return fmt.Errorf("no progress since %s: %s", since, p.what)
}
