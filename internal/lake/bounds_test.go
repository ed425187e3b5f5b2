package lake

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

// edgeTexts are strings around the 16 characters that a manifest keeps of a bound.
func edgeTexts() []string {
	top := "\U0010FFFF"
	return []string{
		"", "a", "b", "aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaz", "aaaaaaaaaaaaaaa\x00b",
		strings.Repeat("a", 15) + "é", strings.Repeat("a", 15) + "漢z", strings.Repeat("é", 16), strings.Repeat("é", 17), strings.Repeat("漢", 17),
		strings.Repeat("a", 15) + top + "x", strings.Repeat(top, 15) + "x", strings.Repeat(top, 16), strings.Repeat(top, 17), strings.Repeat(top, 16) + "x",
		strings.Repeat("\uD7FF", 17), strings.Repeat("\uFFFF", 17), strings.Repeat("\x7f", 17), strings.Repeat("\x00", 3), strings.Repeat("\x00", 20),
		strings.Repeat("m", 4096),
	}
}

// longTexts are over the 4,096 bytes that a footer keeps.
func longTexts() []string {
	return []string{strings.Repeat("m", 4097), "zz" + strings.Repeat("x", 6<<10), strings.Repeat("\U0010FFFF", 1200)}
}

// boundsTable makes a table with a file for each of many days and few, odd rows in each. A second commit has the long
// texts: they take the statistics of their column from all files of a commit.
func boundsTable(t *testing.T, l *Lake, g *otlptest.Gen, signal otelarrow.Signal) {
	t.Helper()
	tbl, _, err := l.Ensure(t.Context(), "default", signal.Table(), signal)
	require.NoError(t, err)
	texts := edgeTexts()
	var segs []Segment
	for day := range 30 {
		g.Texts = []string{texts[day%len(texts)], texts[g.IntN(len(texts))]}
		if day >= 24 {
			g.Texts = append(g.Texts, longTexts()[day%3])
		}
		segs = append(segs, boundsSegment(t, g, signal, day))
		if day == 23 || day == 29 {
			_, err = tbl.Commit(t.Context(), segs)
			require.NoError(t, err)
			segs = nil
		}
	}
}

func boundsSegment(t *testing.T, g *otlptest.Gen, signal otelarrow.Signal, day int) Segment {
	t.Helper()
	midnight := pcommon.Timestamp(time.Date(2026, 1, 1+day, 0, 0, 0, 0, time.UTC).UnixNano())
	last := midnight + pcommon.Timestamp(nsPerDay)
	g.Times = []pcommon.Timestamp{midnight, midnight + 1, midnight + 999, midnight + 1000, last - 1, last - 1000, last - 1001}
	var batch arrow.RecordBatch
	for batch == nil || batch.NumRows() == 0 || batch.NumRows() > 12 {
		batch = encodeRequests(t, otelarrow.NewEncoder(), []any{request(t, g, signal)}).Record
	}
	if day%6 == 5 { // OTLP has no time before 1970, a batch may have
		times := make([]int64, batch.NumRows())
		for i := range times {
			times[i] = -int64(day)*nsPerDay - int64(g.IntN(3))
		}
		batch = withTimes(t, batch, times)
	}
	return Segment{ID: testID(t, time.Now(), uint64(day)), Batches: []arrow.RecordBatch{batch}, Rows: batch.NumRows()}
}

// E2: a filter on the exact nanosecond, or on any other column, never loses a file with a row that a full scan finds: for
// every column and for values that are there, that are just below and above, and that are bounds. The planner is
// iceberg-go's; the Node reader of the testbed judges the same bounds by itself.
func TestPlanning_never_loses_a_row_E2(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	for _, signal := range signals {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{limits: limits{chunkRows: 2, rowGroupBytes: 1}}) // several row groups in a file
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			boundsTable(t, l, otlptest.New(seed, false), signal)
			tbl, err := l.open(t.Context(), table.Identifier{"siglake", signal.Table()})
			require.NoError(t, err)
			files := map[string][]otlptest.Row{}
			bounded := map[int]bool{}
			for df, err := range l.dataFiles(tbl.CurrentSnapshot()) {
				require.NoError(t, err)
				path, err := localPath(df.FilePath())
				require.NoError(t, err)
				files[df.FilePath()] = parquetRows(t, path)
				for id := range df.LowerBoundValues() {
					bounded[id] = true
				}
			}
			p := prober{t: t, tbl: tbl, files: files, g: otlptest.New(seed, false)}
			for _, f := range tbl.Schema().Fields() {
				if _, primitive := f.Type.(iceberg.PrimitiveType); primitive {
					p.column(f, bounded[f.ID])
				}
			}
		})
	}
}

// prober asks the planner for the files of a filter and compares with the rows.
type prober struct {
	t     *testing.T
	tbl   *table.Table
	files map[string][]otlptest.Row
	g     *otlptest.Gen
}

func (p *prober) column(f iceberg.NestedField, bounded bool) {
	p.t.Helper()
	switch f.Type.(type) {
	case iceberg.StringType:
		probe(p, f, bounded, func(v any) string { return v.(string) }, aroundText, cmp.Compare[string])
	case iceberg.Int64Type:
		probe(p, f, bounded, func(v any) int64 { return v.(int64) }, aroundInt[int64], cmp.Compare[int64])
	case iceberg.Int32Type:
		probe(p, f, bounded, func(v any) int32 { return int32(v.(int64)) }, aroundInt[int32], cmp.Compare[int32])
	case iceberg.TimestampTzType:
		probe(p, f, bounded, func(v any) iceberg.Timestamp { return iceberg.Timestamp(v.(int64)) }, aroundInt[iceberg.Timestamp], cmp.Compare[iceberg.Timestamp])
	case iceberg.Float64Type:
		probe(p, f, bounded, func(v any) float64 { return v.(float64) }, aroundDouble, compareDoubles)
	case iceberg.BooleanType:
		probe(p, f, bounded, func(v any) bool { return v.(bool) }, func(bool) []bool { return []bool{false, true} }, compareBools)
	default:
		require.Fail(p.t, "no probe", "%s of type %s", f.Name, f.Type)
	}
}

// unordered is what no comparison is true of.
const unordered = 2

func compareDoubles(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	default:
		return unordered
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func aroundInt[T ~int32 | ~int64](v T) []T { return []T{v, v - 1, v + 1} } // at the ends they wrap, which is as good a probe

func aroundDouble(v float64) []float64 {
	return []float64{v, math.Nextafter(v, math.Inf(-1)), math.Nextafter(v, math.Inf(1)), 0, math.Copysign(0, -1)}
}

// aroundText is v, what is just below and above it, and the 16 characters that a manifest keeps, as they are and raised.
func aroundText(v string) []string {
	out := []string{v, v + "\x00", v + "\U0010FFFF", ""}
	r := []rune(v)
	if len(r) > 0 {
		out = append(out, string(r[:len(r)-1]))
	}
	if len(r) > 16 {
		r = r[:16]
	}
	out = append(out, string(r))
	for i := len(r) - 1; i >= 0; i-- {
		if r[i] < 0xD7FF { // the next one is a character too
			r[i]++
			return append(out, string(r[:i+1]))
		}
	}
	return out
}

// probe plans for each operator and each value worth asking for.
func probe[T iceberg.LiteralType](p *prober, f iceberg.NestedField, bounded bool, value func(any) T, around func(T) []T, compare func(a, b T) int) {
	p.t.Helper()
	probes := map[string]T{}
	for _, rows := range p.files {
		for _, r := range rows {
			if r[f.Name] != nil {
				for _, v := range around(value(r[f.Name])) {
					probes[fmt.Sprintf("%#v", v)] = v
				}
			}
		}
	}
	keys := slices.Sorted(maps.Keys(probes))
	p.g.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	ref := iceberg.Reference(f.Name)
	pruned := 0
	for _, k := range keys[:min(len(keys), 5)] {
		v := probes[k]
		if compare(v, v) == unordered { // NaN: nothing compares with it
			continue
		}
		for name, op := range map[string]struct {
			filter iceberg.BooleanExpression
			match  func(c int) bool
		}{
			"=": {iceberg.EqualTo(ref, v), func(c int) bool { return c == 0 }},
			"<": {iceberg.LessThan(ref, v), func(c int) bool { return c == -1 }},
			">": {iceberg.GreaterThan(ref, v), func(c int) bool { return c == 1 }},
		} {
			planned := p.plan(op.filter)
			for path, rows := range p.files {
				has := slices.ContainsFunc(rows, func(r otlptest.Row) bool {
					return r[f.Name] != nil && op.match(compare(value(r[f.Name]), v))
				})
				require.True(p.t, planned[path] || !has, "%s %s %#v: the planner leaves out %s, which has such a row", f.Name, name, v, path)
			}
			pruned += len(p.files) - len(planned)
		}
	}
	for name, filter := range map[string]iceberg.BooleanExpression{"null": iceberg.IsNull(ref), "not null": iceberg.NotNull(ref)} {
		planned := p.plan(filter)
		for path, rows := range p.files {
			has := slices.ContainsFunc(rows, func(r otlptest.Row) bool { return (r[f.Name] == nil) == (name == "null") })
			require.True(p.t, planned[path] || !has, "%s is %s: the planner leaves out %s", f.Name, name, path)
		}
	}
	switch {
	case slices.Contains(unboundedText, f.Name):
		require.False(p.t, bounded, "%s is too long to have bounds", f.Name)
	case f.Required || f.Name == colSegmentID: // others may be NULL everywhere
		require.True(p.t, bounded, "bounds of %s", f.Name)
		// Otherwise a planner that reads all files would pass.
		require.Positive(p.t, pruned, "%s prunes nothing", f.Name)
	}
}

func (p *prober) plan(filter iceberg.BooleanExpression) map[string]bool {
	p.t.Helper()
	tasks, err := p.tbl.Scan(table.WithRowFilter(filter)).PlanFiles(p.t.Context())
	require.NoError(p.t, err)
	out := map[string]bool{}
	for _, task := range tasks {
		out[task.File.FilePath()] = true
	}
	return out
}

// What the guard of emptytext.go is for: an empty text before others is below them, and is found.
func TestCommit_an_empty_text_is_found(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{chunkRows: 1}})
	ld := plog.NewLogs()
	for _, service := range []string{"", "m"} {
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("service.name", service)
		lr := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		lr.SetTimestamp(pcommon.NewTimestampFromTime(day0))
		lr.Body().SetStr("of " + service)
	}
	seg := Segment{ID: testID(t, time.Now(), 1), Batches: []arrow.RecordBatch{encoded(t, ld)}, Rows: 2}
	_, err := events(t, l).Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	found := readAll(t, l, table.WithRowFilter(iceberg.LessThan(iceberg.Reference("service_name"), "b")))
	require.Len(t, found, 1)
	require.Equal(t, "of ", found[0].body)
	found = readAll(t, l, table.WithRowFilter(iceberg.EqualTo(iceberg.Reference("service_name"), "m")))
	require.Len(t, found, 1)
}
