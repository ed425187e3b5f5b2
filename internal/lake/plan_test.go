package lake

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

func TestPlan_says_what_to_read(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	plan, err := l.Plan(t.Context(), "siglake", "events")
	require.NoError(t, err)
	require.Zero(t, plan.SnapshotID)
	require.Empty(t, plan.Files)
	rows := append(rowsAt(day0, 3), rowsAt(day0.Add(24*time.Hour), 2)...)
	out, err := tbl.Commit(t.Context(), []Segment{segment(t, testID(t, time.Now(), 1), rows)})
	require.NoError(t, err)
	plan, err = l.Plan(t.Context(), "siglake", "events")
	require.NoError(t, err)
	require.Equal(t, out.Snapshot, plan.SnapshotID)
	require.Zero(t, plan.DeleteFiles)
	var n, size int64
	for _, f := range plan.Files {
		info, err := os.Stat(f.Path)
		require.NoError(t, err)
		require.Equal(t, info.Size(), f.Bytes)
		n += f.Rows
		size += f.Bytes
	}
	require.Equal(t, int64(5), n)
	info := plan.Table
	require.WithinDuration(t, time.Now(), info.LastCommit, time.Minute)
	info.LastCommit = time.Time{}
	require.Equal(t, TableInfo{
		Namespace: "siglake", Name: "events", Signal: "logs", UUID: tbl.UUID(), Rows: 5, Files: 2, Bytes: size, Snapshots: 1,
		Location: "file://" + filepath.Join(dir, "warehouse/siglake.db/events"),
	}, info)
	types := map[string]string{}
	for _, c := range plan.Schema {
		types[c.Name] = c.DuckDBType
	}
	require.Equal(t, "TIMESTAMPTZ", types["timestamp"])
	require.Equal(t, "BIGINT", types["timestamp_ns"])
	require.Equal(t, "MAP(VARCHAR, VARCHAR)", types["attributes"])
	require.Equal(t, "INTEGER", types["severity_number"])
	require.Equal(t, PlanColumn{FieldID: 1, Name: "timestamp", DuckDBType: "TIMESTAMPTZ", Required: true}, plan.Schema[0])

	spans, _, err := l.Ensure(t.Context(), "default", "spans", otelarrow.Traces)
	require.NoError(t, err)
	plan, err = l.Plan(t.Context(), "siglake", "spans")
	require.NoError(t, err)
	require.Equal(t, spans.UUID(), plan.Table.UUID)
	for _, c := range plan.Schema {
		types[c.Name] = c.DuckDBType
	}
	require.Equal(t, `STRUCT("timestamp_ns" BIGINT, "name" VARCHAR, "attributes" MAP(VARCHAR, VARCHAR), `+
		`"attribute_types" MAP(VARCHAR, VARCHAR), "dropped_attributes_count" BIGINT)[]`, types["events"])
}

func TestDuckType_knows_every_type(t *testing.T) {
	t.Parallel()
	for want, typ := range map[string]iceberg.Type{
		"BOOLEAN": iceberg.PrimitiveTypes.Bool, "FLOAT": iceberg.PrimitiveTypes.Float32, "DOUBLE": iceberg.PrimitiveTypes.Float64,
		"DATE": iceberg.PrimitiveTypes.Date, "TIME": iceberg.PrimitiveTypes.Time, "TIMESTAMP": iceberg.PrimitiveTypes.Timestamp,
		"TIMESTAMP_NS": iceberg.PrimitiveTypes.TimestampNs, "UUID": iceberg.PrimitiveTypes.UUID, "BLOB": iceberg.PrimitiveTypes.Binary,
		"DECIMAL(9,2)": iceberg.DecimalTypeOf(9, 2),
		`STRUCT("a""b" DOUBLE[])`: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{Name: `a"b`, Type: &iceberg.ListType{Element: iceberg.PrimitiveTypes.Float64}},
		}},
	} {
		require.Equal(t, want, duckType(typ))
	}
}

// Metrics exist from the start, with the names and units that dashboards know.
func TestMetrics_names_and_values(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	f := &faultyCatalog{}
	l, err := open(t.Context(), Options{
		Catalog: "sqlite://" + filepath.Join(dir, "c.db"), Warehouse: filepath.Join(dir, "wh"), Meter: provider.Meter("lake"),
	}, hooks{wrap: faults(f).wrap, wait: noWait})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	require.Equal(t, map[string]float64{
		"siglake_lake_commits_total{done} {commit}": 0, "siglake_lake_commits_total{failed} {commit}": 0,
		"siglake_lake_commits_total{retried} {commit}": 0, "siglake_lake_commits_total{unknown} {commit}": 0,
		"siglake_lake_rows_total {row}": 0, "siglake_lake_files_total {file}": 0, "siglake_lake_bytes_total By": 0,
		"siglake_lake_duplicate_rows_total {row}": 0, "siglake_lake_lookups_total {segment}": 0,
		"siglake_lake_doubled_segments_total {segment}": 0,
		"siglake_lake_expiries_total{done} {commit}":    0, "siglake_lake_expiries_total{failed} {commit}": 0,
		"siglake_compactor_compaction_merges_total{done} {merge}": 0, "siglake_compactor_compaction_merges_total{failed} {merge}": 0,
		"siglake_compactor_compaction_merges_total{overtaken} {merge}": 0, "siglake_compactor_compaction_merges_total{unknown} {merge}": 0,
		"siglake_compactor_compaction_merges_total{not_conserved} {merge}": 0, "siglake_compactor_compaction_rows_total {row}": 0,
		"siglake_compactor_compaction_files_total {file}": 0, "siglake_compactor_compaction_bytes_total By": 0,
		"siglake_compactor_table_retention_commits_total{done} {commit}": 0, "siglake_compactor_table_retention_commits_total{failed} {commit}": 0,
		"siglake_compactor_table_retention_days_total {day}": 0, "siglake_compactor_table_retention_rows_total {row}": 0,
		"siglake_compactor_table_retention_bytes_total By": 0,
		"siglake_lake_partition_cuts_total {commit}":       0,
		"siglake_lake_manifests_removed_total {file}":      0, "siglake_lake_snapshots_expired_total {snapshot}": 0,
	}, metricsOf(t, reader))
	tbl := events(t, l)
	f.answers = []answer{lost}
	seg := newSegment(t, 1, 4)
	for range 2 {
		_, err = tbl.Commit(t.Context(), []Segment{seg})
		require.NoError(t, err)
	}
	got := metricsOf(t, reader)
	require.Equal(t, 1.0, got["siglake_lake_commits_total{done} {commit}"])
	require.Equal(t, 1.0, got["siglake_lake_commits_total{retried} {commit}"])
	require.Equal(t, 4.0, got["siglake_lake_rows_total {row}"])
	require.Equal(t, 4.0, got["siglake_lake_duplicate_rows_total {row}"])
	require.Equal(t, 1.0, got["siglake_lake_commit_duration_seconds s"])
}

func metricsOf(tb testing.TB, r sdkmetric.Reader) map[string]float64 {
	tb.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(tb, r.Collect(context.Background(), &rm))
	out := map[string]float64{}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					name := m.Name
					if o, ok := p.Attributes.Value("outcome"); ok {
						name += "{" + o.AsString() + "}"
					}
					out[name+" "+m.Unit] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					out[m.Name+" "+m.Unit] = float64(p.Count)
				}
			}
		}
	}
	return out
}

// LAKE-1: rows that are in the table twice are never silent.
func TestLookup_reports_doubled_rows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reader := sdkmetric.NewManualReader()
	l, err := Open(t.Context(), Options{
		Catalog: "sqlite://" + filepath.Join(dir, "c.db"), Warehouse: filepath.Join(dir, "wh"),
		Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("lake"),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	tbl := events(t, l)
	appendForeign(t, l, "s")
	appendForeign(t, l, "s")
	got, err := tbl.Lookup(t.Context(), []string{"s"})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"s": 1}, got)
	require.Equal(t, 1.0, metricsOf(t, reader)["siglake_lake_doubled_segments_total {segment}"])
}
