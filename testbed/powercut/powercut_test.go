package powercut

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/volume"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	size      = 768 << 20
	batch     = 20
	inFlight  = 8 * batch // connections of traffic.Plan
	maxEvents = 512       // of traffic.Busy
	// unsealed is the most segments of a lane that docs/http-api.md says may not be synced: those that wait to be
	// sealed, and the spare, which has no row yet.
	unsealed = 64
)

// small lets the collector work on a volume that is smaller than what it keeps free by default.
const small = "exporters: {siglake: {wal: {min_free: 1048576}}}\n"

// TestPowerCut cuts a file system several times in one life of its data.
func TestPowerCut(t *testing.T) {
	cuts := 2
	if testenv.Soak() {
		cuts = 20
	}
	cuts = testenv.Int(t, "SIGLAKE_CUTS", cuts)
	seed := uint64(testenv.Int(t, "SIGLAKE_SEED", int(time.Now().UnixNano()&0xffffff)|1))
	t.Logf("SIGLAKE_SEED=%d", seed)
	for k, kind := range []string{"ext4", "xfs"} {
		for m, mode := range []string{"wait_for", "auto"} {
			t.Run(kind+"/"+mode, func(t *testing.T) {
				v := volume.Loop(t, kind, size)
				h := collector.New(t, traffic.Busy, small)
				h.Data = v.Dir
				c := &cutter{t: t, v: v, h: h, mode: mode, found: map[string]int{}, rng: rand.New(rand.NewPCG(seed, uint64(2*k+m)))}
				c.p = h.Start()
				for i := range cuts {
					c.cut(i)
				}
				c.again()
			})
		}
	}
}

type cutter struct {
	t    *testing.T
	v    *volume.Volume
	h    *collector.Harness
	p    *collector.Process
	mode string
	rng  *rand.Rand

	found    map[string]int // how often each id was in the table after its cut
	poisoned int            // in all
}

// cut sends rows, cuts the power at a moment that differs from cut to cut, and counts what came back.
func (c *cutter) cut(i int) {
	c.t.Helper()
	pl := traffic.Plan(c.p, fmt.Sprintf("cut%02d", i), c.mode, batch)
	pl.Rate = 4_000
	tr := traffic.Start(c.t, pl)
	tr.Acked(c.t, 1_000+c.rng.IntN(4_000))
	// Frozen, so that no sync is under way: where the kernel throws away the journal beneath one, it may call it done. (Of
	// 150 cuts under another program that appends and calls fdatasync 5 on ext4 and 3 on xfs took what a call that ended
	// well had written last; with no call under way none did. A real power cut sends no such answer.)
	require.NoError(c.t, c.p.Freeze(c.t.Context()))
	open := c.openRows(pl.Run)
	if c.mode == "auto" && i%2 == 1 || i%4 == 0 {
		c.writeBack()
	}
	c.v.Cut(c.t)
	// Under wait_for every other time the collector runs on: what does it answer afterwards?
	if c.mode == "wait_for" && i%2 == 1 {
		require.NoError(c.t, syscall.Kill(c.p.PID(), syscall.SIGCONT))
		// It must notice: an answer under wait_for needs a sync, and no sync succeeds any more.
		require.Eventually(c.t, func() bool { _, failed := tr.Book.Requests(); return len(failed) > 0 }, time.Minute, 5*time.Millisecond)
	}
	c.p.Kill()
	res := tr.End(c.t)
	c.v.Remount(c.t)
	c.p = c.h.Start()
	c.drained()
	c.judge(tr.Book, open, res)
}

// openRows are the rows in segments that are not sealed yet: all that auto may lose.
type openRows struct {
	segments int
	rows     map[uint64]bool
}

func (c *cutter) openRows(run string) openRows {
	c.t.Helper()
	entries, err := waldir.List(c.h.WAL())
	require.NoError(c.t, err)
	out := openRows{rows: map[uint64]bool{}}
	for _, e := range waldir.In(entries, "active") {
		data, err := os.ReadFile(e.Path)
		require.NoError(c.t, err)
		numbers := load.NumbersIn(run, data)
		require.Less(c.t, len(numbers), maxEvents+inFlight, "segment::max_events, and the requests that share the batch which carried it past")
		out.segments++
		for _, n := range numbers {
			out.rows[n] = true
		}
	}
	require.LessOrEqual(c.t, out.segments, unsealed+1)
	return out
}

// writeBack lets parts of the open segments reach the disk in an order of their own, as the kernel may do at any time:
// what is left of a segment then has holes.
func (c *cutter) writeBack() {
	c.t.Helper()
	entries, err := waldir.List(c.h.WAL())
	require.NoError(c.t, err)
	for _, e := range waldir.In(entries, "active") {
		f, err := os.Open(e.Path)
		require.NoError(c.t, err)
		const page = 4096
		for range 3 {
			from := c.rng.Int64N(e.Size/page+1) * page
			require.NoError(c.t, unix.SyncFileRange(int(f.Fd()), from, (1+c.rng.Int64N(8))*page, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER))
		}
		require.NoError(c.t, f.Close())
	}
	// The sync of another file commits the journal, and with it the sizes of those.
	f, err := os.Create(filepath.Join(c.v.Dir, "other"))
	require.NoError(c.t, err)
	require.NoError(c.t, f.Sync())
	require.NoError(c.t, f.Close())
}

// drained waits until nothing is left on the way to the table. What stands behind a hole is in poison/, with a note;
// under wait_for there is none.
func (c *cutter) drained() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	require.NoError(c.t, waldir.WaitEmpty(ctx, c.h.WAL()), "last lines:\n%s", c.p.Tail(20))
	entries, err := waldir.List(c.h.WAL())
	require.NoError(c.t, err)
	var segments, notes []string
	for _, e := range waldir.In(entries, "poison") {
		if name, is := strings.CutSuffix(e.Name, ".json"); is {
			notes = append(notes, name)
		} else {
			segments = append(segments, e.Name)
		}
	}
	require.ElementsMatch(c.t, segments, notes, "each has its note (LOUD-1)")
	require.Empty(c.t, waldir.In(entries, "stale"))
	if c.mode == "wait_for" {
		require.Empty(c.t, segments)
	}
	c.poisoned = len(segments)
}

func (c *cutter) judge(book *load.Book, open openRows, res load.Result) {
	c.t.Helper()
	found := traffic.Count(c.t, c.h, book.Shape.Run)
	v := book.Judge(found)
	c.t.Logf("%s: %s; unsealed: %d segments with %d rows; in poison: %d; errors: %v",
		book.Shape.Run, v, open.segments, len(open.rows), c.poisoned, res.Errors)
	for n, times := range found {
		c.found[book.Shape.ID(n)] = times
	}
	require.Positive(c.t, v.Acked)
	if c.mode == "wait_for" {
		require.NoError(c.t, v.Err())
		return
	}
	require.Zero(c.t, v.Doubled+v.TornRequests+v.Unknown, "%v", v.Err())
	acked, _ := book.Requests()
	for _, request := range acked {
		for n := request * batch; n < (request+1)*batch; n++ {
			require.True(c.t, found[n] == 1 || open.rows[n], "record %d was in a sealed segment and is lost", n)
		}
	}
}

// again counts the rows of all cuts once more: a later cut must not take what an earlier one has left.
func (c *cutter) again() {
	c.t.Helper()
	c.h.Stop()
	require.Equal(c.t, c.found, traffic.CountAll(c.t, c.h))
}
