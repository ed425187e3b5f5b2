package frame

import (
	"bytes"
	"hash/crc32"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
)

// LOUD-1. Every byte of a sealed segment is covered by a check.
func TestDecode_sealed_every_flipped_bit_is_refused_T11(t *testing.T) {
	t.Parallel()
	file := sealedFile(t, testBatch(0, 3, 2))
	for i := range file { // one bit of each byte; every bit takes 15 s
		bit := 8*i + i%8
		_, err := decode(flipped(file, bit), DecodeOptions{})
		require.Error(t, err, "bit %d", bit)
	}
}

// ACK-2, LOUD-1. A flipped bit in an open segment is refused, or ends the segment before it when it makes the
// last message look cut. No row comes out changed and no batch from the middle is missing.
func TestDecode_partial_every_flipped_bit_is_refused_or_ends_the_segment(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	clean, ends := partialFile(t, want...)
	mark(t, clean, ends[1], int64(ends[1]))
	mark(t, clean, ends[2], int64(ends[2]))
	dropped := 0
	for i := HeaderSize; i < len(clean); i++ { // one bit of each byte; every bit takes 15 s
		bit := 8*i + i%8
		s, err := decode(flipped(clean, bit), DecodeOptions{})
		if err != nil {
			continue
		}
		for i, b := range s.Batches {
			require.True(t, array.RecordEqual(want[i], b), "bit %d, batch %d", bit, i)
		}
		if len(s.Batches) < 3 {
			require.Len(t, s.Batches, 2, "bit %d", bit)
			require.GreaterOrEqual(t, bit, 8*ends[2], "bit %d", bit)
			require.Equal(t, int64(len(clean)-ends[2]), s.TailDropped)
			dropped++
		}
		s.Release()
	}
	require.NotZero(t, dropped)
}

// resum makes the checksums of a framed segment true again after a test has edited its messages.
func resum(file []byte) {
	base := HeaderSize
	for pos := base; pos+8 < len(file); {
		metaLen := int(le32(file[pos+4:]))
		if metaLen <= 0 || metaLen > len(file)-pos-8 {
			break
		}
		meta := file[pos+8 : pos+8+metaLen]
		m, err := parseMessage(meta)
		if err != nil || m.bodyLen > int64(len(file)-pos-8-metaLen) {
			break
		}
		next := pos + 8 + metaLen + int(m.bodyLen)
		if m.crcAt != 0 {
			putCRC(meta[m.crcAt:], crc32.Update(m.sum(meta), castagnoli(), file[pos+8+metaLen:next]))
		}
		pos = next
	}
	h, err := ParseHeader(file)
	if err != nil && h.Version == 0 {
		return
	}
	if !h.Partial {
		h.BodyLen, h.CRC = uint64(len(file)-base), crc32.ChecksumIEEE(file[base:])
	}
	b := h.Encode()
	copy(file, b[:])
}

func le32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func le64put(b []byte, v int64) {
	for i := range 8 {
		b[i] = byte(v >> (8 * i))
	}
}

// A message may lie although every checksum holds: somebody wrote it so. What it says must not send a reader
// out of its bytes, and must not make it allocate.
func TestDecode_lies_under_a_true_checksum(t *testing.T) {
	t.Parallel()
	rec := testBatch(0, 9, 3)
	clean := sealedFile(t, rec)
	schemaLen := 8 + int(le32(clean[HeaderSize+4:]))
	msgAt := HeaderSize + schemaLen
	enc, err := NewEncoder(testSchema())
	require.NoError(t, err)
	sh := enc.shape
	bodyAt := msgAt + len(sh.prefixed)
	// The buffers of testSchema in order: 0 timestamp, 2 timestamp_ns, 4 severity (validity 4, values 5), 6 sampled,
	// 8 value, 10 body (offsets 11, bytes 12), 13 attributes (offsets 14), …
	bufferAt := func(i int) int { return msgAt + sh.buffers + 16*i }
	offsetOf := func(i int) int { return bodyAt + int(le32(clean[bufferAt(i):])) }
	put := func(at int, v int64) func([]byte) { return func(b []byte) { le64put(b[at:], v) } }
	tests := []struct {
		name string
		edit func(b []byte)
		text string
	}{
		{"rows", put(msgAt+sh.rows, 10), "values in a batch of 10 rows"},
		{"rows_huge", put(msgAt+sh.rows, 1<<40), "rows in a body of"},
		{"rows_negative", put(msgAt+sh.rows, -1), "batch of -1 rows"},
		{"body_length_negative", put(msgAt+sh.bodyLen, -8), "body length -8"},
		{"body_length_huge", put(msgAt+sh.bodyLen, 1<<62), "body of 4611686018427387904 bytes"},
		{"node_length", put(msgAt+sh.nodes, 8), "8 values in a batch of 9 rows"},
		{"node_length_huge", put(msgAt+sh.nodes, 1<<50), "values with 0 nulls"},
		{"null_count", put(msgAt+sh.nodes+16*2+8, 1), "null count 1, bitmap says 3"},
		{"null_count_over_length", put(msgAt+sh.nodes+16*2+8, 10), "9 values with 10 nulls"},
		{"nulls_in_a_required_column", put(msgAt+sh.nodes+8, 9), "validity"},
		{"buffer_offset", put(bufferAt(1), 1<<40), "buffer 1 at 1099511627776"},
		{"buffer_offset_negative", put(bufferAt(1), -8), "buffer 1 at -8"},
		{"buffer_length", put(bufferAt(1)+8, 1<<40), "buffer 1 at 0+1099511627776"},
		{"buffer_too_short", put(bufferAt(1)+8, 71), "buffer of 71 bytes, needs 72"},
		{"string_offsets_fall", func(b []byte) { b[offsetOf(11)+4*3] = 0 }, "after"},
		{"string_offset_outside", func(b []byte) { b[offsetOf(11)+4*9+2] = 1 }, "needs"},
		{"string_offset_negative", func(b []byte) { b[offsetOf(11)+3] = 0x80 }, "after 0"},
		{"list_offset_outside", func(b []byte) { b[offsetOf(14)+4*9] = 0x7F }, "offset 127 in a child of"},
		{"run_ends_fall", func(b []byte) { b[offsetOf(runEnds(t, rec))+4] = 2 }, "run end 2 after 3"},
		{"run_ends_too_low", func(b []byte) { b[offsetOf(runEnds(t, rec))+8] = 8 }, "runs end at 8 of 9 rows"},
		{"run_end_zero", func(b []byte) { b[offsetOf(runEnds(t, rec))] = 0 }, "run end 0 after 0"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			file := bytes.Clone(clean)
			tc.edit(file)
			require.NotEqual(t, clean, file)
			resum(file)
			_, err := decode(file, DecodeOptions{})
			require.ErrorIs(t, err, ErrFraming)
			require.ErrorContains(t, err, tc.text)
		})
	}
}

// runEnds returns the index of the buffer that holds the run ends of the last column.
func runEnds(tb testing.TB, rec interface{ NumCols() int64 }) int {
	tb.Helper()
	b := testBatch(0, 9, 3)
	var p parts
	for i := range int(rec.NumCols()) - 1 {
		p.add(b.Column(i).Data(), 0, b.Column(i).Len())
	}
	return len(p.buffers) + 1 // behind an empty validity buffer
}

func TestDecode_limits_R36(t *testing.T) {
	t.Parallel()
	file := sealedFile(t, threeBatches()...)
	_, err := decode(file, DecodeOptions{MaxBody: int64(len(file) - HeaderSize - 1)})
	require.ErrorIs(t, err, ErrTooBig)
	s, err := decode(file, DecodeOptions{MaxBody: int64(len(file) - HeaderSize)})
	require.NoError(t, err)
	s.Release()
}

func TestDecode_header_only_and_zeros(t *testing.T) {
	t.Parallel()
	head := Header{Partial: true, Table: testTable}.Encode()
	for name, tc := range map[string]struct {
		file []byte
		opt  DecodeOptions
		want error
	}{
		"no_bytes":                   {nil, DecodeOptions{}, ErrEmpty},
		"no_bytes_open":              {nil, DecodeOptions{Open: true}, ErrEmpty},
		"header_only":                {head[:], DecodeOptions{}, ErrEmpty},
		"half_a_header_open":         {head[:26], DecodeOptions{Open: true}, ErrEmpty},
		"half_a_header":              {head[:26], DecodeOptions{}, ErrLength},
		"zero_header_open":           {make([]byte, 52), DecodeOptions{Open: true}, ErrEmpty},
		"zero_file_open":             {make([]byte, 5000), DecodeOptions{Open: true}, ErrNoBatch},
		"zero_file":                  {make([]byte, 5000), DecodeOptions{}, ErrFraming},
		"zero_body":                  {append(head[:], make([]byte, 100)...), DecodeOptions{}, ErrNoBatch},
		"newer_version_is_left_open": {append([]byte("LWAL\x03"), make([]byte, 100)...), DecodeOptions{Open: true}, ErrVersion},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(tc.file, tc.opt)
			require.ErrorIs(t, err, tc.want)
			_, err = Inspect(bytes.NewReader(tc.file), int64(len(tc.file)), tc.opt)
			require.ErrorIs(t, err, tc.want)
		})
	}
}
