package frame

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var testTable = uuid.MustParse("0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f")

// testSchema has every kind of column that a segment uses: plain ones, a map, a list of structs and a
// run-end-encoded struct with a map inside.
func testSchema() *arrow.Schema {
	attributes := arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String)
	resource := arrow.StructOf(
		arrow.Field{Name: "service_name", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "attributes", Type: attributes, Nullable: true},
		arrow.Field{Name: "dropped", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	)
	event := arrow.StructOf(
		arrow.Field{Name: "timestamp_ns", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	)
	md := arrow.NewMetadata([]string{"siglake.signal", "siglake.layout"}, []string{"logs", "1"})
	return arrow.NewSchema([]arrow.Field{
		{Name: "timestamp", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}},
		{Name: "timestamp_ns", Type: arrow.PrimitiveTypes.Int64},
		{Name: "severity", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "sampled", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "value", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "body", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "attributes", Type: attributes, Nullable: true},
		{Name: "events", Type: arrow.ListOf(event), Nullable: true},
		{Name: "resource", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, resource)},
	}, &md)
}

// testBatch builds rows records whose values follow from first, in runs of run rows of one resource.
func testBatch(first, rows, run int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, testSchema())
	defer b.Release()
	for i := first; i < first+rows; i++ {
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(1_700_000_000_000_000 + i))
		b.Field(1).(*array.Int64Builder).Append(int64(1_700_000_000_000_000_000 + 1000*i))
		if i%3 == 0 {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.Int32Builder).Append(int32(i))
		}
		b.Field(3).(*array.BooleanBuilder).Append(i%2 == 0)
		b.Field(4).(*array.Float64Builder).Append(float64(i) / 3)
		b.Field(5).(*array.StringBuilder).Append(fmt.Sprintf("record %d said something of a usual length about request %d", i, i*7))
		appendMap(b.Field(6).(*array.MapBuilder), i, i%4)
		events := b.Field(7).(*array.ListBuilder)
		events.Append(true)
		ev := events.ValueBuilder().(*array.StructBuilder)
		for j := range i % 3 {
			ev.Append(true)
			ev.FieldBuilder(0).(*array.Int64Builder).Append(int64(j))
			ev.FieldBuilder(1).(*array.StringBuilder).Append("event")
		}
		appendRun(b.Field(8).(*array.RunEndEncodedBuilder), i, (i-first)%run == 0)
	}
	return b.NewRecordBatch()
}

func appendMap(b *array.MapBuilder, i, n int) {
	if i%5 == 4 {
		b.AppendNull()
		return
	}
	b.Append(true)
	for j := range n {
		b.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprintf("key.%d", j))
		b.ItemBuilder().(*array.StringBuilder).Append(fmt.Sprintf("value %d of %d", j, i))
	}
}

func appendRun(b *array.RunEndEncodedBuilder, i int, starts bool) {
	if !starts {
		b.ContinueRun(1)
		return
	}
	b.Append(1)
	v := b.ValueBuilder().(*array.StructBuilder)
	v.Append(true)
	v.FieldBuilder(0).(*array.StringBuilder).Append(fmt.Sprintf("service-%d", i))
	appendMap(v.FieldBuilder(1).(*array.MapBuilder), i, 3)
	v.FieldBuilder(2).(*array.Int64Builder).Append(int64(i))
}

// bodyOf returns schema message, batches and, when sealed, the end of stream, and where each message ends.
func bodyOf(tb testing.TB, sealed bool, batches ...arrow.RecordBatch) (body []byte, ends []int) {
	tb.Helper()
	schema := testSchema()
	body, err := EncodeSchema(schema)
	require.NoError(tb, err)
	ends = append(ends, len(body))
	enc, err := NewEncoder(schema)
	require.NoError(tb, err)
	for _, rec := range batches {
		body, err = enc.Append(body, rec)
		require.NoError(tb, err)
		ends = append(ends, len(body))
	}
	if sealed {
		body = append(body, EOS()...)
	}
	return body, ends
}

// threeBatches are what most tests store: 3, 2 and 4 rows.
func threeBatches() []arrow.RecordBatch {
	return []arrow.RecordBatch{testBatch(0, 3, 2), testBatch(3, 2, 1), testBatch(5, 4, 4)}
}

func sealedFile(tb testing.TB, batches ...arrow.RecordBatch) []byte {
	tb.Helper()
	body, _ := bodyOf(tb, true, batches...)
	h := Header{MinTime: 1, MaxTime: 2, BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body), Table: testTable}
	head := h.Encode()
	return append(head[:], body...)
}

// partialFile returns an open segment and where each message ends in the file.
func partialFile(tb testing.TB, batches ...arrow.RecordBatch) (file []byte, ends []int) {
	tb.Helper()
	body, ends := bodyOf(tb, false, batches...)
	head := Header{Partial: true, Table: testTable}.Encode()
	for i := range ends {
		ends[i] += HeaderSize
	}
	return append(head[:], body...), ends
}

func decode(file []byte, opt DecodeOptions) (*Segment, error) {
	return Decode(bytes.NewReader(file), int64(len(file)), opt)
}

func requireBatches(tb testing.TB, want []arrow.RecordBatch, got *Segment) {
	tb.Helper()
	require.Len(tb, got.Batches, len(want))
	rows := int64(0)
	for i := range want {
		require.True(tb, array.RecordEqual(want[i], got.Batches[i]), "batch %d:\nwant %v\ngot  %v", i, want[i], got.Batches[i])
		rows += want[i].NumRows()
	}
	require.Equal(tb, rows, got.Rows)
}
