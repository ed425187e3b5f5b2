package lake

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Columns the lake itself relies on.
const (
	colTimestamp   = "timestamp"
	colTimestampNs = "timestamp_ns"
	colTraceID     = "trace_id"
	colSegmentID   = "segment_id"
	colSegmentRow  = "segment_row"
)

// dayField is the name of the one partition field.
const dayField = "timestamp_day"

// shape is how rows of a signal fit a table as it is now.
type shape struct {
	// missing are columns to add in the transaction that first needs them.
	missing []iceberg.NestedField
	spec    iceberg.PartitionSpec
	// sortOrder is recorded with each file; 0 when the table's order is not ours.
	sortOrder int
}

// newTableSchema is the Iceberg schema of a new table of the signal; field ids are those of otelarrow.
func newTableSchema(s otelarrow.Signal) (*iceberg.Schema, error) {
	sc, err := table.ArrowSchemaToIceberg(otelarrow.TableSchema(s), false, nil)
	if err != nil {
		return nil, fmt.Errorf("turn the %s schema into an Iceberg schema: %w", s, err)
	}
	return sc, nil
}

func newPartitionSpec(sc *iceberg.Schema) (iceberg.PartitionSpec, error) {
	ts, ok := sc.FindFieldByName(colTimestamp)
	if !ok {
		return iceberg.PartitionSpec{}, fmt.Errorf("no column %s", colTimestamp)
	}
	return iceberg.NewPartitionSpec(iceberg.PartitionField{
		SourceIDs: []int{ts.ID}, FieldID: 1000, Name: dayField, Transform: iceberg.DayTransform{},
	}), nil
}

func newSortOrder(sc *iceberg.Schema, id int) (table.SortOrder, error) {
	var fields []table.SortField
	for _, name := range []string{colTimestamp, colTimestampNs} {
		f, ok := sc.FindFieldByName(name)
		if !ok {
			return table.SortOrder{}, fmt.Errorf("no column %s", name)
		}
		fields = append(fields, table.SortField{
			SourceIDs: []int{f.ID}, Transform: iceberg.IdentityTransform{}, Direction: table.SortASC, NullOrder: table.NullsFirst,
		})
	}
	return table.NewSortOrder(id, fields)
}

// fit compares a table with the signal's shape. Columns that the table lacks are additions; everything else that
// differs is ErrShape. Columns that only the table has are left null.
func fit(name string, meta table.Metadata, s otelarrow.Signal) (shape, error) {
	want, err := newTableSchema(s)
	if err != nil {
		return shape{}, err
	}
	have := meta.CurrentSchema()
	var out shape
	if got, ok := meta.Properties()[propSignal]; ok && got != s.String() {
		return shape{}, fmt.Errorf("%w: %s holds %s, not %s", ErrShape, name, got, s)
	}
	if meta.Version() != 2 {
		return shape{}, fmt.Errorf("%w: %s has format version %d, this version writes 2", ErrShape, name, meta.Version())
	}
	for _, w := range want.Fields() {
		h, ok := have.FindFieldByName(w.Name)
		switch {
		case !ok && w.Required:
			return shape{}, fmt.Errorf("%w: %s lacks the required column %s", ErrShape, name, w.Name)
		case !ok:
			out.missing = append(out.missing, w)
		case h.Required && !w.Required:
			return shape{}, fmt.Errorf("%w: column %s of %s must not be required", ErrShape, w.Name, name)
		case !sameType(h.Type, w.Type):
			return shape{}, fmt.Errorf("%w: column %s of %s is %s, want %s", ErrShape, w.Name, name, h.Type, w.Type)
		}
	}
	for _, h := range have.Fields() {
		if _, ours := want.FindFieldByName(h.Name); !ours && h.Required {
			return shape{}, fmt.Errorf("%w: %s requires the column %s, which no row has", ErrShape, name, h.Name)
		}
	}
	if out.spec, err = daySpec(name, meta); err != nil {
		return shape{}, err
	}
	out.sortOrder = sortOrderID(meta)
	return out, nil
}

// daySpec finds the partition spec day(timestamp) among those the table has had, the newest first.
func daySpec(name string, meta table.Metadata) (iceberg.PartitionSpec, error) {
	ts, _ := meta.CurrentSchema().FindFieldByName(colTimestamp)
	specs := append(meta.PartitionSpecs(), meta.PartitionSpec())
	for _, spec := range slices.Backward(specs) {

		if spec.NumFields() != 1 {
			continue
		}
		f := spec.Field(0)
		if f.SourceID() == ts.ID && f.Transform.Equals(iceberg.DayTransform{}) {
			return spec, nil
		}
	}
	return iceberg.PartitionSpec{}, fmt.Errorf("%w: %s is not partitioned by day(%s) but by %s",
		ErrShape, name, colTimestamp, meta.PartitionSpec())
}

func sortOrderID(meta table.Metadata) int {
	for _, o := range meta.SortOrders() {
		if want, err := newSortOrder(meta.CurrentSchema(), o.OrderID()); err == nil && o.Equals(want) {
			return o.OrderID()
		}
	}
	return 0
}

// sameType compares types without their field ids, which differ in a table that was evolved.
func sameType(a, b iceberg.Type) bool {
	switch x := a.(type) {
	case *iceberg.ListType:
		y, ok := b.(*iceberg.ListType)
		return ok && sameType(x.Element, y.Element)
	case *iceberg.MapType:
		y, ok := b.(*iceberg.MapType)
		return ok && sameType(x.KeyType, y.KeyType) && sameType(x.ValueType, y.ValueType)
	case *iceberg.StructType:
		y, ok := b.(*iceberg.StructType)
		if !ok || len(x.FieldList) != len(y.FieldList) {
			return false
		}
		for i, f := range x.FieldList {
			if f.Name != y.FieldList[i].Name || !sameType(f.Type, y.FieldList[i].Type) {
				return false
			}
		}
		return true
	default:
		return a.Equals(b)
	}
}

// withIDs returns the Arrow schema of the signal's rows with the field ids the table gave its columns.
func withIDs(s otelarrow.Signal, sc *iceberg.Schema) (*arrow.Schema, error) {
	rows := otelarrow.TableSchema(s)
	fields := make([]arrow.Field, rows.NumFields())
	for i, f := range rows.Fields() {
		have, ok := sc.FindFieldByName(f.Name)
		if !ok {
			return nil, fmt.Errorf("%w: no column %s", ErrShape, f.Name)
		}
		var err error
		if fields[i], err = fieldWithIDs(f, have); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return arrow.NewSchema(fields, nil), nil
}

// fieldWithIDs rebuilds f with the ids of have and of what is nested in it.
func fieldWithIDs(f arrow.Field, have iceberg.NestedField) (arrow.Field, error) {
	f.Metadata = arrow.MetadataFrom(map[string]string{table.ArrowParquetFieldIDKey: strconv.Itoa(have.ID)})
	switch t := f.Type.(type) {
	case *arrow.StructType:
		h, ok := have.Type.(*iceberg.StructType)
		if !ok || len(h.FieldList) != t.NumFields() {
			return f, fmt.Errorf("%w: %s is %s", ErrShape, f.Name, have.Type)
		}
		fields := make([]arrow.Field, t.NumFields())
		for i, sub := range t.Fields() {
			var err error
			if fields[i], err = fieldWithIDs(sub, h.FieldList[i]); err != nil {
				return f, err
			}
		}
		f.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		h, ok := have.Type.(*iceberg.ListType)
		if !ok {
			return f, fmt.Errorf("%w: %s is %s", ErrShape, f.Name, have.Type)
		}
		elem, err := fieldWithIDs(t.ElemField(), h.ElementField())
		if err != nil {
			return f, err
		}
		f.Type = arrow.ListOfField(elem)
	case *arrow.MapType:
		h, ok := have.Type.(*iceberg.MapType)
		if !ok {
			return f, fmt.Errorf("%w: %s is %s", ErrShape, f.Name, have.Type)
		}
		key, err := fieldWithIDs(t.KeyField(), h.KeyField())
		if err != nil {
			return f, err
		}
		item, err := fieldWithIDs(t.ItemField(), h.ValueField())
		if err != nil {
			return f, err
		}
		f.Type = arrow.MapOfFields(key, item)
	}
	return f, nil
}
