package segment_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

func benchLane(b *testing.B, n int) (segment.Lane, []string) {
	b.Helper()
	r, err := segment.Create(vfs.OS(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	l, err := r.Lane("default", "events")
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Prepare(); err != nil {
		b.Fatal(err)
	}
	names := make([]string, n)
	for i, id := range ids(n) {
		names[i] = id.FileName()
		if err := os.WriteFile(l.Path(segment.Sealed, names[i]), make([]byte, 4096), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return l, names
}

// BenchmarkMove is a claim or a mark of a batch: two directory syncs however many segments.
func BenchmarkMove(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("segments=%d", n), func(b *testing.B) {
			l, names := benchLane(b, n)
			from, to := segment.Sealed, segment.Processing
			for b.Loop() {
				if _, err := l.Move(from, to, names); err != nil {
					b.Fatal(err)
				}
				from, to = to, from
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/segment")
		})
	}
}

// BenchmarkPrepare is the first request of a tenant that nobody has heard of: TestPrepare_order has its three syncs.
func BenchmarkPrepare(b *testing.B) {
	r, err := segment.Create(vfs.OS(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		l, err := r.Lane(fmt.Sprintf("t%d", n), "events")
		if err == nil {
			err = l.Prepare()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkList is one poll of a backlog.
func BenchmarkList(b *testing.B) {
	l, names := benchLane(b, 1000)
	for b.Loop() {
		entries, _, err := l.List(segment.Sealed)
		if err != nil || len(entries) != len(names) {
			b.Fatal(len(entries), err)
		}
	}
}

func BenchmarkParseName(b *testing.B) {
	name := ids(1)[0].FileName()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := segment.ParseName(name); err != nil {
			b.Fatal(err)
		}
	}
}
