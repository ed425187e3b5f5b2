package drain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// auditEvery is how often a lane's numbers are looked at. A gap stays provable, so nothing is missed between.
const auditEvery = 10 * time.Second

// audit counts what is set aside, looks for numbers that no name and no record accounts for, reports each gap once,
// and brings the record up to date. Its cost grows with the segments there are, not with those there ever were.
//
// The report comes before the record, so a crash in between makes it twice and never loses it. Durable when it
// returns nil; idempotent. A legacy lane's writers are not ours, and their numbers promise nothing.
func (l *lane) audit(ctx context.Context) error {
	if l.d.since() < l.auditAt && !l.d.once {
		return nil
	}
	if err := l.d.scans.Acquire(ctx, 1); err != nil {
		return nil // told to stop
	}
	defer l.d.scans.Release(1)
	census, err := l.dir.Census()
	if err != nil {
		return fmt.Errorf("list the lane: %w", err)
	}
	l.publish(func(v *laneView) { v.poison, v.stale = census.Count(segment.Poison), census.Count(segment.Stale) })
	if !l.dir.Legacy() {
		if err := l.account(census); err != nil {
			return err
		}
	}
	l.auditAt = l.d.since() + auditEvery
	return nil
}

// account holds a census against the record.
func (l *lane) account(census segment.Census) error {
	if err := l.loadNumbers(census); err != nil {
		return err
	}
	census, coming, err := l.lookAgain(census)
	if err != nil {
		return err
	}
	fold := l.numbers.SettleCensus
	if !coming {
		l.tellGaps(census.Gaps(*l.numbers))
		fold = l.numbers.Fold
	}
	l.unsaved = fold(census) || l.unsaved
	if err := l.saveNumbers(); err != nil {
		return err
	}
	return l.dir.RemoveVoids(census)
}

// lookAgain lists the lane once more if numbers are missing. They may be coming: somebody restores segments beside us, or had not
// ended when the lane was listed. Those that are missing still when he is done are told then.
func (l *lane) lookAgain(census segment.Census) (_ segment.Census, coming bool, err error) {
	for tries := 1; len(census.Gaps(*l.numbers)) > 0; tries++ {
		// What cannot be asked is not held: a gap is told rather than not.
		if held, _ := l.d.opt.FS.Held(filepath.Join(l.d.opt.WAL, segment.RestoreLockName)); held {
			return census, true, nil
		}
		if tries == 2 {
			break
		}
		if census, err = l.dir.Census(); err != nil {
			return census, false, fmt.Errorf("list the lane: %w", err)
		}
	}
	return census, false, nil
}

func (l *lane) tellGaps(gaps []segment.Gap) {
	for _, g := range gaps {
		l.d.m.gaps.add(1)
		l.log.Error("gap in a writer's sequence numbers: segments are gone that were not retired: removed by somebody, lost "+
			"by the disk, or not in the mirror that the log was restored from; how many rows they had is not known",
			zap.String("writer", g.Writer), zap.Uint64("first", g.First), zap.Uint64("last", g.Last))
	}
}

// loadNumbers reads the record once in a life. A lane that was never drained and has none has retired nothing.
func (l *lane) loadNumbers(census segment.Census) error {
	if l.numbers != nil {
		return nil
	}
	n, ok, err := l.dir.Numbers()
	if errors.Is(err, segment.ErrRecord) {
		l.log.Error("record of sequence numbers is damaged, set aside; gaps of before are not found any more", zap.Error(err))
		if err := l.dir.SetNumbersAside(); err != nil {
			return err
		}
		n, ok, err = census.Baseline(), true, nil
		l.unsaved = true
	}
	if err != nil {
		return err
	}
	if !ok {
		drained, err := l.dir.Drained()
		if err != nil {
			return fmt.Errorf("look whether the lane was drained: %w", err)
		}
		if drained {
			n = census.Baseline()
		}
		l.unsaved = true // before the first commit, which makes the lane a drained one
	}
	l.numbers = &n
	return nil
}

func (l *lane) saveNumbers() error {
	if !l.unsaved {
		return nil
	}
	if err := l.dir.WriteNumbers(*l.numbers); err != nil {
		return err
	}
	l.unsaved = false
	return nil
}

// settleNumbers records the numbers of segments that are about to be unlinked. Durable when it returns nil.
func (l *lane) settleNumbers(names []string) error {
	if l.dir.Legacy() {
		return nil
	}
	if l.numbers == nil {
		return errors.New("the record of sequence numbers is not read yet")
	}
	ids := make([]segment.ID, len(names))
	for i, name := range names {
		id, _, err := segment.ParseName(name)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		ids[i] = id
	}
	l.unsaved = l.numbers.Settle(ids) || l.unsaved
	return l.saveNumbers()
}
