package lake

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/stretchr/testify/require"
)

// everyShape has each type and nesting that a table may have.
func everyShape() *arrow.Schema {
	text := arrow.BinaryTypes.String
	attrs := arrow.MapOfFields(arrow.Field{Name: "key", Type: text}, arrow.Field{Name: "value", Type: text, Nullable: true})
	inner := arrow.StructOf(
		arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "s", Type: text, Nullable: true},
		arrow.Field{Name: "attrs", Type: attrs, Nullable: true},
		arrow.Field{Name: "always", Type: arrow.PrimitiveTypes.Float64},
	)
	list := func(t arrow.DataType) arrow.DataType {
		return arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: true})
	}
	return arrow.NewSchema([]arrow.Field{
		{Name: "timestamp", Type: arrow.FixedWidthTypes.Timestamp_us},
		{Name: "timestamp_ns", Type: arrow.PrimitiveTypes.Int64},
		{Name: "few", Type: text, Nullable: true},
		{Name: "must", Type: text},
		{Name: "some", Type: text, Nullable: true},
		{Name: "many", Type: text, Nullable: true},
		{Name: "span_id", Type: text, Nullable: true},
		{Name: "int", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "double", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "bool", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "attrs", Type: attrs, Nullable: true},
		{Name: "longs", Type: list(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "events", Type: list(inner), Nullable: true},
	}, nil)
}

// filler appends random values. nulls is the share of them among what may be null.
type filler struct {
	rng   *rand.Rand
	nulls float64
}

func (f filler) text(name string) string {
	switch name {
	case "few", "key", "must":
		return []string{"", "a", "zz", "service.name", "k8s.namespace.name", strings.Repeat("long", 20)}[f.rng.IntN(6)]
	case "some":
		return fmt.Sprint("value ", f.rng.IntN(3000))
	default:
		return fmt.Sprintf("%08x-%d", f.rng.Uint32(), f.rng.IntN(1e9))
	}
}

func (f filler) fill(b array.Builder, field arrow.Field) {
	if field.Nullable && f.rng.Float64() < f.nulls {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(f.text(field.Name))
	case *array.Int64Builder:
		b.Append(f.rng.Int64N(1e6) - 1000)
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(f.rng.Int64N(1e6)))
	case *array.Int32Builder:
		b.Append(f.rng.Int32N(100))
	case *array.Float64Builder:
		b.Append(f.rng.NormFloat64())
	case *array.BooleanBuilder:
		b.Append(f.rng.IntN(3) == 0)
	case *array.MapBuilder:
		b.Append(true)
		mt, _ := b.Type().(*arrow.MapType)
		for range f.rng.IntN(4) {
			f.fill(b.KeyBuilder(), mt.KeyField())
			f.fill(b.ItemBuilder(), mt.ItemField())
		}
	case *array.ListBuilder:
		b.Append(true)
		lt, _ := b.Type().(*arrow.ListType)
		for range f.rng.IntN(4) {
			f.fill(b.ValueBuilder(), lt.ElemField())
		}
	case *array.StructBuilder:
		b.Append(true)
		st, _ := b.Type().(*arrow.StructType)
		for i := range b.NumField() {
			f.fill(b.FieldBuilder(i), st.Field(i))
		}
	}
}

func (f filler) record(sc *arrow.Schema, rows int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for range rows {
		for i, field := range sc.Fields() {
			f.fill(b.Field(i), field)
		}
	}
	return b.NewRecordBatch()
}

// memIO keeps one file.
type memIO struct {
	iceio.WriteFileIO
	bytes.Buffer
}

func (m *memIO) Create(string) (iceio.FileWriter, error) { return m, nil }
func (m *memIO) Close() error                            { return nil }

func readBack(t *testing.T, m *memIO) *file.Reader {
	t.Helper()
	pf, err := file.NewParquetReader(bytes.NewReader(m.Bytes()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pf.Close()) })
	return pf
}

// leafFile is what the lake wrote of records, read by arrow-go's own reader.
func leafFile(t *testing.T, sc *arrow.Schema, rowGroupBytes int64, recs ...arrow.RecordBatch) (*file.Reader, arrow.Table) {
	t.Helper()
	m := &memIO{}
	f, err := createParquet(m, "x", newParquetColumns(sc), 0)
	require.NoError(t, err)
	for _, rec := range recs {
		require.NoError(t, f.write(rec, rowGroupBytes))
	}
	_, _, err = f.close()
	require.NoError(t, err)
	pf := readBack(t, m)
	r, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	require.NoError(t, err)
	table, err := r.ReadTable(context.Background())
	require.NoError(t, err)
	return pf, table
}

// What is written is read back, cell for cell, by a reader that knows nothing of how it was written: columns without
// nulls and with, dictionaries that know all values and that grow with each batch, several row groups and pages.
func TestLeaves_are_read_as_written(t *testing.T) {
	t.Parallel()
	all := everyShape()
	flat := arrow.NewSchema(all.Fields()[:10], nil)
	for _, tc := range []struct {
		name          string
		sc            *arrow.Schema
		nulls         float64
		batches, rows int
		rowGroupBytes int64
	}{
		{"no nulls", all, 0, 6, 300, 1 << 30},
		{"nulls", all, 0.2, 6, 300, 1 << 30},
		{"all null", all, 1, 3, 500, 1 << 30},
		{"row groups", all, 0.1, 12, 100, 0},
		{"single rows", all, 0.3, 40, 1, 1 << 30},
		{"pages", flat, 0, 12, 4000, 1 << 30},
		{"pages and row groups", flat, 0.2, 12, 4000, 100 << 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			f := filler{rng: rand.New(rand.NewPCG(seed, 1)), nulls: tc.nulls}
			var recs []arrow.RecordBatch
			for range tc.batches {
				recs = append(recs, f.record(tc.sc, tc.rows))
			}
			pf, got := leafFile(t, tc.sc, tc.rowGroupBytes, recs...)
			want := array.NewTableFromRecords(tc.sc, recs)
			require.Equal(t, want.NumRows(), got.NumRows())
			for i, field := range tc.sc.Fields() {
				w, err := array.Concatenate(want.Column(i).Data().Chunks(), memory.DefaultAllocator)
				require.NoError(t, err)
				g, err := array.Concatenate(got.Column(i).Data().Chunks(), memory.DefaultAllocator)
				require.NoError(t, err)
				requireSame(t, field.Name, w, g)
			}
			requireBounds(t, pf, want)
		})
	}
}

// requireSame compares values, not types: a reader gives lists and maps its own names.
func requireSame(t *testing.T, name string, want, got arrow.Array) {
	t.Helper()
	require.Equal(t, want.Len(), got.Len(), name)
	if array.Equal(want, got) {
		return
	}
	for i := range want.Len() {
		if w, g := want.ValueStr(i), got.ValueStr(i); w != g {
			require.Equal(t, w, g, "%s, row %d", name, i)
		}
	}
}

// requireBounds recomputes bounds and null counts of each row group and page of the text and long columns.
func requireBounds(t *testing.T, pf *file.Reader, want arrow.Table) {
	t.Helper()
	pages := 0
	for g, first := 0, int64(0); g < pf.NumRowGroups(); g++ {
		group := pf.MetaData().RowGroup(g)
		index, err := pf.GetPageIndexReader().RowGroup(g)
		require.NoError(t, err)
		for _, name := range []string{"few", "must", "some", "many", "span_id", "timestamp_ns"} {
			leaf := leafIndex(t, pf, name)
			all, err := array.Concatenate(want.Column(want.Schema().FieldIndices(name)[0]).Data().Chunks(), memory.DefaultAllocator)
			require.NoError(t, err)
			chunk, err := group.ColumnChunk(leaf)
			require.NoError(t, err)
			stats, err := chunk.Statistics()
			require.NoError(t, err)
			requireBound(t, name, all, first, first+group.NumRows(), stats.NullCount(), stats.EncodeMin(), stats.EncodeMax())

			where, err := index.GetOffsetIndex(leaf)
			require.NoError(t, err)
			bounds, err := index.GetColumnIndex(leaf)
			require.NoError(t, err)
			at := where.GetPageLocations()
			pages = max(pages, len(at))
			for p := range at {
				end := group.NumRows()
				if p+1 < len(at) {
					end = at[p+1].FirstRowIndex
				}
				requireBound(t, name, all, first+at[p].FirstRowIndex, first+end,
					bounds.GetNullCounts()[p], bounds.GetMinValues()[p], bounds.GetMaxValues()[p])
			}
		}
		first += group.NumRows()
	}
	t.Logf("%d row groups, at most %d pages", pf.NumRowGroups(), pages)
}

func requireBound(t *testing.T, name string, all arrow.Array, lo, hi, nulls int64, least, most []byte) {
	t.Helper()
	var values [][]byte
	for i := int(lo); i < int(hi); i++ {
		switch a := all.(type) {
		case *array.String:
			if a.IsValid(i) {
				values = append(values, []byte(a.Value(i)))
			}
		case *array.Int64:
			values = append(values, binary.BigEndian.AppendUint64(nil, uint64(a.Value(i))^1<<63))
		}
	}
	require.Equal(t, hi-lo-int64(len(values)), nulls, "%s: nulls of rows %d to %d", name, lo, hi)
	if len(values) == 0 {
		return
	}
	if _, ok := all.(*array.Int64); ok {
		sortable := func(b []byte) []byte {
			return binary.BigEndian.AppendUint64(nil, binary.LittleEndian.Uint64(b)^1<<63)
		}
		least, most = sortable(least), sortable(most)
	}
	require.Equal(t, slices.MinFunc(values, bytes.Compare), slices.Clip(append([]byte{}, least...)), "%s: least of rows %d to %d", name, lo, hi)
	require.Equal(t, slices.MaxFunc(values, bytes.Compare), slices.Clip(append([]byte{}, most...)), "%s: most of rows %d to %d", name, lo, hi)
}

// A column whose values repeat is written as indices from the second batch on, and its pages end where they should.
func TestDictionary_writes_indices_and_ends_pages(t *testing.T) {
	t.Parallel()
	sc := arrow.NewSchema([]arrow.Field{{Name: "few", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	fill := filler{rng: rand.New(rand.NewPCG(3, 4)), nulls: 0.1}
	m := &memIO{}
	f, err := createParquet(m, "x", newParquetColumns(sc), 0)
	require.NoError(t, err)
	bytes := 0
	for i := range 40 {
		rec := fill.record(sc, 2000)
		require.NoError(t, f.write(rec, 1<<30))
		require.Len(t, f.group.dicts[0].values, 6)
		if i == 0 {
			require.Empty(t, f.group.dicts[0].indices, "the first batch is learned from")
			continue
		}
		require.Len(t, f.group.dicts[0].indices, 2000-rec.Column(0).NullN())
		bytes += 4 * (2000 - rec.Column(0).NullN())
		a, ok := rec.Column(0).(*array.String)
		require.True(t, ok)
		bytes += len(a.ValueBytes())
	}
	meta, _, err := f.close()
	require.NoError(t, err)
	pf := readBack(t, m)
	index, err := pf.GetPageIndexReader().RowGroup(0)
	require.NoError(t, err)
	where, err := index.GetOffsetIndex(0)
	require.NoError(t, err)
	require.InDelta(t, bytes/pageBytes, len(where.GetPageLocations()), 1)
	chunk, err := meta.RowGroup(0).ColumnChunk(0)
	require.NoError(t, err)
	require.True(t, chunk.HasDictionaryPage())
	stats, err := chunk.Statistics()
	require.NoError(t, err)
	require.Equal(t, int64(80_000), stats.NumValues()+stats.NullCount())
	require.Equal(t, []byte{}, stats.EncodeMin(), "the empty string is the least, and is not left out")
}

// A dictionary that grows too large is given up: the values are written plainly, and nothing is remembered.
func TestDictionary_is_given_up_when_it_grows(t *testing.T) {
	t.Parallel()
	sc := arrow.NewSchema([]arrow.Field{{Name: "many", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	fill := filler{rng: rand.New(rand.NewPCG(3, 4)), nulls: 0.1}
	f, err := createParquet(&memIO{}, "x", newParquetColumns(sc), 0)
	require.NoError(t, err)
	for range 20 {
		require.NoError(t, f.write(fill.record(sc, 4000), 1<<30))
	}
	require.Equal(t, dictionary{off: true}, *f.group.dicts[0])
	_, _, err = f.close()
	require.NoError(t, err)
}

// Where some value of each write is new, nothing is looked up any more: the file has its dictionary all the same.
func TestDictionary_is_given_up_where_ids_come(t *testing.T) {
	t.Parallel()
	sc := arrow.NewSchema([]arrow.Field{{Name: "values", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	m := &memIO{}
	f, err := createParquet(m, "x", newParquetColumns(sc), 0)
	require.NoError(t, err)
	id := 0
	write := func(ids, of int) *dictionary {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		defer b.Release()
		text := b.Field(0).(*array.StringBuilder)
		for i := range of {
			if i < ids {
				id++
				text.Append(strconv.Itoa(id))
			} else {
				text.Append("GET")
			}
		}
		text.AppendNull()
		rec := b.NewRecordBatch()
		defer rec.Release()
		require.NoError(t, f.write(rec, 1<<30))
		return f.group.dicts[0]
	}
	require.Len(t, write(100, 1600).values, 101, "in its first write all is new")
	require.Len(t, write(100, 1600).values, 201, "a sixteenth is not many")
	require.Len(t, write(0, 1600).indices, 1600)
	require.Equal(t, dictionary{off: true}, *write(101, 1600))
	require.Equal(t, dictionary{off: true}, *write(0, 1600))
	meta, _, err := f.close()
	require.NoError(t, err)
	chunk, err := meta.RowGroup(0).ColumnChunk(0)
	require.NoError(t, err)
	require.True(t, chunk.HasDictionaryPage())
	require.EqualValues(t, 5*1601, meta.NumRows)
	readBack(t, m)
}
