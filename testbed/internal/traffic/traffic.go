// Package traffic is a load in the background of a test that does something to the collector, and the oracle ACCOUNTED
// over what became of it: every acknowledged row is in the table exactly once, every other row at most once.
package traffic

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

// Where the rows of a load arrive.
const (
	Table      = "siglake.events" // of a Plan
	SpansTable = "siglake.spans"  // of one of traces
)

// Busy makes every state change happen several times a second, so that few lives are needed to hit each.
const Busy = `
exporters: {siglake: {wal: {segment: {max_events: 512, max_age: 300ms}}}}
extensions: {lakecompactor: {gate: {age: 100ms}}}
`

// Plan is a load of logs over 8 connections that waits for a collector that is away.
func Plan(p *collector.Process, run, mode string, batch int) load.Plan {
	return load.Plan{
		Endpoint:    load.Endpoint{Protocol: "grpc", Address: p.GRPC, Mode: mode},
		Shape:       load.Shape{Signal: "logs", Batch: batch, Run: run, Resources: 2},
		Connections: 8, Patient: true, Timeout: 20 * time.Second,
	}
}

// Traffic is a load that runs until End.
type Traffic struct {
	Book *load.Book

	res  load.Result
	err  error
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Start begins a load. It is stopped at the end of the test at the latest.
func Start(t testing.TB, p load.Plan) *Traffic {
	t.Helper()
	tr := &Traffic{Book: &load.Book{Shape: p.Shape}}
	p.Book = tr.Book
	ctx, cancel := context.WithCancel(t.Context())
	tr.stop = cancel
	t.Cleanup(cancel)
	tr.wg.Go(func() { tr.res, tr.err = load.Run(ctx, p) })
	return tr
}

// Wait waits for the end that the plan sets, and End makes one. Every request then has its answer.
func (tr *Traffic) Wait(t testing.TB) load.Result {
	t.Helper()
	tr.wg.Wait()
	require.NoError(t, tr.err)
	return tr.res
}

// End stops the load and waits for every answer.
func (tr *Traffic) End(t testing.TB) load.Result {
	t.Helper()
	tr.stop()
	return tr.Wait(t)
}

// Settle waits until every request that was under way is noted as acknowledged or failed.
func (tr *Traffic) Settle(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return tr.Book.Outstanding() == 0 }, 30*time.Second, 5*time.Millisecond, "requests must end when the collector dies")
}

// Acked waits until so many more records are acknowledged.
func (tr *Traffic) Acked(t testing.TB, more int) {
	t.Helper()
	from := tr.Book.Acked()
	require.Eventually(t, func() bool { return tr.Book.Acked() >= from+more }, time.Minute, 5*time.Millisecond, "%d records must be acknowledged", more)
}

// Count reads how often each record number of a run is in the table, and checks the manifests against the files.
func Count(t testing.TB, h *collector.Harness, run string) map[uint64]int {
	t.Helper()
	return CountIn(t, h, Table, run)
}

// CountIn is Count of any table.
func CountIn(t testing.TB, h *collector.Harness, table, run string) map[uint64]int {
	t.Helper()
	found := map[uint64]int{}
	read(t, h, table, "WHERE starts_with(attributes['"+load.IDKey+"'], '"+run+"-')", func(id string) error {
		n, ok := load.ParseID(run, id)
		if !ok {
			return fmt.Errorf("row with id %q was never sent", id)
		}
		found[n]++
		return nil
	})
	return found
}

// CountAll reads how often each id is in the table, whatever run it is of.
func CountAll(t testing.TB, h *collector.Harness) map[string]int {
	t.Helper()
	found := map[string]int{}
	read(t, h, Table, "", func(id string) error {
		found[id]++
		return nil
	})
	return found
}

func read(t testing.TB, h *collector.Harness, table, where string, each func(id string) error) {
	t.Helper()
	place := tables.Place{Catalog: h.Catalog, S3Root: h.S3Root}
	if place.Catalog == "" {
		place.Catalog = filepath.Join(h.Data, "catalog.db")
	}
	reader, err := tables.OpenAt(place)
	require.NoError(t, err)
	err = reader.Query(t.Context(), table, "SELECT attributes['"+load.IDKey+"'] FROM t "+where, func(row []any) error {
		id, _ := row[0].(string)
		return each(id)
	})
	require.NoError(t, err)
	summary, err := reader.Verify(t.Context(), table)
	require.NoError(t, err)
	require.Empty(t, summary.Wrong, "the manifests must say what the files hold")
	require.NoError(t, reader.Close())
}

// Drained waits until nothing is left between the writer and the table.
func Drained(t testing.TB, h *collector.Harness, p *collector.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, waldir.WaitDrained(ctx, h.WAL()), "last lines:\n%s", p.Tail(20))
}

// Judge holds the oracle: nothing acknowledged is missing, nothing is there twice.
func Judge(t testing.TB, h *collector.Harness, book *load.Book) {
	t.Helper()
	v := book.Judge(Count(t, h, book.Shape.Run))
	t.Log(v)
	require.NoError(t, v.Err())
	require.Positive(t, v.Acked)
}
