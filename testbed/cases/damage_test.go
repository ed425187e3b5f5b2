package cases

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

const (
	// draining keeps what is committed, so that nothing of it is removed while the test looks.
	draining = soon + "extensions: {lakecompactor: {gate: {age: 100ms}, retention: {wal: 1h}}}\n"
	// sealing and holding are the exporter alone: segments that are sealed at once, or not at all.
	sealing = "exporters: {siglake: {wal: {segment: {max_age: 100ms}}}}\nservice: {extensions: [ingestparams, walmirror, healthcheckv2]}\n"
	holding = "exporters: {siglake: {wal: {segment: {max_age: 1h}}}}\nservice: {extensions: [ingestparams, walmirror, healthcheckv2]}\n"

	perLane = 40 // records of one round
)

// lanes are the signals and where they go.
var lanes = map[string]string{"logs": "default/events", "traces": "default/spans", "metrics": "default/metrics"}

// send sends one round of every signal and waits for a collector that is not up yet.
func send(t *testing.T, p *collector.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), collector.StartTimeout)
	defer cancel()
	for signal := range lanes {
		res, err := load.Run(ctx, load.Plan{
			Endpoint: load.Endpoint{Protocol: "grpc", Address: p.GRPC, Mode: "wait_for"},
			Shape:    load.Shape{Signal: signal, Batch: perLane / 4, Run: "a10", Resources: 2},
			Records:  perLane, Patient: true,
		})
		require.NoError(t, err)
		require.Equal(t, perLane, res.Records, "%s; last lines:\n%s", signal, p.Tail(20))
	}
}

// everyKind makes a data directory with each kind of file that a write-ahead log has, and three rounds of rows, and moves
// it out of the collector's way.
func everyKind(t *testing.T, h *collector.Harness) (template string) {
	t.Helper()
	h.Overlay = []string{draining}
	p := h.Start()
	send(t, p)
	drained(t, h, p)
	h.Stop()
	h.Overlay = []string{sealing}
	send(t, h.Start())
	h.Stop()
	h.Overlay = []string{holding}
	p = h.Start()
	send(t, p)
	p.Kill()
	entries, err := waldir.List(h.WAL())
	require.NoError(t, err)
	for _, state := range []string{"active", "sealed", "committed"} {
		require.GreaterOrEqual(t, len(waldir.In(entries, state)), len(lanes), state)
	}
	template = filepath.Join(h.Dir, "template")
	require.NoError(t, os.Rename(h.Data, template))
	return template
}

// damaged is one file to damage, below the log.
type damaged struct {
	path string
	kind string // the name of a small file, or the state of a segment
	lane string // "" of what belongs to the root
}

func filesOf(t *testing.T, wal string) []damaged {
	t.Helper()
	var out []damaged
	err := filepath.WalkDir(wal, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(wal, path)
		require.NoError(t, err)
		f := damaged{path: rel, kind: filepath.Base(rel)}
		parts := strings.Split(rel, "/")
		if len(parts) > 2 {
			f.lane = parts[0] + "/" + parts[1]
		}
		if len(parts) > 3 {
			f.kind = parts[2]
		}
		out = append(out, f)
		return nil
	})
	require.NoError(t, err)
	return out
}

// overwrite puts up to 4 KiB of noise into a file, not beyond its end unless it is empty, and returns what is in it then.
func overwrite(t *testing.T, path string, rng *rand.Rand) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	if len(b) == 0 {
		b = make([]byte, 4096)
	}
	at := rng.IntN(len(b))
	for i := at; i < min(at+4096, len(b)); i++ {
		b[i] = byte(rng.Uint32())
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return b
}

// A10: 4 KiB of noise in any one file of the log, 200 times in a full run, one file of each kind otherwise. The collector
// starts and takes rows, the other lanes lose none and are drained, and the damaged file is there afterwards: where it
// was, or set aside. What its lane lacks is told with the file's name. LOUD-1.
func TestA10_one_damaged_file(t *testing.T) {
	h := collector.New(t)
	template := everyKind(t, h)
	files := filesOf(t, filepath.Join(template, "wal"))
	rng := rand.New(rand.NewPCG(10, uint64(testenv.Int(t, "SIGLAKE_SEED", 1))))
	rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	runs := testenv.Int(t, "SIGLAKE_RUNS", 200)
	if !testenv.Soak() {
		seen := map[string]bool{}
		var one []damaged
		for _, f := range files {
			if !seen[f.kind] {
				one = append(one, f)
			}
			seen[f.kind] = true
		}
		files, runs = one, len(one)
	}
	for i := range runs {
		f := files[i%len(files)]
		t.Run(fmt.Sprintf("%d_%s", i, f.kind), func(t *testing.T) { withDamage(t, h, template, f, rng) })
	}
}

func withDamage(t *testing.T, h *collector.Harness, template string, f damaged, rng *rand.Rand) {
	t.Helper()
	require.NoError(t, os.RemoveAll(h.Data))
	require.NoError(t, os.CopyFS(h.Data, os.DirFS(template)))
	noise := overwrite(t, filepath.Join(h.WAL(), f.path), rng)
	h.Overlay = []string{draining}
	p := h.Launch()
	send(t, p)
	left := func() map[string]int {
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		n := map[string]int{}
		for _, e := range entries {
			switch e.State {
			case "active", "sealed", "processing", "orphans":
				n[e.Lane]++
			}
		}
		return n
	}
	told := func() bool { return strings.Contains(p.Output(), filepath.Base(f.path)) }
	require.Eventually(t, func() bool {
		n := left()
		if told() { // its lane may wait for somebody
			delete(n, f.lane)
		}
		return len(n) == 0
	}, 2*time.Minute, 50*time.Millisecond, "%s: left %v; last lines:\n%s", f.path, left(), p.Tail(20))
	h.Stop()
	requireRows(t, h, f, told())
	requireKept(t, h, f, noise)
}

// requireRows holds the tables against what was sent: three rounds and one.
func requireRows(t *testing.T, h *collector.Harness, f damaged, told bool) {
	t.Helper()
	reader, err := tables.Open(h.Data)
	require.NoError(t, err)
	for _, lane := range lanes {
		summary, err := reader.Verify(t.Context(), "siglake."+filepath.Base(lane))
		require.NoError(t, err)
		require.Empty(t, summary.Wrong)
		if lane == f.lane && told {
			require.LessOrEqual(t, summary.Count(), 4*perLane, "%s: %s", f.path, lane)
			continue
		}
		require.Equal(t, 4*perLane, summary.Count(), "%s: %s", f.path, lane)
	}
	require.NoError(t, reader.Close())
}

// requireKept looks for the damaged file: a segment under its id in any state, else the noise in the folder.
func requireKept(t *testing.T, h *collector.Harness, f damaged, noise []byte) {
	t.Helper()
	if strings.HasSuffix(f.kind, "LOCK") || strings.HasSuffix(f.kind, "drain.lock") {
		return // the text of a lock is its holder's
	}
	if id, _, is := strings.Cut(filepath.Base(f.path), ".arrow"); is {
		entries, err := waldir.List(h.WAL())
		require.NoError(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name, id+".arrow") {
				return
			}
		}
		require.Fail(t, "deleted", f.path)
	}
	found, err := filepath.Glob(filepath.Join(h.WAL(), f.path) + "*")
	require.NoError(t, err)
	for _, path := range found {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		if string(b) == string(noise) {
			return
		}
	}
	require.Fail(t, "deleted", "%s; there are %v", f.path, found)
}
