package wal

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

const (
	sealRetryFirst   = 100 * time.Millisecond
	sealRetryLongest = 10 * time.Second
	// closeTries is how often Close tries to seal what the disk refuses. What is left is durable in active/ as
	// far as it was promised, and the next Open recovers it.
	closeTries = 3
)

// sealWait waits for the segments that were unsealed when it was made.
type sealWait struct {
	left int // guarded by the lane's mu
}

// sealLoop seals what run has handed over until nothing is left. What the disk refuses stays and is tried
// again, with pauses, beside what comes in meanwhile.
func (ln *lane) sealLoop() {
	pause, failures := sealRetryFirst, 0
	for {
		last := ln.log.isClosing() // seen before the round: each of the last tries is a whole one
		err := ln.sealRound()
		if err == nil {
			pause, failures = sealRetryFirst, 0
			if ln.sealDone() {
				return
			}
			continue
		}
		if last {
			failures++
		}
		if failures >= closeTries || ln.log.givenUp() {
			ln.leaveUnsealed(err)
			return
		}
		ln.log.opt.Logger.Warn("seal refused, will be tried again",
			zap.String("dir", ln.seg.Key()), zap.Duration("after", pause), zap.Error(err))
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ln.sealWake:
		case <-ln.log.giveUp:
		}
		t.Stop()
		pause = min(2*pause, sealRetryLongest)
	}
}

// sealRound tries each waiting segment once, in order.
func (ln *lane) sealRound() error {
	ln.mu.Lock()
	todo := slices.Clone(ln.unsealed)
	ln.mu.Unlock()
	var err error
	refused := 0
	for _, s := range todo {
		serr := ln.sealTimed(s)
		if serr != nil && !errors.Is(serr, segment.ErrLeaseLost) {
			if refused++; refused == 1 {
				err = fmt.Errorf("seal %s: %w", s.id, serr)
			}
			continue
		}
		ln.log.unsealed.remove(s)
		ln.mu.Lock()
		ln.unsealed = slices.DeleteFunc(ln.unsealed, func(o *openSegment) bool { return o == s })
		ln.notifyLocked(s, serr)
		if s.flushErr != nil {
			ln.olderErr = s.flushErr
		}
		ln.mu.Unlock()
		signal(ln.wake)
	}
	if refused > 1 {
		err = fmt.Errorf("%w (and %d more)", err, refused-1)
	}
	ln.mu.Lock()
	ln.sealErr = err
	if err != nil {
		for _, s := range todo {
			ln.notifyLocked(s, err)
		}
	}
	ln.mu.Unlock()
	signal(ln.wake)
	return err
}

func (ln *lane) sealTimed(s *openSegment) error {
	ln.log.sealSlots <- struct{}{}
	defer func() { <-ln.log.sealSlots }()
	start := time.Now()
	err := ln.seal(s)
	ln.flushed(s, err)
	ctx, met := context.Background(), ln.log.met
	if err != nil {
		met.seals.Add(ctx, 1, met.sealFailed...)
		return err
	}
	met.seals.Add(ctx, 1, met.sealOK...)
	met.sealTime.Record(ctx, time.Since(start).Seconds())
	return nil
}

// seal finishes a segment in place and moves it to sealed/. Durable when it returns nil; after an error it may
// be called again and goes on where it stopped. A crash in between leaves the file in active/, where it is read
// tolerantly whatever its header says, or under both names.
func (ln *lane) seal(s *openSegment) error {
	if err := s.owned(); err != nil {
		if errors.Is(err, segment.ErrLeaseLost) {
			_ = s.file.Close() // no more is done to it
			ln.seized(s, err)
		}
		return err
	}
	if s.damaged {
		if err := ln.renew(s); err != nil {
			return err
		}
	}
	if !s.whole {
		if err := ln.finish(s); err != nil {
			return err
		}
	}
	ln.flushed(s, nil)
	first := !s.moving
	if first {
		s.pin = ln.log.pin(ln.seg, s.id.PartialName())
	}
	s.moving = true
	moved, err := ln.seg.Seal(s.id.PartialName())
	if err != nil {
		return fmt.Errorf("move to sealed: %w", err)
	}
	if first && !moved {
		ln.seized(s, errMoved)
		return nil
	}
	ln.log.mirror(ln.seg, s.id, s.pin)
	return nil
}

// pin makes the name that keeps a segment's bytes until they are uploaded, before a drain can see the segment. What it
// returns is for the mirror: a volume that refuses the link loses the protection, not the segment.
func (l *Log) pin(ln segment.Lane, name string) error {
	if l.opt.Mirror == nil {
		return nil
	}
	return ln.Pin(segment.Active, name)
}

// mirror hands a sealed segment to the mirror, if there is one.
func (l *Log) mirror(ln segment.Lane, id segment.ID, pin error) {
	if l.opt.Mirror != nil {
		l.opt.Mirror.Sealed(ln, id, pin)
	}
}

// flushed lets those go on who wait for the rows of s to be durable, or for the disk's refusal.
func (ln *lane) flushed(s *openSegment, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if !s.flushed {
		s.flushed, s.flushErr = true, err
		signal(ln.wake)
	}
}

// finish writes the end of the stream and the final header, and syncs both, as far as that is not done.
func (ln *lane) finish(s *openSegment) error {
	if !s.ended {
		if _, err := s.file.Writev([][]byte{frame.EOS()}); err != nil {
			if terr := s.file.Truncate(s.at.off); terr != nil {
				s.damaged = true
			}
			return fmt.Errorf("end the stream: %w", err)
		}
		s.ended = true
	}
	if !s.headed {
		if err := s.writeHeader(); err != nil {
			return err
		}
		s.headed = true
	}
	if !s.final {
		if err := s.file.Sync(); err != nil {
			s.damaged = true
			return fmt.Errorf("sync: %w", err)
		}
		s.final = true
	}
	// The bytes are durable; the descriptor has nothing left to lose.
	s.whole = true
	return s.file.Close()
}

// writeHeader puts the final header over the first one. It is true once the stream has its end.
func (s *openSegment) writeHeader() error {
	eos := frame.EOS()
	minTime, maxTime := s.at.times()
	head := frame.Header{
		MinTime: minTime, MaxTime: maxTime, Table: s.table,
		BodyLen: uint64(s.at.off) + uint64(len(eos)) - frame.HeaderSize,
		CRC:     crc32.Update(s.at.crc, crc32.IEEETable, eos),
	}.Encode()
	if _, err := s.file.WriteAt(head[:], 0); err != nil {
		return fmt.Errorf("write the header: %w", err)
	}
	return nil
}

// sealDone ends the sealer's claim on the lane unless a segment came in meanwhile.
func (ln *lane) sealDone() bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if len(ln.unsealed) > 0 {
		return false
	}
	ln.sealing = false
	return true
}

// leaveUnsealed gives up what could not be sealed by the end of the log.
func (ln *lane) leaveUnsealed(err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for _, s := range ln.unsealed {
		if !s.whole {
			_ = s.file.Close() // reported by err already
		}
		ln.log.unsealed.remove(s)
		ln.notifyLocked(s, err)
		if !s.flushed || s.flushErr != nil {
			ln.olderErr = err
		}
	}
	n := len(ln.unsealed)
	ln.unsealed = nil
	ln.sealing = false
	signal(ln.wake)
	ln.log.leave(fmt.Errorf("%d segments of %s stay in active/ for the next start: %w", n, ln.seg.Key(), err))
}

// awaitSeals makes p wait for all segments handed to the sealer so far.
func (ln *lane) awaitSeals(p *pending) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	p.seal.left = len(ln.unsealed)
	if p.seal.left == 0 {
		p.done <- nil
		return
	}
	for _, s := range ln.unsealed {
		s.waiters = append(s.waiters, p)
	}
	signal(ln.sealWake)
}

// notifyLocked tells those who wait for s. The first error answers a waiter; the retry goes on without it.
func (ln *lane) notifyLocked(s *openSegment, err error) {
	for _, p := range s.waiters {
		switch {
		case p.seal.left == 0: // answered
		case err != nil:
			p.seal.left = 0
			p.done <- err
		default:
			if p.seal.left--; p.seal.left == 0 {
				p.done <- nil
			}
		}
	}
	s.waiters = nil
}

// Seal seals the open segment of a lane and returns when it and all before it are in sealed/, durably, or with
// the first refusal; what was refused is retried in the background. Idempotent: without an open segment there
// is nothing to do. Safe for many goroutines. ctx ends the wait, not the sealing.
func (l *Log) Seal(ctx context.Context, tenant, index string) error {
	ln, err := l.lane(tenant, index)
	if err != nil {
		return err
	}
	p := &pending{seal: &sealWait{}, done: make(chan error, 1)}
	if err := l.enqueue(ln, p); err != nil {
		return err
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("seal %s: %w", ln.seg.Key(), ctx.Err())
	}
}

// unsealedSet knows the rows that are not in sealed/ yet, for the age gauge.
type unsealedSet struct {
	mu   sync.Mutex
	open map[*openSegment]time.Time
}

func (u *unsealedSet) add(s *openSegment) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open[s] = s.opened
}

func (u *unsealedSet) remove(s *openSegment) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, s)
}

// oldest is the age of the oldest of them, 0 without any.
func (u *unsealedSet) oldest(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	var age time.Duration
	for _, opened := range u.open {
		age = max(age, now.Sub(opened))
	}
	return age
}
