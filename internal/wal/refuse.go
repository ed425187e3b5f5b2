package wal

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// quietFor is how long a limit refuses nobody before it is said to have stopped: at most one pair of lines in
// that time, whatever the load.
const quietFor = 10 * time.Second

// refusals know which limits refuse requests now, so that each start and each stop is one line in the log.
type refusals struct {
	log *zap.Logger

	mu sync.Mutex
	by map[string]*refusing
}

type refusing struct {
	since, last time.Time
	requests    int64
}

// note records a refusal.
func (r *refusals) note(e *LimitError, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.by[e.Limit]; f != nil {
		f.last = now
		f.requests++
		return
	}
	if r.by == nil {
		r.by = map[string]*refusing{}
	}
	r.by[e.Limit] = &refusing{since: now, last: now, requests: 1}
	r.log.Warn("a limit refuses requests; clients are told when to send again",
		zap.String("limit", e.Limit), zap.Int64("used", e.Used), zap.Int64("max", e.Max), zap.String("why", e.Error()))
}

// settle tells which limits have refused nobody for quietFor.
func (r *refusals) settle(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for limit, f := range r.by {
		if now.Sub(f.last) < quietFor {
			continue
		}
		delete(r.by, limit)
		r.log.Info("a limit refuses no more", zap.String("limit", limit),
			zap.Int64("requests", f.requests), zap.Duration("took", f.last.Sub(f.since)))
	}
}
