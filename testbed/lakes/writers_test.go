package lakes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

// Three collectors, each with a log of its own, commit to one table several times a second and run into each other. Counted by
// a reader that shares no code with them, every acknowledged row is there once.
func TestManyWriters_D6(t *testing.T) {
	t.Parallel()
	pg, err := services.StartPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	overlay := catalogIn(pg.URL(pg.Database), fmt.Sprintf(", warehouse: %q", filepath.Join(t.TempDir(), "warehouse")))
	type writer struct {
		h  *collector.Harness
		p  *collector.Process
		tr *traffic.Traffic
	}
	var writers []writer
	for n := range 3 {
		h := collector.New(t, traffic.Busy, overlay, "extensions: {lakecompactor: {poll_interval: 100ms}}")
		h.Catalog = pg.URL(pg.Database)
		p := h.Start()
		load := traffic.Plan(p, fmt.Sprintf("writer%d", n), "wait_for", 20)
		load.Rate = 400
		writers = append(writers, writer{h, p, traffic.Start(t, load)})
	}
	for _, w := range writers {
		w.tr.Acked(t, 3_000)
	}
	met := func(w writer) bool {
		return strings.Contains(w.h.Logs(), "looking whether it landed, then trying again")
	}
	for from := time.Now(); !slices.ContainsFunc(writers, met); time.Sleep(100 * time.Millisecond) {
		require.Less(t, time.Since(from), 2*time.Minute, "they run into each other")
	}
	for _, w := range writers {
		w.tr.End(t)
		traffic.Drained(t, w.h, w.p)
		w.h.Stop()
	}
	for _, w := range writers {
		traffic.Judge(t, w.h, w.tr.Book)
	}
}
