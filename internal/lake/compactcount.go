package lake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/cespare/xxhash/v2"
)

// errNotConserved: a merge would have lost rows, or doubled them.
var errNotConserved = errors.New("the merged files do not have the same rows as those they are made of")

// tally counts rows by segment, so that what goes into a merge can be compared with what is on the disk after it. It
// reads files by itself and not as the merge does.
type tally struct {
	rows     int64
	segments map[string]*positions // "" has the rows without one
	traces   *distinct
	// unbounded are columns of text that a file has no bounds of.
	unbounded map[string]bool
}

// positions are how many rows of a segment there are, and a sum over their positions that does not depend on order.
type positions struct {
	rows int64
	sum  uint64
}

func newTally(rows int64) *tally {
	return &tally{segments: map[string]*positions{}, traces: newDistinct(int(rows)), unbounded: map[string]bool{}}
}

func (t *tally) same(o *tally) bool {
	return t.rows == o.rows && maps.EqualFunc(t.segments, o.segments, func(a, b *positions) bool { return *a == *b })
}

// tally adds the rows of a data file.
func (l *Lake) tally(ctx context.Context, path string, sc *iceberg.Schema, t *tally) error {
	pf, err := l.openParquet(path)
	if err != nil {
		return err
	}
	defer func() { _ = pf.Close() }() // only read from
	columns := make([]int, 0, 3)
	for _, name := range []string{colSegmentID, colSegmentRow, colTraceID} {
		leaf := leafOf(pf.MetaData().Schema, sc, name)
		if leaf < 0 && name == colTraceID {
			continue
		}
		if leaf < 0 {
			return &foreignFileError{path: path, err: fmt.Errorf("no column %s", name)}
		}
		columns = append(columns, leaf)
	}
	t.noteUnbounded(pf.MetaData(), sc)
	reader, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: lookupBatch}, memory.DefaultAllocator)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	rows, err := reader.GetRecordReader(ctx, columns, nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer rows.Release()
	before := t.rows
	for rows.Next() {
		if err := t.add(rows.RecordBatch(), sc); err != nil {
			return &foreignFileError{path: path, err: err}
		}
	}
	if err := rows.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if got := t.rows - before; got != pf.NumRows() {
		return fmt.Errorf("read %s: %d rows of %d", path, got, pf.NumRows())
	}
	return nil
}

// noteUnbounded remembers what unsafeStats found when the file was written, so that the merged one is written once.
func (t *tally) noteUnbounded(meta *metadata.FileMetaData, sc *iceberg.Schema) {
	for _, group := range meta.RowGroups {
		for i, col := range group.Columns {
			leaf := meta.Schema.Column(i)
			stats := col.MetaData.Statistics
			if leaf.PhysicalType() != parquet.Types.ByteArray || strings.Contains(leaf.Path(), ".") ||
				stats != nil && (stats.IsSetMinValue() && stats.IsSetMaxValue() || stats.GetNullCount() == col.MetaData.NumValues) {
				continue
			}
			if name, ok := sc.FindColumnName(int(leaf.SchemaNode().FieldID())); ok {
				t.unbounded[name] = true
			}
		}
	}
}

func (t *tally) add(rec arrow.RecordBatch, sc *iceberg.Schema) error {
	var ids, traces *array.String
	var at *array.Int64
	for i, f := range rec.Schema().Fields() {
		id, _ := fieldIDOf(f)
		name, _ := sc.FindColumnName(id)
		var ok bool
		switch name {
		case colSegmentID:
			ids, ok = rec.Column(i).(*array.String)
		case colSegmentRow:
			at, ok = rec.Column(i).(*array.Int64)
		case colTraceID:
			traces, ok = rec.Column(i).(*array.String)
		}
		if !ok {
			return fmt.Errorf("column %s is a %s", f.Name, f.Type)
		}
	}
	if ids == nil || at == nil {
		return errors.New("no column that names the segment")
	}
	var buf [8]byte
	for i := range int(rec.NumRows()) {
		id, row := "", int64(-1)
		if ids.IsValid(i) {
			id = ids.Value(i)
		}
		if at.IsValid(i) {
			row = at.Value(i)
		}
		p := t.segments[id]
		if p == nil {
			p = &positions{}
			t.segments[strings.Clone(id)] = p // the batch it is a part of goes
		}
		p.rows++
		p.sum += xxhash.Sum64(binary.LittleEndian.AppendUint64(buf[:0], uint64(row)))
		if traces != nil && traces.IsValid(i) {
			t.traces.add([]byte(traces.Value(i)))
		}
	}
	t.rows += rec.NumRows()
	return nil
}
