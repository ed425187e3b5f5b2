package crashtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// sim is one simulation: a volume, a store and a catalog that outlive the processes which use them, and clients who
// remember what they were told. Two processes, with the parts of the product inside: the writer has the log and
// its mirror, the drain has the drain and the mirror's retention. Between any two operations of disk, store and catalog
// a process may die.
type sim struct {
	plan  simPlan
	plant simBug
	s     *sched

	mu     sync.Mutex
	disk   *simfs.FS // the volume that is there now
	store  *storetest.Store
	tables *catalog
	procs  map[string]*proc
	owed   bool // a recovery from the mirror, after the loss of a volume
	calm   bool // no fault and no death any more
	armed  *death
	at     int        // operation before which it comes
	rng    *rand.Rand // of faults; used by one step at a time
	faults []episode
	trace  []string
	kept   int // lines of it
	wrong  violations
	names  map[string]string // of segments, in order of their appearance

	rests atomic.Int64    // until then there is no writer, in Unix ns
	away  bool            // a table could not be asked for who knows how long
	late  map[string]bool // segments that come, or come again, when the rows may be gone that prove them committed, by id

	rots   []rot
	saved  *catalog        // a backup
	rotten map[string]bool // segments of which a copy has rotted, by id
	told   map[string]bool // of them those that a person was told of by name

	met     map[string]map[string]bool // events of docs/lifecycle.md: whose they were
	unknown []string                   // operations of no event

	k       atomic.Int64
	struck  chan death
	landing sync.WaitGroup // what is on its way to the store or the catalog
	ledger  ledger
}

// The random sources of a simulation.
const (
	simTurns uint64 = iota + 100
	simSteps
	simDisk
	simDirector
	simClients // and more
)

func (p simPlan) source(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, purpose)) }

// simulateSeed runs one seed and returns what was broken, with the last operations.
func simulateSeed(t *testing.T, plan simPlan, plant simBug, kept int) *sim {
	t.Helper()
	w := &sim{
		kept: kept, plan: plan, plant: plant, store: &storetest.Store{}, tables: newCatalog(), procs: map[string]*proc{},
		rng: plan.source(simSteps), faults: slices.Clone(plan.faults), rots: slices.Clone(plan.rots),
		rotten: map[string]bool{}, late: map[string]bool{}, told: map[string]bool{}, names: map[string]string{}, met: map[string]map[string]bool{},
	}
	simulate(t, plan.source(simTurns), nil, func(s *sched) {
		pace := plan.source(simDisk)
		s.pace = func() time.Duration { return time.Duration(pace.Int64N(int64(plan.pace))) }
		s.favored = plan.favored
		w.s, w.struck = s, make(chan death, 1)
		w.store.Clock = time.Now
		w.disk = simfs.New(nil)
		w.disk.NoLog()
		w.live()
	})
	for i, text := range w.wrong {
		w.wrong[i] = w.short(text)
	}
	slices.Sort(w.wrong)
	return w
}

// report is what a person needs: the seed and what happened last.
func (w *sim) report() string {
	if len(w.wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("seed %d\n%s\n  the last operations:\n    %s\n  SIGLAKE_SEED=%d go test ./internal/crashtest -run 'TestSimulation$'",
		w.plan.seed, strings.Join(w.wrong, "\n"), strings.Join(w.trace, "\n    "), w.plan.seed)
}

// everydaySeeds are run by everybody, shortSeeds under the race detector.
const (
	everydaySeeds = 200
	shortSeeds    = 25

	lastOperations = 100 // are printed with a failure
)

// Writer, mirror, drain and retention live side by side on a simulated disk, before a simulated store and catalog.
// One seed decides what clients ask for, in which order everything happens, what fails and who dies; then all start
// again without faults, and every row is accounted for. SIGLAKE_SEEDS=10000 runs as many, SIGLAKE_SEED=7 that one.
func TestSimulation(t *testing.T) {
	t.Parallel()
	first, count := uint64(1), everydaySeeds
	if testing.Short() {
		count = shortSeeds
	}
	if n := number(t, "SIGLAKE_SEEDS"); n > 0 {
		count = int(n)
	}
	kept := lastOperations
	if n := number(t, "SIGLAKE_SEED"); n > 0 {
		first, count, kept = n, 1, 1<<20
	}
	var next, failed atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		t.Run("seeds", func(t *testing.T) {
			t.Parallel()
			for {
				n := next.Add(1) - 1
				if int(n) >= count || failed.Load() > 4 {
					return
				}
				w := simulateSeed(t, planOf(first+uint64(n)), simBug{}, kept)
				if count == 1 {
					t.Log(strings.Join(w.trace, "\n"))
				}
				if text := w.report(); text != "" {
					failed.Add(1)
					t.Error(text)
				}
			}
		})
	}
}

func number(t *testing.T, env string) uint64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, env)
	return n
}

// boundedSeeds are enough to find each planted bug.
const boundedSeeds = 400

// The simulation can fail: each planted bug breaks its promise within a bounded number of seeds, and its seed breaks it
// again.
func TestSimulation_planted(t *testing.T) {
	if testing.Short() {
		t.Skip("that the simulation can fail is not the race detector's to show")
	}
	t.Parallel()
	for _, name := range names(simBugs) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bug := simBugs[name]
			for seed := uint64(1); seed <= boundedSeeds; seed++ {
				if bug.needs != nil && !bug.needs(planOf(seed)) {
					continue
				}
				w := simulateSeed(t, planOf(seed), bug, lastOperations)
				if found := w.wrong.of(bug.breaks); len(found) > 0 {
					t.Logf("seed %d: %s", seed, found[0])
					again := simulateSeed(t, planOf(seed), bug, lastOperations)
					require.Equal(t, w.wrong, again.wrong)
					require.Equal(t, w.trace, again.trace)
					return
				}
			}
			require.Failf(t, "not found", "%d seeds keep %s", boundedSeeds, bug.breaks)
		})
	}
}
