package lake

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// fitting is a table's columns on their way to what a transaction needs. Nothing is taken away and nothing changes its
// type, its name or its id: columns are added, and fields at the end of structs.
type fitting struct {
	fields []iceberg.NestedField
	grown  bool
	used   map[int]bool // field ids of all columns the table has had, as far as it remembers
	last   int          // the highest id the table has ever given
}

func newFitting(meta table.Metadata) *fitting {
	f := &fitting{
		fields: append([]iceberg.NestedField{}, meta.CurrentSchema().Fields()...),
		used:   map[int]bool{}, last: meta.LastColumnID(),
	}
	for _, sc := range meta.Schemas() {
		for _, field := range sc.Fields() {
			for _, id := range idsOf(field) {
				f.used[id] = true
			}
		}
	}
	return f
}

// own fits the signal's own columns and returns their ids.
func (f *fitting) own(name string, want *iceberg.Schema) (map[int]bool, error) {
	at := map[string]int{}
	for i, h := range f.fields {
		at[h.Name] = i
	}
	ours := map[int]bool{}
	for _, w := range want.Fields() {
		i, ok := at[w.Name]
		if !ok {
			added, err := f.add(name, w.Name, w)
			if err != nil {
				return nil, err
			}
			ours[added.ID] = true
			f.fields = append(f.fields, added)
			continue
		}
		h := f.fields[i]
		if h.Required && !w.Required {
			return nil, fmt.Errorf("%w: column %s of %s must not be required", ErrShape, w.Name, name)
		}
		typ, err := f.grow(name, w.Name, h.Type, w.Type)
		if err != nil {
			return nil, err
		}
		f.fields[i].Type = typ
		ours[h.ID] = true
	}
	for _, h := range f.fields {
		if !ours[h.ID] && h.Required {
			return nil, fmt.Errorf("%w: %s requires the column %s, which no row has", ErrShape, name, h.Name)
		}
	}
	return ours, nil
}

// add is a column or a field that the table lacks.
func (f *fitting) add(name, path string, w iceberg.NestedField) (iceberg.NestedField, error) {
	if w.Required {
		return w, fmt.Errorf("%w: %s lacks the required column %s", ErrShape, name, path)
	}
	f.grown = true
	return f.take(w)
}

// take gives a field its own ids, or others if the table has given one of them to another column.
func (f *fitting) take(field iceberg.NestedField) (iceberg.NestedField, error) {
	ids := idsOf(field)
	free := true
	for _, id := range ids {
		free = free && id > 0 && !f.used[id]
	}
	if !free {
		fresh, err := iceberg.AssignFreshSchemaIDs(iceberg.NewSchema(0, field), func() int { f.last++; return f.last })
		if err != nil {
			return field, fmt.Errorf("give column %s field ids: %w", field.Name, err)
		}
		field = fresh.Field(0)
		ids = idsOf(field)
	}
	for _, id := range ids {
		f.used[id] = true
		f.last = max(f.last, id)
	}
	return field, nil
}

// grow returns have with the fields that want has besides, at any depth. Ids of have stay; they are not compared,
// because a table that was evolved may have others.
func (f *fitting) grow(name, path string, have, want iceberg.Type) (iceberg.Type, error) {
	switch w := want.(type) {
	case *iceberg.ListType:
		h, ok := have.(*iceberg.ListType)
		if !ok {
			break
		}
		elem, err := f.grow(name, path+".element", h.Element, w.Element)
		out := *h
		out.Element = elem
		return &out, err
	case *iceberg.MapType:
		h, ok := have.(*iceberg.MapType)
		if !ok {
			break
		}
		if _, err := f.grow(name, path+".key", h.KeyType, w.KeyType); err != nil {
			return nil, err
		}
		value, err := f.grow(name, path+".value", h.ValueType, w.ValueType)
		out := *h
		out.ValueType = value
		return &out, err
	case *iceberg.StructType:
		h, ok := have.(*iceberg.StructType)
		if !ok {
			break
		}
		return f.growStruct(name, path, h, w)
	default:
		if have.Equals(want) {
			return have, nil
		}
	}
	return nil, fmt.Errorf("%w: column %s of %s is %s, want %s", ErrShape, path, name, have, want)
}

func (f *fitting) growStruct(name, path string, have, want *iceberg.StructType) (iceberg.Type, error) {
	out := &iceberg.StructType{FieldList: append([]iceberg.NestedField{}, have.FieldList...)}
	known := map[string]bool{}
	for _, w := range want.FieldList {
		known[w.Name] = true
		sub := path + "." + w.Name
		i := fieldAt(have.FieldList, w.Name)
		if i < 0 {
			added, err := f.add(name, sub, w)
			if err != nil {
				return nil, err
			}
			out.FieldList = append(out.FieldList, added)
			continue
		}
		h := have.FieldList[i]
		if h.Required && !w.Required {
			return nil, fmt.Errorf("%w: column %s of %s must not be required", ErrShape, sub, name)
		}
		typ, err := f.grow(name, sub, h.Type, w.Type)
		if err != nil {
			return nil, err
		}
		out.FieldList[i].Type = typ
	}
	for _, h := range have.FieldList {
		if h.Required && !known[h.Name] {
			return nil, fmt.Errorf("%w: %s requires the column %s.%s, which no row has", ErrShape, name, path, h.Name)
		}
	}
	return out, nil
}

func fieldAt(fields []iceberg.NestedField, name string) int {
	for i, f := range fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// idsOf are the ids of a field and of all that is nested in it.
func idsOf(f iceberg.NestedField) []int {
	out := []int{f.ID}
	if nested, ok := f.Type.(iceberg.NestedType); ok {
		for _, sub := range nested.Fields() {
			out = append(out, idsOf(sub)...)
		}
	}
	return out
}

// columnsOf is the Arrow schema of the rows of a signal and their promoted columns, with the field ids of the table.
func columnsOf(s otelarrow.Signal, sc *iceberg.Schema, columns []promoted) (*arrow.Schema, error) {
	fields, err := fieldsWithIDs(otelarrow.TableSchema(s).Fields(), sc.Fields())
	if err != nil {
		return nil, err
	}
	more, err := promotedFields(sc, columns)
	if err != nil {
		return nil, err
	}
	return arrow.NewSchema(append(fields, more...), nil), nil
}

func withFieldID(f arrow.Field, id int) arrow.Field {
	f.Metadata = arrow.MetadataFrom(map[string]string{table.ArrowParquetFieldIDKey: strconv.Itoa(id)})
	return f
}

// fieldsWithIDs rebuilds fields with the ids of those in have that have their names.
func fieldsWithIDs(fields []arrow.Field, have []iceberg.NestedField) ([]arrow.Field, error) {
	out := make([]arrow.Field, len(fields))
	for i, f := range fields {
		at := fieldAt(have, f.Name)
		if at < 0 {
			return nil, fmt.Errorf("%w: no column %s", ErrShape, f.Name)
		}
		var err error
		if out[i], err = fieldWithIDs(f, have[at]); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return out, nil
}

// fieldWithIDs rebuilds f with the ids of have and of what is nested in it.
func fieldWithIDs(f arrow.Field, have iceberg.NestedField) (arrow.Field, error) {
	f = withFieldID(f, have.ID)
	nested, ok := have.Type.(iceberg.NestedType)
	if !ok {
		return f, nil
	}
	subs := nested.Fields()
	switch t := f.Type.(type) {
	case *arrow.StructType:
		fields, err := fieldsWithIDs(t.Fields(), subs)
		if err != nil {
			return f, err
		}
		f.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		elem, err := fieldWithIDs(t.ElemField(), subs[0])
		if err != nil {
			return f, err
		}
		f.Type = arrow.ListOfField(elem)
	case *arrow.MapType:
		key, err := fieldWithIDs(t.KeyField(), subs[0])
		if err != nil {
			return f, err
		}
		item, err := fieldWithIDs(t.ItemField(), subs[1])
		if err != nil {
			return f, err
		}
		f.Type = arrow.MapOfFields(key, item)
	}
	return f, nil
}
