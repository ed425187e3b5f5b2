package drain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

const gapLog = "gap in a writer's sequence numbers"

// gaps are the gaps logged so far, as first-last.
func (w *world) gaps() []string {
	w.t.Helper()
	out := []string{}
	for _, e := range w.logs.FilterMessageSnippet(gapLog).All() {
		require.Equal(w.t, zap.ErrorLevel, e.Level)
		f := e.ContextMap()
		require.Equal(w.t, "default/events", f["lane"])
		require.Equal(w.t, "010203040500", f["writer"])
		out = append(out, fmt.Sprint(f["first"], "-", f["last"]))
	}
	return out
}

// remove deletes a segment as an operator does, with rm.
func (w *world) remove(st segment.State, name string) {
	w.t.Helper()
	require.NoError(w.t, w.fs.Remove(w.lane("events").Path(st, name)))
	require.NoError(w.t, w.fs.SyncDir(w.lane("events").Dir(st)))
	id, _, err := segment.ParseName(filepath.Base(name))
	require.NoError(w.t, err)
	delete(w.want, id.String())
}

// A5: one segment of ten is deleted by hand. The other nine are drained, the gap is reported once: not again by the
// next pass, not after a restart, not when the segments around it are retired. LOUD-1, ORD-1.
func TestAudit_A5_a_deleted_segment_is_reported_once(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	var names []string
	for range 10 {
		names = append(names, w.seal(spec{}))
	}
	w.remove(segment.Sealed, names[4])
	r := w.once()
	require.Equal(t, int64(9), r.Segments)
	require.Equal(t, int64(1), r.Gaps)
	require.Equal(t, []string{"5-5"}, w.gaps())
	w.accounted()

	w.opt.Retain = time.Nanosecond
	r = w.once()
	require.Equal(t, int64(9), r.Retired)
	require.Zero(t, r.Gaps)
	w.seal(spec{})
	require.Zero(t, w.once().Gaps, "what is retired is no gap, and what was reported no new one")
	require.Equal(t, []string{"5-5"}, w.gaps())
	found, err := w.lane("events").Gaps()
	require.NoError(t, err)
	require.Equal(t, []segment.Gap{{Writer: "010203040500", First: 5, Last: 5, Reported: true}}, found)
	w.accounted()
}

// A gap is not told while somebody restores beside the drain: the numbers may be coming. What came is none, what is missing when he
// is done is told, and what was set aside meanwhile is recorded all the same.
func TestAudit_waits_for_a_restore(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	var names []string
	for range 6 {
		names = append(names, w.seal(spec{}))
	}
	lane := w.lane("events")
	late, err := vfs.ReadFile(w.fs, lane.Path(segment.Sealed, names[1]))
	require.NoError(t, err)
	w.remove(segment.Sealed, names[3])
	require.NoError(t, w.fs.Remove(lane.Path(segment.Sealed, names[1])))
	lock, err := w.fs.Lock(filepath.Join(w.opt.WAL, segment.RestoreLockName), "a restore")
	require.NoError(t, err)
	w.once()
	require.Empty(t, w.gaps())
	n, ok, err := lane.Numbers()
	require.NoError(t, err)
	require.True(t, ok, "the record is there before the first commit")
	for _, of := range n.Writers {
		require.Empty(t, of.Missing)
	}
	require.NoError(t, vfs.WriteFile(w.fs, lane.Path(segment.Orphans, names[1]), late))
	require.NoError(t, lock.Close())
	w.once()
	require.Equal(t, []string{"4-4"}, w.gaps())
	w.accounted()
}

// A removed first or middle segment is reported once, whatever state it was in; the last one of a writer cannot be.
func TestAudit_in_every_state(t *testing.T) {
	t.Parallel()
	for _, st := range []segment.State{segment.Sealed, segment.Processing, segment.Orphans, segment.Committed} {
		for n, want := range map[int][]string{0: {"1-1"}, 2: {"3-3"}, 4: {}} {
			t.Run(fmt.Sprint(st, n+1), func(t *testing.T) {
				t.Parallel()
				w := onDisk(t)
				require.NoError(t, w.lane("events").WriteNumbers(segment.Numbers{})) // committed/ is filled by hand below
				var names []string
				for range 5 {
					names = append(names, w.seal(spec{state: st}))
				}
				table := w.tables.get("events")
				if st == segment.Committed {
					for id, rows := range w.want {
						table.rows[id] = []int{1, 1, 1}[:rows]
					}
				}
				w.remove(st, names[n])
				for range 3 {
					w.opt.Retain = time.Nanosecond
					w.once()
					require.Equal(t, want, w.gaps())
				}
			})
		}
	}
}

// What is set aside in poison/ and stale/ was reported when it was. An operator may delete it. What goes back to
// sealed/ is drained.
func TestAudit_an_operator_empties_poison_and_stale(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	bad := w.seal(spec{mangle: func(b []byte) []byte { return b[:len(b)-3] }})
	other := uuid.New()
	old := w.seal(spec{table: other})
	w.seal(spec{})
	reader := sdkmetric.NewManualReader()
	w.opt.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	w.once()
	require.Equal(t, map[segment.State]int{segment.Committed: 2, segment.Poison: 1, segment.Stale: 1}, w.states("events"))
	require.Equal(t, []int64{1, 1}, setAside(t, reader))
	require.NoError(t, w.fs.Remove(w.lane("events").Path(segment.Poison, bad+".json")))
	w.remove(segment.Poison, bad)
	w.remove(segment.Stale, filepath.Join(other.String(), old))
	w.once()
	require.Equal(t, []int64{0, 0}, setAside(t, reader))
	require.Empty(t, w.gaps())
	w.accounted()
}

// setAside are the gauges of poison/ and stale/.
func setAside(t *testing.T, reader *sdkmetric.ManualReader) []int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &rm))
	now := map[string]int64{}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		if g, ok := m.Data.(metricdata.Gauge[int64]); ok {
			now[m.Name] = g.DataPoints[0].Value
		}
	}
	return []int64{now["siglake_compactor_poison_segments"], now["siglake_compactor_stale_segments"]}
}

// What is set aside is recorded in the pass that does it, not at the next turn of the audit.
func TestAudit_records_at_once_what_is_set_aside(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	_, l := w.laneOf("events")
	w.pass(l) // the audit has had its turn
	bad := w.seal(spec{mangle: func(b []byte) []byte { return b[:len(b)-3] }})
	w.seal(spec{})
	for range maxReads {
		l.atOnce()
		l.pass(t.Context(), t.Context())
	}
	require.Equal(t, []string{bad}, w.in("events", segment.Poison))
	w.remove(segment.Poison, bad)
	w.once()
	require.Empty(t, w.gaps())
}

// A running drain finds a gap at its next audit, also when what proves it has been retired meanwhile.
func TestAudit_the_proof_outlives_its_segments(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.Retain = time.Nanosecond
	_, l := w.laneOf("events")
	w.pass(l)
	gone := w.seal(spec{})
	w.seal(spec{})
	w.remove(segment.Sealed, gone)
	w.pass(l)
	w.pass(l)
	require.Empty(t, w.states("events"))
	require.Empty(t, w.gaps(), "not its turn")
	l.auditAt = 0
	w.pass(l)
	require.Equal(t, []string{"1-1"}, w.gaps())
	w.pass(l)
	require.Zero(t, w.once().Gaps)
}

// A lane that an earlier version drained has no record: what it retired is no gap, what is gone from now on is one.
func TestAudit_a_lane_of_an_earlier_version(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	for range 3 {
		w.namer("events").Next(time.Now()) // retired long ago
	}
	w.seal(spec{state: segment.Committed})
	for id := range w.want {
		w.tables.get("events").rows[id] = []int{1, 1, 1}
	}
	w.seal(spec{})
	gone := w.seal(spec{})
	w.seal(spec{})
	require.NoError(t, w.lane("events").WriteHead(segment.Head{Table: w.tables.get("events").uuid}))
	w.remove(segment.Sealed, gone)
	w.once()
	require.Empty(t, w.gaps())
	gone = w.seal(spec{})
	w.seal(spec{})
	w.remove(segment.Sealed, gone)
	w.once()
	require.Equal(t, []string{"8-8"}, w.gaps())
	w.accounted()
}

// A damaged record is set aside and told, and the drain goes on (A10). One of a newer version is left alone: nothing
// is retired, everything else goes on.
func TestAudit_a_record_that_cannot_be_used(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		record  string
		damaged bool
	}{
		"damaged": {`{"format":1,"writers":[{"wri`, true},
		"newer":   {`{"format":99}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			w.opt.Retain = time.Nanosecond
			w.seal(spec{})
			path := w.lane("events").Path("", "numbers.json")
			require.NoError(t, vfs.WriteFile(w.fs, path, []byte(tc.record)))
			w.once()
			r := w.once()
			w.accounted()
			require.Empty(t, w.gaps())
			if !tc.damaged {
				require.ErrorIs(t, r.Failures["default/events"], segment.ErrFormat)
				require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
				return
			}
			require.Empty(t, r.Failures)
			require.Empty(t, w.states("events"))
			require.Len(t, w.logs.FilterMessageSnippet("record of sequence numbers is damaged").All(), 1)
			b, err := vfs.ReadFile(w.fs, path+".damaged")
			require.NoError(t, err)
			require.Equal(t, tc.record, string(b))
		})
	}
}

// TestSweep_numbers cuts the power before every operation of a life that commits, sets aside, takes a void mark and
// retires, under every policy, and once more in the next life. No life reports a gap: what is gone was retired, set
// aside or void. And the gap that is there in the end is reported once and is in the record once. ORD-1, LOUD-1.
func TestSweep_numbers(t *testing.T) {
	t.Parallel()
	sweepCuts(t, 80, sweepNumbers)
}

func sweepNumbers(t *testing.T, policy simfs.Policy, n int, bytes encodings) (fired bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), uint64(policy)))
	where := fmt.Sprintf("policy %s, cut before operation %d", policy, n)
	w := onDisk(t)
	w.bytes = bytes
	w.opt.Retain = time.Nanosecond
	w.opt.RetainPartial = time.Nanosecond
	disk := w.fs.(*simfs.FS)
	w.seal(spec{state: segment.Processing})
	w.seal(spec{})
	bad := w.seal(spec{mangle: func(b []byte) []byte { return b[:len(b)-3] }})
	id, _, err := segment.ParseName(bad)
	require.NoError(t, err)
	delete(w.want, id.String())
	require.NoError(t, w.lane("events").MarkVoid(w.namer("events").Next(time.Now())))
	w.seal(spec{partial: true})
	w.seal(spec{})
	hook, isFired := simfs.CutAt(n)
	disk.SetHook(hook)
	w.die(disk)
	if !isFired() {
		w.die(disk) // the pass that retires
	}
	disk = disk.Crash(policy, rng)
	w = w.on(t, disk)
	again, _ := simfs.CutAt(rng.IntN(80))
	disk.SetHook(again)
	w.die(disk)
	w = w.on(t, disk.Crash(policy, rng))
	require.Empty(t, w.once().Failures, where)
	require.Empty(t, w.once().Failures, where)
	require.Empty(t, w.gaps(), where)
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Poison: 1}, w.states("events"), where)

	gone := w.seal(spec{})
	w.seal(spec{})
	w.remove(segment.Sealed, gone)
	w.once()
	w.once()
	require.Equal(t, []string{"7-7"}, w.gaps(), where)
	record, _, err := w.lane("events").Numbers()
	require.NoError(t, err)
	require.Equal(t, []segment.WriterNumbers{{
		Writer: "010203040500", Top: 8, Settled: segment.Spans{{1, 6}, {8, 8}}, Missing: segment.Spans{{7, 7}},
	}}, record.Writers, where)
	return isFired()
}

// The cut may also fall between the report and the record: then, and only then, the next life reports it again.
func TestAudit_a_report_is_never_lost(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	gone := w.seal(spec{})
	w.seal(spec{})
	w.remove(segment.Sealed, gone)
	disk := w.fs.(*simfs.FS)
	// Each try of the pass fails: on a busy machine there is time for a second one.
	failing, failed := true, false
	disk.SetHook(func(op simfs.Op) error {
		if !failing || op.Kind != simfs.Rename || filepath.Base(op.To) != "numbers.json" {
			return nil
		}
		failed = true
		return errors.New("injected")
	})
	_, l := w.laneOf("events")
	l.pass(t.Context(), t.Context())
	require.True(t, failed)
	require.Error(t, l.view().err)
	failing = false
	l.atOnce()
	w.pass(l)
	require.Equal(t, []string{"1-1"}, w.gaps(), "one life, one report")
	require.Zero(t, w.once().Gaps)
}
