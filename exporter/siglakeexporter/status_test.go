package siglakeexporter

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// testHost records statuses and has the extensions it is given.
type testHost struct {
	extensions map[component.ID]component.Component

	mu     sync.Mutex
	events []componentstatus.Status
}

func (h *testHost) GetExtensions() map[component.ID]component.Component { return h.extensions }

func (h *testHost) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e.Status())
}

func (h *testHost) statuses() []componentstatus.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]componentstatus.Status(nil), h.events...)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	const ill, ok = componentstatus.StatusRecoverableError, componentstatus.StatusOK
	boom := errors.New("boom")

	t.Run("reports changes only", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			host, h := &testHost{}, &health{}
			h.start(host)
			h.well()
			require.Empty(t, host.statuses())
			h.trouble(boom)
			h.trouble(boom)
			h.well()
			h.well()
			h.trouble(boom)
			h.stop()
			require.Equal(t, []componentstatus.Status{ill, ok, ill}, host.statuses())
		})
	})

	// A probe that keeps requests away must not keep the component ill for ever.
	t.Run("quiet for long is well", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			host, h := &testHost{}, &health{}
			h.start(host)
			h.trouble(boom)
			time.Sleep(quietAfter - time.Second)
			h.trouble(boom)
			time.Sleep(quietAfter - time.Second)
			synctest.Wait()
			require.Equal(t, []componentstatus.Status{ill}, host.statuses(), "each trouble starts the wait anew")
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, []componentstatus.Status{ill, ok}, host.statuses())
			h.stop()
		})
	})

	t.Run("silent when not running", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			host, h := &testHost{}, &health{}
			h.trouble(boom)
			h.start(host)
			h.trouble(boom)
			h.stop()
			h.trouble(boom)
			h.well()
			time.Sleep(2 * quietAfter)
			synctest.Wait()
			require.Equal(t, []componentstatus.Status{ill}, host.statuses())
		})
	})
}
