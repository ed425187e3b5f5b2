package vfs

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkWritevSync is a group commit: one writev of some requests, with and without the fdatasync. The file
// is cut off every 32 MiB, as segments are.
func BenchmarkWritevSync(b *testing.B) {
	const segmentBytes = 32 << 20
	for _, sync := range []bool{false, true} {
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("sync=%v/bytes=%d", sync, size), func(b *testing.B) {
				f, err := OS().Create(filepath.Join(b.TempDir(), "f"))
				if err != nil {
					b.Fatal(err)
				}
				bufs := make([][]byte, 8) // requests of one group
				for i := range bufs {
					bufs[i] = make([]byte, size/len(bufs))
				}
				b.SetBytes(int64(size))
				written := 0
				for b.Loop() {
					if _, err := f.Writev(bufs); err != nil {
						b.Fatal(err)
					}
					if sync {
						if err := f.Sync(); err != nil {
							b.Fatal(err)
						}
					}
					if written += size; written >= segmentBytes {
						written = 0
						if err := f.Truncate(0); err != nil {
							b.Fatal(err)
						}
					}
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkSyncDir is what a name costs: create, sync the directory, remove.
func BenchmarkSyncDir(b *testing.B) {
	dir := b.TempDir()
	name := filepath.Join(dir, "f")
	for b.Loop() {
		f, err := OS().Create(name)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
		if err := OS().SyncDir(dir); err != nil {
			b.Fatal(err)
		}
		if err := OS().Remove(name); err != nil {
			b.Fatal(err)
		}
	}
}
