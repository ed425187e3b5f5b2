package frame

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

func readSchema(file []byte, opt DecodeOptions) (*arrow.Schema, error) {
	return ReadSchema(bytes.NewReader(file), int64(len(file)), opt)
}

// Every format that Decode reads: the same schema, without our own metadata.
func TestReadSchema(t *testing.T) {
	t.Parallel()
	for _, fx := range fixtures() {
		file, err := os.ReadFile(filepath.Join("testdata", fx.name))
		require.NoError(t, err)
		seg, err := decode(file, DecodeOptions{})
		require.NoError(t, err, fx.name)
		got, err := readSchema(file, DecodeOptions{})
		require.NoError(t, err, fx.name)
		require.Equal(t, seg.Schema.String(), got.String(), fx.name)
		seg.Release()
	}
}

// A flipped bit never makes another signal: it is found, or what says the signal is as it was, or gone with the checksum
// beside it (which shows in the first batch only). Behind the schema nothing is looked at. What has no schema is an error.
func TestReadSchema_damage(t *testing.T) {
	t.Parallel()
	file, ends := partialFile(t, threeBatches()...)
	want, err := readSchema(file, DecodeOptions{})
	require.NoError(t, err)
	refused := 0
	for at := range ends[0] {
		for bit := range 8 {
			bad := bytes.Clone(file)
			bad[at] ^= 1 << bit
			got, err := readSchema(bad, DecodeOptions{})
			if err != nil {
				refused++
				continue
			}
			md := got.Metadata()
			if signal, ok := md.GetValue("siglake.signal"); ok {
				require.Equal(t, "logs", signal, "byte %d, bit %d", at, bit)
			}
		}
	}
	require.Greater(t, refused, 8*(ends[0]-HeaderSize)/2)
	got, err := readSchema(append(bytes.Clone(file[:ends[0]]), "rot"...), DecodeOptions{})
	require.NoError(t, err)
	require.Equal(t, want.String(), got.String())
	for n := range ends[0] {
		_, err := readSchema(file[:n], DecodeOptions{Open: true})
		require.Error(t, err, "%d bytes", n)
	}
}
