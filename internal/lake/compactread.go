package lake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go/table"
)

const (
	// wholeBytes is the size up to which a file is read in one piece: one request to an object store instead of one for
	// each column.
	wholeBytes = 1 << 20
	// streamBytes are read ahead of each column of a larger file.
	streamBytes = 256 << 10
)

// foreignFileError says that a data file is not what its manifest says of it, or not like one of ours.
type foreignFileError struct {
	path string
	err  error
}

func (e *foreignFileError) Error() string { return fmt.Sprintf("data file %s: %v", e.path, e.err) }

func (e *foreignFileError) Unwrap() error { return e.err }

// mergeSource reads a data file as rows of the table's present columns, in order.
type mergeSource struct {
	lake    *Lake
	f       mergeFile
	columns *arrow.Schema // of the table, with field ids
	batch   int64         // bytes of rows, as they are without compression, that are read at a time

	pf   *file.Reader // nil until its first row may be next
	rows pqarrow.RecordReader
	at   []int // by column of the table: where the file has it, or -1

	rec      arrow.RecordBatch // rows at hand
	us, ns   []int64           // their order
	next     int               // of them
	rowBytes int64             // about, without compression
	read     int64             // rows
}

// key is where a row sorts.
type sortKey struct{ us, ns int64 }

func (k sortKey) less(o sortKey) bool { return k.us < o.us || k.us == o.us && k.ns < o.ns }

// first is the key of the next row, or one not above it while the file is not open.
func (s *mergeSource) first() sortKey {
	if s.pf == nil {
		return sortKey{s.f.from, math.MinInt64}
	}
	return sortKey{s.us[s.next], s.ns[s.next]}
}

// openParquet opens a data file: a small one is read at once.
func (l *Lake) openParquet(path string) (*file.Reader, error) {
	in, err := l.io.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	var from parquet.ReaderAtSeeker = in
	if info.Size() <= wholeBytes {
		whole := make([]byte, info.Size())
		n, err := in.ReadAt(whole, 0)
		if errors.Is(err, io.EOF) && n == len(whole) {
			err = nil
		}
		if err := errors.Join(err, in.Close()); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		from = bytes.NewReader(whole)
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled, props.BufferSize = true, streamBytes
	pf, err := file.NewParquetReader(from, file.WithReadProps(props))
	if err != nil {
		if c, ok := from.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return pf, nil
}

// open opens the file and reads its first rows.
func (s *mergeSource) open(ctx context.Context) (err error) {
	if s.pf, err = s.lake.openParquet(s.f.df.FilePath()); err != nil {
		return err
	}
	var uncompressed int64
	for _, g := range s.pf.MetaData().RowGroups {
		uncompressed += g.TotalByteSize
	}
	s.rowBytes = max(1, uncompressed/max(1, s.pf.NumRows()))
	props := pqarrow.ArrowReadProperties{BatchSize: min(max(1, s.batch/s.rowBytes), 8192)}
	reader, err := pqarrow.NewFileReader(s.pf, props, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	var leaves []int
	if leaves, err = s.resolve(reader.Manifest); err != nil {
		return err
	}
	if s.rows, err = reader.GetRecordReader(ctx, leaves, nil); err != nil {
		return fmt.Errorf("read %s: %w", s.f.df.FilePath(), err)
	}
	return s.advance()
}

// resolve finds the table's columns in the file, by field id, and returns the leaves to read.
func (s *mergeSource) resolve(m *pqarrow.SchemaManifest) ([]int, error) {
	byID := map[int]int{}
	for i, f := range m.Fields {
		if id, ok := fieldIDOf(*f.Field); ok {
			byID[id] = i
		}
	}
	var leaves []int
	position := map[int]int{} // in what is read, of a column of the file
	s.at = make([]int, s.columns.NumFields())
	wanted := map[int]bool{}
	for i, c := range s.columns.Fields() {
		id, _ := fieldIDOf(c)
		from, ok := byID[id]
		if s.at[i] = -1; ok {
			s.at[i], wanted[from] = from, true
		} else if !c.Nullable || c.Name == colSegmentID || c.Name == colSegmentRow {
			return nil, s.foreign(fmt.Errorf("no column %s with the field id %d", c.Name, id))
		}
	}
	for i := range m.Fields {
		if wanted[i] {
			position[i] = len(position)
			leaves = append(leaves, leavesOf(&m.Fields[i])...)
		}
	}
	for i, from := range s.at {
		if from >= 0 {
			s.at[i] = position[from]
		}
	}
	return leaves, nil
}

func leavesOf(f *pqarrow.SchemaField) []int {
	if len(f.Children) == 0 {
		return []int{f.ColIndex}
	}
	var out []int
	for i := range f.Children {
		out = append(out, leavesOf(&f.Children[i])...)
	}
	return out
}

func fieldIDOf(f arrow.Field) (int, bool) {
	text, ok := f.Metadata.GetValue(table.ArrowParquetFieldIDKey)
	if !ok {
		return 0, false
	}
	id, err := strconv.Atoi(text)
	return id, err == nil
}

func (s *mergeSource) foreign(err error) error {
	return &foreignFileError{path: s.f.df.FilePath(), err: err}
}

// advance reads the next rows; none are left when rec is nil.
func (s *mergeSource) advance() error {
	last, had := sortKey{}, s.rec != nil
	if had {
		last = sortKey{s.us[len(s.us)-1], s.ns[len(s.ns)-1]}
	}
	s.rec, s.us, s.ns, s.next = nil, nil, nil, 0
	for s.rows.Next() {
		rec := s.rows.RecordBatch()
		if rec.NumRows() == 0 {
			continue
		}
		if err := s.take(rec); err != nil {
			return err
		}
		for i := range s.us {
			k := sortKey{s.us[i], s.ns[i]}
			if had && k.less(last) {
				return s.foreign(fmt.Errorf("row %d is out of order", s.read+int64(i)))
			}
			last, had = k, true
		}
		s.read += rec.NumRows()
		return nil
	}
	if err := s.rows.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", s.f.df.FilePath(), err)
	}
	if s.read != s.pf.NumRows() {
		return fmt.Errorf("read %s: %d rows of %d", s.f.df.FilePath(), s.read, s.pf.NumRows())
	}
	return nil
}

// take makes rows of the file rows of the table.
func (s *mergeSource) take(rec arrow.RecordBatch) error {
	cols := make([]arrow.Array, len(s.at))
	for i, c := range s.columns.Fields() {
		if s.at[i] < 0 {
			cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, c.Type, int(rec.NumRows()))
			continue
		}
		col, err := conform(rec.Column(s.at[i]), rec.Schema().Field(s.at[i]), c)
		if err != nil {
			return s.foreign(fmt.Errorf("column %s: %w", c.Name, err))
		}
		if !c.Nullable && col.NullN() > 0 {
			return s.foreign(fmt.Errorf("column %s is required and has nulls", c.Name))
		}
		cols[i] = col
		switch v, isLong := longs(col); {
		case isLong && c.Name == colTimestamp:
			s.us = v
		case isLong && c.Name == colTimestampNs:
			s.ns = v
		}
	}
	s.rec = array.NewRecordBatch(s.columns, cols, rec.NumRows())
	return nil
}

func (s *mergeSource) close() {
	if s.rows != nil {
		s.rows.Release()
	}
	if s.pf != nil {
		_ = s.pf.Close() // only read from
	}
}
