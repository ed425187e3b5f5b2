package siglakecol_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pdata/testdata"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/siglakecol/siglakecol/exporter/siglakeexporter"
	"github.com/siglakecol/siglakecol/extension/ingestparams"
	"github.com/siglakecol/siglakecol/extension/lakecompactor"
	"github.com/siglakecol/siglakecol/extension/walmirror"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

const metricsHead = `# Metrics

What siglakecol's own components export, on ` + "`localhost:8888/metrics`" + ` with the shipped configuration. Counters and label sets exist at 0 from the
start, so that an alert sees the first event. The Collector's own metrics (` + "`otelcol_*`" + `) come beside them.

First look at these:

| question | metric |
|---|---|
| is the disk keeping up? | ` + "`siglake_wal_fsync_duration_seconds`" + ` |
| are requests refused? | ` + "`siglake_wal_refused_total`, `siglake_wal_appends_total{outcome=\"failed\"}`" + ` |
| do rows reach their tables? | ` + "`siglake_compactor_sealed_pending_oldest_age_seconds`, `siglake_compactor_lanes_failing`" + ` |
| is the log copied off its volume? | ` + "`siglake_wal_mirror_oldest_pending_age_seconds`, `siglake_wal_mirror_failures_total`, `siglake_wal_mirror_conflicts_total`" + ` |
| does the mirror grow for ever? | ` + "`siglake_compactor_mirror_retention_objects`, `siglake_compactor_mirror_retention_errors_total`" + ` |
| is anything damaged or held? | ` + "`siglake_compactor_segments_poisoned_total`, `siglake_compactor_orphans_held`, `siglake_wal_partials_poisoned_total`" + ` |

This table is compared with what running components export; ` + "`go test -run TestMetricsDocument -update .`" + ` rewrites it.

| name | kind | unit | labels | meaning |
|---|---|---|---|---|
`

// TestMetricsDocument: docs/metrics.md says what the components export, no more and no less.
func TestMetricsDocument(t *testing.T) {
	t.Parallel()
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) })
	dir := t.TempDir()
	wal := filepath.Join(dir, "wal")

	drain := lakecompactor.NewFactory()
	drainConfig, ok := drain.CreateDefaultConfig().(*lakecompactor.Config)
	require.True(t, ok)
	drainConfig.WALDirectory, drainConfig.Warehouse = wal, filepath.Join(dir, "warehouse")
	drainConfig.Catalog = configopaque.String("sqlite://" + filepath.Join(dir, "catalog.db"))
	drainConfig.Mirror.BucketURL = "file://" + filepath.Join(dir, "bucket")
	drainConfig.Promote = []lakecompactor.PromoteConfig{{Attribute: "http.route"}}
	drainConfig.Gate.Age, drainConfig.PollInterval = 10*time.Millisecond, 10*time.Millisecond
	set := extensiontest.NewNopSettings(drain.Type())
	set.TelemetrySettings = tel.NewTelemetrySettings()
	compactor, err := drain.Create(t.Context(), set, drainConfig)
	require.NoError(t, err)
	start(t, compactor)

	params := ingestparams.NewFactory()
	set = extensiontest.NewNopSettings(params.Type())
	set.TelemetrySettings = tel.NewTelemetrySettings()
	extension, err := params.Create(t.Context(), set, params.CreateDefaultConfig())
	require.NoError(t, err)
	start(t, extension)

	copies := walmirror.NewFactory()
	copiesConfig, ok := copies.CreateDefaultConfig().(*walmirror.Config)
	require.True(t, ok)
	copiesConfig.BucketURL = "file://" + filepath.Join(dir, "bucket")
	set = extensiontest.NewNopSettings(copies.Type())
	set.ID = component.NewID(copies.Type())
	set.TelemetrySettings = tel.NewTelemetrySettings()
	mirror, err := copies.Create(t.Context(), set, copiesConfig)
	require.NoError(t, err)
	start(t, mirror)

	sink := siglakeexporter.NewFactory()
	sinkConfig, ok := sink.CreateDefaultConfig().(*siglakeexporter.Config)
	require.True(t, ok)
	sinkConfig.WAL.Directory, sinkConfig.WAL.Segment.MaxEvents = wal, 1
	sinkConfig.Mirror, sinkConfig.Commit.Default = &set.ID, "mirrored"
	exportSet := exportertest.NewNopSettings(sink.Type())
	exportSet.TelemetrySettings = tel.NewTelemetrySettings()
	logs, err := sink.CreateLogs(t.Context(), exportSet, sinkConfig)
	require.NoError(t, err)
	startIn(t, logs, hostWith{set.ID: mirror})
	require.NoError(t, logs.ConsumeLogs(t.Context(), testdata.GenerateLogs(1)))

	require.Eventually(t, func() bool {
		m, err := tel.GetMetric("siglake_compactor_segments_committed_total")
		if err != nil {
			return false
		}
		sum, ok := m.Data.(metricdata.Sum[int64])
		return ok && len(sum.DataPoints) == 1 && sum.DataPoints[0].Value > 0
	}, time.Minute, 20*time.Millisecond)
	forced := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{"x-siglake-commit": {"force"}})})
	require.NoError(t, logs.ConsumeLogs(forced, testdata.GenerateLogs(1)))

	got := metricsHead + metricRows(t, tel)
	const file = "docs/metrics.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// hostWith is a host that runs extensions.
type hostWith map[component.ID]component.Component

func (h hostWith) GetExtensions() map[component.ID]component.Component { return h }

func start(t *testing.T, c component.Component) {
	t.Helper()
	startIn(t, c, componenttest.NewNopHost())
}

func startIn(t *testing.T, c component.Component, host component.Host) {
	t.Helper()
	require.NoError(t, c.Start(t.Context(), host))
	t.Cleanup(func() { require.NoError(t, c.Shutdown(context.WithoutCancel(t.Context()))) })
}

func metricRows(t *testing.T, tel *componenttest.Telemetry) string {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, tel.Reader.Collect(t.Context(), &rm))
	rows := map[string]string{}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if !strings.HasPrefix(m.Name, "siglake_") {
				continue
			}
			kind, labels := describe(t, m.Data)
			rows[m.Name] = fmt.Sprintf("| `%s` | %s | `%s` | %s | %s |\n", m.Name, kind, m.Unit, labels, m.Description)
		}
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		out.WriteString(rows[name])
	}
	return out.String()
}

// describe returns the kind of a metric and its labels with the values seen.
func describe(t *testing.T, data metricdata.Aggregation) (kind, labels string) {
	t.Helper()
	values := map[string][]string{}
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		kind = "gauge"
		if d.IsMonotonic {
			kind = "counter"
		}
		collect(values, d.DataPoints)
	case metricdata.Gauge[int64]:
		kind = "gauge"
		collect(values, d.DataPoints)
	case metricdata.Gauge[float64]:
		kind = "gauge"
		collect(values, d.DataPoints)
	case metricdata.Histogram[int64]:
		kind = "histogram"
		for _, p := range d.DataPoints {
			note(values, p.Attributes.ToSlice())
		}
	case metricdata.Histogram[float64]:
		kind = "histogram"
		for _, p := range d.DataPoints {
			note(values, p.Attributes.ToSlice())
		}
	default:
		require.Failf(t, "unknown kind", "%T", data)
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		slices.Sort(values[key])
		out = append(out, fmt.Sprintf("`%s`: %s", key, strings.Join(slices.Compact(values[key]), ", ")))
	}
	return kind, strings.Join(out, "; ")
}

func collect[N int64 | float64](values map[string][]string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		note(values, p.Attributes.ToSlice())
	}
}

func note(values map[string][]string, labels []attribute.KeyValue) {
	for _, l := range labels {
		values[string(l.Key)] = append(values[string(l.Key)], l.Value.Emit())
	}
}
