package wal

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// maxUnsealed bounds the segments of one lane that wait to be sealed, each with an open file. 64 is the work of
// most of a second at 400,000 rows/s in segments of 4,096.
const maxUnsealed = 64

// hotFor is how long a lane that has filled a segment keeps its goroutine and its spare without a request. Less
// than watchEvery, because the watcher wakes each lane.
const hotFor = time.Second

// lane is one tenant and index. It stays for the life of the Log; its goroutines do not.
type lane struct {
	log     *Log
	seg     segment.Lane
	wake    chan struct{} // one slot: something changed for run
	holdsMu sync.Mutex
	holds   string // what the lane's rows are, as far as it was asked
	// rebind asks run to look at the owner file: it seals the open segment if that names another table.
	rebind atomic.Bool
	paced  atomic.Bool // its batches wait for pace

	mu       sync.Mutex
	queue    []*pending
	running  bool
	unsealed []*openSegment // handed to the sealer, in order of their numbers
	sealing  bool
	sealErr  error         // of the last round, nil when all of it was sealed
	olderErr error         // why rows before were not synced, when their segment is in unsealed no more
	sealWake chan struct{} // one slot: a new segment or closing, for a sealer that pauses

	// Below: owned by run.
	taken    []*pending     // from queue, in order, not answered
	namer    *segment.Namer // nil: no writer yet, or it was given up
	writer   [6]byte
	lease    *segment.Lease // of writer, where the root is shared
	cur      *openSegment
	hot      bool         // the last segment was filled under WaitFor: the next but one will be wanted soon
	spare    chan spare   // the segment after cur, being made or ready; nil: none
	prepared bool         // the directories are there, durably
	voided   []segment.ID // numbers taken for segments that were removed before they had a row; used next
	owner    uuid.UUID    // last readable content of the owner file
	bufs     [][]byte
	age      *time.Timer
}

func (ln *lane) enqueue(p *pending) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.queue = append(ln.queue, p)
	if !ln.running {
		ln.running = true
		ln.log.work.Go(ln.run)
		return
	}
	signal(ln.wake)
}

// signal leaves one token in a channel with one slot.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run serves the queue until the lane is idle: nothing queued and nothing open.
func (ln *lane) run() {
	for {
		ln.collect()
		switch {
		case len(ln.taken) > 0:
			ln.step()
		case (ln.cur != nil || ln.hot) && !ln.log.isClosing():
			ln.wait()
		default:
			ln.roll()
			ln.dropSpare()
			if ln.park() {
				return
			}
		}
	}
}

func (ln *lane) collect() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.taken = append(ln.taken, ln.queue...)
	clear(ln.queue)
	ln.queue = ln.queue[:0]
}

// park ends the goroutine's claim on the lane unless work came in meanwhile.
func (ln *lane) park() bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if len(ln.queue) > 0 {
		return false
	}
	ln.running = false
	ln.hot = false
	ln.queue, ln.taken, ln.bufs = nil, nil, nil // an idle lane keeps no buffers
	if ln.age != nil {
		ln.age.Stop()
		ln.age = nil
	}
	return true
}

// wait sleeps until there is something to do: a request, the age of the open segment, another table. A hot lane
// without an open segment waits hotFor before it goes idle.
func (ln *lane) wait() {
	left := hotFor
	if ln.cur != nil {
		left = ln.cur.due.Sub(ln.log.opt.Now())
	}
	if ln.age == nil {
		ln.age = time.NewTimer(left)
	} else {
		ln.age.Reset(left)
	}
	select {
	case <-ln.wake:
		if ln.rebind.Swap(false) && ln.cur != nil && ln.readOwner() != ln.cur.table {
			ln.roll()
		}
	case <-ln.age.C:
		ln.roll()
		ln.hot = false
	}
}

// step does one thing for the head of the queue: a group commit, or a wish to seal.
func (ln *lane) step() {
	head := ln.taken[0]
	if head.seal != nil {
		ln.roll()
		ln.awaitSeals(head)
		ln.drop(1)
		return
	}
	if ln.cur != nil && !ln.fits(head, 0) {
		ln.roll()
	}
	if ln.cur == nil {
		if err := ln.open(head.schema); err != nil {
			ln.refuse(err)
			return
		}
	}
	n := 1
	size := int64(len(head.req.Body))
	rows := ln.cur.at.rows + int64(head.req.Rows)
	for n < len(ln.taken) && rows < int64(ln.log.opt.MaxEvents) && ln.fits(ln.taken[n], size) {
		size += int64(len(ln.taken[n].req.Body))
		rows += int64(ln.taken[n].req.Rows)
		n++
	}
	ln.write(ln.taken[:n])
	ln.drop(n)
	switch s := ln.cur; {
	case s.lost != nil:
		ln.abandon()
	case s.damaged || ln.full(s.at.rows, s.at.off):
		ln.hot = s.synced.off > 0 && !s.damaged // before the sealer has it
		ln.roll()
	}
}

// full tells whether a segment with so many rows and bytes is to be sealed.
func (ln *lane) full(rows, off int64) bool {
	return rows >= int64(ln.log.opt.MaxEvents) || off >= ln.log.opt.SegmentMaxBytes
}

// fits tells whether p may go into the open segment behind ahead bytes of the same group.
func (ln *lane) fits(p *pending, ahead int64) bool {
	s := ln.cur
	if p.seal != nil || !p.schema.same(s.schema) {
		return false
	}
	if s.at.rows == 0 && ahead == 0 {
		return true // a segment of its own, whatever the size
	}
	return s.at.off+ahead+int64(len(p.req.Body)) <= ln.log.opt.SegmentMaxBytes &&
		ln.log.opt.Now().Before(s.due)
}

// drop forgets the first n requests of taken. Their callers have their answers and may have reused them.
func (ln *lane) drop(n int) {
	rest := copy(ln.taken, ln.taken[n:])
	clear(ln.taken[rest:])
	ln.taken = ln.taken[:rest]
}

// refuse answers every request at the head of the queue with err, up to the next wish to seal.
func (ln *lane) refuse(err error) {
	n := 0
	for n < len(ln.taken) && ln.taken[n].seal == nil {
		n++
	}
	ln.answer(ln.taken[:n], func(int) error { return err })
	ln.drop(n)
}

// roll hands the open segment to the sealer. A segment without a row is removed instead.
func (ln *lane) roll() {
	s := ln.cur
	if s == nil {
		return
	}
	ln.cur = nil
	if s.at.rows == 0 {
		ln.discard(s)
		return
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	s.flushed = s.synced == s.at
	ln.unsealed = append(ln.unsealed, s)
	if !ln.sealing {
		ln.sealing = true
		ln.log.work.Go(ln.sealLoop)
		return
	}
	signal(ln.sealWake)
}
