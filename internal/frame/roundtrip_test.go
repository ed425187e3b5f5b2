package frame

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// FuzzRoundTrip holds that decode after encode gives back the batch, and encode after decode the bytes.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{}, uint8(0), uint8(0))
	f.Add([]byte("\x01hello\x00\x00\x07a\xff\xfe longer text with bytes that are no text \x80"), uint8(1), uint8(3))
	f.Add(bytes.Repeat([]byte{3, 250, 17, 0, 255, 1}, 100), uint8(5), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, skip, run uint8) {
		rec := batchOf(&script{data: data}, int(run%8)+1)
		defer rec.Release()
		if n := rec.NumRows(); int64(skip) < n { // a slice has offsets that must not show
			part := rec.NewSlice(int64(skip), n)
			defer part.Release()
			rec = part
		}
		body, _ := bodyOf(t, true, rec)
		s, err := decode(body, DecodeOptions{})
		require.NoError(t, err)
		defer s.Release()
		requireBatches(t, []arrow.RecordBatch{rec}, s)
		again, _ := bodyOf(t, true, s.Batches...)
		require.True(t, bytes.Equal(body, again), "%d bytes, encoded again %d", len(body), len(again))
	})
}

// script turns any bytes into choices; at its end every choice is 0.
type script struct{ data []byte }

func (s *script) next() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

func (s *script) text() string {
	n := min(int(s.next()), len(s.data))
	text := string(s.data[:n])
	s.data = s.data[n:]
	return text
}

// batchOf builds rows from a script until it is used up, at least one.
func batchOf(s *script, run int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, testSchema())
	defer b.Release()
	for i := 0; i == 0 || len(s.data) > 0; i++ {
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(s.next()))
		b.Field(1).(*array.Int64Builder).Append(int64(s.next()) << 40)
		if n := s.next(); n%2 == 0 {
			b.Field(2).AppendNull()
			b.Field(3).AppendNull()
		} else {
			b.Field(2).(*array.Int32Builder).Append(-int32(n))
			b.Field(3).(*array.BooleanBuilder).Append(n%4 == 1)
		}
		b.Field(4).(*array.Float64Builder).Append(float64(s.next()) / 7)
		b.Field(5).(*array.StringBuilder).Append(s.text())
		attributes(b.Field(6).(*array.MapBuilder), s)
		events(b.Field(7).(*array.ListBuilder), s)
		resource(b.Field(8).(*array.RunEndEncodedBuilder), s, i%run == 0)
	}
	return b.NewRecordBatch()
}

func attributes(b *array.MapBuilder, s *script) {
	n := s.next()
	if n%5 == 4 {
		b.AppendNull()
		return
	}
	b.Append(true)
	for range n % 5 {
		b.KeyBuilder().(*array.StringBuilder).Append(s.text())
		b.ItemBuilder().(*array.StringBuilder).Append(s.text())
	}
}

func events(b *array.ListBuilder, s *script) {
	n := s.next()
	if n%4 == 3 {
		b.AppendNull()
		return
	}
	b.Append(true)
	ev := b.ValueBuilder().(*array.StructBuilder)
	for range n % 4 {
		ev.Append(true)
		ev.FieldBuilder(0).(*array.Int64Builder).Append(int64(s.next()))
		if text := s.text(); text == "" {
			ev.FieldBuilder(1).AppendNull()
		} else {
			ev.FieldBuilder(1).(*array.StringBuilder).Append(text)
		}
	}
}

func resource(b *array.RunEndEncodedBuilder, s *script, starts bool) {
	if !starts {
		b.ContinueRun(1)
		return
	}
	b.Append(1)
	v := b.ValueBuilder().(*array.StructBuilder)
	v.Append(true)
	v.FieldBuilder(0).(*array.StringBuilder).Append(s.text())
	attributes(v.FieldBuilder(1).(*array.MapBuilder), s)
	v.FieldBuilder(2).AppendNull()
}
