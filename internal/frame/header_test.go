package frame

import (
	"encoding/hex"
	"hash/crc32"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The header is a promise to other implementations, so its bytes stand here literally.
func TestHeader(t *testing.T) {
	t.Parallel()
	h := Header{
		Version: 2, Partial: true, MinTime: 1_700_000_000_000_000_000, MaxTime: -1,
		BodyLen: 0x0102030405060708, CRC: 0xCBF43926, Table: testTable,
	}
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		b := h.Encode()
		want := "4c57414c" + "02" + "02" + "XXXX" + "00002a36fe9c9717" + "ffffffffffffffff" + "0807060504030201" + "2639f4cb" +
			"0192f0c17a2b7c3d8e4f5a6b7c8d9e0f"
		got := hex.EncodeToString(b[:])
		require.Equal(t, want, got[:12]+"XXXX"+got[16:])
		zeroed := b
		zeroed[6], zeroed[7] = 0, 0
		sum := crc32.Checksum(zeroed[:], crc32.MakeTable(crc32.Castagnoli))
		require.Equal(t, []byte{byte(sum), byte(sum >> 8)}, b[6:8])
	})
	t.Run("parse_gives_back_what_was_encoded", func(t *testing.T) {
		t.Parallel()
		b := h.Encode()
		got, err := ParseHeader(append(b[:], "body"...))
		require.NoError(t, err)
		require.Equal(t, h, got)
	})
	t.Run("v1_is_the_first_36_bytes_and_has_no_table", func(t *testing.T) {
		t.Parallel()
		b := h.Encode()
		b[4] = 1
		got, err := ParseHeader(b[:36])
		require.NoError(t, err)
		want := h
		want.Version, want.Table = 1, [16]byte{}
		require.Equal(t, want, got)
		require.Equal(t, int64(36), got.Size())
	})
	t.Run("reopened_keeps_version_size_and_table", func(t *testing.T) {
		t.Parallel()
		for version, table := range map[uint8]uuid.UUID{1: uuid.Nil, 2: testTable} {
			was := Header{Version: version, Zstd: true, MinTime: 1, MaxTime: 2, BodyLen: 3, CRC: 4, Table: table}
			b := was.Reopened()
			require.Len(t, b, int(was.Size()))
			got, err := ParseHeader(b)
			require.NoError(t, err)
			require.Equal(t, Header{Version: version, Partial: true, Table: table}, got)
		}
	})
}

func TestHeader_lies(t *testing.T) {
	t.Parallel()
	good := Header{MinTime: 5, MaxTime: 9, BodyLen: 64, CRC: 7, Table: testTable}.Encode()
	tests := []struct {
		name string
		edit func(b []byte) []byte
		want error
	}{
		{"empty", func([]byte) []byte { return nil }, ErrNotFramed},
		{"three_bytes_of_magic", func(b []byte) []byte { return b[:3] }, ErrNotFramed},
		{"an_arrow_stream", func([]byte) []byte { return EOS() }, ErrNotFramed},
		{"magic_alone", func(b []byte) []byte { return b[:4] }, ErrLength},
		{"cut", func(b []byte) []byte { return b[:51] }, ErrLength},
		{"version_0", func(b []byte) []byte { b[4] = 0; return b }, ErrVersion},
		{"version_3", func(b []byte) []byte { b[4] = 3; return b }, ErrVersion},
		{"version_3_cut", func(b []byte) []byte { b[4] = 3; return b[:5] }, ErrVersion},
		{"v1_cut", func(b []byte) []byte { b[4] = 1; return b[:35] }, ErrLength},
		{"check_off", func(b []byte) []byte { b[6] ^= 1; return b }, ErrHeaderCheck},
		{"partial_flag_flipped", func(b []byte) []byte { b[5] ^= flagPartial; return b }, ErrHeaderCheck},
		{"check_absent", func(b []byte) []byte { b[6], b[7] = 0, 0; return b }, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := good
			_, err := ParseHeader(tc.edit(b[:]))
			require.ErrorIs(t, err, tc.want)
		})
	}
	t.Run("every_flipped_bit_is_seen", func(t *testing.T) {
		t.Parallel()
		for i := range HeaderSize * 8 {
			b := good
			b[i/8] ^= 1 << (i % 8)
			_, err := ParseHeader(b[:])
			require.Error(t, err, "bit %d", i)
		}
	})
}
