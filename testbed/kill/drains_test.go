package kill

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

// pair is two collectors on one volume, each with a drain, of which one works and the other one stands by.
type pair struct {
	hs [2]*collector.Harness
	ps [2]*collector.Process
}

// holder is the index of the collector whose drain works; -1 while none does.
func (d *pair) holder(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.hs[0].WAL(), "drain.lock"))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return slices.IndexFunc(d.ps[:], func(p *collector.Process) bool {
		return strings.Contains(string(text), fmt.Sprintf("pid %d,", p.PID()))
	})
}

// await waits until the drain of collector i works, and returns how long that took.
func (d *pair) await(t *testing.T, i int) time.Duration {
	t.Helper()
	from := time.Now()
	require.Eventually(t, func() bool { return d.holder(t) == i }, time.Minute, 5*time.Millisecond,
		"the drain of the other collector works; last lines:\n%s", d.ps[i].Tail(20))
	return time.Since(from)
}

// start brings collector i up again.
func (d *pair) start(i int) { d.ps[i] = d.hs[i].Start() }

// commit waits for the next metadata file of a table, which its catalog is told of at once, and then a moment, so that what
// follows falls about the end of a commit: before the catalog knows, before its answer, before the segments are marked.
func (d *pair) commit(t *testing.T, rng *rand.Rand) {
	t.Helper()
	written := make(chan struct{}, 1)
	watch, err := waldir.NewWatch(func(e waldir.Event) {
		if e.Created() && strings.HasSuffix(e.Name, ".metadata.json") {
			select {
			case written <- struct{}{}:
			default:
			}
		}
	})
	require.NoError(t, err)
	tables := filepath.Join(d.hs[0].Warehouse(), "*", "*", "metadata")
	require.Eventually(t, func() bool { found, err := filepath.Glob(tables); return err == nil && len(found) > 0 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, watch.AddAll(tables))
	select {
	case <-written:
	case <-time.After(time.Minute):
		t.Fatalf("nothing is committed; last lines:\n%s", d.ps[0].Tail(20))
	}
	require.NoError(t, watch.Close())
	time.Sleep(time.Duration(rng.IntN(8_000)) * time.Microsecond)
}

// TestKillTheDrainAndItsCatalog has two drains offered to one log. The one that works is killed while the other stands by,
// and PostgreSQL, their catalog, is killed and started again under them.
func TestKillTheDrainAndItsCatalog(t *testing.T) {
	rng := seeded(t)
	pg, err := services.StartPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	d := &pair{}
	for i := range d.hs {
		d.hs[i] = collector.New(t, traffic.Busy, fmt.Sprintf(
			"exporters: {siglake: {wal: {shared: true}}}\nextensions: {lakecompactor: {catalog: %q}}\n", pg.URL(pg.Database)))
		d.hs[i].Data, d.hs[i].Catalog = d.hs[0].Data, pg.URL(pg.Database)
		d.start(i)
	}
	loads := [2]*traffic.Traffic{}
	for i, p := range d.ps {
		plan := traffic.Plan(p, fmt.Sprintf("drain%d", i), "", 20)
		plan.Rate = 1_000
		loads[i] = traffic.Start(t, plan)
	}
	var took []time.Duration
	for round := range times(4, 40) {
		took = append(took, d.round(t, rng, pg, loads, round))
	}
	t.Logf("the standby worked %s after the death of the other one, in the worst of %d cases %s", took[0], len(took), slices.Max(took))
	for _, tr := range loads {
		tr.End(t)
	}
	traffic.Drained(t, d.hs[0], d.ps[0])
	for _, h := range d.hs {
		h.Stop()
	}
	for _, tr := range loads {
		traffic.Judge(t, d.hs[0], tr.Book)
	}
	entries, err := waldir.List(d.hs[0].WAL())
	require.NoError(t, err)
	n := waldir.Count(entries)
	delete(n, "committed")
	require.Empty(t, n, "nothing may be left in the log (ONE-1, BND-1)")
}

// round kills whoever drains; every other time the catalog dies before, and comes back after.
func (d *pair) round(t *testing.T, rng *rand.Rand, pg *services.Postgres, loads [2]*traffic.Traffic, round int) time.Duration {
	t.Helper()
	for _, tr := range loads {
		tr.Acked(t, 500+rng.IntN(1_000))
	}
	dies := d.holder(t)
	require.NotEqual(t, -1, dies)
	catalog := round%2 == 1
	d.commit(t, rng)
	if catalog {
		require.NoError(t, pg.Kill())
		loads[0].Acked(t, rng.IntN(1_000))
	}
	d.ps[dies].Kill()
	took := d.await(t, 1-dies)
	if catalog {
		require.NoError(t, pg.Start())
	}
	d.start(dies)
	return took
}
