package lake

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The outcomes of a merge besides those of a transaction.
const (
	outcomeOvertaken    = "overtaken"     // another commit was faster
	outcomeNotConserved = "not_conserved" // rows were missing or doubled, and nothing was committed
)

type compactionMetrics struct {
	merges               metric.Int64Counter
	files, bytes         metric.Int64Counter
	rows                 metric.Int64Counter
	took                 metric.Float64Histogram
	due, alone, troubled metric.Int64Gauge
}

// The two sides of a merge.
var (
	mergeIn  = metric.WithAttributes(attribute.String("side", "in"))
	mergeOut = metric.WithAttributes(attribute.String("side", "out"))
)

func newCompactionMetrics(m metric.Meter) (out compactionMetrics, err error) {
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
	counter(&out.merges, "siglake_compactor_compaction_merges_total", "{merge}",
		"Merges of small data files, by outcome. not_conserved: rows were missing or twice in what was written, and it was thrown away; a fault of ours.")
	counter(&out.files, "siglake_compactor_compaction_files_total", "{file}", "Data files that merges replaced (in) and put in their place (out).")
	counter(&out.bytes, "siglake_compactor_compaction_bytes_total", "By", "Bytes of them.")
	counter(&out.rows, "siglake_compactor_compaction_rows_total", "{row}", "Rows written again by merges.")
	gauge(&out.due, "siglake_compactor_compaction_due", "{merge}", "Merges that waited at the end of the last round of compaction.")
	gauge(&out.alone, "siglake_compactor_compaction_foreign_files", "{file}",
		"Data files of our tables that compaction leaves alone: of another engine, another order, another partition spec; "+
			"for a while those that could not be read.")
	gauge(&out.troubled, "siglake_compactor_compaction_failing", "{table}", "Tables whose compaction went wrong in its last round, or that have a data file which could not be read.")
	if err == nil {
		out.took, err = m.Float64Histogram("siglake_compactor_compaction_duration_seconds", metric.WithUnit("s"),
			metric.WithExplicitBucketBoundaries(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
			metric.WithDescription("Time of a merge, from the first row read to the answer of the catalog, waiting for others included."))
	}
	if err != nil {
		return out, err
	}
	ctx := context.Background()
	for _, o := range []string{outcomeDone, outcomeOvertaken, outcomeNotConserved, outcomeFailed, outcomeUnknown} {
		out.merges.Add(ctx, 0, outcome(o))
	}
	for _, side := range []metric.MeasurementOption{mergeIn, mergeOut} {
		out.files.Add(ctx, 0, side)
		out.bytes.Add(ctx, 0, side)
	}
	out.rows.Add(ctx, 0)
	out.round(ctx, 0, 0, 0)
	return out, nil
}

// merged notes a merge of files, and what it made unless there is an error.
func (c *compactionMetrics) merged(ctx context.Context, files []mergeFile, m *merged, took time.Duration, err error) {
	c.merges.Add(ctx, 1, outcome(mergeOutcome(err)))
	if err != nil {
		return
	}
	c.took.Record(ctx, took.Seconds())
	c.files.Add(ctx, int64(len(files)), mergeIn)
	c.files.Add(ctx, 1, mergeOut)
	for _, f := range files {
		c.bytes.Add(ctx, f.df.FileSizeBytes(), mergeIn)
	}
	c.bytes.Add(ctx, m.file.FileSizeBytes(), mergeOut)
	c.rows.Add(ctx, m.file.Count())
}

func mergeOutcome(err error) string {
	var unknown *UnknownError
	switch {
	case err == nil:
		return outcomeDone
	case errors.Is(err, errOvertaken), errors.Is(err, errBusy):
		return outcomeOvertaken
	case errors.Is(err, errNotConserved):
		return outcomeNotConserved
	case errors.As(err, &unknown):
		return outcomeUnknown
	}
	return outcomeFailed
}

// round notes what a round over all tables left.
func (c *compactionMetrics) round(ctx context.Context, due, alone, failing int) {
	c.due.Record(ctx, int64(due))
	c.alone.Record(ctx, int64(alone))
	c.troubled.Record(ctx, int64(failing))
}
