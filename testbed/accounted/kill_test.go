package accounted

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sizes are the numbers of a run: everyday ones, or with SIGLAKE_SOAK the full ones. SIGLAKE_N overrides the records.
type sizes struct {
	records, kills int
	rate           float64
	limit          time.Duration
}

func sizesOf(t *testing.T) sizes {
	t.Helper()
	s := sizes{records: 20_000, kills: 10, rate: 1_500, limit: 3 * time.Minute}
	if testenv.Soak() {
		s = sizes{records: 200_000, kills: 10, rate: 6_000, limit: 15 * time.Minute}
	}
	s.records = testenv.Int(t, "SIGLAKE_N", s.records)
	s.kills = testenv.Int(t, "SIGLAKE_KILLS", s.kills)
	return s
}

// death is one line of the report.
type death struct {
	aim, event string
	classes    []string
	took       time.Duration
}

// TestKillNineAnywhereLosesAndDoublesNothing kills the collector until each moment of the way of a row was hit.
func TestKillNineAnywhereLosesAndDoublesNothing(t *testing.T) {
	for _, mode := range []string{"wait_for", "auto"} {
		t.Run(mode, func(t *testing.T) {
			s := sizesOf(t)
			if mode == "auto" && !testenv.Soak() {
				s.kills, s.records = 3, s.records/4 // the moments are the same: wait_for has hunted them
			}
			k := newKiller(t, s, mode)
			k.rampage(mode == "wait_for")
			k.finish()
		})
	}
}

type killer struct {
	*collector.Harness
	t      *testing.T
	s      sizes
	p      *collector.Process
	load   *traffic.Traffic
	reader *tables.Reader
	run    string
	rng    *rand.Rand
	deaths []death
	hits   map[string]int
	tries  map[string]int
	seed   uint64
}

func newKiller(t *testing.T, s sizes, mode string) *killer {
	t.Helper()
	k := &killer{Harness: collector.New(t, traffic.Busy), t: t, s: s, run: "k" + mode, hits: map[string]int{}, tries: map[string]int{}}
	k.seed = uint64(testenv.Int(t, "SIGLAKE_SEED", int(time.Now().UnixNano()&0xffffff)|1))
	t.Logf("SIGLAKE_SEED=%d", k.seed)
	k.rng = rand.New(rand.NewPCG(k.seed, 1))
	k.p = k.Start()
	pl := traffic.Plan(k.p, k.run, mode, 20)
	pl.Rate = s.rate
	k.load = traffic.Start(t, pl)
	// The first commit makes the folders that the hunts watch.
	require.Eventually(t, func() bool {
		entries, err := waldir.List(k.WAL())
		return err == nil && waldir.Count(entries)["committed"] > 0
	}, 50*time.Second, 20*time.Millisecond, "the first segment must be committed")
	return k
}

// rampage kills until the wanted number of kills is reached and, if all is set, every required class was hit.
func (k *killer) rampage(all bool) {
	k.t.Helper()
	deadline := time.Now().Add(k.s.limit)
	for n := 0; ; n++ {
		missing := k.missing()
		if len(k.deaths) >= k.s.kills && (!all || len(missing) == 0) {
			break
		}
		require.True(k.t, time.Now().Before(deadline), "not hit within %s: %v\n%s", k.s.limit, missing, k.report())
		k.killOnce(k.next(missing))
	}
	k.t.Logf("kills by class:\n%s", k.report())
}

func (k *killer) missing() []string {
	var out []string
	for _, c := range required {
		if k.hits[c] == 0 {
			out = append(out, c)
		}
	}
	return out
}

// next aims at a class that lacks a hit, the one tried least first; when none lacks one, at any. Every fourth life is
// given no rest.
func (k *killer) next(missing []string) target {
	unrested := len(k.deaths)%4 == 3
	pool := slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
		return t.unrested != unrested || !unrested && len(missing) > 0 && !slices.Contains(missing, t.class)
	})
	k.rng.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	if len(missing) == 0 {
		return pool[0]
	}
	return slices.MinFunc(pool, func(a, b target) int { return k.tries[a.class] - k.tries[b.class] })
}

// killOnce arms a hunt on the running life, or on the next one from its first moment, and writes down what was hit.
func (k *killer) killOnce(aim target) {
	k.t.Helper()
	k.tries[aim.class]++
	known := k.liveFiles()
	h, err := newHunt(k.p.PID(), k.Data, aim)
	require.NoError(k.t, err)
	d := death{aim: aim.class}
	begin := time.Now()
	if !aim.unrested {
		// Let it work for a moment that differs from life to life.
		k.pause(time.Duration(20+k.rng.IntN(400)) * time.Millisecond)
	}
	h.arm()
	select {
	case <-k.p.Done():
	case <-time.After(4 * time.Second):
		k.p.Kill() // what it was armed for did not come by
	}
	d.took, d.event = time.Since(begin), h.event()
	require.NoError(k.t, h.watch.Close())
	k.load.Settle(k.t)
	d.classes = k.examine(known)
	for _, c := range d.classes {
		k.hits[c]++
	}
	k.deaths = append(k.deaths, d)
	k.revive()
}

// revive starts the next life. One life in four is killed again before it is healthy.
func (k *killer) revive() {
	k.t.Helper()
	if len(k.deaths)%4 == 3 {
		k.p = k.Launch()
		return
	}
	k.p = k.Start()
}

func (k *killer) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-k.t.Context().Done():
	}
}

// liveFiles are the data files on disk now.
func (k *killer) liveFiles() map[string]bool {
	files, err := dataFiles(k.Data)
	require.NoError(k.t, err)
	out := map[string]bool{}
	for _, p := range files {
		out[p] = true
	}
	return out
}

func (k *killer) examine(known map[string]bool) []string {
	k.t.Helper()
	b, err := autopsy(k.Data, k.run)
	require.NoError(k.t, err)
	acked, _ := k.load.Book.Requests()
	isAcked := map[uint64]bool{}
	for _, n := range acked {
		isAcked[n] = true
	}
	inTable, live := map[string]bool{}, map[string]bool{}
	if len(b.claimed()) > 0 { // only then does the table matter
		inTable, live = k.lookUp(b.claimed())
	}
	return b.classify(func(n uint64) bool { return isAcked[n/uint64(k.load.Book.Shape.Batch)] },
		func(id string) bool { return inTable[id] }, live, known)
}

// lookUp reads which of the segments have rows in the table, and the table's live files.
func (k *killer) lookUp(segments []waldir.Entry) (inTable, live map[string]bool) {
	k.t.Helper()
	if k.reader == nil {
		var err error
		k.reader, err = tables.Open(k.Data)
		require.NoError(k.t, err)
		k.t.Cleanup(func() { require.NoError(k.t, k.reader.Close()) })
	}
	var ids []string
	for _, e := range segments {
		ids = append(ids, "'"+e.ID()+"'")
	}
	inTable, live = map[string]bool{}, map[string]bool{}
	err := k.reader.Query(k.t.Context(), traffic.Table, "SELECT DISTINCT segment_id FROM t WHERE segment_id IN ("+strings.Join(ids, ",")+")", func(row []any) error {
		inTable[row[0].(string)] = true
		return nil
	})
	require.NoError(k.t, err)
	summary, err := k.reader.Summarise(k.t.Context(), traffic.Table)
	require.NoError(k.t, err)
	for _, f := range summary.Files {
		live[strings.TrimPrefix(f.Path, "file://")] = true
	}
	return inTable, live
}

func (k *killer) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| hit | kills |\n| --- | --- |\n")
	for _, c := range slices.Sorted(maps.Keys(k.hits)) {
		fmt.Fprintf(&b, "| %s | %d |\n", c, k.hits[c])
	}
	fmt.Fprintf(&b, "%d kills:\n", len(k.deaths))
	for i, d := range k.deaths {
		fmt.Fprintf(&b, "%2d aimed at %q, shot at %q after %s: %s\n", i+1, d.aim, d.event, d.took.Round(time.Millisecond), strings.Join(d.classes, " + "))
	}
	return b.String()
}

// finish sends what is left, stops the traffic, waits for the drain and counts.
func (k *killer) finish() {
	k.t.Helper()
	require.Eventually(k.t, func() bool { return k.load.Book.Acked() >= k.s.records }, 5*time.Minute, 50*time.Millisecond, "the collector must take the rest")
	k.load.End(k.t)
	traffic.Drained(k.t, k.Harness, k.p)
	k.Stop()
	traffic.Judge(k.t, k.Harness, k.load.Book)
	entries, err := waldir.List(k.WAL())
	require.NoError(k.t, err)
	n := waldir.Count(entries)
	delete(n, "committed")
	require.Empty(k.t, n, "nothing may be left in the log (ONE-1, BND-1)")
}
