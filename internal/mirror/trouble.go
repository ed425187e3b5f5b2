package mirror

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// troubleEvery is how often a store that goes on failing is logged.
	troubleEvery = time.Minute
	// troubleAfter is how long uploads fail until the component says so.
	troubleAfter = time.Minute

	pauseFirst   = 100 * time.Millisecond
	pauseLongest = 5 * time.Second
)

// trouble watches a store that does not answer as it should. It slows all uploads down: each job's own pauses would
// still ask a dead store thousands of times a second when thousands wait.
type trouble struct {
	log    *zap.Logger
	now    func() time.Time
	draw   func(int64) int64
	status func(error)

	mu     sync.Mutex
	fails  int       // since the last success
	since  time.Time // of the first of them
	told   time.Time // when it was logged last
	raised bool      // the status is bad
}

// failed notes a failed attempt.
func (t *trouble) failed(key string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.fails++; t.fails == 1 {
		t.since = now
	}
	if t.told.IsZero() || now.Sub(t.told) >= troubleEvery {
		t.told = now
		t.log.Warn("upload failed, will be tried again; acknowledgements go on, and the pins keep the bytes",
			zap.String("key", key), zap.Int("failures", t.fails), zap.Duration("for", now.Sub(t.since)), zap.Error(err))
	}
	if !t.raised && now.Sub(t.since) >= troubleAfter {
		t.raised = true
		t.status(err)
	}
}

// worked notes that the store did something.
func (t *trouble) worked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fails == 0 {
		return
	}
	if !t.told.IsZero() {
		t.log.Info("uploads work again", zap.Int("failures", t.fails), zap.Duration("after", t.now().Sub(t.since)))
	}
	if t.raised {
		t.raised = false
		t.status(nil)
	}
	t.fails, t.told = 0, time.Time{}
}

// pause is how long to wait before the next attempt of any job: nothing before as many have failed in a row as run at
// once.
func (t *trouble) pause(atOnce int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fails < atOnce {
		return 0
	}
	return backoff(t.fails-atOnce+1, pauseFirst, pauseLongest, t.draw)
}
