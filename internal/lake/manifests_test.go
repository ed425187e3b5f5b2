package lake

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// manifestOf is a manifest as a list describes it, about as large as one of ours.
func manifestOf(name string, files int64, size int64) iceberg.ManifestFile {
	return iceberg.NewManifestFile(2, name, size, 0, 1).AddedFiles(int32(files)).ExistingFiles(0).DeletedFiles(0).
		AddedRows(files).ExistingRows(0).DeletedRows(0).Build()
}

// However many commits a table takes, the entries that merges of manifests write again are a few for each file, no merge
// takes more than it may, none takes a full manifest, and manifests stay few.
func TestManifestRule_is_amortised(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	const head, entry = 6 << 10, 270 // bytes
	for _, c := range []struct {
		fan     int
		target  int64
		files   int64 // per commit
		commits int
		times   float64 // that an entry may be written again
		most    int     // manifests
	}{
		{manifestFan, manifestBytes, 1, 50_000, 4, 15 + 3*16},
		{manifestFan, manifestBytes, 3, 20_000, 4, 17 + 3*16},
		{manifestFan, manifestBytes, 200, 2_000, 3, 250},
		{manifestFan, 8 << 20, 1, 50_000, 5, 70},
		{manifestFan, 64 << 10, 1, 5_000, 6, 100},
		{100, manifestBytes, 1, 50_000, 4, 250},
		{2, manifestBytes, 1, 20_000, 12, 40},
	} {
		rule := manifestRule{fan: c.fan, target: c.target}
		var list []iceberg.ManifestFile // newest first
		merged, most, looked := int64(0), 0, true
		for i := range c.commits {
			if !looked || i%(c.fan/2) == 0 {
				in := rule.due(list)
				looked = len(in) == 0
				files, bytes, chosen := int64(0), int64(0), map[string]bool{}
				for _, m := range in {
					require.LessOrEqual(t, m.Length(), c.target/2)
					n, _ := sumOfManifests(m)
					files, bytes, chosen[m.FilePath()] = files+n, bytes+m.Length(), true
				}
				require.LessOrEqual(t, bytes, c.target)
				if merged += files; files > 0 {
					rest := []iceberg.ManifestFile{manifestOf(fmt.Sprintf("merged-%d", i), files, head+entry*files)}
					for _, m := range list {
						if !chosen[m.FilePath()] {
							rest = append(rest, m)
						}
					}
					list = rest
				}
			}
			list = append([]iceberg.ManifestFile{manifestOf(fmt.Sprint(i), c.files, head+entry*c.files)}, list...)
			most = max(most, len(list))
		}
		all, _ := sumOfManifests(list...)
		require.Equal(t, c.files*int64(c.commits), all)
		require.LessOrEqual(t, float64(merged)/float64(all), c.times, "%+v", c)
		require.LessOrEqual(t, most, c.most, "%+v", c)
	}
}

// manifestIO notes which manifests are read and written.
type manifestIO struct {
	*syncIO

	mu            sync.Mutex
	read, written []string
}

func isManifest(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, ".avro") && !strings.HasPrefix(base, "snap-")
}

func (d *manifestIO) Open(name string) (iceio.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isManifest(name) {
		d.read = append(d.read, name)
	}
	return d.syncIO.Open(name)
}

func (d *manifestIO) Create(name string) (iceio.FileWriter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isManifest(name) {
		d.written = append(d.written, name)
	}
	return d.syncIO.Create(name)
}

// take returns the names and begins anew.
func (d *manifestIO) take() (read, written []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	read, written = d.read, d.written
	d.read, d.written = nil, nil
	return read, written
}

// bytesOf is the size of all files together, and of the largest.
func bytesOf(t *testing.T, names []string) (all, largest int64) {
	t.Helper()
	for _, name := range names {
		local, err := localPath(name)
		require.NoError(t, err)
		info, err := os.Stat(local)
		require.NoError(t, err)
		all, largest = all+info.Size(), max(largest, info.Size())
	}
	return all, largest
}

// manifestSpy is a lake whose manifests are watched.
func manifestSpy(t *testing.T) (*Lake, *manifestIO) {
	t.Helper()
	disk := &manifestIO{syncIO: newSyncIO(osDisk{})}
	return watchedLake(t, disk, disk.syncIO), disk
}

// watchedLake is a lake whose tables are read and written through watch, once it is open: what a lake opens is plain.
func watchedLake(t *testing.T, watch, plain iceio.IO) *Lake {
	t.Helper()
	scheme := fmt.Sprintf("spy%d", spies.Add(1))
	var watching atomic.Bool
	iceio.Register(scheme, func(context.Context, *url.URL, map[string]string) (iceio.IO, error) {
		if watching.Load() {
			return watch, nil
		}
		return plain, nil
	})
	t.Cleanup(func() { iceio.Unregister(scheme) })
	l := lakeAt(t, t.TempDir(), hooks{scheme: scheme})
	watching.Store(true)
	return l
}

// A commit reads and writes few manifests, all of them small: one that is full is not read again, whatever comes beside it.
func TestCommit_leaves_full_manifests_alone(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	const target, commits = 40 << 10, 140
	l, disk := manifestSpy(t)
	tbl := events(t, l)
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "4")
	setProperty(t, l, "events", table.ManifestTargetSizeBytesKey, fmt.Sprint(target))
	var segs []Segment
	var allRead, allWritten, readOnce int64
	for i := range commits {
		segs = append(segs, newSegment(t, uint64(i), 1))
		_, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
		opened, created := disk.take()
		read, largest := bytesOf(t, opened)
		written, _ := bytesOf(t, created)
		require.LessOrEqual(t, read, int64(target))
		require.LessOrEqual(t, written, int64(target))
		require.LessOrEqual(t, largest, int64(target/2), "commit %d read a full manifest", i)
		allRead, allWritten = allRead+read, allWritten+written
		if readOnce == 0 {
			readOnce = written
		}
	}
	// Each commit's own manifest is read once, and what it is merged into a few times, at a size that is shared.
	require.LessOrEqual(t, allRead, 3*commits*readOnce)
	require.LessOrEqual(t, allWritten, 3*commits*readOnce)
	manifests, err := metaOf(t, l).CurrentSnapshot().Manifests(l.io)
	require.NoError(t, err)
	full := 0
	for _, m := range manifests {
		if m.Length() > target/2 {
			full++
		}
	}
	require.NotZero(t, full)
	require.LessOrEqual(t, len(manifests), full+4*5)
	require.Equal(t, "true", metaOf(t, l).Properties()[table.ManifestMergeEnabledKey], "as it was")
	requireExactly(t, l, segs...)
}

// A merge is a snapshot of maintenance in the commit of rows, and readers of changes can tell.
func TestManifests_merge_is_tagged(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "2")
	segs := commitEach(t, tbl, 6)
	merges := 0
	for _, s := range metaOf(t, l).Snapshots() {
		if s.Summary.Operation == table.OpReplace {
			require.Equal(t, "manifests", s.Summary.Properties[sumMaintenance])
			require.Empty(t, s.Summary.Properties[sumCommitID])
			merges++
			continue
		}
		require.Empty(t, s.Summary.Properties[sumMaintenance])
		require.NotEmpty(t, s.Summary.Properties[sumCommitID])
	}
	require.NotZero(t, merges)
	requireExactly(t, l, segs...)
}

// A commit that merges manifests lands, and the answer is that it conflicts: what the table has by then is not removed.
func TestManifests_merge_that_landed_unheard_stays(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	l := lakeAt(t, t.TempDir(), faults(f))
	tbl := events(t, l)
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "2")
	conflict := func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
		if _, _, err := do(ctx); err != nil {
			return nil, "", err
		}
		return nil, "", errors.Join(table.ErrCommitFailed, errInjected)
	}
	var segs []Segment
	for i := range 8 {
		f.answers = []answer{conflict}
		segs = append(segs, newSegment(t, uint64(i), 2))
		_, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
	}
	require.Contains(t, operations(metaOf(t, l)), table.OpReplace)
	requireExactly(t, l, segs...)
}

func operations(meta table.Metadata) []table.Operation {
	var out []table.Operation
	for _, s := range meta.Snapshots() {
		out = append(out, s.Summary.Operation)
	}
	return out
}

// A manifest that cannot be read keeps no rows back: they are committed, and it is left as it is.
func TestManifests_rows_are_committed_beside_one_that_cannot_be_read(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "100")
	segs := commitEach(t, tbl, 2)
	manifests, err := metaOf(t, l).CurrentSnapshot().Manifests(l.io)
	require.NoError(t, err)
	broken, err := localPath(manifests[0].FilePath())
	require.NoError(t, err)
	whole, err := os.ReadFile(broken)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(broken, whole[:len(whole)/2], 0o600))
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "2")
	for i := range 6 {
		segs = append(segs, newSegment(t, uint64(10+i), 2))
		_, err := tbl.Commit(t.Context(), segs[len(segs)-1:])
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(broken, whole, 0o600))
	requireExactly(t, l, segs...)
}
