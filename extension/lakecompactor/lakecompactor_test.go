package lakecompactor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	timeout = time.Minute // generous; nothing is measured
	tick    = time.Millisecond
)

// statusHost hears component status.
type statusHost struct {
	component.Host
	events chan *componentstatus.Event
}

func newHost() *statusHost {
	return &statusHost{Host: componenttest.NewNopHost(), events: make(chan *componentstatus.Event, 100)}
}

func (h *statusHost) Report(e *componentstatus.Event) { h.events <- e }

// dirs returns a configuration below one temporary directory.
func dirs(t *testing.T) *Config {
	t.Helper()
	dir := t.TempDir()
	c := defaults(filepath.Join(dir, "wal"), "sqlite://"+filepath.Join(dir, "catalog.db"), filepath.Join(dir, "warehouse"))
	c.PollInterval = 10 * time.Millisecond
	return c
}

func newExtension(t *testing.T, cfg *Config) extension.Extension {
	t.Helper()
	f := NewFactory()
	ext, err := f.Create(t.Context(), extensiontest.NewNopSettings(f.Type()), cfg)
	require.NoError(t, err)
	return ext
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	ext := newExtension(t, dirs(t))
	require.NoError(t, ext.Shutdown(t.Context()), "shutdown without start")

	ext = newExtension(t, dirs(t))
	require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, ext.Shutdown(t.Context()))
	require.NoError(t, ext.Shutdown(t.Context()), "shutdown twice")

	_, err := NewFactory().Create(t.Context(), extensiontest.NewNopSettings(NewFactory().Type()), &struct{}{})
	require.ErrorContains(t, err, "configuration is a")
}

// A reload: the same directories, started again in the same process.
func TestStart_again_after_shutdown(t *testing.T) {
	t.Parallel()
	cfg := dirs(t)
	_, err := segment.Create(vfs.OS(), cfg.WALDirectory)
	require.NoError(t, err)
	for range 2 {
		ext := newExtension(t, cfg)
		require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
		require.Eventually(t, func() bool {
			_, err := vfs.OS().Lock(filepath.Join(cfg.WALDirectory, "drain.lock"), "")
			_, held := errors.AsType[*vfs.LockedError](err)
			return held
		}, timeout, tick)
		require.NoError(t, ext.Shutdown(t.Context()))
	}
}

// The collector starts extensions before exporters: until the log is there the status says what is waited for.
func TestStatus_waits_for_the_log(t *testing.T) {
	t.Parallel()
	cfg := dirs(t)
	host := newHost()
	ext := newExtension(t, cfg)
	require.NoError(t, ext.Start(t.Context(), host))
	e := <-host.events
	require.Equal(t, componentstatus.StatusRecoverableError, e.Status())
	require.ErrorIs(t, e.Err(), segment.ErrNotRoot)
	require.ErrorContains(t, e.Err(), cfg.WALDirectory)
	_, err := segment.Create(vfs.OS(), cfg.WALDirectory)
	require.NoError(t, err)
	require.Equal(t, componentstatus.StatusOK, (<-host.events).Status())
	require.NoError(t, ext.Shutdown(t.Context()))
}

// A second collector on the same directory stands by and says who works.
func TestStatus_standby(t *testing.T) {
	t.Parallel()
	cfg := dirs(t)
	_, err := segment.Create(vfs.OS(), cfg.WALDirectory)
	require.NoError(t, err)
	lock, err := vfs.OS().Lock(filepath.Join(cfg.WALDirectory, "drain.lock"), "another collector")
	require.NoError(t, err)
	host := newHost()
	ext := newExtension(t, cfg)
	require.NoError(t, ext.Start(t.Context(), host))
	e := <-host.events
	require.Equal(t, componentstatus.StatusRecoverableError, e.Status())
	require.ErrorContains(t, e.Err(), "held by another collector")
	require.NoError(t, lock.Close())
	require.Equal(t, componentstatus.StatusOK, (<-host.events).Status())
	require.NoError(t, ext.Shutdown(t.Context()))
}

// A catalog that cannot be read now is waited for; a log of another format is not.
func TestStatus_catalog_away_T19(t *testing.T) {
	t.Parallel()
	cfg := dirs(t)
	_, err := segment.Create(vfs.OS(), cfg.WALDirectory)
	require.NoError(t, err)
	catalog := filepath.Join(filepath.Dir(cfg.WALDirectory), "catalog.db")
	require.NoError(t, os.Mkdir(catalog, 0o700)) // whatever keeps SQLite from opening it
	host := newHost()
	ext := newExtension(t, cfg)
	require.NoError(t, ext.Start(t.Context(), host))
	e := <-host.events
	require.Equal(t, componentstatus.StatusRecoverableError, e.Status())
	require.ErrorContains(t, e.Err(), "open the lake")
	require.NoError(t, os.Remove(catalog))
	require.Equal(t, componentstatus.StatusOK, (<-host.events).Status())
	require.NoError(t, ext.Shutdown(t.Context()))
}

func TestStatus_another_format_is_permanent(t *testing.T) {
	t.Parallel()
	cfg := dirs(t)
	require.NoError(t, os.Mkdir(cfg.WALDirectory, 0o700))
	marker := []byte(`{"format":7,"uuid":"0199a3f0-0000-7000-8000-000000000000"}`)
	require.NoError(t, os.WriteFile(filepath.Join(cfg.WALDirectory, "siglake-wal.json"), marker, 0o600))
	host := newHost()
	ext := newExtension(t, cfg)
	require.NoError(t, ext.Start(t.Context(), host))
	e := <-host.events
	require.Equal(t, componentstatus.StatusPermanentError, e.Status())
	require.ErrorIs(t, e.Err(), segment.ErrFormat)
	require.NoError(t, ext.Shutdown(t.Context()))
}

// What a person must correct fails the start, with key, value and the way out.
func TestStart_refuses(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, cfg *Config, want ...string) {
		t.Helper()
		ext := newExtension(t, cfg)
		err := ext.Start(t.Context(), componenttest.NewNopHost())
		for _, text := range append(want, "extensions::lakecompactor") {
			require.ErrorContains(t, err, text)
		}
		require.NoError(t, ext.Shutdown(t.Context()), "after a failed start")
	}
	t.Run("no_catalog_directory", func(t *testing.T) {
		t.Parallel()
		cfg := dirs(t)
		cfg.Catalog = "sqlite:///nowhere/catalog.db"
		refused(t, cfg, "::catalog:", `"sqlite:///nowhere/catalog.db"`, "the directory /nowhere does not exist; make it")
	})
	t.Run("catalog_directory_is_a_file", func(t *testing.T) {
		t.Parallel()
		cfg := dirs(t)
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		cfg.Catalog = configopaque.String("sqlite://" + file + "/catalog.db")
		refused(t, cfg, "::catalog:", "not a directory")
	})
	t.Run("a_refused_start_makes_nothing", func(t *testing.T) {
		t.Parallel()
		cfg := dirs(t)
		data := filepath.Join(t.TempDir(), "typo")
		cfg.Catalog, cfg.Warehouse = configopaque.String("sqlite://"+filepath.Join(data, "catalog.db")), filepath.Join(data, "warehouse")
		refused(t, cfg, "::catalog:", "does not exist")
		refused(t, cfg, "::catalog:", "does not exist")
	})
	t.Run("no_WAL_root", func(t *testing.T) {
		t.Parallel()
		cfg := dirs(t)
		require.NoError(t, os.Mkdir(cfg.WALDirectory, 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(cfg.WALDirectory, "letter.txt"), nil, 0o600))
		refused(t, cfg, "::wal_directory:", "letter.txt", "exporters::siglake::wal::directory")
	})
	t.Run("warehouse_in_the_log", func(t *testing.T) {
		t.Parallel()
		cfg := dirs(t)
		cfg.Warehouse = "file://" + cfg.WALDirectory + "/warehouse"
		refused(t, cfg, "::warehouse:", "is inside wal_directory", "a directory of its own")
	})
	t.Run("warehouse_is_a_file", func(t *testing.T) {
		t.Parallel()
		cfg := dirs(t)
		require.NoError(t, os.WriteFile(cfg.Warehouse, nil, 0o600))
		refused(t, cfg, "::warehouse:", cfg.Warehouse, "cannot be made", "name another")
	})
}

// A relative and an absolute name of one directory are compared when the working directory is known.
func TestStart_refuses_a_relative_warehouse_in_the_log(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	cfg := defaults(filepath.Join(dir, "wal"), "sqlite://./catalog.db", "wal/warehouse")
	require.NoError(t, cfg.Validate())
	ext := newExtension(t, cfg)
	require.ErrorContains(t, ext.Start(t.Context(), componenttest.NewNopHost()), "is inside wal_directory")
}

// Shutdown honours its context; the drain ends all the same.
func TestShutdown_honours_its_context(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	c := &compactor{stop: func() { close(stopped) }, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Shutdown(ctx), context.Canceled)
	<-stopped
}
