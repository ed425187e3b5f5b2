package lake

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// The outcomes of a transaction sent to a catalog.
const (
	outcomeDone    = "done"
	outcomeRetried = "retried" // an error that was followed by another look
	outcomeFailed  = "failed"
	outcomeUnknown = "unknown"
)

type metrics struct {
	commits    metric.Int64Counter
	took       metric.Float64Histogram
	rows       metric.Int64Counter
	files      metric.Int64Counter
	bytes      metric.Int64Counter
	duplicates metric.Int64Counter
	lookups    metric.Int64Counter
	doubled    metric.Int64Counter
	misfits    metric.Int64Counter
	cuts       metric.Int64Counter

	expiries, snapshotsExpired, manifestsRemoved metric.Int64Counter
	mostSnapshots, upkeepFailing                 metric.Int64Gauge

	compaction compactionMetrics
	retention  retentionMetrics
}

func meterOf(opt Options) metric.Meter {
	if opt.Meter == nil {
		return noop.Meter{}
	}
	return opt.Meter
}

func newMetrics(m metric.Meter, promote *otelarrow.Promotions) (*metrics, error) {
	var (
		out metrics
		err error
	)
	counter := func(dst *metric.Int64Counter, name, unit, text string) {
		if err == nil {
			*dst, err = m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		}
	}
	counter(&out.commits, "siglake_lake_commits_total", "{commit}", "Iceberg transactions sent, by outcome.")
	counter(&out.rows, "siglake_lake_rows_total", "{row}", "Rows that became part of a table.")
	counter(&out.files, "siglake_lake_files_total", "{file}", "Data files that became part of a table.")
	counter(&out.bytes, "siglake_lake_bytes_total", "By", "Bytes of the data files that became part of a table.")
	counter(&out.duplicates, "siglake_lake_duplicate_rows_total", "{row}", "Rows offered that were in the table already and were not written again.")
	counter(&out.cuts, "siglake_lake_partition_cuts_total", "{commit}",
		"Transactions that ended at the bound on day partitions; rows beyond it went into later ones.")
	counter(&out.lookups, "siglake_lake_lookups_total", "{segment}", "Segments looked up in the rows of a table because the proof could not tell.")
	counter(&out.doubled, "siglake_lake_doubled_segments_total", "{segment}", "Segments found with more rows in a table than positions: a broken promise.")
	counter(&out.misfits, "siglake_lake_promotion_misfits_total", "{value}",
		"Values of promoted attributes that are NULL in their column because they do not fit it; the map of attributes has them.")
	counter(&out.expiries, "siglake_lake_expiries_total", "{commit}",
		"Commits that expired snapshots of a table, by outcome. After one that failed the next round of maintenance looks again.")
	counter(&out.snapshotsExpired, "siglake_lake_snapshots_expired_total", "{snapshot}", "Snapshots removed from the metadata of a table.")
	counter(&out.manifestsRemoved, "siglake_lake_manifests_removed_total", "{file}",
		"Manifests and manifest lists removed that only expired snapshots named.")
	gauge := func(dst *metric.Int64Gauge, name, unit, text string) {
		if err == nil {
			*dst, err = m.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		}
	}
	gauge(&out.mostSnapshots, "siglake_lake_snapshots_most", "{snapshot}",
		"Snapshots of the table that has most of them, as of the last round of maintenance; 0 before the first.")
	gauge(&out.upkeepFailing, "siglake_lake_maintenance_failing", "{table}", "Tables whose maintenance went wrong in its last round.")
	if err == nil {
		out.took, err = m.Float64Histogram("siglake_lake_commit_duration_seconds", metric.WithUnit("s"),
			metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
			metric.WithDescription("Time of a transaction from the load of the table to the answer of the catalog."))
	}
	if err != nil {
		return nil, err
	}
	if out.retention, err = newRetentionMetrics(m); err != nil {
		return nil, err
	}
	if out.compaction, err = newCompactionMetrics(m); err != nil {
		return nil, err
	}
	ctx := context.Background()
	for _, o := range []string{outcomeDone, outcomeRetried, outcomeFailed, outcomeUnknown} {
		out.commits.Add(ctx, 0, outcome(o))
	}
	out.expiries.Add(ctx, 0, outcome(outcomeDone))
	out.expiries.Add(ctx, 0, outcome(outcomeFailed))
	for _, c := range []metric.Int64Counter{
		out.rows, out.files, out.bytes, out.duplicates, out.lookups, out.doubled, out.snapshotsExpired, out.manifestsRemoved, out.cuts,
	} {
		c.Add(ctx, 0)
	}
	out.maintained(ctx, 0, 0)
	for s := otelarrow.Logs; promote != nil && s <= otelarrow.Metrics; s++ {
		for _, c := range promote.Columns(s) {
			out.addMisfits(ctx, []misfits{{column: c.Name}})
		}
	}
	return &out, nil
}

func outcome(o string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", o))
}

// addMisfits counts by column, which the configuration bounds, and by reason.
func (m *metrics) addMisfits(ctx context.Context, found []misfits) {
	for _, f := range found {
		for reason, n := range f.counts {
			m.misfits.Add(ctx, n, metric.WithAttributes(
				attribute.String("column", f.column), attribute.String("reason", otelarrow.Misfit(reason).String())))
		}
	}
}

func (m *metrics) committed(ctx context.Context, rows, files, bytes int64, took time.Duration) {
	m.commits.Add(ctx, 1, outcome(outcomeDone))
	m.rows.Add(ctx, rows)
	m.files.Add(ctx, files)
	m.bytes.Add(ctx, bytes)
	m.took.Record(ctx, took.Seconds())
}

// expired notes a commit that was sent to expire n snapshots.
func (m *metrics) expired(ctx context.Context, n int, err error) {
	if err != nil {
		m.expiries.Add(ctx, 1, outcome(outcomeFailed))
		return
	}
	m.expiries.Add(ctx, 1, outcome(outcomeDone))
	m.snapshotsExpired.Add(ctx, int64(n))
}

// maintained notes a round of maintenance.
func (m *metrics) maintained(ctx context.Context, most, failing int) {
	m.mostSnapshots.Record(ctx, int64(most))
	m.upkeepFailing.Record(ctx, int64(failing))
}
