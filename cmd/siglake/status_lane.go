package main

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// countBudget bounds how many segments status opens to count rows, so that it answers at once also with a long
// backlog: each takes a few reads.
const countBudget = 2000

// laneStatus is one lane.
type laneStatus struct {
	Tenant string `json:"tenant"`
	Index  string `json:"index"`
	Legacy bool   `json:"legacy,omitempty"`

	Active     int `json:"active"`
	Sealed     int `json:"sealed"`
	Processing int `json:"processing"`
	Committed  int `json:"committed"`
	Orphans    int `json:"orphans"`
	Poison     int `json:"poison"`
	Stale      int `json:"stale"`
	Pinned     int `json:"mirror_pending"`
	Originals  int `json:"salvaged_originals"` // damaged segments kept in poison/ behind what was salvaged of them

	// Of what is not in the table yet: active, sealed, processing and orphans.
	PendingBytes int64 `json:"pending_bytes"`
	PendingRows  int64 `json:"pending_rows"`
	// RowsAtLeast says that PendingRows left some segments out: unreadable ones, or more than are opened.
	RowsAtLeast bool `json:"pending_rows_at_least,omitempty"`
	// OldestSeconds is the age of the oldest sealed, processing or orphaned segment; absent when there is none.
	OldestSeconds *int64 `json:"oldest_seconds,omitempty"`

	// Gaps are runs of sequence numbers whose segments are neither there nor retired.
	Gaps      []segment.Gap `json:"gaps,omitempty"`
	GapsError string        `json:"gaps_error,omitempty"` // why they are not known

	// RecordErrors say why nothing of the lane is committed: its owner or head cannot be read.
	RecordErrors []string `json:"record_errors,omitempty"`
	// HoldsError says why it is not known what a user index holds.
	HoldsError string `json:"holds_error,omitempty"`

	Strangers []string `json:"strangers,omitempty"`
}

func (l *laneStatus) key() string { return l.Tenant + "/" + l.Index }

func (l *laneStatus) count(st segment.State, n int) {
	switch st {
	case segment.Active:
		l.Active = n
	case segment.Sealed:
		l.Sealed = n
	case segment.Processing:
		l.Processing = n
	case segment.Committed:
		l.Committed = n
	case segment.Orphans:
		l.Orphans = n
	case segment.Poison:
		l.Poison = n
	case segment.Stale:
		l.Stale = n
	case segment.MirrorPending:
		l.Pinned = n
	}
}

// pending tells whether rows in a state are still on their way to the table.
func pending(st segment.State) bool {
	return st == segment.Active || st == segment.Sealed || st == segment.Processing || st == segment.Orphans
}

func (a *app) laneStatus(ctx context.Context, lane segment.Lane, budget *int) (laneStatus, error) {
	out := laneStatus{Tenant: lane.Tenant(), Index: lane.Index(), Legacy: lane.Legacy()}
	var oldest time.Time
	for _, st := range append(states(), segment.MirrorPending) {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		entries, strangers, err := lane.List(st)
		if err != nil {
			return out, err
		}
		out.count(st, len(entries))
		for _, s := range strangers {
			out.Strangers = append(out.Strangers, string(st)+"/"+s)
		}
		if !pending(st) {
			continue
		}
		for _, e := range entries {
			info, err := a.fs.Stat(lane.Path(st, e.Name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // moved on; its next state counts it or has counted it
			}
			if err != nil {
				return out, err
			}
			out.PendingBytes += info.Size
			if st != segment.Active && (oldest.IsZero() || info.ModTime.Before(oldest)) {
				oldest = info.ModTime
			}
			a.countRows(place{lane, st, e}, info.Size, budget, &out)
		}
	}
	kept, err := lane.Kept()
	if err != nil {
		return out, err
	}
	out.Originals = len(kept)
	if !oldest.IsZero() {
		age := max(0, int64(a.now().Sub(oldest)/time.Second))
		out.OldestSeconds = &age
	}
	_, ownerErr := lane.Owner()
	_, _, headErr := lane.Head()
	for _, err := range []error{ownerErr, headErr} {
		if err != nil {
			out.RecordErrors = append(out.RecordErrors, err.Error())
		}
	}
	if _, err := lane.Holds(); err != nil {
		out.HoldsError = err.Error()
	}
	gaps, err := lane.Gaps()
	out.Gaps = gaps
	if err != nil {
		out.GapsError = err.Error()
	}
	return out, nil
}

// countRows adds the rows of one segment as far as they are cheap to know.
func (a *app) countRows(p place, size int64, budget *int, out *laneStatus) {
	if *budget--; *budget < 0 {
		out.RowsAtLeast = true
		return
	}
	f, err := a.fs.Open(p.path())
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // opened for reading
	sum, err := frame.Count(f, size, p.options())
	if err != nil && !errors.Is(err, frame.ErrEmpty) {
		out.RowsAtLeast = true
	}
	out.PendingRows += sum.Rows
}
