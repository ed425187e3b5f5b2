package wal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

type outcome uint8

const (
	outcomeOK      outcome = iota // acked
	outcomeRefused                // a limit, nothing written
	outcomeFailed                 // the storage
	outcomes
)

var outcomeNames = [outcomes]string{"ok", "refused", "failed"}

type metrics struct {
	meter metric.Meter

	appends     metric.Int64Counter
	appendBytes metric.Int64Counter
	appendRows  metric.Int64Counter
	refused     metric.Int64Counter
	groupSize   metric.Int64Histogram
	fsync       metric.Float64Histogram
	seals       metric.Int64Counter
	sealTime    metric.Float64Histogram
	recovered   metric.Int64Counter
	tails       metric.Int64Counter
	tailBytes   metric.Int64Counter
	empties     metric.Int64Counter
	poisoned    metric.Int64Counter
	unrecovered metric.Int64Counter
	adopted     metric.Int64Counter
	seized      metric.Int64Counter
	released    metric.Int64Counter
	rowsLost    metric.Int64Counter
	paced       metric.Int64Counter

	limits limitGauges
	peers  metric.Int64ObservableGauge
	oldest metric.Float64ObservableGauge

	// Attribute sets, and the slices that hold them, are built once: an append makes none.
	byAppend           [modes][outcomes][]metric.AddOption
	sealOK, sealFailed []metric.AddOption
	fileSync, dirSync  []metric.RecordOption
	refusedBy          map[string][]metric.AddOption
	stopObserving      func() error
}

// fsyncBuckets reach from a write to a cache with battery to a disk that is about to fail.
func fsyncBuckets() []float64 {
	return []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	m := &metrics{meter: meter, stopObserving: func() error { return nil }}
	var errs []error
	counter := func(dst *metric.Int64Counter, name, unit, about string) {
		c, err := meter.Int64Counter("siglake_wal_"+name, metric.WithUnit(unit), metric.WithDescription(about))
		*dst, errs = c, append(errs, err)
	}
	seconds := func(dst *metric.Float64Histogram, name, about string) {
		h, err := meter.Float64Histogram("siglake_wal_"+name, metric.WithUnit("s"), metric.WithDescription(about),
			metric.WithExplicitBucketBoundaries(fsyncBuckets()...))
		*dst, errs = h, append(errs, err)
	}
	counter(&m.appends, "appends_total", "{batch}", "Batches answered, by commit mode and outcome: a request, or small ones that came at once.")
	counter(&m.appendBytes, "append_bytes_total", "By", "Bytes of acknowledged batches.")
	counter(&m.appendRows, "append_rows_total", "{row}", "Rows of acknowledged batches.")
	counter(&m.refused, "refused_total", "{batch}", "Batches, and for max_waiting requests, refused before anything was written, by limit.")
	counter(&m.seals, "seals_total", "{segment}", "Attempts to seal a segment, by outcome; a failed one is retried.")
	counter(&m.recovered, "partials_recovered_total", "{segment}", "Open segments of an earlier process moved to sealed/.")
	counter(&m.tails, "partial_tail_dropped_total", "{segment}", "Recovered segments whose torn tail holds no whole batch.")
	counter(&m.tailBytes, "partial_tail_dropped_bytes_total", "By", "Bytes of those tails.")
	counter(&m.empties, "partials_empty_total", "{segment}", "Open segments of an earlier process without a row, removed.")
	counter(&m.poisoned, "partials_poisoned_total", "{segment}", "Open segments of an earlier process set aside in poison/.")
	counter(&m.unrecovered, "partials_unrecovered_total", "{segment}", "Failed attempts to recover a segment; retried.")
	counter(&m.adopted, "partials_adopted_total", "{segment}",
		"Open segments of a process that died beside this one, dealt with while this one ran (wal.shared).")
	counter(&m.seized, "segments_seized_total", "{segment}", "Segments of this process that were taken away from under it.")
	counter(&m.released, "pins_released_total", "{segment}", "Pins of committed segments given up near a limit of the disk; they may stay without a copy in the mirror.")
	counter(&m.rowsLost, "unsynced_rows_lost_total", "{row}", "Rows acknowledged under auto that a failed fsync took.")
	counter(&m.paced, "paced_total", "{batch}", "Batches that waited so that no more comes in than the drain takes out (pace_after).")
	seconds(&m.fsync, "fsync_duration_seconds", "Time of one fsync, by target.")
	seconds(&m.sealTime, "seal_duration_seconds", "Time to seal a segment.")
	var err error
	m.limits, err = newLimitGauges(meter)
	errs = append(errs, err)
	m.peers, err = meter.Int64ObservableGauge("siglake_wal_peer_lanes", metric.WithUnit("{lane}"),
		metric.WithDescription("Lanes in which another live process had an open segment when last looked (wal.shared)."))
	errs = append(errs, err)
	m.groupSize, err = meter.Int64Histogram("siglake_wal_group_size", metric.WithUnit("{request}"),
		metric.WithDescription("Batches that shared one write and at most one sync."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024))
	errs = append(errs, err)
	m.oldest, err = meter.Float64ObservableGauge("siglake_wal_oldest_unsealed_age_seconds", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest row that is not in sealed/ yet."))
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("make wal instruments: %w", err)
	}
	m.start()
	return m, nil
}

// start builds the attribute sets and shows each series as zero, so that an alert sees the first event.
func (m *metrics) start() {
	ctx := context.Background()
	for mode := range modes {
		for o := range outcomes {
			m.byAppend[mode][o] = toAdd("mode", mode.String(), "outcome", outcomeNames[o])
			m.appends.Add(ctx, 0, m.byAppend[mode][o]...)
		}
	}
	m.refusedBy = map[string][]metric.AddOption{}
	for _, limit := range limits() {
		m.refusedBy[limit] = toAdd("limit", limit)
		m.refused.Add(ctx, 0, m.refusedBy[limit]...)
	}
	m.sealOK, m.sealFailed = toAdd("outcome", "ok"), toAdd("outcome", "failed")
	m.seals.Add(ctx, 0, m.sealOK...)
	m.seals.Add(ctx, 0, m.sealFailed...)
	m.fileSync = []metric.RecordOption{attributes("target", "segment")}
	m.dirSync = []metric.RecordOption{attributes("target", "directory")}
	for _, c := range []metric.Int64Counter{
		m.appendBytes, m.appendRows, m.recovered, m.tails, m.tailBytes, m.empties, m.poisoned, m.unrecovered, m.rowsLost,
		m.adopted, m.seized, m.released, m.paced,
	} {
		c.Add(ctx, 0)
	}
}

func toAdd(kv ...string) []metric.AddOption { return []metric.AddOption{attributes(kv...)} }

func attributes(kv ...string) metric.MeasurementOption {
	set := make([]attribute.KeyValue, 0, len(kv)/2)
	for i := 0; i < len(kv); i += 2 {
		set = append(set, attribute.String(kv[i], kv[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}

// meteredFS times every sync, those inside segment's moves too.
type meteredFS struct {
	vfs.FS
	met *metrics
}

func (m meteredFS) Create(name string) (vfs.File, error) {
	f, err := m.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return meteredFile{f, m.met}, nil
}

func (m meteredFS) OpenRW(name string) (vfs.File, error) {
	f, err := m.FS.OpenRW(name)
	if err != nil {
		return nil, err
	}
	return meteredFile{f, m.met}, nil
}

func (m meteredFS) SyncDir(dir string) error {
	start := time.Now()
	err := m.FS.SyncDir(dir)
	m.met.fsync.Record(context.Background(), time.Since(start).Seconds(), m.met.dirSync...)
	return err
}

type meteredFile struct {
	vfs.File
	met *metrics
}

func (f meteredFile) Sync() error {
	start := time.Now()
	err := f.File.Sync()
	f.met.fsync.Record(context.Background(), time.Since(start).Seconds(), f.met.fileSync...)
	return err
}
