package otelarrow

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
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
		r := &record{names: make(map[string]writer, dt.NumFields())}
		for _, f := range dt.Fields() {
			w := newWriter(s, f.Type)
			r.fields = append(r.fields, w)
			r.names[f.Name] = w
		}
		return r
	case *arrow.RunEndEncodedType:
		return &runs{ends: newFixed[int32](s), values: newWriter(s, dt.Encoded())}
	default:
		panic(fmt.Sprintf("otelarrow: no writer for %s", dt))
	}
}

type fixedWidth interface {
	int64 | int32 | uint32 | uint8 | float64
}

// vec is a growing run of values in memory of the scratch's allocator.
type vec[T fixedWidth] struct {
	s *scratch
	v []T // cap(v) is what is allocated
}

func (c *vec[T]) add(x T) {
	n := len(c.v)
	if n == cap(c.v) {
		c.grow(1)
	}
	c.v = c.v[:n+1]
	c.v[n] = x
}

// grow makes room for n more values.
func (c *vec[T]) grow(n int) {
	const first = 64 // bytes
	size := int(unsafe.Sizeof(*new(T)))
	want := max(2*cap(c.v), len(c.v)+n, first/size)
	mem := c.s.mem.Allocate(want * size)
	grown := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), want)
	kept := copy(grown, c.v)
	c.free()
	c.v = grown[:kept]
}

func (c *vec[T]) setOwner(s *scratch) { c.s = s }

// allocated is all the memory of the vec.
func (c *vec[T]) allocated() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.v))), cap(c.v)*int(unsafe.Sizeof(*new(T))))
}

func (c *vec[T]) free() {
	if cap(c.v) > 0 {
		c.s.mem.Free(c.allocated())
		c.v = nil
	}
}

// buffer hands out the values; the scratch comes home when all its buffers did.
func (c *vec[T]) buffer() *memory.Buffer {
	if cap(c.v) == 0 {
		c.grow(1)
	}
	c.s.out.Add(1)
	return memory.NewBufferWithAllocator(c.allocated()[:len(c.v)*int(unsafe.Sizeof(*new(T)))], c.s)
}

// bitmap marks nulls; it stays empty until the first.
type bitmap struct {
	bits  vec[byte]
	nulls int
}

func (b *bitmap) reset() { b.bits.v, b.nulls = b.bits.v[:0], 0 }

// null marks value i, all before it having been told to null or valid.
func (b *bitmap) null(i int) {
	if b.nulls == 0 {
		for range i / 8 {
			b.bits.add(0xff)
		}
		b.bits.add(byte(1<<(i%8) - 1))
	} else if i%8 == 0 {
		b.bits.add(0)
	}
	b.nulls++
}

// valid marks value i; needed only once there are nulls.
func (b *bitmap) valid(i int) {
	if i%8 == 0 {
		b.bits.add(0)
	}
	b.bits.v[i/8] |= 1 << (i % 8)
}

func (b *bitmap) buffer() *memory.Buffer {
	if b.nulls == 0 {
		return nil
	}
	return b.bits.buffer()
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
		t.bytes.grow(len(v))
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
}

// check looks at the whole column at once, which is several times cheaper than at
// each string: the column is valid when its bytes are and no string starts within a rune.
func (t *text) check() (bool, error) {
	b := t.bytes.v
	if len(b) > math.MaxInt32 {
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
	elem[0] = l.elem.data(s, dt.(*arrow.ListType).Elem())
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
	st := dt.(*arrow.StructType)
	fields := s.children(len(r.fields))
	for i, f := range r.fields {
		fields[i] = f.data(s, st.Field(i).Type)
	}
	return s.newData(dt, r.n, 0, fields, nil)
}

// runs collects a struct that rows share: the values, then end closes the run.
type runs struct {
	ends   *fixed[int32]
	values writer
}

func (r *runs) end(rows int) {
	r.values.(*record).end()
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
	ree := dt.(*arrow.RunEndEncodedType)
	children := s.children(2)
	children[0], children[1] = r.ends.data(s, ree.RunEnds()), r.values.data(s, ree.Encoded())
	return s.newData(dt, r.rows(), 0, children, nil)
}
