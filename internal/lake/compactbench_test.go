package lake

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// BenchmarkCompact commits 64 files of 4,096 rows each, as a busy drain does, and merges them until nothing is due. It
// reports rows written per CPU second, bytes a row before and after, and by how much the heap grew.
func BenchmarkCompact(b *testing.B) {
	const segments, rowsEach = 64, 4096
	for _, s := range []otelarrow.Signal{otelarrow.Logs, otelarrow.Traces, otelarrow.Metrics} {
		b.Run(s.String(), func(b *testing.B) {
			var rates, peaks []float64
			var before, after TableInfo
			for b.Loop() {
				l := lakeAt(b, b.TempDir(), hooks{})
				t, _, err := l.Ensure(b.Context(), "default", "load", s)
				require.NoError(b, err)
				commitLoad(b, t, loadSegments(b, s, segments, rowsEach))
				before = only(b, l)
				busy := cpu(b)
				peaks = append(peaks, float64(highWater(func() { compactAll(b, l) }))/1e6)
				rates = append(rates, float64(before.Rows)/(cpu(b)-busy).Seconds())
				after = only(b, l)
				require.Equal(b, before.Rows, after.Rows)
			}
			b.ReportMetric(0, "ns/op") // of all together: says nothing
			b.ReportMetric(median(rates)/1e3, "krows/cpu-s")
			b.ReportMetric(median(peaks), "heap-MB")
			b.ReportMetric(float64(before.Bytes)/float64(before.Rows), "B/row-before")
			b.ReportMetric(float64(after.Bytes)/float64(after.Rows), "B/row-after")
			b.ReportMetric(float64(after.Files), "files-after")
		})
	}
}

// commitLoad commits each segment by itself. They are garbage when it returns.
func commitLoad(tb testing.TB, t *Table, segs []Segment) {
	tb.Helper()
	for i := range segs {
		_, err := t.Commit(tb.Context(), segs[i:i+1])
		require.NoError(tb, err)
	}
}

func only(b *testing.B, l *Lake) TableInfo {
	b.Helper()
	infos, err := l.Tables(b.Context())
	require.NoError(b, err)
	require.Len(b, infos, 1)
	return infos[0]
}

// BenchmarkManyCommitsCompacted is BenchmarkManyCommits with a round of compaction each 10 commits, as at a commit a second.
func BenchmarkManyCommitsCompacted(b *testing.B) {
	l := lakeAt(b, b.TempDir(), hooks{})
	t := events(b, l)
	k, c := newKeeper(l, 100), newCompactor(l)
	at := time.Now().Truncate(24 * time.Hour)
	var took, used []time.Duration
	var compacting, longest time.Duration
	n := 0
	for b.Loop() {
		n++
		seg := segment(b, testID(b, time.Now(), uint64(n)), rowsAt(at.Add(time.Duration(n)*time.Second), 10))
		begin, busy := time.Now(), cpu(b)
		_, err := t.Commit(b.Context(), []Segment{seg})
		require.NoError(b, err)
		took, used = append(took, time.Since(begin)), append(used, cpu(b)-busy)
		if n%10 == 0 {
			busy = cpu(b)
			require.NoError(b, c.round(b.Context()))
			compacting, longest = compacting+cpu(b)-busy, max(longest, cpu(b)-busy)
		}
		if n%60 == 0 {
			require.NoError(b, k.round(b.Context()))
		}
		if n == 50 || n%500 == 0 {
			_, err := fmt.Fprintf(os.Stdout, "%5d commits: %+v compaction: CPU %s, longest round %s\n", n,
				costOf(b, l, t, took[n-50:], used[n-50:]), compacting.Round(time.Millisecond), longest.Round(time.Millisecond))
			require.NoError(b, err)
		}
	}
	b.ReportMetric(0, "ns/op") // of all together: says nothing
}
