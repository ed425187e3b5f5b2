package lake

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Segments that overlap in time make files that do not: each is sorted throughout and begins where the last one ended,
// over chunks, row groups and files.
func TestCommit_sorts_overlapping_segments(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{chunkRows: 300, rowGroupBytes: 256 << 10, fileBytes: 512 << 10}})
	rng := rand.New(rand.NewPCG(1, 2))
	var segs []Segment
	for s := range 6 {
		rows := make([]record, 1000)
		for i := range rows {
			rows[i] = record{at: day0.Add(time.Duration(rng.IntN(3_600_000)) * time.Millisecond), body: randomHex(rng, 300), service: "shop"}
		}
		segs = append(segs, segment(t, testID(t, time.Now(), uint64(s)), rows))
	}
	_, err := events(t, l).Commit(t.Context(), segs)
	require.NoError(t, err)
	requireExactly(t, l, segs...)
	files := manifestFiles(t, l)
	require.Greater(t, len(files), 1)
	slices.SortFunc(files, func(a, b iceberg.DataFile) int { return strings.Compare(a.FilePath(), b.FilePath()) })
	var times []int64
	for _, df := range files {
		require.Equal(t, 1, *df.SortOrderID())
		times = append(times, timesOf(t, l, df)...)
	}
	require.Len(t, times, 6000)
	require.True(t, slices.IsSorted(times))
}

func randomHex(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return hex.EncodeToString(b)
}

// timesOf are timestamp_ns of a file's rows, in the order of the file.
func timesOf(t *testing.T, l *Lake, df iceberg.DataFile) []int64 {
	t.Helper()
	pf := openParquet(t, l, df)
	var out []int64
	for g := range pf.NumRowGroups() {
		group := pf.RowGroup(g)
		require.Len(t, pf.MetaData().RowGroup(g).SortingColumns(), 2)
		col, err := group.Column(leafIndex(t, pf, colTimestampNs))
		require.NoError(t, err)
		reader, ok := col.(interface {
			ReadBatch(batchSize int64, values []int64, defLvls, repLvls []int16) (total int64, valuesRead int, err error)
		})
		require.True(t, ok)
		values := make([]int64, group.NumRows())
		for at := 0; at < len(values); {
			_, n, err := reader.ReadBatch(int64(len(values)-at), values[at:], nil, nil)
			require.NoError(t, err)
			require.Positive(t, n)
			at += n
		}
		out = append(out, values...)
	}
	return out
}

// The bloom filter is as large as the different ids of the file ask for, whatever its rows, and knows each of them.
func TestCommit_bloom_filter_follows_the_different_ids(t *testing.T) {
	t.Parallel()
	sizes := map[int]int64{}
	for _, ids := range []int{1, 200, 5000} {
		l := lakeAt(t, t.TempDir(), hooks{})
		rows := rowsAt(day0, 5000)
		for i := range rows {
			rows[i].trace, rows[i].traceLow = 1, uint16(i%ids)
		}
		_, err := events(t, l).Commit(t.Context(), []Segment{segment(t, testID(t, time.Now(), 1), rows)})
		require.NoError(t, err)
		pf := openParquet(t, l, manifestFiles(t, l)[0])
		bloom, err := pf.GetBloomFilterReader().RowGroup(0)
		require.NoError(t, err)
		filter, err := bloom.GetColumnBloomFilter(leafIndex(t, pf, "trace_id"))
		require.NoError(t, err)
		for i := range ids {
			id := rows[i].traceID()
			require.True(t, filter.CheckHash(filter.Hasher().Sum64([]byte(hex.EncodeToString(id[:])))), "id %d", i)
		}
		sizes[ids] = filter.Size()
	}
	require.LessOrEqual(t, sizes[1], int64(64))
	require.LessOrEqual(t, sizes[200], int64(512))
	require.Greater(t, sizes[5000], 8*sizes[200])
	require.LessOrEqual(t, sizes[5000], int64(16<<10), "about ten bits an id, rounded up to a power of two")
}

// iceberg-go's own writer, given rows of which one has a value over 4,096 bytes, writes a bound that hides that row
// from its own planner; the lake's does not (TestCommit_bounds_hide_no_row). This is what the guard is for.
func TestStockWriter_hides_a_row(t *testing.T) {
	t.Parallel()
	rows := rowsAt(day0, 21)
	for i := range rows {
		rows[i].event = fmt.Sprint("a-", i)
	}
	rows[20].event = "panic: " + strings.Repeat("goroutine 1 [running] ", 300)
	seg := segment(t, testID(t, time.Now(), 1), rows)
	found := func(commit func(l *Lake, t *Table)) int {
		l := lakeAt(t, t.TempDir(), hooks{})
		commit(l, events(t, l))
		require.Len(t, readAll(t, l), 21)
		return len(readAll(t, l, table.WithRowFilter(iceberg.GreaterThan(iceberg.Reference("event_name"), "b"))))
	}
	require.Equal(t, 1, found(func(_ *Lake, tbl *Table) {
		_, err := tbl.Commit(t.Context(), []Segment{seg})
		require.NoError(t, err)
	}))
	require.Zero(t, found(func(l *Lake, tbl *Table) {
		raw, err := l.open(t.Context(), tbl.id)
		require.NoError(t, err)
		_, err = raw.Append(t.Context(), &segmentReader{tb: t, signal: otelarrow.Logs, segs: []Segment{seg}}, nil)
		require.NoError(t, err)
	}), "the library has learned better: the guard may go")
}

// A batch of many days is written one file after the other: never are two open.
func TestCommit_writes_one_file_at_a_time(t *testing.T) {
	t.Parallel()
	disk := &spyDisk{}
	l := lakeAt(t, t.TempDir(), spied(t, disk))
	var rows []record
	for i := range 90 {
		rows = append(rows, record{at: day0.Add(time.Duration(i%30) * 24 * time.Hour), body: "x"})
	}
	seg := segment(t, testID(t, time.Now(), 1), rows)
	out, err := events(t, l).Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	require.Equal(t, int64(30), out.FilesWritten)
	requireExactly(t, l, seg)
	open, files := "", 0
	for _, line := range disk.log {
		op, path, _ := strings.Cut(line, " ")
		switch {
		case filepath.Ext(path) != ".parquet":
		case op == "create":
			require.Empty(t, open, "%s while another is open", line)
			open = path
		case op == "sync": // the last thing before it is closed
			require.Equal(t, open, path)
			open = ""
			files++
		}
	}
	require.Equal(t, 30, files)
}

// What a commit holds beyond the rows it was given is a multiple of its limits, not of the rows: a chunk in table form,
// its levels and what its values were picked into (4 x chunkBytes), a row group that is being made and its copy on the
// way to the file (2 x rowGroupBytes), and 2 MiB for each column: a dictionary, a page in the making, and its copies on
// the way through compression, in buffers that double.
//
// Not parallel: the heap is everybody's.
func TestCommit_memory_is_bounded_by_its_limits(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // garbage is not what is measured
	const chunk, group, leaves = 1 << 20, 2 << 20, 46
	const bound = 4*chunk + 2*group + leaves*(2<<20)
	var first uint64
	for _, segments := range []int{4, 16} {
		segs := loadSegments(t, otelarrow.Logs, segments, 2048)
		l := lakeAt(t, t.TempDir(), hooks{limits: limits{chunkBytes: chunk, rowGroupBytes: group}})
		tbl := events(t, l)
		high := highWater(func() {
			_, err := tbl.Commit(t.Context(), segs)
			require.NoError(t, err)
		})
		t.Logf("%d segments: %d MiB of at most %d", segments, high>>20, bound>>20)
		require.LessOrEqual(t, high, uint64(bound), "%d segments", segments)
		if first == 0 {
			first = high
		}
		require.LessOrEqual(t, high, 2*first, "four times the rows")
	}
}
