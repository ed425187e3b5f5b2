package otelarrow

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
)

// ErrTooBig is returned when a column would need offsets over 2 GiB.
var ErrTooBig = errors.New("otelarrow: column over 2 GiB")

// A writer collects one WAL field of a batch. Writers fill Arrow's buffers
// directly: generic builders cost about half of the encode.
type writer interface {
	// reset forgets what was written and keeps the memory.
	reset()
	// check reports a column that Arrow could not hold, and whether all text is valid UTF-8.
	check() (valid bool, err error)
	// data hands the buffers out; nothing may be written until they came back.
	data(s *scratch, dt arrow.DataType) arrow.ArrayData
}

func newWriter(s *scratch, dt arrow.DataType) writer {
	switch dt := dt.(type) {
	case *arrow.Int64Type:
		return newFixed[int64](s)
	case *arrow.Int32Type:
		return newFixed[int32](s)
	case *arrow.Uint32Type:
		return newFixed[uint32](s)
	case *arrow.Uint8Type:
		return newFixed[uint8](s)
	case *arrow.Float64Type:
		return newFixed[float64](s)
	case *arrow.StringType:
		t := &text{s: s}
		s.own(&t.off, &t.bytes, &t.nulls.bits)
		return t
	case *arrow.FixedSizeBinaryType:
		c := &idents{width: dt.ByteWidth}
		s.own(&c.bytes)
		return c
	case *arrow.ListType:
		l := &list{elem: newWriter(s, dt.Elem())}
		s.own(&l.off)
		return l
	case *arrow.StructType:
		return newRecord(s, dt)
	case *arrow.RunEndEncodedType:
		return &runs{ends: newFixed[int32](s), values: newRecord(s, as[*arrow.StructType](dt.Encoded()))}
	default:
		panic(fmt.Sprintf("otelarrow: no writer for %s", dt))
	}
}

func newRecord(s *scratch, dt *arrow.StructType) *record {
	r := &record{names: make(map[string]writer, dt.NumFields())}
	for _, f := range dt.Fields() {
		w := newWriter(s, f.Type)
		r.fields = append(r.fields, w)
		r.names[f.Name] = w
	}
	return r
}

// as is a type of our own layouts that cannot be another.
func as[T arrow.DataType](dt arrow.DataType) T {
	t, ok := dt.(T)
	if !ok {
		panic(fmt.Sprintf("otelarrow: type %s is no %T", dt, t))
	}
	return t
}

// fixed collects numbers.
type fixed[T fixedWidth] struct {
	vec[T]
	nulls bitmap
}

func newFixed[T fixedWidth](s *scratch) *fixed[T] {
	c := &fixed[T]{}
	s.own(&c.vec, &c.nulls.bits)
	return c
}

// addMaybe adds x, or null when it is not there.
func (c *fixed[T]) addMaybe(x T, there bool) {
	switch {
	case !there:
		c.nulls.null(len(c.v))
		x = 0
	case c.nulls.nulls > 0:
		c.nulls.valid(len(c.v))
	}
	c.add(x)
}

func (c *fixed[T]) reset()               { c.v = c.v[:0]; c.nulls.reset() }
func (c *fixed[T]) check() (bool, error) { return true, nil }

func (c *fixed[T]) data(s *scratch, dt arrow.DataType) arrow.ArrayData {
	return s.newData(dt, len(c.v), c.nulls.nulls, nil, c.nulls.buffer(), c.buffer())
}

// text collects strings.
type text struct {
	s     *scratch
	off   vec[int32]
	bytes vec[byte]
	nulls bitmap
	full  bool // bytes would outgrow the offsets
}

func (t *text) add(v string) {
	if t.s.careful {
		v = t.s.clean(v)
	}
	t.put(v)
}

// put adds what is known to be clean.
func (t *text) put(v string) {
	n := len(t.bytes.v)
	if len(v) > cap(t.bytes.v)-n {
		if n+len(v) > t.s.maxText {
			t.full, v = true, "" // check will say so
		} else {
			t.bytes.growTo(min(max(2*cap(t.bytes.v), n+len(v), 64), t.s.maxText))
		}
	}
	t.bytes.v = t.bytes.v[:n+len(v)]
	copy(t.bytes.v[n:], v)
	if t.nulls.nulls > 0 {
		t.nulls.valid(len(t.off.v) - 1)
	}
	t.off.add(int32(len(t.bytes.v)))
}

func (t *text) addBytes(v []byte) { t.put(unsafe.String(unsafe.SliceData(v), len(v))) }

func (t *text) addMaybe(v string, there bool) {
	if there {
		t.add(v)
		return
	}
	t.nulls.null(len(t.off.v) - 1)
	t.off.add(int32(len(t.bytes.v)))
}

// at is the i-th string; it points into the column.
func (t *text) at(i int) string {
	b := t.bytes.v[t.off.v[i]:t.off.v[i+1]]
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (t *text) reset() {
	t.off.v, t.bytes.v = t.off.v[:0], t.bytes.v[:0]
	t.off.add(0)
	t.nulls.reset()
	t.full = false
}

// check looks at the whole column at once, which is several times cheaper than at
// each string: the column is valid when its bytes are and no string starts within a rune.
func (t *text) check() (bool, error) {
	b := t.bytes.v
	if t.full {
		return false, ErrTooBig
	}
	if isASCII(b) {
		return true, nil
	}
	if !utf8.Valid(b) {
		return false, nil
	}
	for _, o := range t.off.v[:len(t.off.v)-1] {
		if int(o) < len(b) && !utf8.RuneStart(b[o]) {
			return false, nil
		}
	}
	return true, nil
}

func (t *text) data(s *scratch, dt arrow.DataType) arrow.ArrayData {
	return s.newData(dt, len(t.off.v)-1, t.nulls.nulls, nil, t.nulls.buffer(), t.off.buffer(), t.bytes.buffer())
}

// isASCII reports whether no byte has its high bit set.
func isASCII(b []byte) bool {
	for len(b) >= 32 {
		w := (*[4]uint64)(unsafe.Pointer(unsafe.SliceData(b)))
		if (w[0]|w[1]|w[2]|w[3])&0x8080808080808080 != 0 {
			return false
		}
		b = b[32:]
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// clean replaces each run of bad bytes by U+FFFD and counts the string.
func (s *scratch) clean(v string) string {
	if utf8.ValidString(v) {
		return v
	}
	s.adjusted.InvalidUTF8++
	return strings.ToValidUTF8(v, "\uFFFD")
}

// idents collects trace or span ids.
type idents struct {
	width int
	bytes vec[byte]
}

func (c *idents) add(id []byte) {
	n := len(c.bytes.v)
	if len(id) > cap(c.bytes.v)-n {
		c.bytes.grow(len(id))
	}
	c.bytes.v = c.bytes.v[:n+len(id)]
	copy(c.bytes.v[n:], id)
}

func (c *idents) reset()               { c.bytes.v = c.bytes.v[:0] }
func (c *idents) check() (bool, error) { return true, nil }

func (c *idents) data(s *scratch, dt arrow.DataType) arrow.ArrayData {
	return s.newData(dt, len(c.bytes.v)/c.width, 0, nil, nil, c.bytes.buffer())
}

// list collects lists; the elements go to elem, then end closes the list.
type list struct {
	off  vec[int32]
	elem writer
}

func (l *list) end(elems int) { l.off.add(int32(elems)) }

func (l *list) reset() {
	l.off.v = l.off.v[:0]
	l.off.add(0)
	l.elem.reset()
}

func (l *list) check() (bool, error) { return l.elem.check() }

func (l *list) data(s *scratch, dt arrow.DataType) arrow.ArrayData {
	elem := s.children(1)
	elem[0] = l.elem.data(s, as[*arrow.ListType](dt).Elem())
	return s.newData(dt, len(l.off.v)-1, 0, elem, nil, l.off.buffer())
}

// record is a struct: its fields are written one by one, then end closes it.
type record struct {
	fields []writer
	names  map[string]writer
	n      int
}

func (r *record) end() { r.n++ }

func (r *record) reset() {
	r.n = 0
	for _, f := range r.fields {
		f.reset()
	}
}

func (r *record) check() (bool, error) {
	valid := true
	for _, f := range r.fields {
		ok, err := f.check()
		if err != nil {
			return false, err
		}
		valid = valid && ok
	}
	return valid, nil
}

func (r *record) data(s *scratch, dt arrow.DataType) arrow.ArrayData {
	st := as[*arrow.StructType](dt)
	fields := s.children(len(r.fields))
	for i, f := range r.fields {
		fields[i] = f.data(s, st.Field(i).Type)
	}
	return s.newData(dt, r.n, 0, fields, nil)
}

// runs collects a struct that rows share: the values, then end closes the run.
type runs struct {
	ends   *fixed[int32]
	values *record
}

func (r *runs) end(rows int) {
	r.values.end()
	r.ends.add(int32(rows))
}

// rows is how many rows the runs so far cover.
func (r *runs) rows() int {
	if n := len(r.ends.v); n > 0 {
		return int(r.ends.v[n-1])
	}
	return 0
}

func (r *runs) reset()               { r.ends.reset(); r.values.reset() }
func (r *runs) check() (bool, error) { return r.values.check() }

func (r *runs) data(s *scratch, dt arrow.DataType) arrow.ArrayData {
	ree := as[*arrow.RunEndEncodedType](dt)
	children := s.children(2)
	children[0], children[1] = r.ends.data(s, ree.RunEnds()), r.values.data(s, ree.Encoded())
	return s.newData(dt, r.rows(), 0, children, nil)
}
