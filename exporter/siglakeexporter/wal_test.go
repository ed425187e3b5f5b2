package siglakeexporter

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/testdata"

	"github.com/siglakecol/siglakecol/internal/frame"
)

// signals are the three exporters of one id, started.
type signals struct {
	logs    exporter.Logs
	traces  exporter.Traces
	metrics exporter.Metrics
}

func startSignals(t *testing.T, f exporter.Factory, dir string) signals {
	t.Helper()
	cfg, ok := f.CreateDefaultConfig().(*Config)
	require.True(t, ok)
	cfg.WAL.Directory = dir
	cfg.WAL.MinFree = 1 // the test must not fail where 5 % of a large volume are in use
	cfg.WAL.MaxBytes = 1 << 40
	set := exportertest.NewNopSettings(f.Type())
	set.ID = component.NewID(f.Type())
	var s signals
	var err error
	s.logs, err = f.CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)
	s.traces, err = f.CreateTraces(t.Context(), set, cfg)
	require.NoError(t, err)
	s.metrics, err = f.CreateMetrics(t.Context(), set, cfg)
	require.NoError(t, err)
	for _, e := range s.all() {
		require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	}
	return s
}

func (s signals) all() []component.Component {
	return []component.Component{s.logs, s.traces, s.metrics}
}

func (s signals) stop(t *testing.T) {
	t.Helper()
	for _, e := range s.all() {
		require.NoError(t, e.Shutdown(context.WithoutCancel(t.Context())))
	}
}

// sealedRows reads all sealed segments of an index strictly.
func sealedRows(t *testing.T, dir, index string) int64 {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "default", index, "sealed", "*.arrow"))
	require.NoError(t, err)
	var rows int64
	for _, name := range names {
		f, err := os.Open(name)
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		seg, err := frame.Decode(f, info.Size(), frame.DecodeOptions{})
		require.NoError(t, err)
		rows += seg.Rows
		seg.Release()
		require.NoError(t, f.Close())
	}
	return rows
}

// ACK-1, ORD-1: over the real log, what was acknowledged is sealed by the shutdown, each signal in its own
// lane; the same factory opens the root again, and a stranger is refused meanwhile with the holder's text.
func TestExporter_over_the_real_log(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "wal")
	f := NewFactory()
	var want [3]int64
	for range 2 {
		s := startSignals(t, f, dir)
		for i, mode := range []string{"auto", "wait_for"} {
			ld, td, md := testdata.GenerateLogs(3+i), testdata.GenerateTraces(4), testdata.GenerateMetrics(5)
			ctx := withMode(t.Context(), mode)
			require.NoError(t, s.logs.ConsumeLogs(ctx, ld))
			require.NoError(t, s.traces.ConsumeTraces(ctx, td))
			require.NoError(t, s.metrics.ConsumeMetrics(ctx, md))
			want[0] += int64(ld.LogRecordCount())
			want[1] += int64(td.SpanCount())
			want[2] += int64(md.DataPointCount())
		}

		other := NewFactory()
		cfg, ok := other.CreateDefaultConfig().(*Config)
		require.True(t, ok)
		cfg.WAL.Directory = dir
		stranger, err := other.CreateLogs(t.Context(), exportertest.NewNopSettings(other.Type()), cfg)
		require.NoError(t, err)
		err = stranger.Start(t.Context(), componenttest.NewNopHost())
		require.ErrorContains(t, err, "wal::directory: ")
		require.ErrorContains(t, err, "exporter siglake, host ")
		require.NoError(t, stranger.Shutdown(t.Context()))

		s.stop(t)
		require.Equal(t, want, [3]int64{sealedRows(t, dir, "events"), sealedRows(t, dir, "spans"), sealedRows(t, dir, "metrics")})
	}
}
