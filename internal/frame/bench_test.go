package frame

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// benchSchema has the columns of a log segment: 13 plain ones, attributes, and the two run-end-encoded groups.
func benchSchema() *arrow.Schema {
	str := arrow.BinaryTypes.String
	attributes := arrow.ListOfNonNullable(arrow.StructOf(
		arrow.Field{Name: "key", Type: str},
		arrow.Field{Name: "value", Type: str},
		arrow.Field{Name: "kind", Type: arrow.PrimitiveTypes.Uint8},
	))
	group := arrow.StructOf(
		arrow.Field{Name: "name", Type: str, Nullable: true},
		arrow.Field{Name: "version", Type: str},
		arrow.Field{Name: "attributes", Type: attributes},
		arrow.Field{Name: "dropped_attributes_count", Type: arrow.PrimitiveTypes.Uint32},
		arrow.Field{Name: "schema_url", Type: str},
	)
	ree := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, group)
	i64 := arrow.PrimitiveTypes.Int64
	return arrow.NewSchema([]arrow.Field{
		{Name: "timestamp_ns", Type: i64},
		{Name: "time_unix_nano", Type: i64},
		{Name: "observed_time_unix_nano", Type: i64},
		{Name: "trace_id", Type: &arrow.FixedSizeBinaryType{ByteWidth: 16}},
		{Name: "span_id", Type: &arrow.FixedSizeBinaryType{ByteWidth: 8}},
		{Name: "trace_flags", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "severity_number", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "severity_text", Type: str},
		{Name: "event_name", Type: str},
		{Name: "body", Type: str, Nullable: true},
		{Name: "body_kind", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "attributes", Type: attributes},
		{Name: "dropped_attributes_count", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "resource", Type: ree},
		{Name: "scope", Type: ree},
	}, nil)
}

// benchBatch builds rows records of about 500 bytes in one resource and one scope.
func benchBatch(rows int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, benchSchema())
	defer b.Release()
	body := strings.Repeat("a log line of usual words ", 8)
	text := func(i int, s string) { b.Field(i).(*array.StringBuilder).Append(s) }
	for i := range rows {
		for f := range 3 {
			b.Field(f).(*array.Int64Builder).Append(int64(1_700_000_000_000_000_000 + i))
		}
		b.Field(3).(*array.FixedSizeBinaryBuilder).Append(fmt.Appendf(nil, "%016d", i))
		b.Field(4).(*array.FixedSizeBinaryBuilder).Append(fmt.Appendf(nil, "%08d", i))
		b.Field(5).(*array.Uint32Builder).Append(1)
		b.Field(6).(*array.Int32Builder).Append(9)
		text(7, "INFO")
		text(8, "")
		text(9, body)
		b.Field(10).(*array.Uint8Builder).Append(0)
		benchAttributes(b.Field(11).(*array.ListBuilder), i, 5)
		b.Field(12).(*array.Uint32Builder).Append(0)
		for _, f := range []int{13, 14} {
			run := b.Field(f).(*array.RunEndEncodedBuilder)
			if i > 0 {
				run.ContinueRun(1)
				continue
			}
			run.Append(1)
			v := run.ValueBuilder().(*array.StructBuilder)
			v.Append(true)
			v.FieldBuilder(0).(*array.StringBuilder).Append("checkout")
			v.FieldBuilder(1).(*array.StringBuilder).Append("1.2.3")
			benchAttributes(v.FieldBuilder(2).(*array.ListBuilder), i, 6)
			v.FieldBuilder(3).(*array.Uint32Builder).Append(0)
			v.FieldBuilder(4).(*array.StringBuilder).Append("")
		}
	}
	return b.NewRecordBatch()
}

func benchAttributes(b *array.ListBuilder, i, n int) {
	b.Append(true)
	v := b.ValueBuilder().(*array.StructBuilder)
	for j := range n {
		v.Append(true)
		v.FieldBuilder(0).(*array.StringBuilder).Append(fmt.Sprintf("http.request.key%d", j))
		v.FieldBuilder(1).(*array.StringBuilder).Append(fmt.Sprintf("value-%d-%d", i, j))
		v.FieldBuilder(2).(*array.Uint8Builder).Append(0)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, rows := range []int{10, 100, 500} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			rec := benchBatch(rows)
			enc, err := NewEncoder(rec.Schema())
			require.NoError(b, err)
			buf, err := enc.Append(nil, rec)
			require.NoError(b, err)
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = enc.Append(buf[:0], rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchFile(b *testing.B, batches int) []byte {
	b.Helper()
	rec := benchBatch(100)
	body, err := EncodeSchema(rec.Schema())
	require.NoError(b, err)
	enc, err := NewEncoder(rec.Schema())
	require.NoError(b, err)
	for range batches {
		body, err = enc.Append(body, rec)
		require.NoError(b, err)
	}
	head := Header{Partial: true}.Encode()
	return append(head[:], body...)
}

func BenchmarkDecode(b *testing.B) {
	file := benchFile(b, 41)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		s, err := Decode(bytes.NewReader(file), int64(len(file)), DecodeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		s.Release()
	}
}

func BenchmarkInspect(b *testing.B) {
	file := benchFile(b, 41)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Inspect(bytes.NewReader(file), int64(len(file)), DecodeOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	file := benchFile(b, 41)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Count(bytes.NewReader(file), int64(len(file)), DecodeOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarkSynced(b *testing.B) {
	rec := benchBatch(100)
	enc, err := NewEncoder(rec.Schema())
	require.NoError(b, err)
	msg, err := enc.Append(nil, rec)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if err := MarkSynced(msg, 12345); err != nil {
			b.Fatal(err)
		}
	}
}
