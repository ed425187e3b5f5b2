package lake

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// conform gives a column of an older file the type that the table has for it now: what was added to a struct is null,
// what was dropped from one goes, and numbers are as wide as they are now. Fields are found by their id.
func conform(arr arrow.Array, from, to arrow.Field) (arrow.Array, error) {
	if arrow.TypeEqual(from.Type, to.Type, arrow.CheckMetadata()) {
		return arr, nil
	}
	switch t := to.Type.(type) {
	case *arrow.StructType:
		a, ok := arr.(*array.Struct)
		f, same := from.Type.(*arrow.StructType)
		if !ok || !same {
			break
		}
		return conformStruct(a, f, t)
	case *arrow.ListType:
		a, ok := arr.(*array.List)
		f, same := from.Type.(*arrow.ListType)
		if !ok || !same {
			break
		}
		values, err := conform(a.ListValues(), f.ElemField(), t.ElemField())
		if err != nil {
			return nil, fmt.Errorf("element: %w", err)
		}
		return nest(arr, t, values)
	case *arrow.MapType:
		a, ok := arr.(*array.Map)
		f, same := from.Type.(*arrow.MapType)
		if !ok || !same {
			break
		}
		keys, err := conform(a.Keys(), f.KeyField(), t.KeyField())
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		items, err := conform(a.Items(), f.ItemField(), t.ItemField())
		if err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
		entries := array.NewData(t.Elem(), keys.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{keys.Data(), items.Data()}, 0, 0)
		return array.MakeFromData(array.NewData(t, arr.Len(), arr.Data().Buffers(), []arrow.ArrayData{entries}, arr.NullN(), arr.Data().Offset())), nil
	default:
		return widen(arr, to.Type)
	}
	return nil, fmt.Errorf("%s cannot become %s", from.Type, to.Type)
}

// nest is arr with other values below.
func nest(arr arrow.Array, t arrow.DataType, children ...arrow.Array) (arrow.Array, error) {
	data := make([]arrow.ArrayData, len(children))
	for i, c := range children {
		data[i] = c.Data()
	}
	return array.MakeFromData(array.NewData(t, arr.Len(), arr.Data().Buffers(), data, arr.NullN(), arr.Data().Offset())), nil
}

func conformStruct(a *array.Struct, from, to *arrow.StructType) (arrow.Array, error) {
	children := make([]arrow.ArrayData, to.NumFields())
	for i, want := range to.Fields() {
		id, _ := fieldIDOf(want)
		at := -1
		for j, have := range from.Fields() {
			if got, ok := fieldIDOf(have); ok && got == id {
				at = j
			}
		}
		if at < 0 {
			if !want.Nullable {
				return nil, fmt.Errorf("no field %s with the id %d", want.Name, id)
			}
			children[i] = array.MakeArrayOfNull(memory.DefaultAllocator, want.Type, a.Len()).Data()
			continue
		}
		child, err := conform(a.Field(at), from.Field(at), want) // without the struct's own offset
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", want.Name, err)
		}
		children[i] = child.Data()
	}
	var valid *memory.Buffer
	if a.NullN() > 0 {
		if a.Data().Offset() != 0 {
			return nil, fmt.Errorf("a struct that begins at %d", a.Data().Offset())
		}
		valid = a.Data().Buffers()[0]
	}
	return array.MakeFromData(array.NewData(to, a.Len(), []*memory.Buffer{valid}, children, a.NullN(), 0)), nil
}

// widen is Iceberg's promotion of types, as far as we write them.
func widen(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	switch a := arr.(type) {
	case *array.Int32:
		if to.ID() == arrow.INT64 {
			return widened(a.Int32Values(), a, array.NewInt64Builder(memory.DefaultAllocator), func(v int32) int64 { return int64(v) }), nil
		}
	case *array.Float32:
		if to.ID() == arrow.FLOAT64 {
			return widened(a.Float32Values(), a, array.NewFloat64Builder(memory.DefaultAllocator), func(v float32) float64 { return float64(v) }), nil
		}
	}
	if arrow.TypeEqual(arr.DataType(), to) {
		return arr, nil
	}
	return nil, fmt.Errorf("%s cannot become %s", arr.DataType(), to)
}

func widened[F, T any](values []F, a arrow.Array, b interface {
	array.Builder
	Append(v T)
}, wide func(F) T,
) arrow.Array {
	b.Reserve(len(values))
	for i, v := range values {
		if a.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(wide(v))
		}
	}
	return b.NewArray()
}
