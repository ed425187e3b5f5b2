package siglakeexporter

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/testdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

func TestExporter_warns_without_ingestparams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.logs(t)
	te, err := r.factory.CreateTraces(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, te.Start(t.Context(), r.host))
	require.NoError(t, te.Shutdown(t.Context()))
	require.Equal(t, 1, r.warned.FilterMessageSnippet("no ingestparams extension runs").Len(), "once, not per signal")

	r = newRig(t)
	id := component.MustNewIDWithName("ingestparams", "x")
	r.host.extensions = map[component.ID]component.Component{id: nil}
	r.logs(t)
	require.Zero(t, r.warned.Len())
}

func TestExporter_lifecycle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	newLogs := func() exporter.Logs {
		e, err := r.factory.CreateLogs(t.Context(), r.set, r.cfg)
		require.NoError(t, err)
		return e
	}
	e := newLogs()
	require.NoError(t, e.Shutdown(t.Context()), "shutdown without start")
	require.Zero(t, r.log.closes)

	e = newLogs()
	require.NoError(t, e.Start(t.Context(), r.host))
	require.Error(t, e.Start(t.Context(), r.host), "start twice")
	require.NoError(t, e.Shutdown(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()), "shutdown twice")
	require.Equal(t, 1, r.log.closes)
	err := e.ConsumeLogs(t.Context(), testdata.GenerateLogs(1))
	require.Equal(t, codes.Unavailable, status.Code(err), "after shutdown")

	_, err = r.factory.CreateLogs(t.Context(), r.set, &struct{}{})
	require.ErrorContains(t, err, "configuration is a")
	bad := *r.cfg
	bad.Commit.Default = "sync"
	for _, create := range []func() error{
		func() error { _, err := r.factory.CreateLogs(t.Context(), r.set, &bad); return err },
		func() error { _, err := r.factory.CreateTraces(t.Context(), r.set, &bad); return err },
		func() error { _, err := r.factory.CreateMetrics(t.Context(), r.set, &bad); return err },
	} {
		require.ErrorContains(t, create(), `commit::default: "sync" is not one of`)
	}
}

// One root has one log, one exporter id and one set of settings; after the last user it can be opened again,
// as SIGHUP does.
func TestFactory_shares_one_log_per_root(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	create := func(id string, cfg Config) component.Component {
		set := r.set
		set.ID = component.MustNewIDWithName("siglake", id)
		e, err := r.factory.CreateLogs(t.Context(), set, &cfg)
		require.NoError(t, err)
		return e
	}
	a1, a2 := create("a", *r.cfg), create("a", *r.cfg)
	require.NoError(t, a1.Start(t.Context(), r.host))
	require.NoError(t, a2.Start(t.Context(), r.host))

	// Another id on that root, however it is spelt, and other settings.
	other := *r.cfg
	abs, err := filepath.Abs("wal")
	require.NoError(t, err)
	other.WAL.Directory = abs + "/../wal/"
	require.EqualError(t, create("b", other).Start(t.Context(), r.host),
		`wal::directory: "`+other.WAL.Directory+`" is in use by exporter "siglake/a"; list that exporter in all pipelines, or give "siglake/b" a directory of its own`)
	other = *r.cfg
	other.WAL.MaxInFlight = 7
	require.ErrorContains(t, create("a", other).Start(t.Context(), r.host), `is in use by exporter "siglake/a"`)

	// Another root is another log.
	other = *r.cfg
	other.WAL.Directory = "wal2"
	b := create("b", other)
	require.NoError(t, b.Start(t.Context(), r.host))
	require.Len(t, r.log.opened, 2)
	require.NoError(t, b.Shutdown(t.Context()))
	require.Equal(t, 1, r.log.closes)

	require.NoError(t, a1.Shutdown(t.Context()))
	require.Equal(t, 1, r.log.closes, "a2 still uses it")
	require.NoError(t, a2.Shutdown(t.Context()))
	require.Equal(t, 2, r.log.closes)

	again := create("b", *r.cfg)
	require.NoError(t, again.Start(t.Context(), r.host))
	require.Len(t, r.log.opened, 3)
	require.NoError(t, again.Shutdown(t.Context()))
}

func TestExporter_start_errors_name_key_value_and_fix(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, err := r.factory.CreateLogs(t.Context(), r.set, r.cfg)
	require.NoError(t, err)

	locked := &vfs.LockedError{Name: "wal/LOCK", Holder: "siglakecol, exporter siglake, host h, pid 1"}
	r.log.openErr = fmt.Errorf("open wal wal: %w; stop it", locked)
	err = e.Start(t.Context(), r.host)
	require.EqualError(t, err, `wal::directory: "wal": open wal wal: lock wal/LOCK: held by siglakecol, exporter siglake, host h, pid 1; stop it`)
	require.ErrorIs(t, err, locked)
	require.NoError(t, e.Shutdown(t.Context()))

	// What failed holds nothing: the next start opens.
	r.log.openErr = nil
	require.NoError(t, e.Start(t.Context(), r.host))
	require.NoError(t, e.Shutdown(t.Context()))
}
