package lake

import (
	"fmt"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"
)

// plannedFile is a data file of a day, as a planner sees it.
func plannedFile(tb testing.TB, n int, rows, size, from, to int64) mergeFile {
	tb.Helper()
	b, err := iceberg.NewDataFileBuilder(iceberg.NewPartitionSpec(), iceberg.EntryContentData, fmt.Sprintf("/%08d.parquet", n),
		iceberg.ParquetFile, nil, nil, nil, rows, size)
	require.NoError(tb, err)
	return mergeFile{df: b.Build(), level: levelOf(rows), from: from, to: to}
}

// A day of commits is planned round by round, with the sizes that were measured (docs/performance.md) and without rows.
// The rows of a busy day are written again once, not once per level, and the files that are left fit a plan.
func TestCompact_amount_of_work(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		perSecond int64         // rows
		rowBytes  int64         // in a file
		commit    time.Duration // from one to the next
		spread    time.Duration // how long before its commit a row was made
		most      float64       // rows written again for each row
		left      int           // files that are not full
	}{
		{"20,000 log records a second, a commit each 2 s", 20_000, 100, 2 * time.Second, 5 * time.Second, 1, 60},
		{"20,000 log records a second, a commit each 10 s", 20_000, 100, 10 * time.Second, 15 * time.Second, 1, 60},
		{"20,000 data points a second, a commit each 2 s", 20_000, 25, 2 * time.Second, 5 * time.Second, 2, 70},
		{"2,000 log records a second, a commit each 10 s", 2000, 100, 10 * time.Second, 15 * time.Second, 2, 60},
		{"10 log records a second, a commit each 10 s", 10, 300, 10 * time.Second, 15 * time.Second, 4, 60},
		{"20,000 log records a second, from clocks an hour apart", 20_000, 100, 2 * time.Second, time.Hour, 1.7, 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := limits{}.orDefault()
			var files []mergeFile
			var n int
			var rows, again, most, open int64
			add := func(count, from, to int64) {
				n++
				if f := plannedFile(t, n, count, 8000+count*tc.rowBytes, from, to); !f.full(l) {
					files = append(files, f)
				}
			}
			commits := 0
			for at := time.Duration(0); at < 24*time.Hour; at += tc.commit {
				count := tc.perSecond * int64(tc.commit/time.Second)
				add(count, max(0, at-tc.spread).Microseconds(), (at + tc.commit).Microseconds())
				rows += count
				if commits++; commits%int(10*time.Second/tc.commit) != 0 {
					continue
				}
				for range perVisit {
					due := dueMerges(files, l)
					if len(due) == 0 {
						break
					}
					merge := due[0]
					from, to := merge[0].from, merge[0].to
					gone := map[string]bool{}
					for _, f := range merge {
						from, to, gone[f.df.FilePath()] = min(from, f.from), max(to, f.to), true
					}
					open = max(open, int64(overlap(merge)))
					kept := files[:0]
					for _, f := range files {
						if !gone[f.df.FilePath()] {
							kept = append(kept, f)
						}
					}
					files = kept
					again += rowsOfFiles(merge)
					add(rowsOfFiles(merge), from, to)
				}
				most = max(most, int64(len(files)))
			}
			t.Logf("%.2f rows written again for each row; %d files that are not full at most; %d open at once", float64(again)/float64(rows), most, open)
			require.LessOrEqual(t, float64(again)/float64(rows), tc.most)
			require.Greater(t, again, rows/2) // they are merged
			require.LessOrEqual(t, most, int64(tc.left))
			require.LessOrEqual(t, open, int64(mergeOpen))
		})
	}
}
