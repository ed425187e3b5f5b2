package otelarrow

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

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
	c.growTo(max(2*cap(c.v), len(c.v)+n, first/int(unsafe.Sizeof(*new(T)))))
}

func (c *vec[T]) growTo(want int) {
	size := int(unsafe.Sizeof(*new(T)))
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
