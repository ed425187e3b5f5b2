package lakecompactor

import (
	"hash/crc32"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/testdata"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// The running extension deletes days that are over, and a committed segment of which the table has no more than that was leaves.
func TestRetention_table(t *testing.T) {
	t.Parallel()
	cfg := dirs(t)
	cfg.Retention.WAL, cfg.Retention.Table = time.Nanosecond, 24*time.Hour
	root, err := segment.Create(vfs.OS(), cfg.WALDirectory)
	require.NoError(t, err)
	lane, err := root.Lane("default", "events")
	require.NoError(t, err)
	require.NoError(t, lane.Prepare())
	b, err := otelarrow.EncodeLogs(testdata.GenerateLogs(3), time.Now(), memory.DefaultAllocator) // of 2020
	require.NoError(t, err)
	body, err := frame.EncodeSchema(b.Record.Schema())
	require.NoError(t, err)
	enc, err := frame.NewEncoder(b.Record.Schema())
	require.NoError(t, err)
	body, err = enc.Append(body, b.Record)
	require.NoError(t, err)
	body = append(body, frame.EOS()...)
	head := frame.Header{BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body)}.Encode()
	namer, made := segment.NewNamer([6]byte{1}), time.Now().Add(-72*time.Hour)
	require.NoError(t, vfs.WriteFile(vfs.OS(), lane.Path(segment.Committed, namer.Next(made).FileName()), append(head[:], body...)))

	l, err := lake.Open(t.Context(), cfg.place())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	tbl, _, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
	require.NoError(t, err)
	_, err = tbl.Commit(t.Context(), []lake.Segment{{ID: namer.Next(made).String(), Rows: 3, Batches: []arrow.RecordBatch{b.Record}}})
	require.NoError(t, err)
	ext := newExtension(t, cfg)
	require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
	require.Eventually(t, func() bool {
		p, err := l.Describe(t.Context(), "siglake", "events")
		require.NoError(t, err)
		left, _, err := lane.List(segment.Committed)
		require.NoError(t, err)
		return p.Table.Rows == 0 && len(left) == 0
	}, timeout, 50*time.Millisecond)
	require.NoError(t, ext.Shutdown(t.Context()))
}
