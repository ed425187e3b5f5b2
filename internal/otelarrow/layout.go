package otelarrow

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// fieldIDKey is where Arrow and Parquet writers look for Iceberg field ids.
const fieldIDKey = "PARQUET:field_id"

// layout is all that follows from the declared columns of one signal.
type layout struct {
	columns []column
	groups  []group
	wal     *arrow.Schema
	table   *arrow.Schema
}

// layouts are built once from the declarations and never change.
var layouts = [...]*layout{
	Logs:    newLayout(Logs, logsColumns(), sharedGroups),
	Traces:  newLayout(Traces, tracesColumns(), sharedGroups),
	Metrics: newLayout(Metrics, metricsColumns(), metricsGroups),
}

// WALSchema is the schema of the signal's segments. It has no dictionaries, so
// that each record-batch message stands alone.
func WALSchema(s Signal) *arrow.Schema { return layouts[s].wal }

// TableSchema is the Arrow form of the signal's Iceberg table: every field, nested
// ones too, carries its field id; only the required columns are not nullable.
func TableSchema(s Signal) *arrow.Schema { return layouts[s].table }

func newLayout(s Signal, columns []column, groups []group) *layout {
	meta := arrow.MetadataFrom(map[string]string{metaSignal: s.String(), metaLayout: layoutV2})
	fields := walFields(columns, "")
	for _, g := range groups {
		shared := arrow.StructOf(walFields(columns, g.name)...)
		if g.runs {
			fields = append(fields, arrow.Field{Name: g.name, Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, shared)})
		} else {
			fields = append(fields, arrow.Field{Name: g.name, Type: arrow.ListOfNonNullable(shared)})
		}
	}
	return &layout{
		columns: columns,
		groups:  groups,
		wal:     arrow.NewSchema(fields, &meta),
		table:   arrow.NewSchema(tableFields(columns), nil),
	}
}

// walFields are the fields that hold the facts of the columns in a group, each once.
func walFields(columns []column, inGroup string) []arrow.Field {
	var fields []arrow.Field
	seen := map[string]bool{}
	for _, c := range columns {
		if c.group != inGroup || c.kind == kindSegmentID || c.kind == kindSegmentRow || seen[c.wal()] {
			continue
		}
		seen[c.wal()] = true
		fields = append(fields, c.walField())
	}
	return fields
}

func (c column) walField() arrow.Field {
	f := arrow.Field{Name: c.wal()}
	switch c.kind {
	case kindRawTime, kindMicros, kindRawMicros, kindClampNanos, kindDuration:
		f.Type = arrow.PrimitiveTypes.Int64
	case kindLong:
		f.Type, f.Nullable = arrow.PrimitiveTypes.Int64, !c.required
	case kindUint32:
		f.Type = arrow.PrimitiveTypes.Uint32
	case kindInt, kindTemporality:
		f.Type, f.Nullable = arrow.PrimitiveTypes.Int32, true
	case kindSpanKind, kindStatusCode:
		f.Type = arrow.PrimitiveTypes.Int32
	case kindDouble:
		f.Type, f.Nullable = arrow.PrimitiveTypes.Float64, true
	case kindBool:
		f.Type, f.Nullable = arrow.PrimitiveTypes.Uint8, true
	case kindValueKind:
		f.Type = arrow.PrimitiveTypes.Uint8
	case kindText:
		f.Type, f.Nullable = arrow.BinaryTypes.String, true
	case kindTextOrNull:
		f.Type = arrow.BinaryTypes.String
	case kindTraceID:
		f.Type = &arrow.FixedSizeBinaryType{ByteWidth: 16}
	case kindSpanID:
		f.Type = &arrow.FixedSizeBinaryType{ByteWidth: 8}
	case kindAttrs, kindAttrTypes:
		f.Type = arrow.ListOfNonNullable(arrow.StructOf(
			arrow.Field{Name: "key", Type: arrow.BinaryTypes.String},
			arrow.Field{Name: "value", Type: arrow.BinaryTypes.String},
			arrow.Field{Name: "kind", Type: arrow.PrimitiveTypes.Uint8},
		))
	case kindLongs:
		f.Type = arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64)
	case kindDoubles:
		f.Type = arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float64)
	case kindStructs:
		f.Type = arrow.ListOfNonNullable(arrow.StructOf(walFields(c.fields, "")...))
	case kindSegmentID, kindSegmentRow:
		panic("otelarrow: column " + c.name + " is not in the WAL")
	}
	return f
}

func tableFields(columns []column) []arrow.Field {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.tableType(), Nullable: !c.required, Metadata: fieldID(c.id)}
	}
	return fields
}

func (c column) tableType() arrow.DataType {
	switch c.kind {
	case kindLong, kindRawTime, kindClampNanos, kindDuration, kindUint32, kindSegmentRow:
		return arrow.PrimitiveTypes.Int64
	case kindMicros, kindRawMicros:
		return arrow.FixedWidthTypes.Timestamp_us
	case kindInt:
		return arrow.PrimitiveTypes.Int32
	case kindDouble:
		return arrow.PrimitiveTypes.Float64
	case kindBool:
		return arrow.FixedWidthTypes.Boolean
	case kindAttrs, kindAttrTypes:
		return arrow.MapOfFields(
			arrow.Field{Name: "key", Type: arrow.BinaryTypes.String, Metadata: fieldID(c.id + 1)},
			arrow.Field{Name: "value", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: fieldID(c.id + 2)},
		)
	case kindLongs:
		return listOf(c.id+1, arrow.PrimitiveTypes.Int64)
	case kindDoubles:
		return listOf(c.id+1, arrow.PrimitiveTypes.Float64)
	case kindStructs:
		return listOf(c.id+1, arrow.StructOf(tableFields(c.fields)...))
	default: // texts, ids, names of enums and types
		return arrow.BinaryTypes.String
	}
}

func listOf(id int, t arrow.DataType) arrow.DataType {
	return arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: true, Metadata: fieldID(id)})
}

func fieldID(id int) arrow.Metadata {
	return arrow.NewMetadata([]string{fieldIDKey}, []string{strconv.Itoa(id)})
}

// checkKnown refuses fields that the layout does not have, nested ones too: to
// leave them out would lose what a newer version stored. Types are checked by
// those who read them.
func (l *layout) checkKnown(schema *arrow.Schema) error {
	for _, f := range schema.Fields() {
		known, ok := l.wal.FieldsByName(f.Name)
		if !ok {
			return fmt.Errorf("%w: unknown column %s", ErrDamaged, f.Name)
		}
		if err := checkKnown(f.Type, known[0].Type); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return nil
}

func checkKnown(dt, known arrow.DataType) error {
	if dt.ID() != known.ID() {
		return nil
	}
	switch known := known.(type) {
	case *arrow.StructType:
		for _, f := range as[*arrow.StructType](dt).Fields() {
			kf, ok := known.FieldByName(f.Name)
			if !ok {
				return fmt.Errorf("%w: unknown field %s", ErrDamaged, f.Name)
			}
			if err := checkKnown(f.Type, kf.Type); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
		}
	case *arrow.ListType:
		return checkKnown(as[*arrow.ListType](dt).Elem(), known.Elem())
	case *arrow.RunEndEncodedType:
		return checkKnown(as[*arrow.RunEndEncodedType](dt).Encoded(), known.Encoded())
	}
	return nil
}
