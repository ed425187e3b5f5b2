package mirror

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// retainStep says what failed: a closed set.
type retainStep string

const (
	retainList   retainStep = "list"
	retainTable  retainStep = "table"
	retainRead   retainStep = "read"
	retainDelete retainStep = "delete"
	retainRecord retainStep = "record"
)

// objectState says what a run has found an object to be: a closed set.
type objectState string

const (
	stateWaiting  objectState = "waiting"   // committed; its time is not over
	stateOnVolume objectState = "on_volume" // its segment has a name in the root
	stateUnproved objectState = "unproved"  // no table shows its rows, or not yet
	stateOverdue  objectState = "overdue"   // its time is over and it is there
)

// retentionMetrics are the instruments of a retention.
type retentionMetrics struct {
	deleted, bytes, errors metric.Int64Counter
	objects                metric.Int64Gauge
	last                   metric.Float64Gauge
	run                    metric.Float64Histogram
}

func newRetentionMetrics(meter metric.Meter) (*retentionMetrics, error) {
	const prefix = "siglake_compactor_mirror_retention_"
	m := &retentionMetrics{}
	var errs [6]error
	m.deleted, errs[0] = meter.Int64Counter(prefix+"deleted_total", metric.WithUnit("{object}"),
		metric.WithDescription("Objects of committed segments deleted from the mirror."))
	m.bytes, errs[1] = meter.Int64Counter(prefix+"deleted_bytes_total", metric.WithUnit("By"), metric.WithDescription("Bytes of them."))
	m.errors, errs[2] = meter.Int64Counter(prefix+"errors_total", metric.WithUnit("{failure}"),
		metric.WithDescription("Failures by what failed; the objects stay and are looked at again. table: it could not be asked, or went back."))
	m.objects, errs[3] = meter.Int64Gauge(prefix+"objects", metric.WithUnit("{object}"),
		metric.WithDescription("Objects in the mirror at the end of the last complete run. unproved: no table shows the rows, so they stay."))
	m.last, errs[4] = meter.Float64Gauge(prefix+"last_completed_timestamp_seconds", metric.WithUnit("s"),
		metric.WithDescription("Start of the last complete run, Unix time; 0 before the first."))
	m.run, errs[5] = meter.Float64Histogram(prefix+"run_duration_seconds", metric.WithUnit("s"),
		metric.WithDescription("Time of one run over the mirror."), metric.WithExplicitBucketBoundaries(.1, .5, 1, 5, 10, 30, 60, 300, 900, 3600))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	ctx := context.Background()
	m.deleted.Add(ctx, 0)
	m.bytes.Add(ctx, 0)
	for _, s := range []retainStep{retainList, retainTable, retainRead, retainDelete, retainRecord} {
		m.errors.Add(ctx, 0, s.label())
	}
	m.last.Record(ctx, 0)
	m.show(nil)
	return m, nil
}

func (s retainStep) label() metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("step", string(s))))
}

func (m *retentionMetrics) failed(s retainStep, n int) {
	m.errors.Add(context.Background(), int64(n), s.label())
}

func (m *retentionMetrics) removed(size int64) {
	m.deleted.Add(context.Background(), 1)
	m.bytes.Add(context.Background(), size)
}

func (m *retentionMetrics) took(d time.Duration) { m.run.Record(context.Background(), d.Seconds()) }

func (m *retentionMetrics) completed(at time.Time, counts map[objectState]int) {
	m.last.Record(context.Background(), float64(at.UnixMilli())/1e3)
	m.show(counts)
}

func (m *retentionMetrics) show(counts map[objectState]int) {
	for _, s := range []objectState{stateWaiting, stateOnVolume, stateUnproved, stateOverdue} {
		m.objects.Record(context.Background(), int64(counts[s]),
			metric.WithAttributeSet(attribute.NewSet(attribute.String("state", string(s)))))
	}
}
