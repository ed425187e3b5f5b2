package lake

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// misnamed gives the first data file of the table another name in the same place, as a manifest with a wrong bit in it does.
func misnamed(tb testing.TB, l *Lake) (named, is string) {
	tb.Helper()
	named = fileOf(tb, manifestFiles(tb, l)[0].FilePath())
	base := []byte(filepath.Base(named))
	base[5] ^= 1
	is = filepath.Join(filepath.Dir(named), string(base))
	require.NoError(tb, os.Rename(named, is))
	return named, is
}

// A table that names a file that is not there is left alone: the orphan beside it may be the file that is meant. With that file
// under the name that counts everything is done as ever.
func TestCollect_refuses_a_name_that_leads_nowhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	segs := commitEach(t, tbl, 3)
	orphans, _ := plant(t, l)
	named, is := misnamed(t, l)
	agedBy(t, dir, 48*time.Hour)
	before := listing(t, l)
	for _, apply := range []bool{false, true} {
		found := collectOne(t, l, GC{Apply: apply})
		require.ErrorContains(t, found.Err, "it names a file that is not there: "+named+", in ")
		require.ErrorContains(t, found.Err, "perhaps "+is+", which is as long")
		require.Empty(t, found.Orphans)
		require.Zero(t, found.Deleted)
		require.Equal(t, before, listing(t, l))
	}
	require.NoError(t, os.Rename(is, named))
	found := collectOne(t, l, GC{Apply: true})
	require.NoError(t, found.Err)
	require.Equal(t, len(orphans), found.Deleted)
	requireExactly(t, l, segs...)
}

// A snapshot that is not the current one counts as well, also when it is no more than a later state that names the file.
func TestCollect_refuses_what_an_older_snapshot_lacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 3)
	file := manifestFiles(t, l)[0].FilePath()
	dropFile(t, l, file)
	require.NoError(t, os.Remove(fileOf(t, file)))
	plant(t, l)
	agedBy(t, dir, 48*time.Hour)
	found := collectOne(t, l, GC{Apply: true})
	require.ErrorContains(t, found.Err, "it names a file that is not there: "+fileOf(t, file))
	require.NotContains(t, found.Err.Error(), "perhaps")

	_, err := tbl.Expire(t.Context(), 1) // what only a predecessor names is there for nobody
	require.NoError(t, err)
	found = collectOne(t, l, GC{Apply: true})
	require.NoError(t, found.Err)
	require.NotZero(t, found.Deleted)
}

// dropFile commits a snapshot without a data file.
func dropFile(tb testing.TB, l *Lake, file string) {
	tb.Helper()
	tx := loaded(tb, l).NewTransaction()
	require.NoError(tb, tx.ReplaceDataFiles(tb.Context(), []string{file}, nil, nil))
	_, err := tx.Commit(tb.Context())
	require.NoError(tb, err)
}

// What is committed after the listing is not in it, and no damage.
func TestCollect_beside_a_commit_after_the_listing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	segs := commitEach(t, tbl, 3)
	orphans, _ := plant(t, l)
	agedBy(t, dir, 48*time.Hour)
	last, files := newSegment(t, 9, 5), len(listing(t, l))
	committed := 0
	found := collectOne(t, lakeAt(t, dir, hooks{}), GC{Apply: true, Progress: func(_, step string, done, _ int) {
		if step != "list" || done < files || committed > 0 {
			return
		}
		committed++
		_, err := tbl.Commit(t.Context(), []Segment{last})
		require.NoError(t, err)
	}})
	require.Equal(t, 1, committed)
	require.NoError(t, found.Err)
	require.Equal(t, files, found.Files, "listed before the commit")
	require.Equal(t, len(orphans), found.Deleted)
	requireExactly(t, l, append(segs, last)...)
}

// A snapshot that lacks a file and expires while the table is judged keeps nobody back.
func TestCollect_beside_expiry_of_what_lacks_a_file(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	gc := lakeAt(t, dir, faults(f))
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 3)
	file := manifestFiles(t, l)[0].FilePath()
	orphans, _ := plant(t, l)
	dropFile(t, l, file)
	require.NoError(t, os.Remove(fileOf(t, file)))
	agedBy(t, dir, 48*time.Hour)
	expired := 0
	f.onLoad = func(n int) error {
		if n == 4 { // for the places, twice at the beginning, after the listing: by this one the files are judged
			expired++
			_, err := tbl.Expire(t.Context(), 1)
			require.NoError(t, err)
		}
		return nil
	}
	found := collectOne(t, gc, GC{Apply: true})
	require.Equal(t, 1, expired)
	require.NoError(t, found.Err)
	require.Equal(t, len(orphans), found.Deleted)
}
