package lake

import (
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// adder is the snapshot that added a data file.
type adder struct{ id, sequence int64 }

// Manifests are merged inside of commits of rows. What a merged one says of each file is what the commit said that
// added it, its own counts are right, and so are those of the snapshots.
func TestMerge_says_what_was_merged(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "4")
	added := map[string]adder{}
	original := map[string]iceberg.DataFile{}
	var segs []Segment
	merges, before := 0, 0
	for i := range 18 {
		// One or two days: one or two files.
		rows := rowsAt(day0.Add(time.Duration(i)*24*time.Hour), 2+i)
		if i%3 == 0 {
			rows = append(rows, rowsAt(day0.Add(time.Duration(i-5)*24*time.Hour), 1)...)
		}
		segs = append(segs, segment(t, testID(t, time.Now(), uint64(i)), rows))
		_, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
		snap := metaOf(t, l).CurrentSnapshot()
		for _, df := range manifestFiles(t, l) {
			if _, known := added[df.FilePath()]; !known {
				added[df.FilePath()] = adder{snap.SnapshotID, snap.SequenceNumber}
				original[df.FilePath()] = df
			}
		}
		manifests, err := snap.Manifests(l.io)
		require.NoError(t, err)
		require.LessOrEqual(t, len(manifests), 2*(4+2)) // of two sizes
		if len(manifests) <= before {
			merges++
		}
		before = len(manifests)
		if i == 6 {
			require.NoError(t, newKeeper(l, 2).round(t.Context())) // what they say goes on when those snapshots are gone
		}
		requireManifests(t, l, snap, manifests, added, original)
	}
	require.GreaterOrEqual(t, merges, 3)
	requireExactly(t, l, segs...)
	st, err := tbl.load(t.Context())
	require.NoError(t, err)
	found, err := tbl.rowsOf(t.Context(), st.tbl, []string{segs[0].ID, segs[13].ID})
	require.NoError(t, err)
	require.Equal(t, committed(segs[0], segs[13]), found)
}

func requireManifests(
	t *testing.T, l *Lake, snap *table.Snapshot, manifests []iceberg.ManifestFile, added map[string]adder, original map[string]iceberg.DataFile,
) {
	t.Helper()
	files, rows := 0, int64(0)
	for _, m := range manifests {
		var fresh, old int32
		var freshRows, oldRows int64
		least := int64(1 << 62)
		var first, last int32 = 1 << 30, -1 << 30
		for e, err := range m.Entries(l.io, false) {
			require.NoError(t, err)
			df := e.DataFile()
			by := added[df.FilePath()]
			require.Equal(t, by.id, e.SnapshotID())
			require.Equal(t, by.sequence, e.SequenceNum())
			require.Equal(t, by.sequence, *e.FileSequenceNum())
			require.Equal(t, original[df.FilePath()].Count(), df.Count())
			require.Equal(t, original[df.FilePath()].LowerBoundValues(), df.LowerBoundValues())
			require.Equal(t, original[df.FilePath()].UpperBoundValues(), df.UpperBoundValues())
			require.Equal(t, original[df.FilePath()].NullValueCounts(), df.NullValueCounts())
			require.Equal(t, original[df.FilePath()].Partition(), df.Partition())
			require.Equal(t, 1, *df.SortOrderID())
			if by.id == m.SnapshotID() {
				require.Equal(t, iceberg.EntryStatusADDED, e.Status())
				fresh, freshRows = fresh+1, freshRows+df.Count()
			} else {
				require.Equal(t, iceberg.EntryStatusEXISTING, e.Status())
				old, oldRows = old+1, oldRows+df.Count()
			}
			least = min(least, by.sequence)
			for _, v := range df.Partition() {
				day := int32(v.(iceberg.Date))
				first, last = min(first, day), max(last, day)
			}
		}
		require.Equal(t, []int32{fresh, old, 0}, []int32{m.AddedDataFiles(), m.ExistingDataFiles(), m.DeletedDataFiles()})
		require.Equal(t, []int64{freshRows, oldRows}, []int64{m.AddedRows(), m.ExistingRows()})
		require.Equal(t, least, m.MinSequenceNum())
		require.Len(t, m.Partitions(), 1)
		require.Equal(t, bound(t, first), *m.Partitions()[0].LowerBound)
		require.Equal(t, bound(t, last), *m.Partitions()[0].UpperBound)
		files, rows = files+int(fresh+old), rows+freshRows+oldRows
	}
	require.Len(t, added, files)
	var info TableInfo
	require.True(t, readTotals(snap, &info))
	require.Equal(t, int64(files), info.Files)
	require.Equal(t, rows, info.Rows)
}

func bound(t *testing.T, day int32) []byte {
	t.Helper()
	b, err := iceberg.DateLiteral(day).MarshalBinary()
	require.NoError(t, err)
	return b
}

// D11: a table that takes small commits for long has as many snapshots, manifests and metadata files as after the
// first hundred.
func TestMany_small_commits_D11(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	var clock later
	l.now = clock.now
	tbl := events(t, l)
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "10")
	k := newKeeper(l, 10)
	var segs []Segment
	for i := range 150 {
		segs = append(segs, newSegment(t, uint64(i), 1))
		_, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
		if i%6 != 5 {
			continue
		}
		clock.by.Add(int64(readersTime))
		require.NoError(t, k.round(t.Context()))
		meta := metaOf(t, l)
		require.Len(t, meta.Snapshots(), min(i+1, 10))
		manifests, err := meta.CurrentSnapshot().Manifests(l.io)
		require.NoError(t, err)
		require.LessOrEqual(t, len(manifests), 2*(10+5)) // of two sizes
		require.LessOrEqual(t, len(metadataFiles(t, dir, ".metadata.json")), 22)
		// Retained, or named by a metadata file that is kept (20 back) or by the merge of one in ten commits.
		require.LessOrEqual(t, len(metadataFiles(t, dir, ".avro")), 2*(10+20+6)+2*4+2*(10+5))
	}
	requireExactly(t, l, segs...)
}
