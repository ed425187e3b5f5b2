package lakecompactor

import (
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/testdata"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// The running extension keeps as many snapshots of a table as it is told, also of one that no row is on its way to.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	cfg := dirs(t)
	cfg.Snapshots = SnapshotsConfig{RetainLast: 2, Interval: time.Second}
	_, err := segment.Create(vfs.OS(), cfg.WALDirectory)
	require.NoError(t, err)
	l, err := lake.Open(t.Context(), cfg.place())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	tbl, _, err := l.Ensure(t.Context(), "acme", "events", otelarrow.Logs)
	require.NoError(t, err)
	for i := range 5 {
		b, err := otelarrow.EncodeLogs(testdata.GenerateLogs(3), time.Now(), memory.DefaultAllocator)
		require.NoError(t, err)
		_, err = tbl.Commit(t.Context(), []lake.Segment{{ID: fmt.Sprint("segment ", i), Rows: 3, Batches: []arrow.RecordBatch{b.Record}}})
		require.NoError(t, err)
	}
	ext := newExtension(t, cfg)
	require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
	require.Eventually(t, func() bool {
		p, err := l.Describe(t.Context(), "tenant_acme", "events")
		require.NoError(t, err)
		require.Equal(t, int64(15), p.Table.Rows)
		return p.Table.Snapshots == 2
	}, timeout, 50*time.Millisecond)
	require.NoError(t, ext.Shutdown(t.Context()))
}
