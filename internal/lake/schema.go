package lake

import (
	"fmt"
	"slices"

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
	// fields are the table's columns with those added that the transaction needs (grown).
	fields []iceberg.NestedField
	grown  bool
	// promoted columns, with the ids the table has for them.
	promoted []promoted
	spec     iceberg.PartitionSpec
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

// fit compares a table with the signal's shape and the promoted columns. Columns that the table lacks are additions, and
// fields of structs too; everything else that differs is ErrShape. What only the table has is left null.
func fit(name string, meta table.Metadata, s otelarrow.Signal, configured *otelarrow.Promotions) (shape, error) {
	if got, ok := meta.Properties()[propSignal]; ok && got != s.String() {
		return shape{}, fmt.Errorf("%w: %s holds %s: a segment of %s is in the wrong index, and its rows wait in the write-ahead log; keep the table (docs/operations/damaged-segments.md)", ErrShape, name, got, s)
	}
	if meta.Version() != 2 {
		return shape{}, fmt.Errorf("%w: %s has format version %d, this version writes 2", ErrShape, name, meta.Version())
	}
	want, err := newTableSchema(s)
	if err != nil {
		return shape{}, err
	}
	columns, err := promotedColumns(name, meta, s, configured)
	if err != nil {
		return shape{}, err
	}
	f := newFitting(meta)
	ours, err := f.own(name, want)
	if err != nil {
		return shape{}, err
	}
	if err := f.promote(name, columns, ours); err != nil {
		return shape{}, err
	}
	spec, err := daySpec(name, meta)
	if err != nil {
		return shape{}, err
	}
	return shape{fields: f.fields, grown: f.grown, promoted: columns, spec: spec, sortOrder: sortOrderID(meta)}, nil
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
