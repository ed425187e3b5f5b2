package rehearse

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/drill"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

// lossRate is the load in rows per second while volumes are lost.
const lossRate = 500

// intervals are the values of active_interval that are measured; SIGLAKE_INTERVALS names others.
func intervals(t *testing.T) []time.Duration {
	t.Helper()
	text := os.Getenv("SIGLAKE_INTERVALS")
	if text == "" {
		text = "1s"
		if testenv.Soak() {
			text = "0s 1s 2s 5s 10s 30s"
		}
	}
	var out []time.Duration
	for _, f := range strings.Fields(text) {
		d, err := time.ParseDuration(f)
		require.NoError(t, err, "SIGLAKE_INTERVALS")
		out = append(out, d)
	}
	return out
}

// sealedAfter is how long segments stay open beside an active_interval: as shipped without one. Otherwise longer than the
// interval, because a segment that is sealed before is copied then.
func sealedAfter(interval time.Duration) time.Duration {
	if interval == 0 {
		return sealed
	}
	return max(10*time.Second, 2*interval)
}

// target is what the losses of one active_interval cost.
type target struct {
	interval, maxAge time.Duration
	machine          string
	seconds          []float64 // before the loss was the oldest lost row acknowledged; 0: none was lost
	rows             []int
}

// The volume is lost again and again at random moments, SIGLAKE_LOSSES times for each active_interval. Each loss is what the
// documentation says or less, and the table says how much it was.
func TestLosses(t *testing.T) {
	losses := testenv.Int(t, "SIGLAKE_LOSSES", 1)
	var all []target
	for _, interval := range intervals(t) {
		t.Run(interval.String(), func(t *testing.T) { all = append(all, measureLosses(t, interval, losses)) })
	}
	out := t.Output()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "active_interval\tmax_age\tlosses\tlost s, median\tmax\tlost rows, median\tmax\twhen, at the end")
	for _, a := range all {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%.1f\t%.1f\t%d\t%d\t%s\n", a.interval, a.maxAge, len(a.rows),
			median(a.seconds), slices.Max(a.seconds), median(a.rows), slices.Max(a.rows), a.machine)
	}
	_ = w.Flush()
	_, _ = fmt.Fprintf(out, "%d rows/s of logs in requests of 50 under wait_for, one collector, S3 server on the same machine\n", lossRate)
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

func measureLosses(t *testing.T, interval time.Duration, losses int) target {
	maxAge := sealedAfter(interval)
	s := newScene(t, fmt.Sprintf("{exporters: {siglake: {wal: {segment: {max_age: %s, max_events: 1000000}}}}, extensions: {walmirror: {active_interval: %s}}}\n", maxAge, interval))
	within := max(5*time.Second, maxAge) // the random part of the wait
	if !testenv.Soak() {
		within = 2 * time.Second
	}
	plan := traffic.Plan(s.p, "l", "wait_for", 50)
	plan.Rate = lossRate
	tr := traffic.Start(t, plan)
	var lost []*loss
	for range losses {
		tr.Acked(t, lossRate)
		// What fell due while the collector was away comes at once. It has a copy before the next loss.
		time.Sleep(cmp.Or(interval, maxAge) + rand.N(within))
		l := s.lose(t, tr)
		l.mayGo = l.exposed(t, "l")
		require.NoError(t, os.RemoveAll(l.dir))
		drill.Recover(t, s.Harness, s.s3)
		s.restart(l)
		lost = append(lost, l)
	}
	tr.Acked(t, lossRate)
	tr.End(t)
	traffic.Drained(t, s.Harness, s.p)
	s.Stop()

	found := traffic.Count(t, s.Harness, "l")
	v := tr.Book.Judge(found)
	t.Log(v)
	require.Zero(t, v.Doubled+v.TornRequests+v.Unknown, v)
	out := target{interval: interval, maxAge: maxAge, machine: machine(t), seconds: make([]float64, losses), rows: make([]int, losses)}
	for _, ack := range tr.Book.Lost(found) {
		i := slices.IndexFunc(lost, func(l *loss) bool { return ack.At.Before(l.back) })
		require.GreaterOrEqual(t, i, 0, "lost, and acknowledged after the last loss: %v", ack)
		out.add(t, i, lost[i], ack, tr.Book.Shape, found)
	}
	t.Logf("seconds %.1f, rows %v", out.seconds, out.rows)
	return out
}

// add counts what a loss took of one request.
func (a *target) add(t *testing.T, i int, l *loss, ack load.Ack, shape load.Shape, found map[uint64]int) {
	t.Helper()
	for n := range shape.Numbers(ack.Request) {
		if found[n] > 0 {
			continue
		}
		a.rows[i]++
		if !l.mayGo[n] {
			t.Fatalf("%s is lost, and was neither in an open segment nor waiting to be copied", shape.ID(n))
		}
	}
	a.seconds[i] = max(a.seconds[i], l.at.Sub(ack.At).Seconds())
}
