package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// Type numbers of Schema.fbs that a segment's columns may have. The set is closed: what is not here (views,
// unions, dictionaries, decimals) is refused before arrow-go sees it.
const (
	fbInt             = 2
	fbFloat           = 3
	fbBinary          = 4
	fbUtf8            = 5
	fbBool            = 6
	fbDate            = 8
	fbTime            = 9
	fbTimestamp       = 10
	fbList            = 12
	fbStruct          = 13
	fbFixedSizeBinary = 15
	fbMap             = 17
	fbDuration        = 18
	fbLargeBinary     = 19
	fbLargeUtf8       = 20
	fbLargeList       = 21
	fbRunEndEncoded   = 22
)

// parseSchema verifies a schema message so that arrow-go can decode it without trusting a length.
func (m *message) parseSchema(b *budget) error {
	if m.bodyLen != 0 {
		return fmt.Errorf("schema message with a body of %d bytes", m.bodyLen)
	}
	endian, err := m.header.int16(0)
	if err != nil {
		return err
	}
	if endian != 0 {
		return errors.New("big-endian columns are not part of the format")
	}
	start, n, err := m.header.vector(1, 4)
	if err != nil {
		return err
	}
	for i := range n {
		f, err := m.header.element(start, i)
		if err != nil {
			return err
		}
		if err := checkField(f, b, 1); err != nil {
			return err
		}
	}
	if err := m.findKeys(m.header, 2, b); err != nil {
		return err
	}
	_, _, err = m.header.vector(3, 8)
	return err
}

// checkField verifies one Field table and its children.
func checkField(f table, b *budget, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("columns nested deeper than %d", maxDepth)
	}
	if b.fields--; b.fields < 0 {
		return fmt.Errorf("more than %d fields", maxFields)
	}
	if err := checkString(f, 0, b); err != nil {
		return err
	}
	if _, err := f.uint8(1); err != nil {
		return err
	}
	kind, err := f.uint8(2)
	if err != nil {
		return err
	}
	typ, ok, err := f.sub(3)
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("field without a type")
	}
	if _, ok, err := f.sub(4); err != nil || ok {
		return errors.New("dictionary columns are not part of the format")
	}
	start, n, err := f.vector(5, 4)
	if err != nil {
		return err
	}
	if err := checkType(kind, typ, n, b); err != nil {
		return err
	}
	for i := range n {
		child, err := f.element(start, i)
		if err != nil {
			return err
		}
		if err := checkField(child, b, depth+1); err != nil {
			return err
		}
	}
	var ignored message
	return ignored.findKeys(f, 6, b)
}

// checkType verifies the parameters of one type and its number of children. arrow-go checks the rest of the
// parameters (units, bit widths) itself and answers with an error.
func checkType(kind uint8, typ table, children int, b *budget) error {
	want := 0
	switch kind {
	case fbInt, fbFloat, fbBinary, fbUtf8, fbBool, fbDate, fbTime, fbDuration, fbLargeBinary, fbLargeUtf8:
	case fbTimestamp:
		if err := checkString(typ, 1, b); err != nil {
			return err
		}
	case fbFixedSizeBinary:
		p, err := typ.slot(0, 4)
		if err != nil {
			return err
		}
		if p == 0 || int32(binary.LittleEndian.Uint32(typ.buf[p:])) <= 0 {
			return errors.New("fixed-size binary without a width")
		}
	case fbList, fbLargeList, fbMap:
		want = 1
	case fbRunEndEncoded:
		want = 2
	case fbStruct:
		want = children
	default:
		return fmt.Errorf("type number %d is not part of the format", kind)
	}
	if children != want {
		return fmt.Errorf("type number %d with %d children", kind, children)
	}
	return nil
}

func checkString(t table, slot int, b *budget) error {
	_, n, err := t.vector(slot, 1)
	if err != nil {
		return err
	}
	return b.spend(n)
}

// supported reports whether every column of s has a type that a segment may hold.
func supported(s *arrow.Schema) error {
	for _, f := range s.Fields() {
		if err := supportedType(f.Type, 1); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return nil
}

func supportedType(dt arrow.DataType, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch dt := dt.(type) {
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type,
		*arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type, *arrow.BooleanType,
		*arrow.Date32Type, *arrow.Date64Type, *arrow.Time32Type, *arrow.Time64Type,
		*arrow.TimestampType, *arrow.DurationType, *arrow.FixedSizeBinaryType,
		*arrow.BinaryType, *arrow.StringType, *arrow.LargeBinaryType, *arrow.LargeStringType:
		return nil
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType, *arrow.StructType, *arrow.RunEndEncodedType:
		nested, ok := dt.(arrow.NestedType)
		if !ok {
			return fmt.Errorf("type %s has no fields", dt)
		}
		for _, f := range nested.Fields() {
			if err := supportedType(f.Type, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("type %s is not part of the format", dt)
	}
}
