package mirror

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// The golden file of format 1 is read and written, byte for byte; the one without a check is read.
func TestRecord_golden(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/mirror-retention.json")
	require.NoError(t, err)
	s, err := parseRecord(golden)
	require.NoError(t, err)
	for n := uint64(1); n < 10; n++ {
		at, known := s.of(segment.ID{Writer: [6]byte{1}, Seq: n})
		require.Equal(t, n != 5 && n != 9, known, n)
		require.Equal(t, known, at.Unix() == 1767323045)
	}
	_, known := s.of(segment.ID{Writer: [6]byte{2}, Seq: 1})
	require.False(t, known)
	root, err := segment.Create(simfs.New(nil), "/wal")
	require.NoError(t, err)
	require.NoError(t, s.write(root))
	b, err := vfs.ReadFile(root.FS(), recordName(root))
	require.NoError(t, err)
	require.Equal(t, string(golden), string(b))
	unchecked, err := os.ReadFile("testdata/mirror-retention-unchecked.json")
	require.NoError(t, err)
	before, err := parseRecord(unchecked)
	require.NoError(t, err)
	require.Equal(t, s, before)
	_, err = parseRecord(bytes.Replace(golden, []byte("2026"), []byte("2022"), 1))
	require.ErrorIs(t, err, segment.ErrRecord)
}
