package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// reason says what failed: a closed set.
type reason string

const (
	reasonPin          reason = "pin"
	reasonUpload       reason = "upload"
	reasonDamaged      reason = "damaged"
	reasonStat         reason = "post_upload_stat"
	reasonUnpin        reason = "unpin"
	reasonSweep        reason = "sweep"
	reasonActiveRead   reason = "active_read"
	reasonActiveUpload reason = "active_upload"
	reasonActiveDelete reason = "active_delete"
)

func reasons() []reason {
	return []reason{
		reasonPin, reasonDamaged, reasonUpload, reasonStat, reasonUnpin, reasonSweep, reasonActiveRead, reasonActiveUpload, reasonActiveDelete,
	}
}

// metrics are the instruments of a mirror. Each counter shows each of its series as 0 from the start.
type metrics struct {
	segments, failures, bytes, sweeps, presents, conflicts, gones metric.Int64Counter
	actives, activeBytes                                          metric.Int64Counter
	wait, upload                                                  metric.Float64Histogram
	depth                                                         metric.Int64ObservableGauge
	oldest                                                        metric.Float64ObservableGauge

	meter    metric.Meter
	ok, bad  metric.MeasurementOption
	byReason map[reason]metric.MeasurementOption
	stopping func() error
}

// buckets reach from a store in the same rack to an outage, in seconds.
func buckets() []float64 {
	return []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800}
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	m := &metrics{meter: meter, stopping: func() error { return nil }, byReason: map[reason]metric.MeasurementOption{}}
	var errs []error
	counter := func(dst *metric.Int64Counter, name, unit, about string) {
		c, err := meter.Int64Counter("siglake_wal_mirror_"+name, metric.WithUnit(unit), metric.WithDescription(about))
		*dst, errs = c, append(errs, err)
	}
	seconds := func(dst *metric.Float64Histogram, name, about string) {
		h, err := meter.Float64Histogram("siglake_wal_mirror_"+name, metric.WithUnit("s"), metric.WithDescription(about),
			metric.WithExplicitBucketBoundaries(buckets()...))
		*dst, errs = h, append(errs, err)
	}
	counter(&m.segments, "segments_total", "{segment}", "Attempts to have a sealed segment in the mirror, by outcome; a failed one is tried again.")
	counter(&m.failures, "failures_total", "{failure}", "Failures by what failed; pin: a segment is uploaded without the link that keeps its bytes; damaged: what was uploaded is no whole segment any more, and no request was answered for it.")
	counter(&m.bytes, "bytes_uploaded_total", "By", "Bytes of sealed segments uploaded.")
	counter(&m.sweeps, "sweep_uploads_total", "{segment}", "Segments uploaded that a sweep had found.")
	counter(&m.presents, "upload_present_after_error_total", "{segment}", "Uploads that answered with an error and had arrived.")
	counter(&m.conflicts, "conflicts_total", "{segment}", "Segments under whose name the mirror holds another object: an alarm.")
	counter(&m.gones, "sources_gone_total", "{segment}", "Segments that were drained and retired before they were uploaded; they had no pin.")
	counter(&m.actives, "active_uploads_total", "{segment}", "Beginnings of open segments uploaded.")
	counter(&m.activeBytes, "active_bytes_uploaded_total", "By", "Bytes of them.")
	seconds(&m.wait, "queue_wait_seconds", "Time from the seal of a segment to its first attempt.")
	seconds(&m.upload, "upload_duration_seconds", "Time of a successful upload with its confirmation.")
	var err error
	m.depth, err = meter.Int64ObservableGauge("siglake_wal_mirror_queue_depth", metric.WithUnit("{segment}"),
		metric.WithDescription("Segments that wait to be uploaded or are on their way; their pins keep the bytes on the volume."))
	errs = append(errs, err)
	m.oldest, err = meter.Float64ObservableGauge("siglake_wal_mirror_oldest_pending_age_seconds", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest of them: what losing the volume now may cost beyond the open segments."))
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("make mirror instruments: %w", err)
	}
	m.start()
	return m, nil
}

func (m *metrics) start() {
	ctx := context.Background()
	m.ok = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", "ok")))
	m.bad = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", "err")))
	m.segments.Add(ctx, 0, m.ok)
	m.segments.Add(ctx, 0, m.bad)
	for _, r := range reasons() {
		m.byReason[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", string(r))))
		m.failures.Add(ctx, 0, m.byReason[r])
	}
	for _, c := range []metric.Int64Counter{m.bytes, m.sweeps, m.presents, m.conflicts, m.gones, m.actives, m.activeBytes} {
		c.Add(ctx, 0)
	}
}

// observe has the gauges look at mi when they are read, until stop.
func (m *metrics) observe(mi *Mirror) error {
	reg, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(m.depth, int64(mi.queue.len()))
		o.ObserveFloat64(m.oldest, mi.queue.oldest().Seconds())
		return nil
	}, m.depth, m.oldest)
	if err != nil {
		return fmt.Errorf("observe the mirror: %w", err)
	}
	m.stopping = reg.Unregister
	return nil
}

func (m *metrics) stop() { _ = m.stopping() } // nothing is left that a failure could harm

func (m *metrics) failed(r reason) { m.failures.Add(context.Background(), 1, m.byReason[r]) }

func (m *metrics) uploaded(ok bool) {
	outcome := m.bad
	if ok {
		outcome = m.ok
	}
	m.segments.Add(context.Background(), 1, outcome)
}

func (m *metrics) sent(n int64, took time.Duration) {
	m.bytes.Add(context.Background(), n)
	m.upload.Record(context.Background(), took.Seconds())
}

func (m *metrics) activeSent(n int64) {
	m.actives.Add(context.Background(), 1)
	m.activeBytes.Add(context.Background(), n)
}

func (m *metrics) waited(d time.Duration) { m.wait.Record(context.Background(), d.Seconds()) }
func (m *metrics) swept()                 { m.sweeps.Add(context.Background(), 1) }
func (m *metrics) presentAfterError()     { m.presents.Add(context.Background(), 1) }
func (m *metrics) conflict()              { m.conflicts.Add(context.Background(), 1) }
func (m *metrics) gone()                  { m.gones.Add(context.Background(), 1) }
