package drain

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the instruments of the drain. Every counter exists at 0 from the start, with each of its
// attribute sets, so that an alert sees the first event.
type metrics struct {
	pending      metric.Int64Gauge
	pendingAge   metric.Float64Gauge
	orphansHeld  metric.Int64Gauge
	newerHeld    metric.Int64Gauge
	retireHeld   metric.Int64Gauge
	inPoison     metric.Int64Gauge
	inStale      metric.Int64Gauge
	lanesFailing metric.Int64Gauge
	lanesStalled metric.Int64Gauge
	gateAge      metric.Float64Gauge

	commitsDone, commitsPartial, commitsFailed counter
	commitTime                                 metric.Float64Histogram

	committed, rows, duplicates          counter
	readFailures, crcMismatch            counter
	poisoned, stale, retired             counter
	orphans, orphansDeleted, orphansBack counter
	markFailures, gaps, cut, lockLost    counter
}

// counter is one attribute set of an instrument, and remembers its sum for the report of Once.
type counter struct {
	inst  metric.Int64Counter
	attrs metric.MeasurementOption
	sum   *atomic.Int64
}

func (c counter) add(n int) { c.add64(int64(n)) }

func (c counter) add64(n int64) {
	c.sum.Add(n)
	c.inst.Add(context.Background(), n, c.attrs)
}

// builder keeps the errors of a row of instruments, so that newMetrics reads as a table.
type builder struct {
	meter metric.Meter
	errs  []error
}

func (b *builder) gauge(name, unit, description string) metric.Int64Gauge {
	g, err := b.meter.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	b.errs = append(b.errs, err)
	g.Record(context.Background(), 0)
	return g
}

func (b *builder) seconds(name, description string) metric.Float64Gauge {
	g, err := b.meter.Float64Gauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	b.errs = append(b.errs, err)
	g.Record(context.Background(), 0)
	return g
}

func (b *builder) counter(name, unit, description string, attrs ...attribute.KeyValue) counter {
	c, err := b.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	b.errs = append(b.errs, err)
	out := counter{inst: c, attrs: metric.WithAttributeSet(attribute.NewSet(attrs...)), sum: new(atomic.Int64)}
	out.add(0)
	return out
}

func (b *builder) histogram(name, description string, bounds ...float64) metric.Float64Histogram {
	h, err := b.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
	b.errs = append(b.errs, err)
	return h
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	b := &builder{meter: meter}
	m := &metrics{
		pending: b.gauge("siglake_compactor_sealed_pending", "{segment}",
			"Sealed segments that wait for their commit, over all lanes."),
		pendingAge: b.seconds("siglake_compactor_sealed_pending_oldest_age_seconds",
			"Age of the oldest sealed segment that waits for its commit; 0 when none does."),
		orphansHeld: b.gauge("siglake_compactor_orphans_held", "{segment}",
			"Segments of an interrupted commit whose table could not be asked yet."),
		newerHeld: b.gauge("siglake_compactor_newer_format_held", "{segment}",
			"Sealed segments in a format that only a newer version reads; untouched."),
		retireHeld: b.gauge("siglake_compactor_retire_held", "{segment}",
			"Committed segments that stay because the table does not show their rows."),
		inPoison: b.gauge("siglake_compactor_poison_segments", "{segment}",
			"Damaged segments that lie in poison/ now, whoever set them aside; their rows are in no table."),
		inStale: b.gauge("siglake_compactor_stale_segments", "{segment}",
			"Segments that lie in stale/ now, for another incarnation of their table."),
		lanesFailing: b.gauge("siglake_compactor_lanes_failing", "{lane}",
			"Lanes whose last commit or directory operation went wrong."),
		lanesStalled: b.gauge("siglake_compactor_lanes_stalled", "{lane}",
			"Lanes whose drain has been at one step for ten minutes or more."),
		gateAge: b.seconds("siglake_compactor_gate_age_seconds",
			"Age at which sealed segments are committed: gate::age, or longer when a commit of each lane that has some takes longer."),
		commitTime: b.histogram("siglake_compactor_commit_duration_seconds",
			"Time of one commit, from the first Parquet byte to the catalog's answer.",
			0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
		committed: b.counter("siglake_compactor_segments_committed_total", "{segment}",
			"Segments marked committed, all rows in the table."),
		rows: b.counter("siglake_compactor_rows_committed_total", "{row}",
			"Rows written to tables."),
		duplicates: b.counter("siglake_compactor_duplicates_avoided_total", "{row}",
			"Rows not written because the table had them already."),
		readFailures: b.counter("siglake_compactor_read_failures_total", "{read}",
			"Reads of a segment that found it damaged."),
		crcMismatch: b.counter("siglake_wal_crc_mismatch_total", "{read}",
			"Reads of a sealed segment whose checksum does not match its bytes."),
		poisoned: b.counter("siglake_compactor_segments_poisoned_total", "{segment}",
			"Damaged segments set aside in poison/ with a note."),
		stale: b.counter("siglake_compactor_segments_stale_total", "{segment}",
			"Segments of another incarnation of their table, set aside in stale/."),
		retired: b.counter("siglake_compactor_segments_retired_total", "{segment}",
			"Committed segments unlinked after their retention."),
		orphans: b.counter("siglake_compactor_orphans_quarantined_total", "{segment}",
			"Segments found in processing/ at start and moved to orphans/."),
		cut: b.counter("siglake_compactor_segments_cut_total", "{segment}",
			"Segments of which a commit took no rows or not all, because it had reached its bound of day partitions; they follow in later ones."),
		gaps: b.counter("siglake_compactor_sequence_gaps_total", "{gap}",
			"Runs of sequence numbers of a writer that are gone without having been retired: lost or removed segments."),
		lockLost: b.counter("siglake_compactor_locks_lost_total", "{lock}",
			"Times that drain.lock was removed or replaced under the drain that held it."),
		markFailures: b.counter("siglake_compactor_mark_failures_total", "{segment}",
			"Segments whose rows are in the table but which could not be moved to committed/ at once."),
	}
	m.addLabelled(b)
	return m, errors.Join(b.errs...)
}

// addLabelled makes the counters that share an instrument.
func (m *metrics) addLabelled(b *builder) {
	commit := func(outcome string) counter {
		return b.counter("siglake_compactor_commits_total", "{commit}",
			"Calls to commit a batch of one lane, by outcome.", attribute.String("outcome", outcome))
	}
	m.commitsDone, m.commitsPartial, m.commitsFailed = commit("done"), commit("partial"), commit("failed")
	orphan := func(action string) counter {
		return b.counter("siglake_compactor_orphans_disposed_total", "{segment}",
			"Orphans disposed of: deleted means the table had their rows, requeued that it lacked some.",
			attribute.String("action", action))
	}
	m.orphansDeleted, m.orphansBack = orphan("deleted"), orphan("requeued")
}
