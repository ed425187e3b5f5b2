package mirror

import (
	"slices"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// keepConfirmed is how long a confirmation is remembered at least, for those who ask after it was given. They ask as
// soon as their rows are on the disk, which is milliseconds; a minute is a disk that hangs.
const keepConfirmed = time.Minute

// confirmations knows whose objects are confirmed and who waits for one.
type confirmations struct {
	now func() time.Time

	mu          sync.Mutex
	waiting     map[segment.ID][]chan struct{}
	recent, old map[segment.ID]struct{}
	turned      time.Time // when recent was begun
}

func newConfirmations(now func() time.Time) confirmations {
	return confirmations{
		now: now, waiting: map[segment.ID][]chan struct{}{}, recent: map[segment.ID]struct{}{}, turned: now(),
	}
}

// confirm lets all go on who wait for id.
func (c *confirmations) confirm(id segment.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.turned) > keepConfirmed {
		c.old, c.recent, c.turned = c.recent, map[segment.ID]struct{}{}, now
	}
	c.recent[id] = struct{}{}
	for _, w := range c.waiting[id] {
		close(w)
	}
	delete(c.waiting, id)
}

// confirmed tells whether id was confirmed lately.
func (c *confirmations) confirmed(id segment.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.confirmedLocked(id)
}

func (c *confirmations) confirmedLocked(id segment.ID) bool {
	_, recent := c.recent[id]
	_, old := c.old[id]
	return recent || old
}

// wait returns a channel that is closed once id is confirmed. forget gives it back.
func (c *confirmations) wait(id segment.ID) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := make(chan struct{})
	if c.confirmedLocked(id) {
		close(w)
		return w
	}
	c.waiting[id] = append(c.waiting[id], w)
	return w
}

func (c *confirmations) forget(id segment.ID, w chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := slices.DeleteFunc(c.waiting[id], func(o chan struct{}) bool { return o == w })
	if len(left) == 0 {
		delete(c.waiting, id)
	} else {
		c.waiting[id] = left
	}
}
