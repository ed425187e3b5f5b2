package lake

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// seenOf is what the log would remember of a table.
func seenOf(t *Table) Seen {
	sequence, metadata := t.Head()
	return Seen{Table: t.UUID(), Sequence: sequence, Metadata: metadata}
}

func past(tb testing.TB, l *Lake, seen Seen) *Past {
	tb.Helper()
	p, err := l.Past(tb.Context(), "default", "events", seen)
	require.NoError(tb, err)
	return p
}

func fileOf(tb testing.TB, location string) string {
	tb.Helper()
	path, err := localPath(location)
	require.NoError(tb, err)
	return path
}

// Whatever was committed after the backup, the catalog is set to it, and goes on from there.
func TestPast_sets_the_catalog_forward(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 5, 30} { // after 20 commits the metadata file of the backup is gone
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := lakeAt(t, dir, hooks{})
			tbl := events(t, l)
			all := commitEach(t, tbl, 3)
			_, backup := tbl.Head()
			require.Equal(t, Fits, past(t, l, seenOf(tbl)).Standing)
			for i := range after {
				all = append(all, newSegment(t, uint64(10+i), 2))
				_, err := tbl.Commit(t.Context(), all[len(all)-1:])
				require.NoError(t, err)
			}
			seen := seenOf(tbl)
			setProperty(t, l, "events", "someone", "1") // later than what was seen
			last := loaded(t, l).MetadataLocation()
			pointTo(t, l, backup)
			_, err := os.Stat(fileOf(t, backup))
			require.Equal(t, after == 30, os.IsNotExist(err))

			again := lakeAt(t, dir, hooks{})
			p := past(t, again, seen)
			require.Equal(t, WentBack, p.Standing)
			require.True(t, p.Reaches)
			require.Equal(t, last, p.Forward.Metadata)
			require.Equal(t, backup, p.Have.Metadata)
			require.Empty(t, p.Unfit)
			found, err := p.Lookup(t.Context(), []string{all[0].ID, all[len(all)-1].ID})
			require.NoError(t, err)
			require.Equal(t, committed(all[0], all[len(all)-1]), found, "before it is set")
			require.NoError(t, p.Set(t.Context()))
			require.NoError(t, p.Set(t.Context()), "again")
			require.Equal(t, Fits, past(t, again, seen).Standing)
			all = append(all, newSegment(t, 99, 1))
			next := events(t, again)
			next.Expect(seen.Sequence, seen.Metadata)
			_, err = next.Commit(t.Context(), all)
			require.NoError(t, err)
			requireExactly(t, again, all...)
		})
	}
}

// A file that is not whole is as good as gone: the newest state that is whole is taken. Where the store does not answer nothing is
// known.
func TestPast_damaged_files(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"data", "manifest", "list"} {
		for _, size := range []int64{0, 200} {
			t.Run(fmt.Sprint(kind, size), func(t *testing.T) {
				t.Parallel()
				l := lakeAt(t, t.TempDir(), hooks{})
				tbl := events(t, l)
				commitEach(t, tbl, 1)
				_, backup := tbl.Head()
				commitEach(t, tbl, 1)
				_, whole := tbl.Head()
				commitEach(t, tbl, 1)
				snap := loaded(t, l).CurrentSnapshot()
				manifests, err := snap.Manifests(l.io)
				require.NoError(t, err)
				bad := map[string]string{"data": lastOf(manifestFiles(t, l)).FilePath(), "list": snap.ManifestList}[kind]
				for _, m := range manifests {
					if kind == "manifest" && m.SnapshotID() == snap.SnapshotID {
						bad = m.FilePath()
					}
				}
				seen := seenOf(tbl)
				pointTo(t, l, backup)
				require.NoError(t, os.Truncate(fileOf(t, bad), size))
				p := past(t, l, seen)
				require.Equal(t, whole, p.Forward.Metadata)
				require.False(t, p.Reaches)
				require.Len(t, p.Unfit, 1)
				require.Contains(t, p.Unfit[0].Why, "damaged")
				require.NoError(t, p.Set(t.Context()))
			})
		}
	}
}

// A file that has older content than its name says is no state to go on from, whether the catalog shows it or an older one.
// Later ones have what was seen.
func TestPast_older_content_under_the_name(t *testing.T) {
	t.Parallel()
	for _, shown := range []bool{true, false} {
		for _, later := range []bool{true, false} {
			t.Run(fmt.Sprintf("shown_%t_later_%t", shown, later), func(t *testing.T) {
				t.Parallel()
				l := lakeAt(t, t.TempDir(), hooks{})
				tbl := events(t, l)
				commitEach(t, tbl, 1)
				_, backup := tbl.Head()
				commitEach(t, tbl, 1)
				_, older := tbl.Head()
				commitEach(t, tbl, 1)
				seen := seenOf(tbl)
				best := older
				if later {
					commitEach(t, tbl, 1)
					_, best = tbl.Head()
				}
				pointTo(t, l, backup)
				if shown {
					pointTo(t, l, seen.Metadata)
				}
				swapContent(t, seen.Metadata, older)
				forget(l)
				p := past(t, l, seen)
				require.Equal(t, WentBack, p.Standing)
				require.Equal(t, shown, p.Overwritten())
				require.Equal(t, shown, strings.Contains(p.String(), "put the right content of that file back"), p)
				require.Equal(t, later, p.Reaches)
				if shown && !later {
					require.Nil(t, p.Forward, "nothing follows on it")
					return
				}
				require.Equal(t, best, p.Forward.Metadata)
				if !shown {
					require.Len(t, p.Unfit, 1)
					require.Contains(t, p.Unfit[0].Why, "older than the file's name: sequence 3 was committed as")
				}
			})
		}
	}
}

// Of two histories the one is taken that has what was seen, though the other one is newer.
func TestPast_prefers_what_was_seen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 1)
	_, backup := tbl.Head()
	commitEach(t, tbl, 1)
	seen := seenOf(tbl)
	pointTo(t, l, backup)
	commitEach(t, events(t, lakeAt(t, dir, hooks{})), 3)
	pointTo(t, l, backup)
	p := past(t, l, seen)
	require.Equal(t, seen.Metadata, p.Forward.Metadata)
	require.True(t, p.Reaches)
}

// What was committed to a restored catalog is not thrown away for what was committed before: nothing follows on it.
func TestPast_a_fork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 1)
	_, backup := tbl.Head()
	lost := newSegment(t, 50, 4)
	_, err := tbl.Commit(t.Context(), []Segment{lost})
	require.NoError(t, err)
	seen := seenOf(tbl)
	pointTo(t, l, backup)
	other := lakeAt(t, dir, hooks{})
	commitEach(t, events(t, other), 3)

	p := past(t, other, seen)
	require.Equal(t, WentBack, p.Standing)
	require.EqualValues(t, 4, p.Have.Sequence)
	require.Nil(t, p.Forward)
	require.Len(t, p.Unfit, 1)
	require.Contains(t, p.Unfit[0].Why, "did not follow")
	require.EqualValues(t, 4, p.Named[lost.ID])
	require.True(t, p.NamesAll())
	found, err := p.Lookup(t.Context(), []string{lost.ID})
	require.NoError(t, err)
	require.Empty(t, found)

	defer func() { // its data file is there, and becomes part of the table
		require.NoError(t, p.FindStrays(t.Context()))
		require.Len(t, p.Strays, 1)
		require.EqualValues(t, 4, p.Strays[0].Rows)
		require.NoError(t, p.AddStrays(t.Context()))
		require.EqualValues(t, 5, p.Have.Sequence)
		next := events(t, lakeAt(t, dir, hooks{}))
		out, err := next.Commit(t.Context(), []Segment{lost})
		require.NoError(t, err)
		require.Equal(t, committed(lost), out.Committed)
		require.Zero(t, out.RowsWritten, "the proof names it")
		rows := readAll(t, other)
		require.Len(t, rows, 2+6+4)
	}()

	// A drain that starts again finds it out, though the sequence number is past what it has seen.
	last := lakeAt(t, dir, hooks{})
	last.Expect("default", "events", seen)
	var back *GoneBackError
	_, err = events(t, last).Commit(t.Context(), []Segment{lost})
	require.ErrorAs(t, err, &back)
	require.ErrorAs(t, newKeeper(last, 1).round(t.Context()), &back, "maintenance, too")
	require.Len(t, metaOf(t, last).Snapshots(), 4)
}

// A table that the catalog does not have is registered; the namespace is made for it.
func TestPast_registers_a_table(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	all := commitEach(t, tbl, 3)
	seen := seenOf(tbl)
	require.NoError(t, os.Rename(filepath.Join(dir, "warehouse"), filepath.Join(dir, "kept")))
	fresh := t.TempDir()
	empty := lakeOf(t, Options{Catalog: "sqlite://" + filepath.Join(fresh, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse")}, hooks{})
	p := past(t, empty, seen)
	require.Equal(t, Unlisted, p.Standing)
	require.Nil(t, p.Forward, "the warehouse is empty")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "warehouse")))
	require.NoError(t, os.Rename(filepath.Join(dir, "kept"), filepath.Join(dir, "warehouse")))
	p = past(t, empty, seen)
	require.Equal(t, seen.Metadata, p.Forward.Metadata)
	require.NoError(t, p.Set(t.Context()))
	require.Equal(t, Fits, past(t, empty, seen).Standing)
	_, err := events(t, empty).Commit(t.Context(), all)
	require.NoError(t, err)
	requireExactly(t, empty, all...)
}

// A table made since has the name: nothing is done.
func TestPast_another_table(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 1)
	seen := seenOf(tbl)
	require.NoError(t, l.cat.dropTable(t.Context(), tbl.id))
	_, created, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
	require.NoError(t, err)
	require.True(t, created)
	p := past(t, l, seen)
	require.Equal(t, Replaced, p.Standing)
	require.Nil(t, p.Forward)
}

// The catalog moved on since it was looked at: it is not set, and says so.
func TestPast_set_is_a_compare_and_swap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 1)
	_, backup := tbl.Head()
	commitEach(t, tbl, 1)
	pointTo(t, l, backup)
	p := past(t, l, seenOf(tbl))
	setProperty(t, lakeAt(t, dir, hooks{}), "events", "someone", "1")
	now := loaded(t, l).MetadataLocation()
	require.ErrorContains(t, p.Set(t.Context()), "somebody else writes to it")
	require.Equal(t, now, loaded(t, l).MetadataLocation())
}

// PostgreSQL, with its own placeholders.
func TestPostgres_past(t *testing.T) {
	t.Parallel()
	at, home := newDatabase(t), t.TempDir()
	l := lakeOf(t, Options{Catalog: at, Warehouse: home}, hooks{})
	tbl := events(t, l)
	all := commitEach(t, tbl, 3)
	_, backup := tbl.Head()
	all = append(all, commitEach(t, tbl, 25)...)
	pgExec(t, at, "UPDATE iceberg_tables SET metadata_location = $1", backup)
	require.NoFileExists(t, fileOf(t, backup))
	p := past(t, l, seenOf(tbl))
	require.Equal(t, WentBack, p.Standing)
	require.NoError(t, p.Set(t.Context()))
	requireExactly(t, l, all...)

	empty := lakeOf(t, Options{Catalog: newDatabase(t), Warehouse: home}, hooks{})
	p = past(t, empty, seenOf(tbl))
	require.Equal(t, Unlisted, p.Standing)
	require.NoError(t, p.Set(t.Context()))
	requireExactly(t, empty, all...)
}

// In a bucket, where files are objects.
func TestS3_past(t *testing.T) {
	t.Parallel()
	home, access := newBucketHome(t)
	l := lakeOf(t, Options{Catalog: "sqlite://" + filepath.Join(t.TempDir(), "catalog.db"), Warehouse: home, S3: access}, hooks{})
	tbl := events(t, l)
	all := commitEach(t, tbl, 1)
	_, backup := tbl.Head()
	all = append(all, commitEach(t, tbl, 2)...)
	files := manifestFiles(t, l)
	pointTo(t, l, backup)
	p := past(t, l, seenOf(tbl))
	require.True(t, p.Reaches)
	require.NoError(t, p.Set(t.Context()))
	requireExactly(t, l, all...)

	pointTo(t, l, backup)
	require.NoError(t, l.io.Remove(lastOf(files).FilePath()))
	p = past(t, l, seenOf(tbl))
	require.False(t, p.Reaches)
	require.Len(t, p.Unfit, 1)
	require.Contains(t, p.Unfit[0].Why, "1 of the files of its current snapshot are gone or damaged")

	// Without any later metadata the data file that is left is found by itself.
	for _, f := range []string{p.Unfit[0].Metadata, p.Forward.Metadata} {
		require.NoError(t, l.io.Remove(f))
	}
	p = past(t, l, seenOf(tbl))
	require.Nil(t, p.Forward)
	require.NoError(t, p.FindStrays(t.Context()))
	require.Len(t, p.Strays, 1)
	require.NoError(t, p.AddStrays(t.Context()))
	requireExactly(t, l, all[:2]...)
}

// lastOf is the file of the last commit.
func lastOf(files []iceberg.DataFile) (last iceberg.DataFile) {
	for _, f := range files {
		if last == nil || filepath.Base(f.FilePath()) > filepath.Base(last.FilePath()) {
			last = f
		}
	}
	return last
}

// A REST catalog is not set to a file; a table that it does not have any more is registered.
func TestREST_past(t *testing.T) {
	t.Parallel()
	s := newRESTServer(t)
	l := lakeOf(t, Options{Catalog: "rest+" + s.URL, Warehouse: t.TempDir()}, hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 1)
	backup := s.tables["siglake.events"]
	all := commitEach(t, tbl, 2)
	now := s.tables["siglake.events"]
	raw, err := json.Marshal(now.meta)
	require.NoError(t, err)
	path := fileOf(t, now.location)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, raw, 0o600)) // as a server that keeps its files in the warehouse
	s.mu.Lock()
	s.tables["siglake.events"] = backup
	s.mu.Unlock()
	p := past(t, l, seenOf(tbl))
	require.Equal(t, WentBack, p.Standing)
	require.True(t, p.Reaches)
	require.ErrorIs(t, p.Set(t.Context()), ErrRepoint)
	require.ErrorContains(t, p.Set(t.Context()), "drop table siglake.events and keep the files")
	s.mu.Lock()
	delete(s.tables, "siglake.events")
	s.mu.Unlock()
	p = past(t, l, seenOf(tbl))
	require.Equal(t, Unlisted, p.Standing)
	require.NoError(t, p.Set(t.Context()))
	require.Equal(t, Fits, past(t, l, seenOf(tbl)).Standing)
	_, err = tbl.Commit(t.Context(), all)
	require.NoError(t, err)
}

// wentBack is a table whose catalog went back to an empty one, and whose later metadata is gone. It returns its data files by day.
func wentBack(t *testing.T, l *Lake, tbl *Table, segs ...Segment) (seen Seen, files map[string][]string) {
	t.Helper()
	_, backup := tbl.Head()
	for _, s := range segs {
		_, err := tbl.Commit(t.Context(), []Segment{s})
		require.NoError(t, err)
	}
	seen = seenOf(tbl)
	files = map[string][]string{}
	for _, df := range manifestFiles(t, l) {
		files[filepath.Base(filepath.Dir(df.FilePath()))] = append(files[filepath.Base(filepath.Dir(df.FilePath()))], fileOf(t, df.FilePath()))
	}
	later, err := filepath.Glob(filepath.Join(filepath.Dir(fileOf(t, backup)), "*.metadata.json"))
	require.NoError(t, err)
	for _, f := range later {
		if f != fileOf(t, backup) {
			require.NoError(t, os.Remove(f))
		}
	}
	pointTo(t, l, backup)
	return seen, files
}

// twoDays is a segment of which each second row is of the next day.
func twoDays(t *testing.T, seq uint64, n int) Segment {
	t.Helper()
	rows := rowsAt(day0, n)
	for i := 1; i < n; i += 2 {
		rows[i].at = rows[i].at.AddDate(0, 0, 1)
	}
	return segment(t, newSegment(t, seq, 1).ID, rows)
}

// Of a segment in two files one is lost: the other one is left alone, so that its rows do not hide the ones before them from who
// looks the segment up; and a beginning that is left is taken.
func TestStrays_of_a_segment_that_is_not_whole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	seg, other := twoDays(t, 1, 6), newSegment(t, 2, 3)
	tbl := events(t, l)
	seen, files := wentBack(t, l, tbl, seg, other)
	require.Len(t, files["timestamp_day=2026-05-17"], 2)
	require.Len(t, files["timestamp_day=2026-05-18"], 1)
	require.NoError(t, os.Remove(files["timestamp_day=2026-05-18"][0]))
	again := lakeAt(t, dir, hooks{})
	p := past(t, again, seen)
	require.Nil(t, p.Forward)
	require.NoError(t, p.FindStrays(t.Context()))
	require.Len(t, p.Strays, 2)
	require.Contains(t, p.Strays[0].Why, "row 1 of segment "+seg.ID)
	require.EqualValues(t, 3, p.Strays[0].Rows)
	require.EqualValues(t, 5, p.Named[seg.ID])
	require.NoError(t, p.AddStrays(t.Context()))
	requireExactly(t, again, other)
	found, err := p.Lookup(t.Context(), []string{seg.ID, other.ID})
	require.NoError(t, err)
	require.Equal(t, committed(other), found)
	_, err = events(t, again).Commit(t.Context(), []Segment{seg, other})
	require.NoError(t, err)
	requireExactly(t, again, seg, other)
}

// A file that compaction made has rows that the table has, too: not it is taken but the one it was made from, and where that is
// gone its rows are named.
func TestStrays_beside_compaction(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone_%t", gone), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := lakeAt(t, dir, hooks{})
			tbl := events(t, l)
			all := commitEach(t, tbl, 1)
			_, backup := tbl.Head()
			kept, err := os.ReadFile(fileOf(t, backup)) // it is too old for the table to keep it
			require.NoError(t, err)
			all = append(all, commitEach(t, tbl, 23)...)
			before := manifestFiles(t, l)
			compactAll(t, l)
			require.Less(t, len(manifestFiles(t, l)), 24, "merged")
			seen := seenOf(tbl)
			later, err := filepath.Glob(filepath.Join(filepath.Dir(fileOf(t, backup)), "*.metadata.json"))
			require.NoError(t, err)
			for _, f := range later {
				require.NoError(t, os.Remove(f))
			}
			require.NoError(t, os.WriteFile(fileOf(t, backup), kept, 0o600))
			pointTo(t, l, backup)
			again := lakeAt(t, dir, hooks{})
			first := manifestFiles(t, again)
			require.Len(t, first, 1)
			for _, df := range before {
				if gone && df.FilePath() != first[0].FilePath() {
					require.NoError(t, os.Remove(fileOf(t, df.FilePath())))
				}
			}
			p := past(t, again, seen)
			require.NoError(t, p.FindStrays(t.Context()))
			require.NoError(t, p.AddStrays(t.Context()))
			var whole []Segment
			for _, s := range all {
				found, err := p.Lookup(t.Context(), []string{s.ID})
				require.NoError(t, err)
				if found[s.ID] == 2 {
					whole = append(whole, s)
				} else {
					require.EqualValues(t, 2, p.Named[s.ID])
				}
			}
			requireExactly(t, again, whole...)
			require.Equal(t, gone, len(whole) < len(all), "%d of %d", len(whole), len(all))
			for _, f := range p.Strays {
				if f.Why != "" {
					require.EqualValues(t, 2*(len(all)-len(whole)), f.Rows)
					require.Contains(t, f.Why, "some of its rows are in the table")
				}
			}
		})
	}
}
