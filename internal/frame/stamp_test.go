package frame

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A stamped segment names the table, reads as the same rows, and keeps its body and what else its header says.
func TestStamp(t *testing.T) {
	t.Parallel()
	other := uuid.MustParse("99999999-2222-4333-8444-555555555555")
	seal := sealedFile(t, threeBatches()...)
	v1 := append(append([]byte{}, seal[:headerSizeV1]...), seal[HeaderSize:]...)
	v1[offVersion], v1[offCheck], v1[offCheck+1] = 1, 0, 0
	for name, file := range map[string][]byte{"v2": seal, "v1": v1, "unframed": seal[HeaderSize:]} {
		was, err := Decode(bytes.NewReader(file), int64(len(file)), DecodeOptions{})
		require.NoError(t, err, name)
		got, err := Stamp(file, other)
		require.NoError(t, err, name)
		require.Equal(t, seal[HeaderSize:], got[HeaderSize:], name)
		is, err := Decode(bytes.NewReader(got), int64(len(got)), DecodeOptions{})
		require.NoError(t, err, name)
		require.Equal(t, was.Rows, is.Rows, name)
		require.Equal(t, other, is.Header.Table, name)
		if name != "unframed" {
			want := was.Header
			want.Version, want.Table = 2, other
			require.Equal(t, want, is.Header, name)
		}
		was.Release()
		is.Release()
	}
	bad := append([]byte{}, seal...)
	bad[offMinTime] ^= 1
	_, err := Stamp(bad, other)
	require.ErrorIs(t, err, ErrHeaderCheck, "what nobody vouches for is not vouched for anew")
	_, err = Stamp(append([]byte("LWAL\x09"), seal[5:]...), other)
	require.ErrorIs(t, err, ErrVersion)
}
