package otelarrow

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// Timestamps returns timestamp_ns of every row of a WAL batch. The slice is the
// batch's own memory: it is valid until the batch is released, and read only.
func Timestamps(rec arrow.RecordBatch) ([]int64, error) {
	names := arrow.StructOf(rec.Schema().Fields()...)
	v, err := fixedViewOf[int64](recordView(rec, names), "timestamp_ns", arrow.INT64)
	if err != nil {
		return nil, fmt.Errorf("read column timestamp_ns: %w", err)
	}
	if int64(len(v.v)) != rec.NumRows() || v.valid != nil {
		return nil, fmt.Errorf("read column timestamp_ns: %w: %d values of %d", ErrDamaged, len(v.v), rec.NumRows())
	}
	return v.v, nil
}

// rowFixed is what the columns of a fixed width take in a table row, roughly: 30
// columns of 8 bytes, offsets and null bits included.
const rowFixed = 256

// RowBytes estimates what each row of a WAL batch takes in the table's form, where
// resource, scope and metric are repeated in every row. It bounds a Gather: text is
// counted in full, so that no column of the result is larger than the sum.
func RowBytes(rec arrow.RecordBatch) ([]int64, error) {
	s, err := SignalOf(rec.Schema())
	if err != nil {
		return nil, err
	}
	out := make([]int64, rec.NumRows())
	for i := range out {
		out[i] = rowFixed
	}
	l := layouts[s]
	top := recordView(rec, arrow.StructOf(rec.Schema().Fields()...))
	sizes, err := sizersOf(l.columns, "", top)
	if err != nil {
		return nil, err
	}
	for i := range out {
		n, err := sizes.sum(i, i+1)
		if err != nil {
			return nil, err
		}
		out[i] += n
	}
	for _, grp := range l.groups {
		if err := addGroup(out, l, grp, top); err != nil {
			return nil, fmt.Errorf("size of %s: %w", grp.name, err)
		}
	}
	return out, nil
}

// addGroup adds to each row what its struct of the group takes.
func addGroup(out []int64, l *layout, grp group, top structView) error {
	view, in, err := top.group(grp)
	if err != nil {
		return err
	}
	sizes, err := sizersOf(l.columns, grp.name, in)
	if err != nil {
		return err
	}
	last, size := int32(-1), int64(0) // rows of one run follow each other
	for i := range out {
		at, ok := view.at(int32(i))
		if !ok {
			return fmt.Errorf("%w: row %d belongs to no struct", ErrDamaged, i)
		}
		if at < 0 {
			continue
		}
		if at != last {
			if size, err = sizes.sum(int(at), int(at)+1); err != nil {
				return err
			}
			last = at
		}
		out[i] += size
	}
	return nil
}

// A sizer is the size of the elements lo to hi of one column of variable width.
type sizer func(lo, hi int) (int64, error)

type sizers []sizer

func (s sizers) sum(lo, hi int) (int64, error) {
	var total int64
	for _, size := range s {
		n, err := size(lo, hi)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func sizersOf(columns []column, inGroup string, v structView) (sizers, error) {
	var all sizers
	for _, c := range columns {
		if c.group != inGroup {
			continue
		}
		size, err := sizerOf(c, v)
		if err != nil {
			return nil, fmt.Errorf("size of column %s: %w", c.name, err)
		}
		if size != nil {
			all = append(all, size)
		}
	}
	return all, nil
}

// sizerOf is nil for a column of fixed width and for one the source does not have.
func sizerOf(c column, v structView) (sizer, error) {
	switch c.kind {
	case kindText, kindTextOrNull:
		t, err := textViewOf(v, c.wal())
		return t.spanView.sizer(1, nil), err
	case kindAttrs:
		a, err := attrsViewOf(v, c.wal())
		if err != nil || a.off == nil {
			return nil, err
		}
		// A key may stand in the map of types as well.
		return a.spanView.sizer(24, sizers{a.key.spanView.sizer(2, nil), a.val.spanView.sizer(1, nil)}), nil
	case kindLongs, kindDoubles:
		l, _, _, err := listViewOf(v, c.wal())
		return l.sizer(8, nil), err
	case kindStructs:
		l, elem, ok, err := listViewOf(v, c.wal())
		if !ok || err != nil {
			return nil, err
		}
		in, err := newStructView(elem)
		if err != nil {
			return nil, err
		}
		nested, err := sizersOf(c.fields, "", in)
		return l.sizer(64, nested), err
	default:
		return nil, nil
	}
}

// sizer counts each byte or element of the spans with its width, and what is nested.
func (v spanView) sizer(width int64, nested sizers) sizer {
	if v.off == nil {
		return nil
	}
	return func(lo, hi int) (int64, error) {
		if lo < 0 || hi >= len(v.off) {
			return 0, fmt.Errorf("%w: no element %d", ErrDamaged, hi)
		}
		from, to := int(v.off[lo]), int(v.off[hi])
		if from < 0 || to < from || to > v.limit {
			return 0, fmt.Errorf("%w: elements %d to %d lie from %d to %d of %d", ErrDamaged, lo, hi, from, to, v.limit)
		}
		if from == to || nested == nil {
			return int64(to-from) * width, nil
		}
		n, err := nested.sum(from, to)
		return n + int64(to-from)*width, err
	}
}
