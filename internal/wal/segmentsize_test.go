package wal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// E13: a log does not open with a segment size that a reader may not take.
func TestOpen_refuses_segments_that_no_reader_takes_E13(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Options{FS: simfs.New(nil), Dir: "/wal", SegmentMaxBytes: MaxSegmentBytes + 1})
	require.EqualError(t, err, "open wal /wal: segment.max_bytes is 536870913; no reader takes a segment over 536870912")
}
