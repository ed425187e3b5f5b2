package siglakeexporter

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/siglakecol/siglakecol/internal/wal"
)

// partsAtOnce bounds the parts of one request that are written at a time: each waits for a disk sync of its own.
const partsAtOnce = 16

// storeAll stores the parts of a request and returns when its promise is kept for all of them. A request that waits for more
// than the disk has a place among those who do before a byte is written.
func (e *siglake[T]) storeAll(ctx context.Context, tenant string, mode promise, parts []part[T]) error {
	var requests []*request[T]
	for _, p := range parts {
		// An empty request is a success, and nothing is written.
		if n := e.items(p.data); n > 0 {
			requests = append(requests, &request[T]{data: p.data, items: n, tenant: tenant, index: p.index, mode: mode})
		}
	}
	if len(requests) == 0 {
		return nil
	}
	log, err := e.current()
	if err != nil {
		return err
	}
	if err := log.Enter(tenant); err != nil {
		return err
	}
	defer log.Leave(tenant)
	if mode.beyond == "" {
		return e.appendAll(ctx, tenant, requests)
	}
	if err := log.awaiting.enter(int64(e.cfg.WAL.MaxWaiting)); err != nil {
		return err
	}
	defer log.awaiting.leave()
	if err := e.appendAll(ctx, tenant, requests); err != nil {
		return err
	}
	return e.await(ctx, log, mode.beyond, requests)
}

// current is the log while it is open.
func (e *siglake[T]) current() (*sharedLog, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.log == nil {
		return nil, wal.ErrClosed
	}
	return e.log, nil
}

// appendAll appends the parts of a request side by side and returns when all are done. What can be known before is
// known before anything is written: each index has its lane and holds this signal. After that a part may still be
// refused while others are stored: the error is errPartly then.
func (e *siglake[T]) appendAll(ctx context.Context, tenant string, requests []*request[T]) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.log == nil {
		return wal.ErrClosed
	}
	if len(requests) == 1 {
		return e.store(ctx, requests[0])
	}
	for _, r := range requests {
		if err := e.log.Reserve(tenant, r.index, e.holds(r.index)); err != nil {
			return err
		}
	}
	errs := make([]error, len(requests))
	var g errgroup.Group
	g.SetLimit(partsAtOnce)
	for i, r := range requests {
		g.Go(func() error {
			errs[i] = e.store(ctx, r)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) == 0 || len(failed) == len(requests) {
		return errors.Join(failed...)
	}
	return errors.Join(append(failed, errPartly)...)
}

// holds is what a lane is told that its rows are: nothing where the name of the index says it.
func (e *siglake[T]) holds(index string) string {
	if index == e.signal.Table() {
		return ""
	}
	return e.signal.String()
}
