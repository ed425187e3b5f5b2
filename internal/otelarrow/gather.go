package otelarrow

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var errNotBuilt = errors.New("otelarrow: not built yet")

// Source is one WAL batch and where it stands in its segment.
type Source struct {
	SegmentID string            // shown in segment_id
	FirstRow  int64             // segment_row of the record's row 0
	Record    arrow.RecordBatch // of WALSchema, or an older layout of it
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
