package frame

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
)

// layout checks one batch's nodes and buffers against its schema and its bytes, in the order in which arrow-go
// will take them. After it nothing in the batch can send an accessor out of its buffer: lengths fit, offsets
// rise and stay inside, null counts are true, run ends rise and cover the rows. arrow-go checks little of that
// and would panic when a column is read, long after the decode boundary.
type layout struct {
	m    *message
	body []byte
	node int
	buf  int
}

func checkBatch(s *arrow.Schema, m *message, body []byte) error {
	l := layout{m: m, body: body}
	for _, f := range s.Fields() {
		length, nulls, err := l.array(f.Type)
		if err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
		if length != m.rows {
			return fmt.Errorf("column %s: %d values in a batch of %d rows", f.Name, length, m.rows)
		}
		if nulls != 0 && !f.Nullable {
			return fmt.Errorf("column %s: %d nulls in a required column", f.Name, nulls)
		}
	}
	if l.node != len(m.nodes)/16 || l.buf != m.numBuffers() {
		return fmt.Errorf("%d nodes and %d buffers for a schema of %d and %d", len(m.nodes)/16, m.numBuffers(), l.node, l.buf)
	}
	return nil
}

// take returns the next node: the length of an array and its null count.
func (l *layout) take() (length, nulls int64, err error) {
	if l.node >= len(l.m.nodes)/16 {
		return 0, 0, fmt.Errorf("node %d is missing", l.node)
	}
	length, nulls = l.m.node(l.node)
	l.node++
	// One bit a value is the least any column takes, so the bytes bound the length.
	if length < 0 || length > maxRows(l.m.bodyLen) || nulls < 0 || nulls > length {
		return 0, 0, fmt.Errorf("%d values with %d nulls in a body of %d bytes", length, nulls, l.m.bodyLen)
	}
	return length, nulls, nil
}

// maxRows bounds the rows of a batch by its bytes: a plain column takes at least one bit a row.
func maxRows(bodyLen int64) int64 { return 8 * bodyLen }

// buffer returns the next buffer, which holds at least need bytes.
func (l *layout) buffer(need int64) ([]byte, error) {
	if l.buf >= l.m.numBuffers() {
		return nil, fmt.Errorf("buffer %d is missing", l.buf)
	}
	off, length := l.m.buffer(l.buf)
	l.buf++
	if length < need {
		return nil, fmt.Errorf("buffer of %d bytes, needs %d", length, need)
	}
	return l.body[off : off+length], nil
}

// array checks the next array of type dt and returns its length and null count.
func (l *layout) array(dt arrow.DataType) (length, nulls int64, err error) {
	length, nulls, err = l.take()
	if err != nil {
		return 0, 0, err
	}
	if ree, ok := dt.(*arrow.RunEndEncodedType); ok {
		if nulls != 0 {
			return 0, 0, fmt.Errorf("run-end encoding with %d nulls of its own", nulls)
		}
		return length, 0, l.runs(ree, length)
	}
	if err := l.validity(length, nulls); err != nil {
		return 0, 0, err
	}
	switch dt := dt.(type) {
	case *arrow.StringType, *arrow.BinaryType:
		err = l.varlen(length, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		err = l.varlen(length, 8)
	case *arrow.ListType:
		err = l.list(dt.Elem(), length, 4)
	case *arrow.LargeListType:
		err = l.list(dt.Elem(), length, 8)
	case *arrow.MapType:
		err = l.list(dt.Elem(), length, 4)
	case *arrow.StructType:
		err = l.fields(dt, length)
	case arrow.FixedWidthDataType:
		_, err = l.buffer((length*int64(dt.BitWidth()) + 7) / 8)
	default:
		err = fmt.Errorf("type %s is not part of the format", dt)
	}
	return length, nulls, err
}

func (l *layout) validity(length, nulls int64) error {
	if nulls == 0 {
		// arrow-go does not look at the bitmap then.
		_, err := l.buffer(0)
		return err
	}
	bitmap, err := l.buffer((length + 7) / 8)
	if err != nil {
		return fmt.Errorf("validity: %w", err)
	}
	set := int64(0)
	for _, b := range bitmap[:length/8] {
		set += int64(bits.OnesCount8(b))
	}
	if rest := length % 8; rest != 0 {
		set += int64(bits.OnesCount8(bitmap[length/8] & (1<<rest - 1)))
	}
	if length-set != nulls {
		return fmt.Errorf("null count %d, bitmap says %d", nulls, length-set)
	}
	return nil
}

func (l *layout) fields(dt *arrow.StructType, length int64) error {
	for _, f := range dt.Fields() {
		n, _, err := l.array(f.Type)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if n < length {
			return fmt.Errorf("%s: %d values in a struct of %d", f.Name, n, length)
		}
	}
	return nil
}

func (l *layout) varlen(length int64, width int) error {
	last, err := l.offsets(length, width)
	if err != nil {
		return err
	}
	_, err = l.buffer(last)
	return err
}

func (l *layout) list(elem arrow.DataType, length int64, width int) error {
	last, err := l.offsets(length, width)
	if err != nil {
		return err
	}
	n, _, err := l.array(elem)
	if err != nil {
		return err
	}
	if n < last {
		return fmt.Errorf("offset %d in a child of %d values", last, n)
	}
	return nil
}

// offsets checks an offsets buffer and returns its last entry.
func (l *layout) offsets(length int64, width int) (int64, error) {
	if length == 0 {
		// Writers may leave the buffer out.
		_, err := l.buffer(0)
		return 0, err
	}
	b, err := l.buffer((length + 1) * int64(width))
	if err != nil {
		return 0, fmt.Errorf("offsets: %w", err)
	}
	last := int64(0)
	for i := range length + 1 {
		var o int64
		if width == 4 {
			o = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		} else {
			o = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
		if o < last {
			return 0, fmt.Errorf("offset %d after %d", o, last)
		}
		last = o
	}
	return last, nil
}

// runs checks the two children of a run-end-encoded column.
func (l *layout) runs(dt *arrow.RunEndEncodedType, length int64) error {
	count, nulls, err := l.take()
	if err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	if nulls != 0 {
		return fmt.Errorf("run ends: %d nulls", nulls)
	}
	if _, err := l.buffer(0); err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	fixed, ok := dt.RunEnds().(arrow.FixedWidthDataType)
	if !ok {
		return fmt.Errorf("run ends of type %s", dt.RunEnds())
	}
	width := int64(fixed.BitWidth() / 8)
	b, err := l.buffer(count * width)
	if err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	last := int64(0)
	for i := range count {
		end := readInt(b[i*width:], width)
		if end <= last {
			return fmt.Errorf("run end %d after %d", end, last)
		}
		last = end
	}
	if last < length {
		return fmt.Errorf("runs end at %d of %d rows", last, length)
	}
	n, _, err := l.array(dt.Encoded())
	if err != nil {
		return fmt.Errorf("run values: %w", err)
	}
	if n != count {
		return fmt.Errorf("%d run ends for %d values", count, n)
	}
	return nil
}

func readInt(b []byte, width int64) int64 {
	switch width {
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	default:
		return int64(binary.LittleEndian.Uint64(b))
	}
}
