package otelarrow

import (
	"fmt"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
)

// Views read the buffers of a source directly. A source may be damaged: a view
// is made only over bytes that are there, and whatever an offset says is checked
// before it is used.

// structView is a struct of a source: a record, a group, or the elements of a
// list. Element i of a field is at base+i of the field's own data.
type structView struct {
	names *arrow.StructType // nil: the source does not have it, all fields are missing
	data  []arrow.ArrayData
	base  int
}

// recordView reads a record; names are the fields of its schema.
func recordView(rec arrow.RecordBatch, names *arrow.StructType) structView {
	v := structView{names: names, data: make([]arrow.ArrayData, rec.NumCols())}
	for i := range v.data {
		v.data[i] = rec.Column(i).Data()
	}
	return v
}

func newStructView(d arrow.ArrayData) (structView, error) {
	st, ok := d.DataType().(*arrow.StructType)
	if !ok {
		return structView{}, fmt.Errorf("%w: %s where a struct belongs", ErrDamaged, d.DataType())
	}
	if n := len(d.Children()); n != st.NumFields() {
		return structView{}, fmt.Errorf("%w: %d fields of %d", ErrDamaged, n, st.NumFields())
	}
	return structView{names: st, data: d.Children(), base: d.Offset()}, nil
}

// field finds a field's data; missing is not an error, an unexpected type is.
func (v structView) field(name string, want arrow.Type) (arrow.ArrayData, bool, error) {
	if v.names == nil {
		return nil, false, nil
	}
	at, ok := v.names.FieldIdx(name)
	if !ok {
		return nil, false, nil
	}
	d := v.data[at]
	if dt := d.DataType(); dt.ID() != want {
		return nil, false, fmt.Errorf("%w: type %s where %s belongs", ErrDamaged, dt, want)
	}
	return d, true, nil
}

// values are the numbers of a buffer from element first of the data on.
func values[T fixedWidth](d arrow.ArrayData, buffer, first int) ([]T, error) {
	n := d.Len() + d.Offset() - first
	if len(d.Buffers()) <= buffer || n < 0 {
		return nil, fmt.Errorf("%w: no values", ErrDamaged)
	}
	if n == 0 {
		return nil, nil
	}
	var all []T
	if b := d.Buffers()[buffer]; b != nil {
		all = arrow.GetData[T](b.Bytes())
	}
	if len(all) < first+n {
		return nil, fmt.Errorf("%w: %d values of %d", ErrDamaged, len(all), first+n)
	}
	return all[first : first+n], nil
}

// fixedView reads numbers. An empty one reads as NULL throughout.
type fixedView[T fixedWidth] struct {
	v     []T
	valid []byte // nil: no nulls
	bit   int    // of element 0
}

func fixedViewOf[T fixedWidth](s structView, name string, want arrow.Type) (fixedView[T], error) {
	var v fixedView[T]
	d, ok, err := s.field(name, want)
	if !ok {
		return v, err
	}
	v.bit = d.Offset() + s.base
	if v.v, err = values[T](d, 1, v.bit); err != nil {
		return v, err
	}
	v.valid, err = validity(d, v.bit+len(v.v))
	return v, err
}

// validity are the null bits of the data, nil when there are none.
func validity(d arrow.ArrayData, bits int) ([]byte, error) {
	if d.NullN() == 0 || d.Buffers()[0] == nil {
		return nil, nil
	}
	if b := d.Buffers()[0].Bytes(); len(b)*8 >= bits {
		return b, nil
	}
	return nil, fmt.Errorf("%w: null bits end early", ErrDamaged)
}

// has reports whether element i is there and not null.
func (v *fixedView[T]) has(i int32) bool {
	return uint(i) < uint(len(v.v)) && (v.valid == nil || bitAt(v.valid, v.bit+int(i)))
}

func bitAt(bits []byte, i int) bool { return bits[i>>3]&(1<<(i&7)) != 0 }

// spanView reads offsets: those of strings or of lists.
type spanView struct {
	off   []int32 // one more than elements
	limit int     // what the offsets may reach
	valid []byte
	bit   int
}

func spanViewOf(d arrow.ArrayData, base, limit int) (spanView, error) {
	v := spanView{limit: limit, bit: d.Offset() + base}
	n := d.Len() + d.Offset() - v.bit
	if n <= 0 || len(d.Buffers()) < 2 {
		return v, nil
	}
	if b := d.Buffers()[1]; b != nil {
		v.off = arrow.GetData[int32](b.Bytes())
	}
	if len(v.off) < v.bit+n+1 {
		return v, fmt.Errorf("%w: %d offsets of %d", ErrDamaged, len(v.off), v.bit+n+1)
	}
	v.off = v.off[v.bit : v.bit+n+1]
	var err error
	v.valid, err = validity(d, v.bit+n)
	return v, err
}

// at is the range of element i; ok is false when it is missing or null.
func (v *spanView) at(i int32) (lo, hi int, ok bool, err error) {
	if i < 0 || int(i)+1 >= len(v.off) || (v.valid != nil && !bitAt(v.valid, v.bit+int(i))) {
		return 0, 0, false, nil
	}
	lo, hi = int(v.off[i]), int(v.off[i+1])
	if lo < 0 || hi < lo || hi > v.limit {
		return 0, 0, false, fmt.Errorf("%w: element %d lies from %d to %d of %d", ErrDamaged, i, lo, hi, v.limit)
	}
	return lo, hi, true, nil
}

// textView reads strings.
type textView struct {
	spanView
	bytes []byte
}

func textViewOf(s structView, name string) (textView, error) {
	d, ok, err := s.field(name, arrow.STRING)
	if !ok {
		return textView{}, err
	}
	var v textView
	if len(d.Buffers()) == 3 && d.Buffers()[2] != nil {
		v.bytes = d.Buffers()[2].Bytes()
	}
	v.spanView, err = spanViewOf(d, s.base, len(v.bytes))
	return v, err
}

// listView reads lists; elements are those of elem.
func listViewOf(s structView, name string) (spanView, arrow.ArrayData, bool, error) {
	d, ok, err := s.field(name, arrow.LIST)
	if !ok {
		return spanView{}, nil, false, err
	}
	if len(d.Children()) != 1 {
		return spanView{}, nil, false, fmt.Errorf("%w: list without elements", ErrDamaged)
	}
	elem := d.Children()[0]
	v, err := spanViewOf(d, s.base, elem.Len())
	return v, elem, true, err
}

// attrsView reads lists of key, value and kind.
type attrsView struct {
	spanView
	key, val textView
	kind     fixedView[uint8]
}

func attrsViewOf(s structView, name string) (attrsView, error) {
	var v attrsView
	span, elem, ok, err := listViewOf(s, name)
	if !ok || err != nil {
		return v, err
	}
	v.spanView = span
	in, err := newStructView(elem)
	if err != nil {
		return v, err
	}
	if v.key, err = textViewOf(in, "key"); err != nil {
		return v, err
	}
	if v.val, err = textViewOf(in, "value"); err != nil {
		return v, err
	}
	if v.kind, err = fixedViewOf[uint8](in, "kind", arrow.UINT8); err != nil {
		return v, err
	}
	if n := elem.Len(); len(v.key.off) <= n && n > 0 || len(v.val.off) <= n && n > 0 || len(v.kind.v) < n {
		return v, fmt.Errorf("%w: attributes without key, value or kind", ErrDamaged)
	}
	return v, nil
}

// groupView finds the struct of a group that belongs to a row.
type groupView struct {
	runs bool
	none bool // the source does not have the group

	ends  []int32 // of runs
	first int     // logical row of the data's row 0
	n     int     // structs there are
	last  int     // run found last: the next row is most often in it

	span spanView // of optional groups
}

func (v structView) group(grp group) (groupView, structView, error) {
	gv := groupView{runs: grp.runs}
	if !grp.runs {
		span, elem, ok, err := listViewOf(v, grp.name)
		if !ok || err != nil {
			gv.none = true
			return gv, structView{}, err
		}
		gv.span = span
		in, err := newStructView(elem)
		return gv, in, err
	}
	d, ok, err := v.field(grp.name, arrow.RUN_END_ENCODED)
	if !ok {
		gv.none = true
		return gv, structView{}, err
	}
	if len(d.Children()) != 2 || d.Children()[0].DataType().ID() != arrow.INT32 {
		return gv, structView{}, fmt.Errorf("%w: run ends are not int32", ErrDamaged)
	}
	ends := d.Children()[0]
	if gv.ends, err = values[int32](ends, 1, ends.Offset()); err != nil {
		return gv, structView{}, err
	}
	gv.first, gv.n = d.Offset(), d.Children()[1].Len()
	in, err := newStructView(d.Children()[1])
	return gv, in, err
}

// at is the struct of row i, -1 when it has none; not ok when the source is damaged.
func (v *groupView) at(i int32) (int32, bool) {
	if v.none {
		return -1, true
	}
	if !v.runs {
		lo, hi, ok, err := v.span.at(i)
		switch {
		case err != nil || hi-lo > 1:
			return 0, false
		case !ok || lo == hi:
			return -1, true
		default:
			return int32(lo), true
		}
	}
	row := i + int32(v.first)
	if v.last >= len(v.ends) || row >= v.ends[v.last] || (v.last > 0 && row < v.ends[v.last-1]) {
		v.last = sort.Search(len(v.ends), func(k int) bool { return v.ends[k] > row })
	}
	return int32(v.last), v.last < len(v.ends) && v.last < v.n
}
