package crashtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sweptElsewhere are the events of docs/lifecycle.md that the simulation does not meet, or seldom: the test, by its package,
// that stops the machine at each of their operations.
var sweptElsewhere = map[string]string{
	"lease":            "internal/wal TestCrash_shared_sweep",
	"adopt":            "internal/wal TestCrash_shared_sweep",
	"hold":             "internal/segment TestSweep_Hold",
	"write refused":    "internal/wal TestCrash_while_renewing",
	"expire":           "internal/lake TestExpire_survives_a_stop_at_every_step",
	"compact":          "internal/lake TestCompact_survives_a_stop_at_every_step",
	"drop days":        "internal/lake TestRetention_survives_a_stop_at_every_step",
	"requeue":          "internal/drain TestSweep_requeue",
	"salvage":          "internal/drain TestSweep_requeue",
	"orphans delete":   "internal/drain TestSweep_orphans",
	"orphans requeue":  "internal/drain TestSweep_orphans",
	"discard":          "internal/drain TestSweep_orphans",
	"stale requeue":    "internal/drain TestSweep_stale",
	"other table":      "internal/drain TestSweep_bind_R38",
	"quarantine":       "internal/drain TestSweep_power_loss_A6",
	"give up a pin":    "internal/wal TestSweep_pins",
	"repair a catalog": "cmd/siglake TestCatalogRepair_kill_exact",
}

// event is a row of the table State × event.
type event struct{ name, who, operations string }

func lifecycleTable(t *testing.T) (events []event) {
	t.Helper()
	text, err := os.ReadFile("../../docs/lifecycle.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "## State × event")
	require.True(t, ok)
	rest, _, ok = strings.Cut(rest, "\n## ")
	require.True(t, ok)
	for line := range strings.SplitSeq(rest, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.HasPrefix(line, "|--") || strings.TrimSpace(cells[1]) == "event" {
			continue
		}
		events = append(events, event{strings.TrimSpace(cells[1]), cells[2], cells[3]})
	}
	return events
}

// The table of docs/lifecycle.md and what the code does are the same: each event of the table is met by the simulation or
// by a sweep that stops the machine in it, each operation that the simulation sees belongs to an event of the table, and
// who does it is who the table says.
func TestLifecycle_every_event_is_swept(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulation once more: the race detector has TestSimulation")
	}
	t.Parallel()
	met := map[string]map[string]bool{}
	for seed := uint64(1); seed <= 60; seed++ {
		w := simulateSeed(t, planOf(seed), simBug{}, lastOperations)
		require.Empty(t, w.unknown, "seed %d: no event of the table", seed)
		for name, by := range w.met {
			if met[name] == nil {
				met[name] = map[string]bool{}
			}
			for who := range by {
				met[name][who] = true
			}
		}
	}
	inTable := map[string]event{}
	for _, e := range lifecycleTable(t) {
		inTable[e.name] = e
		place, elsewhere := sweptElsewhere[e.name]
		switch {
		case strings.Contains(e.operations, "–"):
			require.Empty(t, met[e.name], "the table says of %q that it is not built", e.name)
		case elsewhere:
			dir, test, _ := strings.Cut(place, " ")
			require.True(t, isTest(t, filepath.Join("../..", dir), test), "%q: there is no test %s", e.name, place)
		default:
			require.NotEmpty(t, met[e.name], "the table names %q, and neither the simulation nor a sweep meets it", e.name)
		}
	}
	for name := range sweptElsewhere {
		require.Contains(t, inTable, name, "swept elsewhere, and not in the table")
	}
	for name, by := range met {
		e, ok := inTable[name]
		require.True(t, ok, "the simulation meets %q, which the table does not name", name)
		for who := range by {
			require.True(t, slices.ContainsFunc(wordsFor[who], func(word string) bool { return strings.Contains(e.who+e.operations, word) }),
				"%q is done by the %s, and the table says: %s", name, who, e.who)
		}
	}
}

// wordsFor are what the table calls the processes of the simulation.
var wordsFor = map[string][]string{
	theWriter:   {"writer", "exporter", "mirror", "whoever"},
	theDrain:    {"drain", "whoever"},
	theStandby:  {"drain", "whoever"},
	theOperator: {"siglake"},
}

// isTest tells whether a package has a test of that name.
func isTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		if regexp.MustCompile(`(?m)^func ` + name + `\(t \*testing\.T\)`).Match(b) {
			return true
		}
	}
	return false
}
