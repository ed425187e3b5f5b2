package siglakeexporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

const (
	// ingestparamsType is the extension that brings a request's mode here; known by name only, because
	// components do not import each other.
	ingestparamsType = "ingestparams"
	// maxPooled is the largest body kept for the next request, in bytes: twice the 4 MiB that gRPC accepts
	// by default, so that one 20 MiB request does not stay in memory for ever.
	maxPooled = 8 << 20
	// maxExpanded bounds a request's size in its table, in bytes, where resource, scope and metric stand in every
	// row. The largest honest request, 20 MiB of 100-byte records under a resource of 10 KiB, comes to 2 GiB. The
	// drain writes a third of a GiB a second, so this is what one request may hold its lane up: some 12 s.
	maxExpanded = 4 << 30
)

// siglake is the exporter of one signal; T is its pdata.
type siglake[T any] struct {
	cfg     *Config
	set     exporter.Settings
	signal  otelarrow.Signal
	items   func(T) int // 0: the request is empty
	size    func(T) int // bytes of protobuf
	encode  func(arrival time.Time, requests ...T) (otelarrow.Batch, error)
	mode    promise // of requests that name no mode
	shared  *registry
	split   *splitter[T]
	indexes indexes
	merger  *merger[T]
	metrics *metrics
	health  health

	schema *arrow.Schema
	frames sync.Pool // *frame.Encoder
	bodies sync.Pool // *[]byte

	mu  sync.RWMutex // held for reading while a request runs, so that shutdown waits for it
	log *sharedLog   // nil while not started
}

func newLogs(set exporter.Settings, cfg component.Config, shared *registry) (*siglake[plog.Logs], error) {
	return newExporter(set, cfg, shared, otelarrow.Logs, splitLogs(), plog.Logs.LogRecordCount, (&plog.ProtoMarshaler{}).LogsSize, otelarrow.NewEncoder().EncodeLogs)
}

func newTraces(set exporter.Settings, cfg component.Config, shared *registry) (*siglake[ptrace.Traces], error) {
	return newExporter(set, cfg, shared, otelarrow.Traces, splitTraces(), ptrace.Traces.SpanCount, (&ptrace.ProtoMarshaler{}).TracesSize, otelarrow.NewEncoder().EncodeTraces)
}

// newMetricsExporter counts metrics and not data points: one without points is no empty request.
func newMetricsExporter(set exporter.Settings, cfg component.Config, shared *registry) (*siglake[pmetric.Metrics], error) {
	return newExporter(set, cfg, shared, otelarrow.Metrics, splitMetrics(), pmetric.Metrics.MetricCount, (&pmetric.ProtoMarshaler{}).MetricsSize, otelarrow.NewEncoder().EncodeMetrics)
}

func newExporter[T any](set exporter.Settings, cfg component.Config, shared *registry, signal otelarrow.Signal, split *splitter[T], items, size func(T) int,
	encode func(time.Time, ...T) (otelarrow.Batch, error),
) (*siglake[T], error) {
	c, ok := cfg.(*Config)
	if !ok {
		return nil, fmt.Errorf("create siglake exporter: configuration is a %T", cfg)
	}
	mode, err := c.Commit.Default.promise()
	if err != nil {
		return nil, fmt.Errorf("create siglake exporter: commit::default: %w", err)
	}
	m, err := newMetrics(set.MeterProvider.Meter(scopeName))
	if err != nil {
		return nil, fmt.Errorf("create siglake exporter metrics: %w", err)
	}
	schema := otelarrow.WALSchema(signal)
	first, err := frame.NewEncoder(schema)
	if err != nil {
		return nil, fmt.Errorf("create siglake exporter for %s: %w", signal, err)
	}
	e := &siglake[T]{
		cfg: c, set: set, signal: signal, items: items, size: size, encode: encode, mode: mode, shared: shared, metrics: m, schema: schema,
		split: split, indexes: indexes{signal, c.IndexAttribute},
	}
	e.merger = newMerger(e.commit)
	e.frames.Put(first)
	return e, nil
}

// start opens the log, or joins the other signals of this exporter in it. Recovery is done when it returns.
func (e *siglake[T]) start(ctx context.Context, host component.Host) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log != nil {
		return errors.New("start siglake exporter: already started")
	}
	w := e.cfg.WAL
	mirrors, err := e.mirrors(host)
	if err != nil {
		return err
	}
	log, first, err := e.shared.acquire(ctx, e.set.ID, w, mirrors, wal.Options{
		Dir:             w.Directory,
		Shared:          w.Shared,
		MaxEvents:       w.Segment.MaxEvents,
		MaxAge:          w.Segment.MaxAge,
		SegmentMaxBytes: w.Segment.MaxBytes,
		MaxBytes:        w.MaxBytes,
		MinFree:         w.MinFree,
		MaxInFlight:     w.MaxInFlight,
		MaxWaiting:      w.MaxWaiting,
		PaceAfter:       w.PaceAfter,
		MaxLanes:        w.MaxLanes,
		MaxTenants:      w.MaxTenants,
		FairShare:       e.cfg.Tenancy.Enabled,
		Holder:          e.holder(),
		Logger:          e.set.Logger,
		Meter:           e.set.MeterProvider.Meter(scopeName),
	})
	if err != nil {
		return err
	}
	if e.mode.beyond == modeMirrored && log.mirror == nil {
		return errors.Join(fmt.Errorf("commit::default: %q %s", modeMirrored, noMirrorText), e.shared.release(ctx, log))
	}
	e.log = log
	e.health.start(host)
	log.join(&e.health)
	if first && !hasExtension(host, ingestparamsType) {
		e.set.Logger.Warn("no ingestparams extension runs: the query parameters commit, tenant and index are ignored, and headers and metadata are too unless the "+
			"receiver sets include_metadata; such requests get commit::default",
			zap.String("commit", string(e.cfg.Commit.Default)),
			zap.String("fix", "add ingestparams to service::extensions and to the middlewares of each receiver"))
	}
	return nil
}

// holder names this process to one that finds the directory locked.
func (e *siglake[T]) holder() string {
	text := fmt.Sprintf("%s, exporter %s", e.set.BuildInfo.Command, e.set.ID)
	if id, ok := e.set.Resource.Attributes().Get("service.instance.id"); ok {
		text += ", instance " + id.AsString()
	}
	return text
}

func hasExtension(host component.Host, typeName string) bool {
	for id := range host.GetExtensions() {
		if id.Type().String() == typeName {
			return true
		}
	}
	return false
}

// shutdown waits for running requests and gives the log back. Safe without start and twice.
func (e *siglake[T]) shutdown(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.stop()
	if e.log == nil {
		return nil
	}
	log := e.log
	log.leave(&e.health)
	e.log = nil
	return e.shared.release(ctx, log)
}

// push stores one request and returns nil only when its rows are as durable as its mode asks.
//
//	errors  of classify; for 400 and 429 nothing was written
//	ctx     ends the wait for admission, not a write that has begun
//	holds   ACK-1, ACK-2
func (e *siglake[T]) push(ctx context.Context, data T) error {
	mode, named, err := requestMode(ctx, e.mode)
	if err == nil {
		err = e.canKeep(mode, named)
	}
	if err != nil {
		return classify(err)
	}
	tenant, reason, err := e.cfg.Tenancy.of(ctx)
	if err != nil {
		e.metrics.tenantRefused.Add(ctx, 1, byReason(reason))
		return classify(err)
	}
	parts, reason, err := e.split.split(ctx, e.indexes, data)
	if err != nil {
		e.metrics.indexRefused.Add(ctx, 1, byReason(reason))
		return classify(err)
	}
	err = e.storeAll(ctx, tenant, mode, parts)
	if _, other := errors.AsType[*wal.HoldsError](err); other {
		e.metrics.indexRefused.Add(ctx, 1, byReason(indexOtherSignal))
	}
	switch {
	case err == nil:
		e.health.well()
	case isTrouble(err):
		e.health.trouble(err)
	}
	return classify(err)
}

// store commits r alone, or when it is small with others that come at once.
func (e *siglake[T]) store(ctx context.Context, r *request[T]) error {
	if r.items <= mergedItems {
		if r.size = e.size(r.data); r.size <= mergedBytes {
			return e.merger.do(ctx, r)
		}
	}
	var err error
	r.segment, err = e.write(ctx, r, r.data)
	return err
}

// commit stores a group of requests as one batch. One whose rows cannot be stored does not fail the others, nor does
// want of room for all of them refuse one that has it: each is then a batch of its own.
func (e *siglake[T]) commit(group []*request[T]) {
	ctx := context.Background() // a client that leaves ends nobody's request but its own
	data := make([]T, len(group))
	for i, r := range group {
		data[i] = r.data
	}
	id, err := e.write(ctx, group[0], data...)
	alone := len(group) > 1 && (errors.Is(err, errContent) || isPressure(err))
	for _, r := range group {
		r.segment, r.err = id, err
		if alone {
			r.segment, r.err = e.write(ctx, r, r.data)
		}
	}
}

// write appends requests as one batch to where to goes, and returns the segment that has them; zero when they make no
// row.
func (e *siglake[T]) write(ctx context.Context, to *request[T], requests ...T) (segment.ID, error) {
	batch, err := e.encode(time.Now(), requests...)
	if err != nil {
		return segment.ID{}, fmt.Errorf("%w: encode %s: %w", errContent, e.signal, err)
	}
	defer batch.Record.Release()
	var receipt wal.Receipt
	if batch.Rows > 0 {
		body, err := e.body(batch.Record)
		if err != nil {
			return segment.ID{}, err
		}
		defer e.recycle(body)
		if err := checkExpanded(batch.Record, int64(len(*body))); err != nil {
			return segment.ID{}, err
		}
		r := wal.Request{
			Tenant: to.tenant, Index: to.index, Holds: e.holds(to.index),
			Schema: e.schema, Body: *body, Rows: batch.Rows, MinTime: batch.MinTime, MaxTime: batch.MaxTime,
			Mode: to.mode.wal,
		}
		switch to.mode.beyond {
		case modeMirrored:
			r.SealWithin = e.cfg.Commit.MirroredSealAfter
		case modeForce:
			r.SealWithin = forceSealAfter
		}
		if receipt, err = e.log.Append(ctx, r); err != nil {
			if isFull(err, to.mode.wal) {
				e.log.stand(err) // until the log says that there is room
			}
			return segment.ID{}, err
		}
	}
	e.metrics.stored(ctx, &batch)
	return receipt.Segment, nil
}

// checkExpanded refuses a request that a few bytes shared by very many rows make too large for its table. Few requests
// can be: the rows are only counted where size times rows passes the bound.
func checkExpanded(rec arrow.RecordBatch, size int64) error {
	if size*rec.NumRows() <= maxExpanded {
		return nil
	}
	rows, err := otelarrow.RowBytes(rec)
	if err != nil {
		return fmt.Errorf("%w: %w", errContent, err)
	}
	var total int64
	for _, n := range rows {
		total += n
	}
	if total > maxExpanded {
		return fmt.Errorf("%w: its %d rows repeat their resource, scope or metric attributes to %d bytes, more than %d: send fewer rows a request or smaller attributes",
			errContent, rec.NumRows(), total, int64(maxExpanded))
	}
	return nil
}

// body is the record as one IPC message; recycle takes it back.
func (e *siglake[T]) body(rec arrow.RecordBatch) (*[]byte, error) {
	enc, ok := e.frames.Get().(*frame.Encoder)
	if !ok {
		var err error
		if enc, err = frame.NewEncoder(e.schema); err != nil {
			return nil, fmt.Errorf("%w: %w", errContent, err)
		}
	}
	defer e.frames.Put(enc)
	buf, ok := e.bodies.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	out, err := enc.Append((*buf)[:0], rec)
	if err != nil {
		return nil, fmt.Errorf("%w: encode %s: %w", errContent, e.signal, err)
	}
	*buf = out
	return buf, nil
}

func (e *siglake[T]) recycle(body *[]byte) {
	if cap(*body) <= maxPooled {
		e.bodies.Put(body)
	}
}
