package otlptest

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Row is a table row: column name to nil, int64, float64, bool, string, []any for lists, Row for structs,
// map[string]string for maps. Times are microseconds.
type Row map[string]any

// Only picks the named columns of a row.
func (r Row) Only(names ...string) Row {
	out := Row{}
	for _, n := range names {
		out[n] = r[n]
	}
	return out
}

// RowsOf reads all rows of a batch. A type that no column of ours has, and a map with a key twice, are errors.
func RowsOf(rec arrow.RecordBatch) ([]Row, error) {
	rows := make([]Row, rec.NumRows())
	for i := range rows {
		rows[i] = Row{}
		for c, f := range rec.Schema().Fields() {
			v, err := cell(rec.Column(c), i)
			if err != nil {
				return nil, fmt.Errorf("row %d column %s: %w", i, f.Name, err)
			}
			rows[i][f.Name] = v
		}
	}
	return rows, nil
}

func cell(a arrow.Array, i int) (any, error) {
	if a.IsNull(i) {
		return nil, nil
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i), nil
	case *array.Int32:
		return int64(a.Value(i)), nil
	case *array.Timestamp:
		return int64(a.Value(i)), nil
	case *array.Float64:
		return a.Value(i), nil
	case *array.Boolean:
		return a.Value(i), nil
	case *array.String:
		return a.Value(i), nil
	case *array.Map:
		return mapCell(a, i)
	case *array.List:
		lo, hi := a.ValueOffsets(i)
		list := []any{}
		for e := int(lo); e < int(hi); e++ {
			v, err := cell(a.ListValues(), e)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case *array.Struct:
		r := Row{}
		st, ok := a.DataType().(*arrow.StructType)
		if !ok {
			return nil, fmt.Errorf("struct of type %s", a.DataType())
		}
		for c, f := range st.Fields() {
			v, err := cell(a.Field(c), i)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			r[f.Name] = v
		}
		return r, nil
	default:
		return nil, fmt.Errorf("unknown type %s", a.DataType())
	}
}

func mapCell(a *array.Map, i int) (any, error) {
	keys, ok1 := a.Keys().(*array.String)
	items, ok2 := a.Items().(*array.String)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("map of type %s", a.DataType())
	}
	m := map[string]string{}
	lo, hi := a.ValueOffsets(i)
	for e := int(lo); e < int(hi); e++ {
		if _, twice := m[keys.Value(e)]; twice {
			return nil, fmt.Errorf("the key %q stands twice", keys.Value(e))
		}
		if items.IsNull(e) {
			return nil, fmt.Errorf("the key %q has no value", keys.Value(e))
		}
		m[keys.Value(e)] = items.Value(e)
	}
	return m, nil
}
