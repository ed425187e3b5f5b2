package wal

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

const (
	// beatEvery is how often a process without locks says that it lives.
	beatEvery = 10 * time.Second
	// silentFor is how long a writer must have said nothing before it is taken for dead. Twelve beats: what keeps a
	// living process from all of them (a full disk queue, a paused machine) is rare, and costs refusals, not rows.
	silentFor = 120 * time.Second
)

// silence tells the living from the dead where the volume has no locks: a writer that still has a lease, and whose
// lease has not changed for silentFor while we were looking, is dead. Times of others are compared for change only,
// so clocks need not agree.
type silence struct {
	now  func() time.Time
	seen map[[6]byte]sighting // guarded by the log's adoptMu
}

type sighting struct {
	beat  time.Time // as the lease says it
	since time.Time // our clock, when we first saw it say so
}

// goSilent is for a volume without locks.
func (l *Log) goSilent(err error) {
	l.lock = io.NopCloser(nil)
	if l.silence != nil {
		return
	}
	l.silence = &silence{now: l.opt.Now, seen: map[[6]byte]sighting{}}
	l.opt.Logger.Warn("the volume has no file locks: what a dead process leaves is adopted after 120 s without a sign of life, and nothing "+
		"keeps a process without wal.shared away; use another volume if you can", zap.String("dir", l.opt.Dir), zap.Error(err))
}

// leaseOfDead takes the lease of a writer from it if it has been silent for long; nil if it lives, as far as is known.
func (s *silence) leaseOfDead(root *segment.Root, w [6]byte) (*segment.Lease, error) {
	beat, err := root.LastBeat(w)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it has ended, or somebody has begun to adopt
	case err != nil:
		return nil, err
	case !s.silent(w, beat):
		return nil, nil //nolint:nilnil // no lease to be had, and nothing wrong
	}
	return root.Fence(w)
}

func (s *silence) silent(w [6]byte, beat time.Time) bool {
	now := s.now()
	last, known := s.seen[w]
	if !known || !last.beat.Equal(beat) {
		s.seen[w] = sighting{beat, now}
		return false
	}
	return now.Sub(last.since) >= silentFor
}

// forget keeps in mind only the writers that have a lease.
func (s *silence) forget(but [][6]byte) {
	maps.DeleteFunc(s.seen, func(w [6]byte, _ sighting) bool { return !slices.Contains(but, w) })
}

// beatLoop says that we live until ctx ends.
func (l *Log) beatLoop(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.beat()
		}
	}
}

// beat renews our leases. One that is lost is found by its lane, with its next write.
func (l *Log) beat() {
	l.leasesMu.Lock()
	defer l.leasesMu.Unlock()
	for _, lease := range l.leases {
		if err := lease.Beat(l.opt.Now()); err != nil && !errors.Is(err, segment.ErrLeaseLost) {
			l.opt.Logger.Warn("lease not renewed; others may take this process for dead", zap.Error(err))
		}
	}
}
