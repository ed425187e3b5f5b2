package wal

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// mark is a state of a segment to which it can go back: all whole requests up to an offset.
type mark struct {
	off              int64  // bytes from the start of the file
	crc              uint32 // CRC-32 (IEEE) of the bytes behind the header
	rows             int64
	minTime, maxTime int64
	untimed          bool // a batch did not tell its time range, so the segment has none
}

// openSegment is a file in active/. It belongs to run while it is the lane's cur, then to the sealer.
type openSegment struct {
	id     segment.ID
	lease  *segment.Lease // nil where the root is not shared
	path   string
	file   vfs.File
	inode  uint64
	schema *schemaMessage
	table  uuid.UUID
	opened time.Time
	due    time.Time // when it is sealed at the latest

	at     mark // everything written whole: the good offset
	synced mark // the part of it that a successful Sync covers
	named  bool // active/ was synced since the file was created
	// damaged: the file must not be appended to or synced any more, because a truncate or a sync was refused.
	// Its good prefix is copied before it is sealed.
	damaged bool
	ended   bool  // EOS stands behind at.off
	headed  bool  // the final header is written
	final   bool  // both are synced
	whole   bool  // and the file is closed: only the move is missing
	pin     error // why the mirror has no pin on it; set before moving
	moving  bool  // the move was begun
	lost    error // why it may be somebody else's by now

	// Guarded by the lane's mu once the sealer has it.
	flushed  bool       // all of it is synced, or the sealer has tried and been refused
	flushErr error      // that refusal, until somebody has been told
	waiters  []*pending // want to know when it is in sealed/
}

// write commits one group to the open segment and answers each request of it. Requests that reached the file
// whole before a write was cut short are kept and answered like any other; the rest is refused.
func (ln *lane) write(group []*pending) {
	s := ln.cur
	before := s.at
	kept, err := ln.put(group)
	var serr, olderErr error
	if anyWaits(group[:kept]) {
		if serr = ln.sync(s); serr != nil {
			s.damaged = true
			s.at = before // nothing of the group was promised; it is not copied when the file is
		} else {
			olderErr = ln.awaitOlder()
		}
	}
	if s.lost = ln.held(s); s.lost != nil {
		serr = s.lost
	}
	if before.rows == 0 && s.at.rows > 0 && s.lost == nil {
		ln.log.unsealed.add(s)
	}
	for _, p := range group[:kept] {
		if d := p.req.SealWithin; d > 0 {
			s.dueWithin(ln.log.opt.Now(), d)
		}
	}
	ln.answer(group, func(i int) error {
		switch {
		case i >= kept:
			return err
		case serr == nil && group[i].req.Mode == WaitFor:
			return olderErr
		default:
			return serr
		}
	})
}

// dueWithin has the segment sealed no later than d from now.
func (s *openSegment) dueWithin(now time.Time, d time.Duration) {
	if due := now.Add(d); due.Before(s.due) {
		s.due = due
	}
}

// put writes a group with one Writev and tells how many requests of it are in the file whole. A group that fills
// the segment and will be synced brings the end of the stream and the final header with it: one sync then makes
// the rows durable and the segment ready to move.
func (ln *lane) put(group []*pending) (kept int, err error) {
	s := ln.cur
	start := s.at.off
	rows, off := s.at.rows, start
	ln.bufs = ln.bufs[:0]
	for _, p := range group {
		if s.synced.off > 0 {
			// So that recovery tells a hole in this group from damage in what was promised. Append has parsed
			// the body, so there is no error.
			_ = frame.MarkSynced(p.req.Body, s.synced.off)
		}
		ln.bufs = append(ln.bufs, p.req.Body)
		rows += int64(p.req.Rows)
		off += int64(len(p.req.Body))
	}
	last := ln.full(rows, off) && anyWaits(group)
	if last {
		ln.bufs = append(ln.bufs, frame.EOS())
	}
	n, err := s.file.Writev(ln.bufs)
	clear(ln.bufs)
	kept = s.take(group, n)
	ln.log.space.written.Add(s.at.off - start)
	switch {
	case err == nil && last:
		s.ended = true
		s.headed = s.writeHeader() == nil // else the sealer tries again, and reports
	case err != nil:
		err = fmt.Errorf("append to %s: %w", s.path, err)
		if terr := s.file.Truncate(s.at.off); terr != nil {
			s.damaged = true
			err = errors.Join(err, fmt.Errorf("cut %s at %d: %w", s.path, s.at.off, terr))
		}
	}
	return kept, err
}

func anyWaits(group []*pending) bool {
	return slices.ContainsFunc(group, func(p *pending) bool { return p.req.Mode == WaitFor })
}

// take moves the good offset over the requests that n bytes hold whole, and gives them their rows.
func (s *openSegment) take(group []*pending, n int64) (kept int) {
	for _, p := range group {
		size := int64(len(p.req.Body))
		if n < size {
			return kept
		}
		n -= size
		first := s.at.rows
		s.at.add(&p.req)
		p.receipt = Receipt{Segment: s.id, First: first, End: s.at.rows}
		kept++
	}
	return kept
}

func (m *mark) add(r *Request) {
	switch {
	case r.MinTime == 0 && r.MaxTime == 0:
		m.untimed = true
	case m.rows == 0:
		m.minTime, m.maxTime = r.MinTime, r.MaxTime
	default:
		m.minTime, m.maxTime = min(m.minTime, r.MinTime), max(m.maxTime, r.MaxTime)
	}
	m.off += int64(len(r.Body))
	m.crc = crc32.Update(m.crc, crc32.IEEETable, r.Body)
	m.rows += int64(r.Rows)
}

// times is the event time range for the header; both 0 when not every batch told its own.
func (m *mark) times() (int64, int64) {
	if m.untimed {
		return 0, 0
	}
	return m.minTime, m.maxTime
}

// sync makes everything up to the good offset durable, and the file's name once. An error ends the file: what a
// failed sync left unwritten is lost, and a later sync that succeeds proves nothing. That holds for the
// directory too.
func (ln *lane) sync(s *openSegment) error {
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.path, err)
	}
	if !s.named {
		if err := ln.log.fs.SyncDir(ln.seg.Dir(segment.Active)); err != nil {
			return fmt.Errorf("sync the name of %s: %w", s.path, err)
		}
		s.named = true
	}
	s.synced = s.at
	s.final = s.headed
	return nil
}

// awaitOlder waits until what was appended under Auto to earlier segments is synced too: an answer under WaitFor
// covers all rows of the lane before it. Nothing is waited for unless such rows ended the last segment. Where
// the disk has refused, the error is returned once; later answers do not depend on those rows any more.
func (ln *lane) awaitOlder() error {
	for {
		dirty, err := ln.older()
		if !dirty {
			return err
		}
		<-ln.wake // the sealer signals
	}
}

func (ln *lane) older() (dirty bool, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for _, s := range ln.unsealed {
		dirty = dirty || !s.flushed
	}
	if dirty {
		return true, nil
	}
	errs := []error{ln.olderErr}
	ln.olderErr = nil
	for _, s := range ln.unsealed {
		if s.flushErr != nil {
			errs = append(errs, fmt.Errorf("sync the rows before: segment %s: %w", s.id, s.flushErr))
			s.flushErr = nil
		}
	}
	return false, errors.Join(errs...)
}

// answer counts a group and ends each request of it with its verdict. A request may be in use again as soon as
// its caller has the answer.
func (ln *lane) answer(group []*pending, verdict func(i int) error) {
	var tally [modes][outcomes]int64
	var rows, size int64
	for i, p := range group {
		if verdict(i) != nil {
			tally[p.req.Mode][outcomeFailed]++
			continue
		}
		tally[p.req.Mode][outcomeOK]++
		rows += int64(p.req.Rows)
		size += int64(len(p.req.Body))
	}
	ctx, met := context.Background(), ln.log.met
	for mode := range tally {
		for o, n := range tally[mode] {
			if n > 0 {
				met.appends.Add(ctx, n, met.byAppend[mode][o]...)
			}
		}
	}
	if rows > 0 {
		met.groupSize.Record(ctx, int64(len(group)))
		met.appendRows.Add(ctx, rows)
		met.appendBytes.Add(ctx, size)
	}
	for i, p := range group {
		p.done <- verdict(i)
	}
}
