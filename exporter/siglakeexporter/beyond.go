package siglakeexporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// forceSealAfter is how long a segment with rows under force gathers more of them: what comes in one instant shares a
// segment, and one commit takes many.
const forceSealAfter = 10 * time.Millisecond

// canKeep returns nil when what a mode promises beyond the disk can be kept. What is refused was not written. A client is told
// to choose another mode only where it has chosen this one: under a default that cannot be kept now its rows are welcome later.
func (e *siglake[T]) canKeep(mode promise, named bool) error {
	if mode.beyond == "" {
		return nil
	}
	log, err := e.current()
	if err != nil {
		return err
	}
	switch mode.beyond {
	case modeMirrored:
		if log.mirror == nil {
			return fmt.Errorf("%w commit: %q %s", errParameter, modeMirrored, noMirrorText)
		}
	case modeForce:
		if err = log.Drained(); errors.Is(err, wal.ErrNoDrain) && named {
			return fmt.Errorf("%w commit: %q %s", errParameter, modeForce, noDrainText)
		}
	}
	return err
}

// await waits until what a mode promises beyond the disk is kept for all requests. The rows are on the disk, whatever it
// returns.
func (e *siglake[T]) await(ctx context.Context, log *sharedLog, mode Mode, requests []*request[T]) error {
	limit := e.cfg.Commit.MirroredTimeout
	kept := func(ctx context.Context, r *request[T]) error { return log.mirror.Confirmed(ctx, r.segment) }
	if mode == modeForce {
		limit = e.cfg.Commit.ForceTimeout
		kept = func(ctx context.Context, r *request[T]) error {
			return log.Committed(ctx, r.tenant, r.index, r.segment)
		}
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	var err error
	for len(requests) > 0 {
		if r := requests[0]; r.segment != (segment.ID{}) { // zero: no row
			if err = kept(waiting, r); err != nil {
				break
			}
		}
		requests = requests[1:]
	}
	e.metrics.waited(ctx, mode, time.Since(start), err)
	if err != nil {
		return &unconfirmedError{mode: mode, segments: segmentsOf(requests), within: limit, closed: errors.Is(err, wal.ErrClosed)}
	}
	return nil
}

// segmentsOf are the segments that have the rows of requests, each once.
func segmentsOf[T any](requests []*request[T]) (ids []segment.ID) {
	for _, r := range requests {
		if r.segment != (segment.ID{}) && !slices.Contains(ids, r.segment) {
			ids = append(ids, r.segment)
		}
	}
	return ids
}

// unconfirmedError says that rows are on the disk, and that it is not known whether they are where their mode wants them.
type unconfirmedError struct {
	mode     Mode
	segments []segment.ID
	within   time.Duration
	closed   bool // before that
}

func (u *unconfirmedError) Error() string {
	names := make([]string, len(u.segments))
	for i, id := range u.segments {
		names[i] = id.String()
	}
	what := "the copy was not confirmed"
	if u.mode == modeForce {
		what = "the commit to the table was not reported"
	}
	when := fmt.Sprintf("within %s", u.within)
	if u.closed {
		when = "before the shutdown"
	}
	return fmt.Sprintf("%s: %s %s; the rows are stored as under wait_for, and sending them again stores them twice (segment %s)",
		u.mode, what, when, strings.Join(names, ", "))
}

// errWaiters says that as many requests wait for more than the disk as may.
var errWaiters = errors.New("too many requests wait for the mirror or for a commit")

// places bounds who waits for more than the disk to half of those who may wait at all: a mirror or a catalog that is away
// leaves room for requests under the other modes.
type places struct{ taken atomic.Int64 }

func (p *places) enter(maxWaiting int64) error {
	if p.taken.Add(1) > max(1, maxWaiting/2) {
		p.taken.Add(-1)
		return errWaiters
	}
	return nil
}

func (p *places) leave() { p.taken.Add(-1) }
