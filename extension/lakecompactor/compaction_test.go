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

// The running extension merges the small files of a table, also of one that no row is on its way to, unless it is told
// not to.
func TestCompaction(t *testing.T) {
	t.Parallel()
	for _, maintenance := range []string{"auto", "off"} {
		t.Run(maintenance, func(t *testing.T) {
			t.Parallel()
			cfg := dirs(t)
			cfg.Maintenance = maintenance
			_, err := segment.Create(vfs.OS(), cfg.WALDirectory)
			require.NoError(t, err)
			l, err := lake.Open(t.Context(), cfg.place())
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Close()) }()
			tbl, _, err := l.Ensure(t.Context(), "acme", "events", otelarrow.Logs)
			require.NoError(t, err)
			for i := range 9 {
				b, err := otelarrow.EncodeLogs(testdata.GenerateLogs(3), time.Now(), memory.DefaultAllocator)
				require.NoError(t, err)
				_, err = tbl.Commit(t.Context(), []lake.Segment{{ID: fmt.Sprint("segment ", i), Rows: 3, Batches: []arrow.RecordBatch{b.Record}}})
				require.NoError(t, err)
			}
			ext := newExtension(t, cfg)
			require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
			files := func() int {
				p, err := l.Plan(t.Context(), "tenant_acme", "events")
				require.NoError(t, err)
				require.Equal(t, int64(27), p.Table.Rows)
				return len(p.Files)
			}
			if maintenance == "auto" {
				require.Eventually(t, func() bool { return files() == 1 }, timeout, 50*time.Millisecond)
			} else {
				time.Sleep(time.Second) // a first round would come at once
				require.Equal(t, 9, files())
			}
			require.NoError(t, ext.Shutdown(t.Context()))
		})
	}
}
