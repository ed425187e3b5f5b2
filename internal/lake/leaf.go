package lake

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// leaves write the columns of a row group. The buffers serve one column after the other.
type leaves struct {
	group file.BufferedRowGroupWriter
	dicts []*dictionary // by column
	def   []int16
	texts []parquet.ByteArray
	longs []int64
	ints  []int32
	reals []float64
	bools []bool
}

func newLeaves(group file.BufferedRowGroupWriter) *leaves {
	return &leaves{group: group, dicts: make([]*dictionary, group.NumColumns())}
}

// write appends the rows of a record whose columns are those of the file.
func (l *leaves) write(rec arrow.RecordBatch, sc *arrow.Schema) error {
	top := rows(int(rec.NumRows()))
	col := 0
	for i, arr := range rec.Columns() {
		err := shred(arr, sc.Field(i).Nullable, top, func(leaf arrow.Array, s *slots, nullable bool) error {
			cw, err := l.group.Column(col)
			if err != nil {
				return err
			}
			if l.dicts[col] == nil {
				l.dicts[col] = newDictionary()
			}
			col++
			return l.leaf(cw, l.dicts[col-1], leaf, s, nullable)
		})
		if err != nil {
			return fmt.Errorf("write column %s: %w", sc.Field(i).Name, err)
		}
	}
	return nil
}

// levels are the definition levels of a column, nil when nothing in it is optional.
func (l *leaves) levels(arr arrow.Array, s *slots, nullable bool) []int16 {
	switch {
	case !nullable && s.level == 0:
		return nil
	case !nullable:
		return s.def
	case arr.NullN() == 0:
		return s.filled()
	}
	l.def = l.def[:0]
	valid := validityOf(arr)
	for i, e := range s.at {
		d := s.def[i]
		if e >= 0 && valid.has(e) {
			d = s.level + 1
		}
		l.def = append(l.def, d)
	}
	return l.def
}

// leaf appends the elements of arr that s names.
func (l *leaves) leaf(cw file.ColumnChunkWriter, d *dictionary, arr arrow.Array, s *slots, nullable bool) error {
	def := l.levels(arr, s, nullable)
	switch w := cw.(type) {
	case *file.ByteArrayColumnChunkWriter:
		if a, ok := arr.(*array.String); ok {
			return l.writeTexts(w, d, a, s, def)
		}
	case *file.Int64ColumnChunkWriter:
		if v, ok := longs(arr); ok {
			v, l.longs = pick(v, arr, s, l.longs)
			_, err := w.WriteBatch(v, def, s.rep)
			return err
		}
	case *file.Int32ColumnChunkWriter:
		if a, ok := arr.(*array.Int32); ok {
			v, buf := pick(a.Int32Values(), arr, s, l.ints)
			l.ints = buf
			_, err := w.WriteBatch(v, def, s.rep)
			return err
		}
	case *file.Float64ColumnChunkWriter:
		if a, ok := arr.(*array.Float64); ok {
			v, buf := pick(a.Float64Values(), arr, s, l.reals)
			l.reals = buf
			_, err := w.WriteBatch(v, def, s.rep)
			return err
		}
	case *file.BooleanColumnChunkWriter:
		if a, ok := arr.(*array.Boolean); ok {
			l.bools = truths(a, s, l.bools)
			_, err := w.WriteBatch(l.bools, def, s.rep)
			return err
		}
	}
	return fmt.Errorf("%s cannot be written to a column of %s", arr.DataType(), cw.Type())
}

func truths(a *array.Boolean, s *slots, buf []bool) []bool {
	buf = buf[:0]
	for _, e := range s.at {
		if e >= 0 && a.IsValid(int(e)) {
			buf = append(buf, a.Value(int(e)))
		}
	}
	return buf
}

func longs(arr arrow.Array) ([]int64, bool) {
	switch a := arr.(type) {
	case *array.Int64:
		return a.Int64Values(), true
	case *array.Timestamp:
		return arrow.GetData[int64](arrow.TimestampTraits.CastToBytes(a.TimestampValues())), true
	default:
		return nil, false
	}
}

// pick returns the values that are there: as they lie when they follow each other, else in buf.
func pick[T any](v []T, arr arrow.Array, s *slots, buf []T) (picked, grown []T) {
	if s.dense && arr.NullN() == 0 {
		return v[s.first : s.first+s.held], buf
	}
	buf = buf[:0]
	valid := validityOf(arr)
	for _, e := range s.at {
		if e >= 0 && valid.has(e) {
			buf = append(buf, v[e])
		}
	}
	return buf, buf
}

// writeTexts writes indices where the column's dictionary knows all values, and the values themselves otherwise.
func (l *leaves) writeTexts(w *file.ByteArrayColumnChunkWriter, d *dictionary, a *array.String, s *slots, def []int16) error {
	off := a.ValueOffsets()
	var bytes []byte
	if b := a.Data().Buffers()[2]; b != nil {
		bytes = b.Bytes()
	}
	if w.SupportsArrowOffsets() && s.dense && a.NullN() == 0 { // a column without a dictionary takes them as they lie
		_, err := w.WriteBatchArrow(bytes, off[s.first:s.first+s.held+1], def, s.rep)
		return err
	}
	l.texts = l.texts[:0]
	valid := validityOf(a)
	for _, e := range s.at {
		if e >= 0 && valid.has(e) {
			l.texts = append(l.texts, bytes[off[e]:off[e+1]])
		}
	}
	if done, err := d.put(w, l.texts, s, def, valid); done || err != nil {
		return err
	}
	if _, err := w.WriteBatch(l.texts, def, s.rep); err != nil {
		return err
	}
	d.learn(w, l.texts)
	return nil
}
