package lake

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// older is the schema of a signal as an earlier version may have made it: without some columns, and without some fields
// of the structs in others.
func older(tb testing.TB, s otelarrow.Signal, without ...string) []iceberg.NestedField {
	tb.Helper()
	sc, err := newTableSchema(s)
	require.NoError(tb, err)
	return prune(sc.Fields(), "", without)
}

func prune(fields []iceberg.NestedField, path string, without []string) []iceberg.NestedField {
	var out []iceberg.NestedField
	for _, f := range fields {
		if slices.Contains(without, path+f.Name) {
			continue
		}
		if list, ok := f.Type.(*iceberg.ListType); ok {
			if st, ok := list.Element.(*iceberg.StructType); ok {
				fewer := *list
				fewer.Element = &iceberg.StructType{FieldList: prune(st.FieldList, f.Name+".", without)}
				f.Type = &fewer
			}
		}
		out = append(out, f)
	}
	return out
}

func spanSegment(tb testing.TB, seq uint64) Segment {
	tb.Helper()
	td := ptrace.NewTraces()
	sp := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	sp.SetStartTimestamp(pcommon.NewTimestampFromTime(day0))
	sp.SetName("op")
	for _, name := range []string{"first", "second"} {
		e := sp.Events().AppendEmpty()
		e.SetName(name)
		e.Attributes().PutStr("k", name)
		e.SetDroppedAttributesCount(7)
	}
	sp.Links().AppendEmpty().TraceState().FromRaw("x=y")
	b, err := otelarrow.EncodeTraces(td, day0, memory.DefaultAllocator)
	require.NoError(tb, err)
	return Segment{ID: testID(tb, day0, seq), Batches: []arrow.RecordBatch{b.Record}, Rows: 1}
}

func exemplarSegment(tb testing.TB, seq uint64) Segment {
	tb.Helper()
	md := pmetric.NewMetrics()
	p := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty()
	p.SetTimestamp(pcommon.NewTimestampFromTime(day0))
	e := p.Exemplars().AppendEmpty()
	e.SetDoubleValue(1.5)
	e.FilteredAttributes().PutStr("k", "v")
	b, err := otelarrow.EncodeMetrics(md, day0, memory.DefaultAllocator)
	require.NoError(tb, err)
	return Segment{ID: testID(tb, day0, seq), Batches: []arrow.RecordBatch{b.Record}, Rows: 1}
}

// fieldIDs are the ids of all columns of a table and of what is nested in them, by path.
func fieldIDs(fields []iceberg.NestedField, path string, out map[string]int) map[string]int {
	for _, f := range fields {
		out[path+f.Name] = f.ID
		if nested, ok := f.Type.(iceberg.NestedType); ok {
			fieldIDs(nested.Fields(), path+f.Name+".", out)
		}
	}
	return out
}

// leafIDs are the field ids in a Parquet file, by the path of the leaf with the table's names for lists and maps.
func leafIDs(tb testing.TB, pf *file.Reader) map[string]int {
	tb.Helper()
	out := map[string]int{}
	sc := pf.MetaData().Schema
	for i := range sc.NumColumns() {
		leaf := sc.Column(i)
		out[leaf.Path()] = int(leaf.SchemaNode().FieldID())
	}
	return out
}

func scanRows(tb testing.TB, t *table.Table, name string) []string {
	tb.Helper()
	_, batches, err := t.Scan(table.WithSelectedFields(colSegmentID, name)).ToArrowRecords(context.Background())
	require.NoError(tb, err)
	var out []string
	for rec, err := range batches {
		require.NoError(tb, err)
		col := rec.Column(rec.Schema().FieldIndices(name)[0])
		for i := range int(rec.NumRows()) {
			b, err := array.NewSlice(col, int64(i), int64(i+1)).MarshalJSON()
			require.NoError(tb, err)
			out = append(out, strings.ReplaceAll(string(b), "\n", ""))
		}
		rec.Release()
	}
	slices.Sort(out)
	return out
}

// E14: a table that an earlier version made, with rows in it, lacks a column, and fields in the structs of others. The
// rows of this version have them, those of the earlier one are NULL, and all are found by field id.
func TestCommit_adds_missing_nested_columns_E14(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		signal  otelarrow.Signal
		without []string
		fields  []iceberg.NestedField // others that took ids
		seg     func(testing.TB, uint64) Segment
		column  string
		want    []string
		ids     map[string]int
	}{
		{
			name: "events", signal: otelarrow.Traces, without: []string{"trace_state", "events.name", "events.dropped_attributes_count"}, seg: spanSegment, column: "events",
			want: []string{
				`[[{"attribute_types":null,"attributes":[{"key":"k","value":"first"}],"dropped_attributes_count":7,"name":"first","timestamp_ns":null},` +
					`{"attribute_types":null,"attributes":[{"key":"k","value":"second"}],"dropped_attributes_count":7,"name":"second","timestamp_ns":null}]]`,
				`[[{"attribute_types":null,"attributes":[{"key":"k","value":"first"}],"dropped_attributes_count":null,"name":null,"timestamp_ns":null},` +
					`{"attribute_types":null,"attributes":[{"key":"k","value":"second"}],"dropped_attributes_count":null,"name":null,"timestamp_ns":null}]]`,
			},
			ids: map[string]int{"trace_state": 105, "events.element.name": 123, "events.element.dropped_attributes_count": 130},
		},
		{
			name: "links_and_a_map", signal: otelarrow.Traces, without: []string{"links.trace_state", "events.attributes"}, seg: spanSegment, column: "links",
			want: []string{
				`[[{"attribute_types":null,"attributes":[],"dropped_attributes_count":0,"flags":0,"span_id":null,"trace_id":null,"trace_state":"x=y"}]]`,
				`[[{"attribute_types":null,"attributes":[],"dropped_attributes_count":0,"flags":0,"span_id":null,"trace_id":null,"trace_state":null}]]`,
			},
			ids: map[string]int{"links.element.trace_state": 154, "events.element.attributes": 124, "events.element.attributes.value": 126},
		},
		{
			name: "exemplars", signal: otelarrow.Metrics, without: []string{"exemplars.value_double"}, seg: exemplarSegment, column: "exemplars",
			want: []string{
				`[[{"filtered_attribute_types":null,"filtered_attributes":[{"key":"k","value":"v"}],"span_id":null,"timestamp_ns":null,"trace_id":null,"value_double":1.5,"value_int":null}]]`,
				`[[{"filtered_attribute_types":null,"filtered_attributes":[{"key":"k","value":"v"}],"span_id":null,"timestamp_ns":null,"trace_id":null,"value_double":null,"value_int":null}]]`,
			},
		},
		{
			name: "the_id_is_taken", signal: otelarrow.Traces, without: []string{"events.name", "events.dropped_attributes_count"}, seg: spanSegment, column: "events",
			fields: []iceberg.NestedField{{ID: 123, Name: "theirs", Type: iceberg.PrimitiveTypes.String}},
			want: []string{
				`[[{"attribute_types":null,"attributes":[{"key":"k","value":"first"}],"dropped_attributes_count":7,"name":"first","timestamp_ns":null},` +
					`{"attribute_types":null,"attributes":[{"key":"k","value":"second"}],"dropped_attributes_count":7,"name":"second","timestamp_ns":null}]]`,
				`[[{"attribute_types":null,"attributes":[{"key":"k","value":"first"}],"dropped_attributes_count":null,"name":null,"timestamp_ns":null},` +
					`{"attribute_types":null,"attributes":[{"key":"k","value":"second"}],"dropped_attributes_count":null,"name":null,"timestamp_ns":null}]]`,
			},
			ids: map[string]int{"theirs": 123, "events.element.name": 171, "events.element.dropped_attributes_count": 130},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{})
			name := tc.signal.Table()
			makeTable(t, l, name, dayOfField(1), append(older(t, tc.signal, tc.without...), tc.fields...)...)
			old, seg := tc.seg(t, 1), tc.seg(t, 2)
			commitOlder(t, l, tc.signal, old)
			tbl, created, err := l.Ensure(t.Context(), "default", name, tc.signal)
			require.NoError(t, err)
			require.False(t, created)
			_, err = tbl.Commit(t.Context(), []Segment{seg})
			require.NoError(t, err)

			raw, err := l.open(t.Context(), table.Identifier{"siglake", name})
			require.NoError(t, err)
			require.Equal(t, raw.Schema().ID, *raw.CurrentSnapshot().SchemaID)
			have := fieldIDs(raw.Schema().Fields(), "", map[string]int{})
			for path, id := range tc.ids {
				require.Equal(t, id, have[path], path)
			}
			require.Equal(t, tc.want, scanRows(t, raw, tc.column))
			for df, err := range l.dataFiles(raw.CurrentSnapshot()) {
				require.NoError(t, err)
				for path, id := range leafIDs(t, openParquet(t, l, df)) {
					require.Positive(t, id, path)
				}
			}
		})
	}
}

// commitOlder writes rows as a version would that knows only the table's columns: it has no other ids to give.
func commitOlder(tb testing.TB, l *Lake, s otelarrow.Signal, seg Segment) {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", s.Table()})
	require.NoError(tb, err)
	rec, err := otelarrow.Gather(s, []otelarrow.Source{{SegmentID: seg.ID, Record: seg.Batches[0]}}, []otelarrow.RowRef{{}}, memory.DefaultAllocator)
	require.NoError(tb, err)
	defer rec.Release()
	have := t.Schema().Fields()
	var fields []arrow.Field
	var columns []arrow.Array
	for i, f := range rec.Schema().Fields() {
		at := fieldAt(have, f.Name)
		if at < 0 {
			continue
		}
		dt, data := cut(f.Type, rec.Column(i).Data(), have[at].Type)
		f.Type = dt
		fields = append(fields, withFieldID(f, have[at].ID))
		columns = append(columns, array.MakeFromData(data))
	}
	sc := arrow.NewSchema(fields, nil)
	reduced := array.NewRecordBatch(sc, columns, rec.NumRows())
	rdr, err := array.NewRecordReader(sc, []arrow.RecordBatch{reduced})
	require.NoError(tb, err)
	defer rdr.Release()
	_, err = t.Append(context.Background(), rdr, nil)
	require.NoError(tb, err)
}

// cut leaves those fields of a list of structs that the table has.
func cut(dt arrow.DataType, data arrow.ArrayData, have iceberg.Type) (arrow.DataType, arrow.ArrayData) {
	list, ok := dt.(*arrow.ListType)
	if !ok {
		return dt, data
	}
	st, ok := list.Elem().(*arrow.StructType)
	if !ok {
		return dt, data
	}
	known := have.(*iceberg.ListType).Element.(*iceberg.StructType).FieldList
	elem := data.Children()[0]
	var fields []arrow.Field
	var children []arrow.ArrayData
	for i, f := range st.Fields() {
		if fieldAt(known, f.Name) >= 0 {
			fields = append(fields, f)
			children = append(children, elem.Children()[i])
		}
	}
	fewer := arrow.StructOf(fields...)
	element := list.ElemField()
	element.Type = fewer
	cutList := arrow.ListOfField(element)
	return cutList, array.NewData(cutList, data.Len(), data.Buffers(), []arrow.ArrayData{
		array.NewData(fewer, elem.Len(), elem.Buffers(), children, elem.NullN(), 0),
	}, data.NullN(), 0)
}

// What cannot be added is refused, nested or not, and names the path.
func TestEnsure_refuses_another_nested_shape_E14(t *testing.T) {
	t.Parallel()
	all := older(t, otelarrow.Traces)
	events := func(change func(*iceberg.StructType)) []iceberg.NestedField {
		out := older(t, otelarrow.Traces, "none") // a copy
		at := fieldAt(out, "events")
		st := out[at].Type.(*iceberg.ListType).Element.(*iceberg.StructType)
		change(st)
		return out
	}
	replaced := func(name string, typ iceberg.Type) []iceberg.NestedField {
		out := slices.Clone(all)
		out[fieldAt(out, name)].Type = typ
		return out
	}
	for _, tc := range []struct {
		name   string
		fields []iceberg.NestedField
		want   string
	}{
		{"other_type", events(func(st *iceberg.StructType) { st.FieldList[1].Type = iceberg.PrimitiveTypes.Int64 }), "column events.element.name of siglake.spans is long, want string"},
		{"required", events(func(st *iceberg.StructType) { st.FieldList[1].Required = true }), "column events.element.name of siglake.spans must not be required"},
		{"required_and_unknown", events(func(st *iceberg.StructType) {
			st.FieldList = append(st.FieldList, iceberg.NestedField{ID: 900, Name: "more", Type: iceberg.PrimitiveTypes.String, Required: true})
		}), "requires the column events.element.more"},
		{"no_list", replaced("events", iceberg.PrimitiveTypes.String), "column events of siglake.spans is string, want list"},
		{"no_struct", replaced("links", &iceberg.ListType{ElementID: 151, Element: iceberg.PrimitiveTypes.String}), "column links.element of siglake.spans is string, want struct"},
		{"no_map", replaced("attributes", iceberg.PrimitiveTypes.String), "column attributes of siglake.spans is string, want map"},
		{"map_of_longs", replaced("attributes", &iceberg.MapType{KeyID: 11, KeyType: iceberg.PrimitiveTypes.String, ValueID: 12, ValueType: iceberg.PrimitiveTypes.Int64}), "column attributes.value of siglake.spans is long, want string"},
		{"map_by_long", replaced("attributes", &iceberg.MapType{KeyID: 11, KeyType: iceberg.PrimitiveTypes.Int64, ValueID: 12, ValueType: iceberg.PrimitiveTypes.String}), "column attributes.key of siglake.spans is long, want string"},
	} {
		l := lakeAt(t, t.TempDir(), hooks{})
		makeTable(t, l, "spans", dayOfField(1), tc.fields...)
		_, _, err := l.Ensure(t.Context(), "default", "spans", otelarrow.Traces)
		require.ErrorIs(t, err, ErrShape, tc.name)
		require.ErrorContains(t, err, tc.want, tc.name)
	}
}

// A field that only the table has, of a newer version or of another engine, is left NULL; identifier fields stay.
func TestCommit_leaves_what_only_the_table_has(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	fields := older(t, otelarrow.Traces, "trace_state", "events.name")
	st := fields[fieldAt(fields, "events")].Type.(*iceberg.ListType).Element.(*iceberg.StructType)
	st.FieldList = append(st.FieldList, iceberg.NestedField{ID: 900, Name: "severity", Type: iceberg.PrimitiveTypes.String})
	require.NoError(t, l.createNamespace(t.Context(), table.Identifier{"siglake"}))
	sc := iceberg.NewSchemaWithIdentifiers(0, []int{2}, fields...)
	_, _, err := l.cat.CommitTable(t.Context(), table.Identifier{"siglake", "spans"}, []table.Requirement{table.AssertCreate()}, []table.Update{
		table.NewAddSchemaUpdate(sc), table.NewSetCurrentSchemaUpdate(-1), table.NewSetLocationUpdate(l.home + "/siglake.db/spans"),
		table.NewAddPartitionSpecUpdate(dayOfField(1), true), table.NewSetDefaultSpecUpdate(-1),
	})
	require.NoError(t, err)
	tbl, _, err := l.Ensure(t.Context(), "default", "spans", otelarrow.Traces)
	require.NoError(t, err)
	_, err = tbl.Commit(t.Context(), []Segment{spanSegment(t, 1)})
	require.NoError(t, err)
	raw, err := l.open(t.Context(), table.Identifier{"siglake", "spans"})
	require.NoError(t, err)
	require.Equal(t, []int{2}, raw.Schema().IdentifierFieldIDs)
	require.Equal(t, []string{
		`[[{"attribute_types":null,"attributes":[{"key":"k","value":"first"}],"dropped_attributes_count":7,"name":"first","severity":null,"timestamp_ns":null},` +
			`{"attribute_types":null,"attributes":[{"key":"k","value":"second"}],"dropped_attributes_count":7,"name":"second","severity":null,"timestamp_ns":null}]]`,
	}, scanRows(t, raw, "events"))
}
