package wal

import (
	"fmt"

	"go.uber.org/zap"
)

// HoldsError says that a lane holds rows of another kind. Nothing was written.
type HoldsError struct {
	Tenant, Index string
	Have, Want    string
}

func (e *HoldsError) Error() string {
	return fmt.Sprintf("index %q holds %s, not %s: choose another index", e.Index, e.Have, e.Want)
}

// Reserve makes the lane of a tenant and an index one of rows of a kind, as the first Append with Request.Holds does,
// and writes no row. Who has rows for several lanes learns first whether each of them may have its own.
//
//	errors   *LimitError, *HoldsError and segment's name errors; anything else is trouble with the storage
//	durable  what the lane holds, on return. Idempotent
func (l *Log) Reserve(tenant, index, holds string) error {
	ln, err := l.lane(tenant, index)
	if err != nil {
		l.noteRefused(err)
		return err
	}
	return ln.hold(holds)
}

// hold finds out what the lane holds, or decides it (segment.Lane.Hold). Only the first request of a lane's life here asks the disk, and
// those that come meanwhile wait for its answer: theirs hangs on it.
func (ln *lane) hold(kind string) error {
	if kind == "" {
		return nil
	}
	ln.holdsMu.Lock()
	defer ln.holdsMu.Unlock()
	if ln.holds == "" {
		if err := ln.seg.Prepare(); err != nil {
			return fmt.Errorf("prepare %s: %w", ln.seg.Key(), err)
		}
		held, err := ln.seg.Hold(kind)
		if err != nil {
			return err
		}
		fields := []zap.Field{zap.String("lane", ln.seg.Key()), zap.String("holds", held.Kind), zap.String("segment", held.From)}
		switch {
		case held.Mended != nil:
			ln.log.opt.Logger.Warn("what the index holds was damaged and is written anew, as its newest segment says", append(fields, zap.Error(held.Mended))...)
		case held.From != "":
			ln.log.opt.Logger.Warn("what the index holds was missing and is written anew, as its newest segment says", fields...)
		}
		ln.holds = held.Kind
	}
	if ln.holds != kind {
		return &HoldsError{Tenant: ln.seg.Tenant(), Index: ln.seg.Index(), Have: ln.holds, Want: kind}
	}
	return nil
}
