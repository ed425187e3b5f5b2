package siglakeexporter

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// quietAfter is how long after the last trouble the exporter calls itself well again without proof. A
// readiness probe may keep requests away, and without requests nothing could prove it.
const quietAfter = 30 * time.Second

// health reports what is wrong with the storage as the component's status, on changes only. Two things can be: the
// trouble of a request, which the next success or quietAfter ends, and what the log says stands in the way of every
// request, which ends when the log says so, with or without requests. Started by start, ended by stop; both before
// and after that it does nothing.
type health struct {
	troubled atomic.Bool // so that the good path takes no lock

	mu       sync.Mutex
	host     component.Host // nil while not running
	quiet    *time.Timer
	standing error // what the log says
	reported bool  // the last status was an error
}

func (h *health) start(host component.Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host = host
}

func (h *health) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host = nil
	if h.quiet != nil {
		h.quiet.Stop()
	}
}

// trouble reports a recoverable error until well or quietAfter.
func (h *health) trouble(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.host == nil {
		return
	}
	if h.quiet == nil {
		h.quiet = time.AfterFunc(quietAfter, h.well)
	} else {
		h.quiet.Reset(quietAfter)
	}
	h.troubled.Store(true)
	h.reportLocked(err)
}

// well ends the trouble of requests.
func (h *health) well() {
	if !h.troubled.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.host == nil || !h.troubled.Swap(false) {
		return
	}
	h.quiet.Stop()
	h.reportLocked(h.standing)
}

// stands takes what the log says; nil is well.
func (h *health) stands(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standing = err
	if err == nil && h.troubled.Load() {
		return
	}
	h.reportLocked(err)
}

// reportLocked tells the host when well and ill change; err is why it is ill, nil that it is not.
func (h *health) reportLocked(err error) {
	ill := err != nil
	if h.host == nil || h.reported == ill {
		return
	}
	h.reported = ill
	if ill {
		componentstatus.ReportStatus(h.host, componentstatus.NewRecoverableErrorEvent(err))
		return
	}
	componentstatus.ReportStatus(h.host, componentstatus.NewEvent(componentstatus.StatusOK))
}
