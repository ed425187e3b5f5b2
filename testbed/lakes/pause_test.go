package lakes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

// catalogIn puts the catalog into a database and the rows where they are by default.
func catalogIn(catalog, more string) string {
	return fmt.Sprintf("\nextensions: {lakecompactor: {catalog: %q%s}}\n", catalog, more)
}

// The database stops to answer and keeps its connections, for so long that the drain gives calls up. The collector goes on
// acknowledging and does not end; when the database goes on, the same process drains, and every row is in the table once.
func TestPausedDatabase_R37(t *testing.T) {
	t.Parallel()
	pg, err := services.StartPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	h := collector.New(t, traffic.Busy, catalogIn(pg.URL(pg.Database), ""))
	h.Catalog = pg.URL(pg.Database)
	p := h.Start()
	load := traffic.Plan(p, "paused", "wait_for", 20)
	load.Rate = 500
	tr := traffic.Start(t, load)
	tr.Acked(t, 1_000)
	require.NoError(t, pg.Pause())
	t.Cleanup(func() { require.NoError(t, pg.Resume()) }) // or it would not heed its end
	for range 2 {
		from := strings.Count(p.Output(), "drain is in trouble")
		require.Eventually(t, func() bool { return strings.Count(p.Output(), "drain is in trouble") > from }, 4*time.Minute, 100*time.Millisecond,
			"a call that is not answered is given up")
		tr.Acked(t, 1_000)
	}
	require.NoError(t, pg.Resume())
	tr.Acked(t, 1_000)
	tr.End(t)
	traffic.Drained(t, h, p)
	select {
	case <-p.Done():
		require.Fail(t, "the collector has ended", p.Tail(20))
	default:
	}
	h.Stop()
	traffic.Judge(t, h, tr.Book)
}
