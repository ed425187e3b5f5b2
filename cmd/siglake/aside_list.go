package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// waiting is a segment that waits for somebody, as orphans list and stale list show it.
type waiting struct {
	listed

	Rows    int64 `json:"rows"`
	AtLeast bool  `json:"rows_at_least,omitempty"` // it does not read well
}

func (w *waiting) rows() string {
	if w.AtLeast {
		return "≥ " + humanCount(w.Rows)
	}
	return humanCount(w.Rows)
}

// listWaiting lists what is in a state, with the rows. One that moves meanwhile is left out.
func (a *app) listWaiting(ctx context.Context, st segment.State, lane string) ([]waiting, error) {
	root, err := a.openRoot()
	if err != nil {
		return nil, err
	}
	places, err := filter{lane: lane, state: string(st)}.places(ctx, root)
	if err != nil {
		return nil, err
	}
	out := []waiting{}
	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, err := a.listSegment(p)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errGone) || err == nil && l.State != string(st) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w := waiting{listed: l}
		f, err := a.fs.Open(p.path())
		if err == nil {
			sum, err := frame.Count(f, l.Bytes, p.options())
			w.Rows, w.AtLeast = sum.Rows, err != nil
			err = f.Close()
			if err != nil {
				return nil, err
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}
