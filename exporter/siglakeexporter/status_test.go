package siglakeexporter

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/testdata"

	"github.com/siglakecol/siglakecol/internal/wal"
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

	// What the log says stands: neither a success nor quiet takes it back, only the log.
	t.Run("what stands in everybody's way stays until the log says so", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			host, h := &testHost{}, &health{}
			h.start(host)
			h.stands(nil)
			h.stands(boom)
			h.stands(boom)
			h.trouble(boom)
			h.well()
			time.Sleep(2 * quietAfter)
			synctest.Wait()
			require.Equal(t, []componentstatus.Status{ill}, host.statuses())
			h.trouble(boom)
			h.stands(nil)
			require.Equal(t, []componentstatus.Status{ill}, host.statuses(), "a request's trouble is left")
			h.well()
			require.Equal(t, []componentstatus.Status{ill, ok}, host.statuses())
			h.stop()
			h.stands(boom)
			require.Equal(t, []componentstatus.Status{ill, ok}, host.statuses())
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

// All signals of one exporter hear what the log says, also those that start later, and one that has stopped does not.
func TestHealth_reaches_every_signal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	traceHost, late := &testHost{}, &testHost{}
	le := r.logs(t)
	te, err := r.factory.CreateTraces(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, te.Start(t.Context(), traceHost))
	say := r.log.opened[0].Health
	full := fmt.Errorf("append: %w", &wal.LimitError{Limit: "max_bytes", Used: 7, Max: 5})
	const ill, ok = componentstatus.StatusRecoverableError, componentstatus.StatusOK

	// One signal's request meets the hard mark: all are unready at once.
	r.log.failWith(full)
	require.Error(t, le.ConsumeLogs(t.Context(), testdata.GenerateLogs(1)))
	require.Equal(t, []componentstatus.Status{ill}, r.host.statuses())
	require.Equal(t, []componentstatus.Status{ill}, traceHost.statuses())
	me, err := r.factory.CreateMetrics(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, me.Start(t.Context(), late))
	require.Equal(t, []componentstatus.Status{ill}, late.statuses())
	require.NoError(t, te.Shutdown(t.Context()))
	say(nil)
	require.Equal(t, []componentstatus.Status{ill, ok}, r.host.statuses())
	require.Equal(t, []componentstatus.Status{ill, ok}, late.statuses())
	require.Equal(t, []componentstatus.Status{ill}, traceHost.statuses())

	// Auto is refused from a lower mark on: no reason to call the component ill.
	r.log.failWith(full)
	require.Error(t, le.ConsumeLogs(withMode(t.Context(), "auto"), testdata.GenerateLogs(1)))
	require.Equal(t, []componentstatus.Status{ill, ok}, r.host.statuses())
	require.NoError(t, me.Shutdown(t.Context()))
}
