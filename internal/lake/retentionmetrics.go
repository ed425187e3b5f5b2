package lake

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

type retentionMetrics struct {
	drops, days, rows, bytes metric.Int64Counter
	waiting, failing         metric.Int64Gauge
}

func newRetentionMetrics(m metric.Meter) (out retentionMetrics, err error) {
	counter := func(dst *metric.Int64Counter, name, unit, text string) {
		if err == nil {
			*dst, err = m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		}
	}
	gauge := func(dst *metric.Int64Gauge, name, unit, text string) {
		if err == nil {
			*dst, err = m.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		}
	}
	counter(&out.drops, "siglake_compactor_table_retention_commits_total", "{commit}",
		"Commits that deleted old days from a table, by outcome. After one that failed the next round looks again.")
	counter(&out.days, "siglake_compactor_table_retention_days_total", "{day}", "Day partitions deleted from tables.")
	counter(&out.rows, "siglake_compactor_table_retention_rows_total", "{row}", "Rows deleted with them.")
	counter(&out.bytes, "siglake_compactor_table_retention_bytes_total", "By", "Bytes of their data files, which stay until gc-orphans.")
	gauge(&out.waiting, "siglake_compactor_table_retention_waiting", "{day}",
		"Old day partitions that stay for now, because a segment with rows of them is young.")
	gauge(&out.failing, "siglake_compactor_table_retention_failing", "{table}", "Tables whose retention went wrong in its last round.")
	if err != nil {
		return out, err
	}
	ctx := context.Background()
	out.drops.Add(ctx, 0, outcome(outcomeDone))
	out.drops.Add(ctx, 0, outcome(outcomeFailed))
	for _, c := range []metric.Int64Counter{out.days, out.rows, out.bytes} {
		c.Add(ctx, 0)
	}
	out.round(ctx, 0, 0)
	return out, nil
}

// dropped notes a commit that was sent to delete days.
func (r *retentionMetrics) dropped(ctx context.Context, old []OldDay, err error) {
	if err != nil {
		r.drops.Add(ctx, 1, outcome(outcomeFailed))
		return
	}
	all := sumOf(old)
	r.drops.Add(ctx, 1, outcome(outcomeDone))
	r.days.Add(ctx, int64(len(old)))
	r.rows.Add(ctx, all.Rows)
	r.bytes.Add(ctx, all.Bytes)
}

// round notes what a round over all tables left.
func (r *retentionMetrics) round(ctx context.Context, waiting, failing int) {
	r.waiting.Record(ctx, int64(waiting))
	r.failing.Record(ctx, int64(failing))
}
