package wal

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// adopt recovers what writers have left that died since the last look.
func (l *Log) adopt(ctx context.Context) {
	l.adoptMu.Lock()
	defer l.adoptMu.Unlock()
	start, said := time.Now(), time.Now()
	lanes, _, err := l.root.Lanes()
	errs := []error{err}
	var sum recovered
	for _, ln := range lanes {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, l.adoptLane(ctx, ln, &sum)) // one that is in trouble holds no other up
		sum.lanes++
		said = l.progress(said, &sum, len(lanes))
	}
	errs = append(errs, l.sweepLeases())
	l.peers.Store(sum.peers)
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		l.opt.Logger.Warn("not all of the root was looked at for segments of dead peers, will be tried again", zap.Error(err))
	}
	if done := sum.segments + sum.empty + sum.poisoned; done > 0 {
		l.met.adopted.Add(ctx, int64(done))
		l.opt.Logger.Info("adopted what a dead peer left", append(sum.fields(), zap.Duration("took", time.Since(start)))...)
	}
}

// adoptLane recovers what dead writers left in one lane. It takes the lease of each first, and looks again once it
// has it: before, the writer may have been alive. What belongs to a writer whose lease is held is not touched.
func (l *Log) adoptLane(ctx context.Context, ln segment.Lane, sum *recovered) (err error) {
	writers, err := l.writersIn(ln)
	if err != nil {
		return err
	}
	dead := map[[6]byte]*segment.Lease{}
	defer func() {
		for _, lease := range dead {
			err = errors.Join(err, lease.End())
		}
	}()
	busy := false
	for _, w := range writers {
		lease, err := l.leaseOfDead(w)
		if err != nil {
			return err
		}
		if lease == nil {
			busy = true
			continue
		}
		dead[w] = lease
	}
	if busy {
		sum.peers++
	}
	if len(dead) == 0 {
		return nil
	}
	return l.recoverOf(ctx, ln, func(id segment.ID) bool { return dead[id.Writer] != nil }, sum)
}

// leaseOfDead takes the lease of a writer if it is dead; nil if it is not.
func (l *Log) leaseOfDead(w [6]byte) (*segment.Lease, error) {
	if l.silence != nil {
		return l.silence.leaseOfDead(l.root, w)
	}
	lease, err := l.root.Adopt(w, "adopting: "+l.opt.lockText())
	if _, alive := errors.AsType[*vfs.LockedError](err); alive {
		return nil, nil //nolint:nilnil // no lease to be had, and nothing wrong
	}
	return lease, err
}

// writersIn returns the writers of other processes that have a file in active/.
func (l *Log) writersIn(ln segment.Lane) ([][6]byte, error) {
	entries, err := l.fs.List(ln.Dir(segment.Active))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was ever open here
	}
	if err != nil {
		return nil, err
	}
	var out [][6]byte
	for _, e := range entries {
		id, partial, err := segment.ParseName(e.Name)
		if err != nil {
			id, partial = tempOf(e.Name)
		}
		if partial && !l.ours(id.Writer) && !slices.Contains(out, id.Writer) {
			out = append(out, id.Writer)
		}
	}
	return out, nil
}

// sweepLeases removes the files of leases whose writers are dead. What they left in active/, if anything, is then
// anybody's to adopt.
func (l *Log) sweepLeases() error {
	writers, err := l.root.Leases()
	if err != nil {
		return err
	}
	if l.silence != nil {
		l.silence.forget(writers)
	}
	var errs []error
	for _, w := range writers {
		if l.ours(w) {
			continue
		}
		lease, err := l.leaseOfDead(w)
		if err == nil && lease != nil {
			err = lease.End()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
