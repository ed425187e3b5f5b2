package frame

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// A sealed body is a plain Arrow stream: arrow-go's own reader, which knows nothing of our metadata, reads it.
func TestEncode_stream_is_readable_by_any_arrow_reader(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	body, _ := bodyOf(t, true, want...)
	r, err := ipc.NewReader(bytes.NewReader(body))
	require.NoError(t, err)
	defer r.Release()
	for i := range want {
		rec, err := r.Read()
		require.NoError(t, err)
		require.True(t, array.RecordEqual(want[i], rec), "batch %d: %v", i, rec)
	}
	_, err = r.Read()
	require.ErrorIs(t, err, io.EOF)
}

// ACK-2. Slices share buffers with the rows that were cut away, and none of those may come out.
func TestEncode_slices(t *testing.T) {
	t.Parallel()
	whole := testBatch(0, 40, 7)
	for _, run := range []int{1, 7, 40} {
		whole := testBatch(0, 40, run)
		for lo := range 41 {
			for _, hi := range []int{lo, min(lo+1, 40), min(lo+9, 40), 40} {
				part := whole.NewSlice(int64(lo), int64(hi))
				if part.NumRows() == 0 {
					continue
				}
				s, err := decode(sealedFile(t, part), DecodeOptions{})
				require.NoError(t, err, "rows %d to %d, runs of %d", lo, hi, run)
				requireBatches(t, []arrow.RecordBatch{part}, s)
				s.Release()
			}
		}
	}
	// A slice of a slice, of children that have offsets of their own.
	part := whole.NewSlice(3, 33).NewSlice(5, 17)
	s, err := decode(sealedFile(t, part), DecodeOptions{})
	require.NoError(t, err)
	defer s.Release()
	requireBatches(t, []arrow.RecordBatch{part}, s)
}

func TestEncode_no_rows(t *testing.T) {
	t.Parallel()
	empty := testBatch(0, 5, 2).NewSlice(2, 2)
	s, err := decode(sealedFile(t, empty, testBatch(0, 1, 1)), DecodeOptions{})
	require.NoError(t, err)
	defer s.Release()
	require.Equal(t, int64(1), s.Rows)
	require.Len(t, s.Batches, 2)
}

// Run-end-encoded structs hold what a request says once for all its rows.
func TestEncode_one_run_is_stored_once(t *testing.T) {
	t.Parallel()
	enc, err := NewEncoder(testSchema())
	require.NoError(t, err)
	big := testBatch(0, 200, 200)
	one, err := enc.Append(nil, big)
	require.NoError(t, err)
	many, err := enc.Append(nil, testBatch(0, 200, 1))
	require.NoError(t, err)
	require.Greater(t, len(many), len(one)+190*40)
	body, err := EncodeSchema(testSchema())
	require.NoError(t, err)
	s, err := decode(append(append(body, one...), EOS()...), DecodeOptions{})
	require.NoError(t, err)
	defer s.Release()
	ree, ok := s.Batches[0].Column(8).(*array.RunEndEncoded)
	require.True(t, ok)
	require.Equal(t, 200, ree.Len())
	require.Equal(t, 1, ree.Values().Len())
}

func TestEncode_all_types(t *testing.T) {
	t.Parallel()
	str := arrow.BinaryTypes.String
	types := []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Boolean,
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64, arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time64ns,
		arrow.FixedWidthTypes.Timestamp_ns, arrow.FixedWidthTypes.Duration_us, &arrow.FixedSizeBinaryType{ByteWidth: 16},
		arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, str, arrow.BinaryTypes.LargeString,
		arrow.ListOf(str), arrow.LargeListOf(str), arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64), arrow.MapOf(str, str),
		arrow.StructOf(arrow.Field{Name: "a", Type: str, Nullable: true}, arrow.Field{Name: "b", Type: arrow.ListOf(str), Nullable: true}),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, str), arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int64, arrow.MapOf(str, str)),
		arrow.ListOf(arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, str)),
	}
	for _, dt := range types {
		t.Run(dt.String(), func(t *testing.T) {
			t.Parallel()
			schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "c", Type: dt, Nullable: true}}, nil)
			b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			defer b.Release()
			for i := range 20 {
				b.Field(0).(*array.Int64Builder).Append(int64(i))
				switch i % 3 {
				case 0:
					b.Field(1).AppendNull()
				default:
					b.Field(1).AppendEmptyValue()
				}
			}
			rec := b.NewRecordBatch()
			for _, part := range []arrow.RecordBatch{rec, rec.NewSlice(3, 14)} {
				body, err := EncodeSchema(schema)
				require.NoError(t, err)
				enc, err := NewEncoder(schema)
				require.NoError(t, err)
				body, err = enc.Append(body, part)
				require.NoError(t, err)
				s, err := decode(append(body, EOS()...), DecodeOptions{})
				require.NoError(t, err)
				requireBatches(t, []arrow.RecordBatch{part}, s)
				s.Release()
			}
		})
	}
}

func TestEncode_refuses(t *testing.T) {
	t.Parallel()
	i64 := arrow.PrimitiveTypes.Int64
	unsupported := []arrow.DataType{
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String},
		arrow.BinaryTypes.StringView,
		arrow.Null,
		arrow.ListOf(&arrow.Decimal128Type{Precision: 10, Scale: 2}),
	}
	for _, dt := range unsupported {
		t.Run("type_"+dt.String(), func(t *testing.T) {
			t.Parallel()
			s := arrow.NewSchema([]arrow.Field{{Name: "c", Type: dt}}, nil)
			_, err := NewEncoder(s)
			require.ErrorContains(t, err, "not part of the format")
			_, err = EncodeSchema(s)
			require.ErrorContains(t, err, "not part of the format")
		})
	}
	t.Run("nulls_in_a_required_column", func(t *testing.T) {
		t.Parallel()
		s := arrow.NewSchema([]arrow.Field{{Name: "c", Type: i64}}, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, s)
		defer b.Release()
		b.Field(0).AppendNull()
		enc, err := NewEncoder(s)
		require.NoError(t, err)
		dst, err := enc.Append([]byte("kept"), b.NewRecordBatch())
		require.ErrorContains(t, err, "required column c")
		require.Equal(t, "kept", string(dst))
	})
	t.Run("another_schema", func(t *testing.T) {
		t.Parallel()
		enc, err := NewEncoder(arrow.NewSchema([]arrow.Field{{Name: "c", Type: i64}}, nil))
		require.NoError(t, err)
		_, err = enc.Append(nil, testBatch(0, 1, 1))
		require.ErrorContains(t, err, "schema differs")
	})
	t.Run("rows_without_bytes", func(t *testing.T) {
		t.Parallel()
		s := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64)}}, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, s)
		defer b.Release()
		run := b.Field(0).(*array.RunEndEncodedBuilder)
		run.Append(1 << 20)
		run.ValueBuilder().(*array.Int64Builder).Append(1)
		enc, err := NewEncoder(s)
		require.NoError(t, err)
		_, err = enc.Append(nil, b.NewRecordBatch())
		require.ErrorContains(t, err, "1048576 rows in a body of")
	})
}

// An encoder lives as long as its lane; what one batch left behind must not reach the next message.
func TestEncode_reuse_gives_the_same_bytes(t *testing.T) {
	t.Parallel()
	enc, err := NewEncoder(testSchema())
	require.NoError(t, err)
	want := make([][]byte, 3)
	for i, rec := range threeBatches() {
		fresh, err := NewEncoder(testSchema())
		require.NoError(t, err)
		want[i], err = fresh.Append(nil, rec)
		require.NoError(t, err)
	}
	for _, i := range []int{2, 0, 1, 0, 2} {
		got, err := enc.Append([]byte("before"), threeBatches()[i])
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("before%s", want[i]), string(got))
	}
}

// Requests are encoded on the path of every acknowledgement.
func TestEncode_allocates_nothing(t *testing.T) {
	rec := testBatch(0, 100, 10)
	enc, err := NewEncoder(rec.Schema())
	require.NoError(t, err)
	buf, err := enc.Append(nil, rec)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		buf, err = enc.Append(buf[:0], rec)
	}))
	require.NoError(t, err)
}
