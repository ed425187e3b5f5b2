package wal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// maxUnsealed bounds the segments of one lane that wait to be sealed, each with an open file. 64 is the work of
// most of a second at 400,000 rows/s in segments of 4,096.
const maxUnsealed = 64

// lane is one tenant and index. It stays for the life of the Log; its goroutines do not.
type lane struct {
	log   *Log
	seg   segment.Lane
	namer *segment.Namer
	wake  chan struct{} // one slot: something changed for run
	// rebind asks run to look at the owner file: it seals the open segment if that names another table.
	rebind atomic.Bool

	mu       sync.Mutex
	queue    []*pending
	running  bool
	unsealed []*openSegment // handed to the sealer, in order of their numbers
	sealing  bool
	sealErr  error         // of the last round, nil when all of it was sealed
	olderErr error         // why rows before were not synced, when their segment is in unsealed no more
	sealWake chan struct{} // one slot: a new segment or closing, for a sealer that pauses

	// Below: owned by run.
	taken    []*pending // from queue, in order, not answered
	cur      *openSegment
	prepared bool       // the directories are there, durably
	voided   segment.ID // a number taken for a segment that was removed before it had a row; used next
	owner    uuid.UUID  // last readable content of the owner file
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
		case ln.cur != nil && !ln.log.isClosing():
			ln.wait()
		default:
			ln.roll()
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
	ln.queue, ln.taken, ln.bufs = nil, nil, nil // an idle lane keeps no buffers
	if ln.age != nil {
		ln.age.Stop()
		ln.age = nil
	}
	return true
}

// wait sleeps until there is something to do for the open segment.
func (ln *lane) wait() {
	left := ln.log.opt.MaxAge - ln.log.opt.Now().Sub(ln.cur.opened)
	if ln.age == nil {
		ln.age = time.NewTimer(left)
	} else {
		ln.age.Reset(left)
	}
	select {
	case <-ln.wake:
		if ln.rebind.Swap(false) && ln.readOwner() != ln.cur.table {
			ln.roll()
		}
	case <-ln.age.C:
		ln.roll()
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
	if s := ln.cur; s != nil && (s.damaged || s.at.rows >= int64(ln.log.opt.MaxEvents) ||
		s.at.off >= ln.log.opt.SegmentMaxBytes) {
		ln.roll()
	}
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
		ln.log.opt.Now().Sub(s.opened) < ln.log.opt.MaxAge
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
		ln.log.answer(ln.taken[n], err)
		n++
	}
	ln.drop(n)
}

// open makes the next segment of the lane, with its header and schema written. It waits for the sealer when
// that is far behind, and refuses when it is far behind because the disk refuses to seal.
func (ln *lane) open(schema *schemaMessage) error {
	for {
		ln.mu.Lock()
		behind, err := len(ln.unsealed), ln.sealErr
		ln.mu.Unlock()
		if behind < maxUnsealed {
			break
		}
		if err != nil {
			return fmt.Errorf("append to %s: %d segments wait to be sealed: %w", ln.seg.Key(), behind, err)
		}
		<-ln.wake // the sealer signals after each round
	}
	if !ln.prepared {
		if err := ln.seg.Prepare(); err != nil {
			return fmt.Errorf("prepare %s: %w", ln.seg.Key(), err)
		}
		ln.prepared = true
	}
	id := ln.voided
	if id == (segment.ID{}) {
		id = ln.namer.Next(ln.log.opt.Now())
	}
	ln.voided = segment.ID{}
	s, removed, err := ln.create(id, schema)
	if err != nil {
		if removed {
			ln.voided = id // the number is not used up: the lane's numbers stay without a gap
		}
		return err
	}
	ln.cur = s
	return nil
}

// roll hands the open segment to the sealer. A segment without a row is removed instead.
func (ln *lane) roll() {
	s := ln.cur
	if s == nil {
		return
	}
	ln.cur = nil
	if s.at.rows == 0 {
		if ln.discard(s) {
			ln.voided = s.id
		}
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

// readOwner returns the table that the drain has named as owner. An unreadable file changes nothing: the rows
// keep the opinion the lane had, and the drain decides.
func (ln *lane) readOwner() uuid.UUID {
	table, err := ln.seg.Owner()
	if err != nil {
		ln.log.opt.Logger.Warn("owner file not readable, segments keep the table last read",
			zap.String("dir", ln.seg.Key()), zap.Error(err))
		return ln.owner
	}
	ln.owner = table
	return table
}

// answer ends one request and counts it.
func (l *Log) answer(p *pending, err error) {
	o := outcomeOK
	if err != nil {
		o = outcomeFailed
	}
	l.met.appends.Add(context.Background(), 1, l.met.byAppend[p.req.Mode][o])
	p.done <- err
}
