package drain

import (
	"context"
	"time"
)

// longestRound is how far the gate is stretched.
const longestRound = time.Minute

// behindAfter is how long after the gate opened for a segment the drain is behind.
const behindAfter = 5 * time.Second

// gateAge is the age at which a segment opens the gate.
func (l *lane) gateAge(f *file) time.Duration {
	l.d.mu.Lock()
	age := max(l.d.opt.GateAge, l.d.stretched)
	l.d.mu.Unlock()
	if f.late {
		return max(age, l.lateAge)
	}
	return age
}

// stretch sets the gate's age to the time that one commit of each lane with something to commit takes, when that is
// longer than GateAge: lanes that wait for their turn anyway then have more in their commit. Commits of late segments,
// which are rare and long, are left out.
func (d *drain) stretch(dirty int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	round := d.commitTime * time.Duration(dirty) / lanesAtOnce
	d.stretched = min(round, longestRound)
	d.m.gateAge.Record(context.Background(), max(d.opt.GateAge, d.stretched).Seconds())
}

// observeCommit notes how long a commit took.
func (d *drain) observeCommit(took time.Duration, late bool) {
	d.m.commitTime.Record(context.Background(), took.Seconds())
	if late {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.commitTime == 0 {
		d.commitTime = took
	}
	d.commitTime += (took - d.commitTime) / 8 // the last eight, more or less
}
