package lake

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkManyCommits makes small commits of ten rows to one table, and every 60 of them a round of maintenance, as
// once a minute at a commit a second. It prints what commits, metadata and a plan cost after 50 and along the way, each
// as the median of 50 commits or 5 plans, and their ratio at the end. -benchtime=5000x makes 5,000 commits.
func BenchmarkManyCommits(b *testing.B) {
	l := lakeAt(b, b.TempDir(), hooks{})
	t := events(b, l)
	k := newKeeper(l, 100)
	at := time.Now()
	var took, used []time.Duration
	var first, last cost
	n := 0
	for b.Loop() {
		n++
		seg := segment(b, testID(b, time.Now(), uint64(n)), rowsAt(at.Add(time.Duration(n)*time.Second), 10))
		begin, busy := time.Now(), cpu(b)
		_, err := t.Commit(b.Context(), []Segment{seg})
		require.NoError(b, err)
		took, used = append(took, time.Since(begin)), append(used, cpu(b)-busy)
		if n%60 == 0 {
			require.NoError(b, k.round(b.Context()))
		}
		if n == 50 || n%500 == 0 {
			last = costOf(b, l, t, took[n-50:], used[n-50:])
			_, err := fmt.Fprintf(os.Stdout, "%5d commits: %+v\n", n, last) // at once: it takes long
			require.NoError(b, err)
		}
		if n == 50 {
			first = last
		}
	}
	b.ReportMetric(0, "ns/op") // of all together: says nothing
	if first.commitMs > 0 {
		b.ReportMetric(last.commitMs/first.commitMs, "x-commit")
		b.ReportMetric(last.cpuMs/first.cpuMs, "x-commit-cpu")
		b.ReportMetric(last.planMs/first.planMs, "x-plan")
	}
}

// cost is what a table costs at one point of its life.
type cost struct {
	commitMs, slowestMs, cpuMs float64
	snapshots, metadataKB      int
	manifests, manifestKB      int
	planMs                     float64
	files                      int
}

func costOf(b *testing.B, l *Lake, t *Table, took, used []time.Duration) cost {
	b.Helper()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	raw, err := l.open(b.Context(), t.id)
	require.NoError(b, err)
	c := cost{commitMs: ms(median(took)), cpuMs: ms(median(used)), snapshots: len(raw.Metadata().Snapshots())}
	for _, d := range took {
		c.slowestMs = max(c.slowestMs, ms(d))
	}
	path, err := localPath(raw.MetadataLocation())
	require.NoError(b, err)
	info, err := os.Stat(path)
	require.NoError(b, err)
	c.metadataKB = int(info.Size() >> 10)
	manifests, err := raw.CurrentSnapshot().Manifests(l.io)
	require.NoError(b, err)
	c.manifests = len(manifests)
	for _, m := range manifests {
		c.manifestKB += int(m.Length() >> 10)
	}
	var plans []time.Duration
	for range 5 {
		begin := time.Now()
		p, err := l.Plan(b.Context(), t.id[0], t.id[1])
		require.NoError(b, err)
		plans, c.files = append(plans, time.Since(begin)), len(p.Files)
	}
	c.planMs = ms(median(plans))
	return c
}
