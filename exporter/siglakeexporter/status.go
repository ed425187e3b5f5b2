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

// health reports trouble with the storage as the component's status, on changes only. Started by start,
// ended by stop; both before and after that it does nothing.
type health struct {
	ill atomic.Bool // so that the good path takes no lock

	mu    sync.Mutex
	host  component.Host // nil while not running
	quiet *time.Timer
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

// trouble reports a recoverable error, once until well.
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
	if !h.ill.Swap(true) {
		componentstatus.ReportStatus(h.host, componentstatus.NewRecoverableErrorEvent(err))
	}
}

// well reports that requests are served again, if they were not.
func (h *health) well() {
	if !h.ill.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.host == nil || !h.ill.Swap(false) {
		return
	}
	h.quiet.Stop()
	componentstatus.ReportStatus(h.host, componentstatus.NewEvent(componentstatus.StatusOK))
}
