package lake

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// PlanBeside is Plan for a reader that has rows of its own beside the table: those of segments in the log. It also
// says how many rows of each segment the planned snapshot has, rows [0, n); an id that is missing has none.
//
// A segment that was in the log before the call, and of which the snapshot has no rows, was not committed in it.
//
//	errors  ErrNoTable; anything else means "not known", never "not committed"
func (l *Lake) PlanBeside(ctx context.Context, namespace, name string, ids []string) (Plan, map[string]int64, error) {
	t, err := l.open(ctx, table.Identifier{namespace, name})
	if err != nil {
		return Plan{}, nil, err
	}
	plan, err := l.plan(t)
	if err != nil {
		return Plan{}, nil, err
	}
	p, err := readProof(t.Metadata(), l.now())
	if err != nil {
		return Plan{}, nil, fmt.Errorf("property %s of %s.%s: %w", propProof, namespace, name, err)
	}
	of := &Table{lake: l, id: t.Identifier(), uuid: t.Metadata().TableUUID()}
	out, err := of.committed(ctx, state{tbl: t, proof: p}, ids)
	if err != nil {
		return Plan{}, nil, err
	}
	return plan, out, nil
}

// PlanOf is the plan of a table of the signal that nobody has made yet.
func PlanOf(s otelarrow.Signal, namespace, name string) (Plan, error) {
	sc, err := newTableSchema(s)
	if err != nil {
		return Plan{}, err
	}
	info := TableInfo{Namespace: namespace, Name: name, Signal: s.String()}
	return Plan{Table: info, Schema: planColumns(sc)}, nil
}

// RowsFile is a Parquet file of rows from the log that reads like a file of the planned table: with its field ids, its
// promoted columns, and those that the commit of the rows will add. One goroutine at a time.
type RowsFile struct {
	signal   otelarrow.Signal
	limits   limits
	columns  *arrow.Schema
	promoted []otelarrow.PromotedColumn
	w        *pqarrow.FileWriter
	rows     int64
	cut      bool
}

// NewRowsFile begins a file. It never closes w.
//
//	errors  ErrShape: rows of the signal cannot be rows of this table
func NewRowsFile(w io.Writer, s otelarrow.Signal, p Plan) (*RowsFile, error) {
	f := &RowsFile{signal: s, limits: limits{}.orDefault()}
	sc, err := newTableSchema(s)
	if err != nil {
		return nil, err
	}
	var promoted []promoted
	if p.meta != nil {
		fits, err := fit(p.Table.Namespace+"."+p.Table.Name, p.meta, s, nil)
		if err != nil {
			return nil, err
		}
		sc, promoted = iceberg.NewSchema(0, fits.fields...), fits.promoted
	}
	if f.columns, err = columnsOf(s, sc, promoted); err != nil {
		return nil, err
	}
	for _, c := range promoted {
		f.promoted = append(f.promoted, c.column)
	}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy))
	// What is not an io.Closer is not closed.
	f.w, err = pqarrow.NewFileWriter(f.columns, struct{ io.Writer }{w}, props, pqarrow.DefaultWriterProps())
	return f, err
}

// Add writes rows of a segment from a position on. A chunk of rows is in memory at a time, and a row group.
//
//	errors  SegmentError: its rows cannot be read
func (f *RowsFile) Add(ctx context.Context, segmentID string, batches []arrow.RecordBatch, from int64) error {
	first := int64(0) // position of the batch's first row
	for _, rec := range batches {
		n := rec.NumRows()
		sizes, err := otelarrow.RowBytes(rec)
		if err != nil {
			return &SegmentError{ID: segmentID, Err: err}
		}
		source := []otelarrow.Source{{SegmentID: segmentID, FirstRow: first, Record: rec}}
		for row := max(0, from-first); row < n; {
			if err := ctx.Err(); err != nil {
				return err
			}
			var refs []otelarrow.RowRef
			for size := int64(0); row < n && len(refs) < f.limits.chunkRows && (len(refs) == 0 || size+sizes[row] <= f.limits.chunkBytes); row++ {
				refs = append(refs, otelarrow.RowRef{Row: int32(row)})
				size += sizes[row]
			}
			if err := f.write(segmentID, source, refs); err != nil {
				return err
			}
		}
		first += n
	}
	return nil
}

func (f *RowsFile) write(segmentID string, source []otelarrow.Source, refs []otelarrow.RowRef) error {
	rec, _, err := gatherRows(f.signal, source, refs, f.promoted, memory.DefaultAllocator)
	if err != nil {
		return &SegmentError{ID: segmentID, Err: err}
	}
	defer rec.Release()
	same := array.NewRecordBatch(f.columns, rec.Columns(), rec.NumRows())
	defer same.Release()
	if f.cut {
		if err := f.w.NewBufferedRowGroupChecked(); err != nil {
			return err
		}
	}
	if err := f.w.WriteBuffered(same); err != nil {
		return fmt.Errorf("write rows of %s: %w", segmentID, err)
	}
	f.cut = f.w.RowGroupTotalCompressedBytes() >= f.limits.rowGroupBytes
	f.rows += rec.NumRows()
	return nil
}

// Rows is how many were added.
func (f *RowsFile) Rows() int64 { return f.rows }

// Close ends the file.
func (f *RowsFile) Close() error { return f.w.Close() }

// timestampBounds are the least and the greatest timestamp of a file in Unix µs, as its manifest says; false where it
// says nothing.
func timestampBounds(df iceberg.DataFile, sc *iceberg.Schema) (lo, hi int64, ok bool) {
	f, found := sc.FindFieldByName(colTimestamp)
	if !found {
		return 0, 0, false
	}
	if _, us := f.Type.(iceberg.TimestampTzType); !us {
		return 0, 0, false
	}
	lower, err1 := iceberg.LiteralFromBytes(f.Type, df.LowerBoundValues()[f.ID])
	upper, err2 := iceberg.LiteralFromBytes(f.Type, df.UpperBoundValues()[f.ID])
	if err1 != nil || err2 != nil {
		return 0, 0, false
	}
	l, ok1 := lower.(iceberg.TimestampLiteral)
	h, ok2 := upper.(iceberg.TimestampLiteral)
	return int64(l), int64(h), ok1 && ok2
}
