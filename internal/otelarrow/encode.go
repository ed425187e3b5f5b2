package otelarrow

import (
	"iter"
	"math"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"
)

// Batch is one request, or several, as one record batch of WALSchema, rows in the order of the requests.
type Batch struct {
	Record           arrow.RecordBatch // owns its memory; never nil, zero rows for an empty request
	Rows             int
	MinTime, MaxTime int64 // of timestamp_ns; both 0 when there are no rows
	Adjusted         Adjusted
	PointlessMetrics int // metrics without data points: no row
	TypelessMetrics  int // metrics without a data type: no row
}

// Adjusted counts what could not be stored exactly as sent.
type Adjusted struct {
	DuplicateKeys int64 // attributes dropped because an earlier one has the same key
	InvalidUTF8   int64 // strings in which bad bytes became U+FFFD
	TimesClamped  int64 // times over 2^63-1 ns; the raw value is kept where a column ends in _unix_nano
	CountsClamped int64 // counts over 2^63-1
}

// All yields each reason with its count; the reasons are a closed set.
func (a Adjusted) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		_ = yield("duplicate_key", a.DuplicateKeys) &&
			yield("invalid_utf8", a.InvalidUTF8) &&
			yield("time_clamped", a.TimesClamped) &&
			yield("count_clamped", a.CountsClamped)
	}
}

// Encoder encodes requests and recycles their memory: that of a batch is used
// again once its record is released. Safe for concurrent use. A long-lived owner
// makes one and keeps it.
type Encoder struct {
	pools [len(layouts)]sync.Pool
}

// NewEncoder returns an Encoder.
func NewEncoder() *Encoder { return &Encoder{} }

func (e *Encoder) scratch(sig Signal) *scratch {
	if s, ok := e.pools[sig].Get().(*scratch); ok {
		return s
	}
	return newScratch(sig, memory.DefaultAllocator, &e.pools[sig])
}

// EncodeLogs turns requests into one batch. Bad data is adjusted and counted.
//
//	arrival   when they came: ingested_at, and the time of records without one
//	requests  read only, not kept
//	errors    ErrTooBig; nothing else
func (e *Encoder) EncodeLogs(arrival time.Time, requests ...plog.Logs) (Batch, error) {
	return e.scratch(Logs).encodeLogs(arrival, requests...)
}

// EncodeTraces is EncodeLogs for spans: one row each.
func (e *Encoder) EncodeTraces(arrival time.Time, requests ...ptrace.Traces) (Batch, error) {
	return e.scratch(Traces).encodeTraces(arrival, requests...)
}

// EncodeMetrics is EncodeLogs for metrics: one row for each data point.
func (e *Encoder) EncodeMetrics(arrival time.Time, requests ...pmetric.Metrics) (Batch, error) {
	return e.scratch(Metrics).encodeMetrics(arrival, requests...)
}

// EncodeLogs is Encoder.EncodeLogs of one request with memory from mem, given back when the
// record is released. Several times dearer than an Encoder for small requests.
func EncodeLogs(ld plog.Logs, arrival time.Time, mem memory.Allocator) (Batch, error) {
	return newScratch(Logs, mem, nil).encodeLogs(arrival, ld)
}

// EncodeTraces is Encoder.EncodeTraces with memory from mem.
func EncodeTraces(td ptrace.Traces, arrival time.Time, mem memory.Allocator) (Batch, error) {
	return newScratch(Traces, mem, nil).encodeTraces(arrival, td)
}

// EncodeMetrics is Encoder.EncodeMetrics with memory from mem.
func EncodeMetrics(md pmetric.Metrics, arrival time.Time, mem memory.Allocator) (Batch, error) {
	return newScratch(Metrics, mem, nil).encodeMetrics(arrival, md)
}

// rawTime keeps a time as it was sent and counts it when it is over int64.
func (s *scratch) rawTime(t pcommon.Timestamp) int64 {
	if t > math.MaxInt64 {
		s.adjusted.TimesClamped++
	}
	return int64(t)
}

// clampTime is a raw time on the axis of int64, which ends on 2262-04-11.
func clampTime(raw int64) int64 {
	if raw < 0 {
		return math.MaxInt64
	}
	return raw
}

func (s *scratch) count(n uint64) int64 {
	if n > math.MaxInt64 {
		s.adjusted.CountsClamped++
		return math.MaxInt64
	}
	return int64(n)
}

// timeRange is the span of time that a batch covers.
type timeRange struct{ lo, hi int64 }

func (r *timeRange) add(t int64, first bool) {
	if first {
		r.lo, r.hi = t, t
		return
	}
	r.lo, r.hi = min(r.lo, t), max(r.hi, t)
}

// sharedWriters write what the records of one resource and one scope share.
type sharedWriters struct {
	s *scratch

	resource          *runs
	ingestedAt        *fixed[int64]
	serviceName       *text
	resourceAttrs     attrs
	resourceDropped   *fixed[uint32]
	resourceSchemaURL *text
	entityRefs        *text

	scope                   *runs
	scopeName, scopeVersion *text
	scopeAttrs              attrs
	scopeDropped            *fixed[uint32]
	scopeSchemaURL          *text
}

func newSharedWriters(s *scratch) sharedWriters {
	return sharedWriters{
		s:                 s,
		resource:          find[*runs](s, "resource"),
		ingestedAt:        find[*fixed[int64]](s, "resource.ingested_at"),
		serviceName:       find[*text](s, "resource.service_name"),
		resourceAttrs:     newAttrs(s, "resource.resource_attributes"),
		resourceDropped:   find[*fixed[uint32]](s, "resource.resource_dropped_attributes_count"),
		resourceSchemaURL: find[*text](s, "resource.resource_schema_url"),
		entityRefs:        find[*text](s, "resource.resource_entity_refs"),
		scope:             find[*runs](s, "scope"),
		scopeName:         find[*text](s, "scope.scope_name"),
		scopeVersion:      find[*text](s, "scope.scope_version"),
		scopeAttrs:        newAttrs(s, "scope.scope_attributes"),
		scopeDropped:      find[*fixed[uint32]](s, "scope.scope_dropped_attributes_count"),
		scopeSchemaURL:    find[*text](s, "scope.scope_schema_url"),
	}
}

// endResource writes a resource whose last row is the one before rows. A resource
// without rows leaves nothing.
func (w *sharedWriters) endResource(res pcommon.Resource, schemaURL string, arrival int64, rows int) {
	if rows == w.resource.rows() {
		return
	}
	w.ingestedAt.add(arrival)
	if v, ok := res.Attributes().Get("service.name"); ok {
		counted := w.s.adjusted
		w.s.value(w.serviceName, v)
		w.s.adjusted = counted // it stands in resource_attributes as well, and counts there
	} else {
		w.serviceName.addMaybe("", false)
	}
	w.s.attributes(w.resourceAttrs, res.Attributes())
	w.resourceDropped.add(res.DroppedAttributesCount())
	w.resourceSchemaURL.add(schemaURL)
	w.s.entityRefs(w.entityRefs, entity.ResourceEntityRefs(res))
	w.resource.end(rows)
}

// endScope is endResource for a scope.
func (w *sharedWriters) endScope(scope pcommon.InstrumentationScope, schemaURL string, rows int) {
	if rows == w.scope.rows() {
		return
	}
	w.scopeName.add(scope.Name())
	w.scopeVersion.add(scope.Version())
	w.s.attributes(w.scopeAttrs, scope.Attributes())
	w.scopeDropped.add(scope.DroppedAttributesCount())
	w.scopeSchemaURL.add(schemaURL)
	w.scope.end(rows)
}
