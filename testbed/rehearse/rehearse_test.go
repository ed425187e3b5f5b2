package rehearse

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/drill"
	"github.com/siglakecol/siglakecol/testbed/internal/measure"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

const (
	// sealed is how long a segment of the shipped configuration stays open: wal::segment::max_age.
	sealed = 2 * time.Second
	// busy is what docs/operations/disaster-recovery.md allows a busy machine for the seal and the copy beyond that.
	busy = 10 * time.Second
)

// size is how long a rehearsal takes.
type size struct {
	calm, away time.Duration
	rate       float64 // rows per second under wait_for; a quarter of it under mirrored
}

func sizeOf() size {
	if testenv.Soak() {
		return size{calm: 20 * time.Second, away: 30 * time.Second, rate: 2000}
	}
	return size{calm: 2 * time.Second, away: 2 * time.Second, rate: 1000}
}

// F8, F6: a rehearsal for operators. Two loads, one under wait_for and one under mirrored; the store goes away and comes back; the
// volume is lost at a random moment; wal-recover, first dry, then real; the drain. Nothing that was acknowledged under
// mirrored is lost; under wait_for nothing but what the page about disaster recovery says; nothing is there twice.
func TestRehearse(t *testing.T) {
	sz := sizeOf()
	s := newScene(t)
	waitFor := traffic.Plan(s.p, "w", "wait_for", 50)
	waitFor.Rate = sz.rate
	mirrored := traffic.Plan(s.p, "m", "mirrored", 25)
	mirrored.Signal, mirrored.Rate, mirrored.Timeout = "traces", sz.rate/4, time.Minute
	books := []*account{
		{mode: "wait_for", table: traffic.Table, connections: waitFor.Connections, tr: traffic.Start(t, waitFor)},
		{mode: "mirrored", table: traffic.SpansTable, connections: mirrored.Connections, tr: traffic.Start(t, mirrored)},
	}
	w, m := books[0].tr, books[1].tr
	m.Acked(t, 500)
	time.Sleep(sz.calm)

	r := &report{machine: machine(t), accounts: books}
	s.storeAway(t, w, sz.away, r)
	m.Acked(t, 500)
	time.Sleep(sz.calm/2 + rand.N(sz.calm))
	s.catalogAway(t, books, r)

	// What the documentation tells an operator to look at: it says what would be lost now.
	scraped := time.Now()
	pending, err := measure.Sum(t.Context(), s.p.Metrics, func(name string) bool { return name == "siglake_wal_mirror_oldest_pending_age_seconds" })
	require.NoError(t, err)
	l := s.lose(t, w, m)
	r.bound = sealed + time.Duration(pending*float64(time.Second)) + l.at.Sub(scraped) + busy
	require.NoError(t, s.pg.Start())
	for _, b := range books {
		b.atLoss(t, s, l)
		require.Positive(t, b.toRecover, "%s: the tables have all that the mirror has: nothing is rehearsed", b.mode)
	}
	r.note("wal-recover --dry-run", drill.Recover(t, s.Harness, s.s3, "--dry-run"))
	require.NoDirExists(t, s.WAL())
	r.note("wal-recover", drill.Recover(t, s.Harness, s.s3))
	require.Contains(t, drill.Recover(t, s.Harness, s.s3), "0 segments, 0 rows, 0 B restored", "a second time there is nothing to do")
	s.restart(l)
	w.Acked(t, 1000)
	m.Acked(t, 500)
	for _, b := range books {
		b.tr.End(t)
	}
	traffic.Drained(t, s.Harness, s.p)
	s.Stop()
	require.Zero(t, drill.Pins(t, s.Harness))
	for _, b := range books {
		b.atEnd(t, s, l)
	}
	r.print(t)
	require.NoError(t, r.err(), "a promise is broken")
	require.NotContains(t, s.Logs(), s.s3.SecretKey)
}

// storeAway stops the store for a while. Rows go on being acknowledged under wait_for, and all that waited is copied afterwards.
func (s *scene) storeAway(t *testing.T, w *traffic.Traffic, away time.Duration, r *report) {
	t.Helper()
	require.NoError(t, s.s3.Kill())
	before, begin := w.Book.Acked(), time.Now()
	time.Sleep(away)
	w.Acked(t, 1000)
	waiting := s.pinned(t)
	r.away, r.awayAcked, r.awayWaiting = time.Since(begin), w.Book.Acked()-before, len(waiting)
	require.NotEmpty(t, waiting, "what is not copied is pinned")
	require.NoError(t, s.s3.Start())
	require.Eventually(t, func() bool {
		now := s.pinned(t)
		for name := range waiting {
			if now[name] {
				return false
			}
		}
		return true
	}, 5*time.Minute, 50*time.Millisecond, "the store is back: what waited must be copied; %s", s.p.Tail(10))
}

// catalogAway stops the catalog, and so the drain, until the mirror has rows of each load that no table can have. Otherwise it is
// left to chance whether there is something to recover: all that was copied may be committed.
func (s *scene) catalogAway(t *testing.T, books []*account, r *report) {
	t.Helper()
	require.NoError(t, s.pg.Stop())
	begin := time.Now()
	for _, b := range books {
		book, before := b.tr.Book, len(b.tr.Book.Acks())
		require.Eventually(t, func() bool {
			copied, n := s.copies(t, book.Shape.Run), 0
			for _, ack := range book.Acks()[before:] {
				for number := range book.Shape.Numbers(ack.Request) {
					if copied[number] {
						n++
					}
				}
			}
			return n > b.connections*book.Shape.Batch // of so many the requests may have been under way when the catalog went
		}, 5*time.Minute, 500*time.Millisecond, "%s: rows must be copied while the catalog is away; %s", b.mode, s.p.Tail(10))
	}
	r.catalogAway = time.Since(begin)
}

// pinned are the segments that wait to be copied.
func (s *scene) pinned(t *testing.T) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.WAL(), "*", "*", "mirror-pending", "*"))
	require.NoError(t, err)
	out := map[string]bool{}
	for _, p := range paths {
		out[filepath.Base(p)] = true
	}
	return out
}

// note keeps what a command printed, for the report; the paths of this run mean nothing to its reader.
func (r *report) note(what, printed string) {
	r.printed = append(r.printed, what+":\n"+strings.TrimRight(strings.ReplaceAll(printed, os.TempDir(), "…"), "\n"))
}
