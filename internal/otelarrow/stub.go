package otelarrow

import (
	"errors"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var errNotBuilt = errors.New("otelarrow: not built yet")

// Adjusted counts values that could not be stored exactly as sent, by reason.
type Adjusted struct {
	DuplicateKeys int64
	InvalidUTF8   int64
	TimesClamped  int64
	CountsClamped int64
}

// Batch is one request as one record batch. Record owns its memory until released.
type Batch struct {
	Record           arrow.RecordBatch
	Rows             int
	MinTime, MaxTime int64
	Adjusted         Adjusted
	PointlessMetrics int
	TypelessMetrics  int
}

// Release gives the record's memory back.
func (b *Batch) Release() {
	if b.Record != nil {
		b.Record.Release()
	}
}

// Encoder is safe for concurrent use and recycles memory between requests.
type Encoder struct{}

// NewEncoder returns an Encoder; its owner makes one and keeps it.
func NewEncoder() *Encoder { return &Encoder{} }

// EncodeLogs turns a request into one batch; arrival stands in for a missing time.
func (e *Encoder) EncodeLogs(ld plog.Logs, arrival time.Time) (Batch, error) {
	return Batch{}, errNotBuilt
}

// EncodeTraces turns a request into one batch; arrival stands in for a missing time.
func (e *Encoder) EncodeTraces(td ptrace.Traces, arrival time.Time) (Batch, error) {
	return Batch{}, errNotBuilt
}

// EncodeMetrics turns a request into one batch; arrival stands in for a missing time.
func (e *Encoder) EncodeMetrics(md pmetric.Metrics, arrival time.Time) (Batch, error) {
	return Batch{}, errNotBuilt
}

// EncodeLogs is Encoder.EncodeLogs with all memory from mem and nothing recycled.
func EncodeLogs(ld plog.Logs, arrival time.Time, mem memory.Allocator) (Batch, error) {
	return Batch{}, errNotBuilt
}

// EncodeTraces is Encoder.EncodeTraces with all memory from mem and nothing recycled.
func EncodeTraces(td ptrace.Traces, arrival time.Time, mem memory.Allocator) (Batch, error) {
	return Batch{}, errNotBuilt
}

// EncodeMetrics is Encoder.EncodeMetrics with all memory from mem and nothing recycled.
func EncodeMetrics(md pmetric.Metrics, arrival time.Time, mem memory.Allocator) (Batch, error) {
	return Batch{}, errNotBuilt
}

// WALSchema is the schema of a segment of the signal.
func WALSchema(s Signal) *arrow.Schema { return nil }

// TableSchema is the Arrow form of the signal's table.
func TableSchema(s Signal) *arrow.Schema { return nil }

// Source is one WAL batch and where it stands in its segment.
type Source struct {
	SegmentID string
	FirstRow  int64
	Record    arrow.RecordBatch
}

// RowRef is one row of one source.
type RowRef struct{ Source, Row int32 }

// Gather builds table rows from WAL rows.
func Gather(s Signal, sources []Source, rows []RowRef, mem memory.Allocator) (arrow.RecordBatch, error) {
	return nil, errNotBuilt
}

// Timestamps returns timestamp_ns of every row of a WAL batch.
func Timestamps(rec arrow.RecordBatch) ([]int64, error) { return nil, errNotBuilt }

// RowBytes estimates the bytes of each row of a WAL batch in the table's form.
func RowBytes(rec arrow.RecordBatch) ([]int64, error) { return nil, errNotBuilt }
