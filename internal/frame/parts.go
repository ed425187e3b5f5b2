package frame

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// zeros pads a buffer to the next 8 bytes and stands for the offsets of an array without values.
var zeros [8]byte

func pad8(n int) int { return -n & 7 }

// parts collects the nodes and buffers of a batch in the order of the IPC format: depth first, a parent before
// its children. A buffer is a slice of the batch's own memory, except where a sliced array needs its offsets,
// bits or run ends moved to start at zero.
type parts struct {
	nodes   []node
	buffers [][]byte
	bodyLen int64
}

type node struct{ length, nulls int }

func (p *parts) reset() {
	clear(p.buffers)
	p.nodes, p.buffers, p.bodyLen = p.nodes[:0], p.buffers[:0], 0
}

func (p *parts) buffer(b []byte) {
	p.buffers = append(p.buffers, b)
	p.bodyLen += int64(len(b) + pad8(len(b)))
}

// add takes n values of d from index lo, counted from d's own offset.
func (p *parts) add(d arrow.ArrayData, lo, n int) {
	abs := d.Offset() + lo
	if ree, ok := d.DataType().(*arrow.RunEndEncodedType); ok {
		p.nodes = append(p.nodes, node{length: n})
		p.runs(ree, d, abs, n)
		return
	}
	nulls := countNulls(d, lo, n)
	p.nodes = append(p.nodes, node{length: n, nulls: nulls})
	bufs := d.Buffers()
	if nulls == 0 {
		p.buffer(nil)
	} else {
		p.buffer(bitsOf(bufs[0], abs, n))
	}
	switch dt := d.DataType().(type) {
	case *arrow.StringType, *arrow.BinaryType:
		from, to := p.offsets32(bufs[1], abs, n)
		p.buffer(bytesOf(bufs[2], from, to))
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		from, to := p.offsets64(bufs[1], abs, n)
		p.buffer(bytesOf(bufs[2], from, to))
	case *arrow.ListType, *arrow.MapType:
		from, to := p.offsets32(bufs[1], abs, n)
		p.add(d.Children()[0], from, to-from)
	case *arrow.LargeListType:
		from, to := p.offsets64(bufs[1], abs, n)
		p.add(d.Children()[0], from, to-from)
	case *arrow.StructType:
		for _, c := range d.Children() {
			p.add(c, abs, n)
		}
	case *arrow.BooleanType:
		p.buffer(bitsOf(bufs[1], abs, n))
	case arrow.FixedWidthDataType:
		width := dt.BitWidth() / 8
		p.buffer(bytesOf(bufs[1], abs*width, (abs+n)*width))
	}
}

// countNulls counts the nulls among n values from index lo.
func countNulls(d arrow.ArrayData, lo, n int) int {
	if n == 0 || d.NullN() == 0 {
		return 0
	}
	bitmap := d.Buffers()[0]
	if bitmap == nil || bitmap.Len() == 0 {
		return 0
	}
	if lo == 0 && n == d.Len() && d.NullN() > 0 {
		return d.NullN()
	}
	return n - bitutil.CountSetBits(bitmap.Bytes(), d.Offset()+lo, n)
}

func bytesOf(b *memory.Buffer, from, to int) []byte {
	if b == nil || from == to {
		return nil
	}
	return b.Bytes()[from:to]
}

// bitsOf returns n bits from bit abs, moved to start at a byte.
func bitsOf(b *memory.Buffer, abs, n int) []byte {
	if n == 0 {
		return nil
	}
	if abs%8 == 0 {
		return b.Bytes()[abs/8 : (abs+n+7)/8]
	}
	out := make([]byte, (n+7)/8)
	bitutil.CopyBitmap(b.Bytes(), abs, n, out, 0)
	return out
}

// offsets32 adds n+1 offsets from index abs, moved to start at zero, and returns the range that they span.
func (p *parts) offsets32(b *memory.Buffer, abs, n int) (from, to int) {
	if n == 0 {
		p.buffer(zeros[:4])
		return 0, 0
	}
	raw := b.Bytes()[4*abs : 4*(abs+n+1)]
	first, last := binary.LittleEndian.Uint32(raw), binary.LittleEndian.Uint32(raw[4*n:])
	if first != 0 {
		moved := make([]byte, len(raw))
		for i := 0; i < len(raw); i += 4 {
			binary.LittleEndian.PutUint32(moved[i:], binary.LittleEndian.Uint32(raw[i:])-first)
		}
		raw = moved
	}
	p.buffer(raw)
	return int(first), int(last)
}

// offsets64 is offsets32 for the large types.
func (p *parts) offsets64(b *memory.Buffer, abs, n int) (from, to int) {
	if n == 0 {
		p.buffer(zeros[:8])
		return 0, 0
	}
	raw := b.Bytes()[8*abs : 8*(abs+n+1)]
	first, last := binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8*n:])
	if first != 0 {
		moved := make([]byte, len(raw))
		for i := 0; i < len(raw); i += 8 {
			binary.LittleEndian.PutUint64(moved[i:], binary.LittleEndian.Uint64(raw[i:])-first)
		}
		raw = moved
	}
	p.buffer(raw)
	return int(first), int(last)
}

// runs adds the runs that cover n rows from row abs: their ends counted from abs and cut at n, and their values.
func (p *parts) runs(dt *arrow.RunEndEncodedType, d arrow.ArrayData, abs, n int) {
	ends := d.Children()[0]
	width := 8 // the closed set of types leaves 16, 32 and 64 bits
	if fixed, ok := dt.RunEnds().(arrow.FixedWidthDataType); ok {
		width = fixed.BitWidth() / 8
	}
	raw := bytesOf(ends.Buffers()[1], ends.Offset()*width, (ends.Offset()+ends.Len())*width)
	end := func(i int) int { return int(readInt(raw[i*width:], int64(width))) }
	first := 0
	for first < ends.Len() && end(first) <= abs {
		first++
	}
	stop := first
	for n > 0 && stop < ends.Len() {
		stop++
		if end(stop-1) >= abs+n {
			break
		}
	}
	count := stop - first
	p.nodes = append(p.nodes, node{length: count})
	p.buffer(nil)
	out := raw[first*width : stop*width]
	if count > 0 && (abs != 0 || end(stop-1) != n) {
		out = make([]byte, count*width)
		for i := range count {
			putInt(out[i*width:], int64(min(end(first+i)-abs, n)), width)
		}
	}
	p.buffer(out)
	p.add(d.Children()[1], first, count)
}

func putInt(b []byte, v int64, width int) {
	switch width {
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, uint64(v))
	}
}
