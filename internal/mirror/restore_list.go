package mirror

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// askTries is how often a store is asked that is silent. What it answers is final: its client has tried again by itself.
const askTries = 3

// errSilent says that a store was given up for this attempt.
var errSilent = errors.New("no answer")

// StoreError is what came instead of the listing.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return e.Err.Error() }
func (e *StoreError) Unwrap() error { return e.Err }

// list reads the whole listing: what is restored, and whether this is a mirror at all.
func (r *restore) list(ctx context.Context) ([]find, error) {
	var found []find
	var missing *NoMirrorError
	marked := false
	err := r.ask(ctx, "listing", func(ctx context.Context, alive func()) error {
		found, missing, marked = nil, &NoMirrorError{}, false
		r.report = newReport()
		return r.opt.Store.List(ctx, "", func(info objstore.Info) error {
			alive()
			missing.Objects++
			if info.Key == markerKey {
				marked = true
				return nil
			}
			if o, ok := parseKey(info.Key); ok {
				found = append(found, find{object: o, key: info.Key, size: info.Size})
				return nil
			}
			if dir, ok := cutMarker(info.Key); ok {
				missing.Below = append(missing.Below, dir)
			}
			r.report.foreign(info.Key)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if !marked {
		for _, f := range found {
			if up := f.levels(); up > 0 {
				missing.Inner, missing.Levels = missing.Inner+1, max(missing.Levels, up)
			} else {
				missing.Segments++
			}
		}
		return nil, missing
	}
	if err := r.ask(ctx, "reading "+markerKey, func(ctx context.Context, _ func()) error {
		_, err := readMarker(ctx, r.opt.Store)
		return err
	}); err != nil {
		return nil, err
	}
	return r.report.plan(found), nil
}

// ask calls the store, and again when it is silent.
func (r *restore) ask(ctx context.Context, step string, call func(ctx context.Context, alive func()) error) error {
	for tries := 1; ; tries++ {
		r.opt.Step(step)
		err := unlessSilent(ctx, r.opt.AttemptTimeout, func(ctx context.Context, alive func()) error {
			return call(ctx, func() {
				alive()
				r.opt.Step(step)
			})
		})
		switch {
		case err == nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case !errors.Is(err, errSilent):
			return &StoreError{err}
		case tries == askTries || !rest(ctx, backoff(tries, retryFirst, retryLongest, rand.Int64N)):
			return &StoreError{fmt.Errorf("%s: %w, tried %d times", step, err, tries)}
		}
	}
}

// unlessSilent ends a call that was not alive for so long: with errSilent, not with the end of a context, which is our caller's.
func unlessSilent(ctx context.Context, limit time.Duration, call func(ctx context.Context, alive func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := time.AfterFunc(limit, func() { cancel(errSilent) })
	defer t.Stop()
	err := call(ctx, func() { t.Reset(limit) })
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return fmt.Errorf("%w in %s", errSilent, limit)
	}
	return err
}
