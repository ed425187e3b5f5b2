package frame

import (
	"encoding/binary"
	"errors"
)

// errFlat is the one thing wrong with a flatbuffer: an offset or a length that leaves the buffer.
var errFlat = errors.New("flatbuffer offset out of bounds")

// table reads one flatbuffer table with every offset checked. The generated accessors of arrow-go check none:
// they index past the end, and a vector length read from garbage sizes a make.
type table struct {
	buf    []byte
	pos    int // start of the table
	vtable int // start of its vtable
	vtLen  int
	objLen int
}

// rootTable opens the table the buffer's first word points to.
func rootTable(buf []byte) (table, error) {
	if len(buf) < 4 {
		return table{}, errFlat
	}
	return tableAt(buf, int64(binary.LittleEndian.Uint32(buf)))
}

func tableAt(buf []byte, pos int64) (table, error) {
	size := int64(len(buf))
	if pos < 0 || pos > size-4 {
		return table{}, errFlat
	}
	vt := pos - int64(int32(binary.LittleEndian.Uint32(buf[pos:])))
	if vt < 0 || vt > size-4 {
		return table{}, errFlat
	}
	vtLen := int64(binary.LittleEndian.Uint16(buf[vt:]))
	objLen := int64(binary.LittleEndian.Uint16(buf[vt+2:]))
	if vtLen < 4 || vtLen%2 != 0 || vt+vtLen > size || objLen < 4 || pos+objLen > size {
		return table{}, errFlat
	}
	return table{buf: buf, pos: int(pos), vtable: int(vt), vtLen: int(vtLen), objLen: int(objLen)}, nil
}

// slot returns the position of a field of width bytes, or 0 when the table does not carry it.
func (t table) slot(n, width int) (int, error) {
	entry := 4 + 2*n
	if entry+2 > t.vtLen {
		return 0, nil
	}
	off := int(binary.LittleEndian.Uint16(t.buf[t.vtable+entry:]))
	if off == 0 {
		return 0, nil
	}
	if off < 4 || off+width > t.objLen {
		return 0, errFlat
	}
	return t.pos + off, nil
}

func (t table) uint8(n int) (uint8, error) {
	p, err := t.slot(n, 1)
	if err != nil || p == 0 {
		return 0, err
	}
	return t.buf[p], nil
}

func (t table) int16(n int) (int16, error) {
	p, err := t.slot(n, 2)
	if err != nil || p == 0 {
		return 0, err
	}
	return int16(binary.LittleEndian.Uint16(t.buf[p:])), nil
}

func (t table) int64(n int) (int64, error) {
	p, err := t.slot(n, 8)
	if err != nil || p == 0 {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(t.buf[p:])), nil
}

// sub opens the table a field points to; ok is false when the field is absent.
func (t table) sub(n int) (sub table, ok bool, err error) {
	p, err := t.slot(n, 4)
	if err != nil || p == 0 {
		return table{}, false, err
	}
	sub, err = tableAt(t.buf, int64(p)+int64(binary.LittleEndian.Uint32(t.buf[p:])))
	return sub, err == nil, err
}

// vector returns where a vector's elements start and how many there are, all of them inside the buffer.
func (t table) vector(n, width int) (start, count int, err error) {
	p, err := t.slot(n, 4)
	if err != nil || p == 0 {
		return 0, 0, err
	}
	v := int64(p) + int64(binary.LittleEndian.Uint32(t.buf[p:]))
	if v > int64(len(t.buf))-4 {
		return 0, 0, errFlat
	}
	elems := int64(binary.LittleEndian.Uint32(t.buf[v:]))
	if elems*int64(width) > int64(len(t.buf))-v-4 {
		return 0, 0, errFlat
	}
	return int(v) + 4, int(elems), nil
}

// element opens the i-th table of a vector of tables that starts at start.
func (t table) element(start, i int) (table, error) {
	p := start + 4*i
	return tableAt(t.buf, int64(p)+int64(binary.LittleEndian.Uint32(t.buf[p:])))
}
