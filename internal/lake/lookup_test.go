package lake

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// prefix is a copy of the segment that ends early, as one recovered from a torn file.
func prefix(seg Segment, n int64) Segment {
	out := seg
	out.Rows, out.Batches = n, nil
	for _, b := range seg.Batches {
		take := min(n, b.NumRows())
		if n -= take; take > 0 {
			out.Batches = append(out.Batches, b.NewSlice(0, take))
		}
	}
	return out
}

// LAKE-1: a segment the proof has forgotten is found in the rows of the table, whatever makes one look.
func TestCommit_what_the_proof_forgot_is_looked_up(t *testing.T) {
	t.Parallel()
	// By its id a segment of yesterday is outside the coverage, and one of tomorrow (a clock was wrong) is inside.
	yesterday, tomorrow := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	for _, tc := range []struct {
		name   string
		made   time.Time
		change func(*Segment)
	}{
		{"doubtful", tomorrow, func(s *Segment) { s.Doubtful = true }},
		{"older_than_the_coverage_by_its_id", yesterday, func(*Segment) {}},
		{"older_than_the_coverage_by_its_file", tomorrow, func(s *Segment) { s.ModTime = yesterday }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{limits: limits{proofEntries: 2}})
			tbl := events(t, l)
			seg := segment(t, testID(t, tc.made, 1), rowsAt(day0, 6))
			_, err := tbl.Commit(t.Context(), []Segment{seg})
			require.NoError(t, err)
			var later []Segment
			for i := range 4 {
				later = append(later, newSegment(t, uint64(10+i), 2))
				_, err := tbl.Commit(t.Context(), later[i:])
				require.NoError(t, err)
			}
			st, err := tbl.load(t.Context())
			require.NoError(t, err)
			require.NotContains(t, st.proof.rows(), seg.ID)

			again := seg
			tc.change(&again)
			out, err := tbl.Commit(t.Context(), []Segment{again})
			require.NoError(t, err)
			require.Equal(t, committed(seg), out.Committed)
			require.Equal(t, int64(6), out.Duplicates)
			require.Zero(t, out.RowsWritten)
			requireExactly(t, l, append(later, seg)...)

			// The next commit carries what was found, so that it is not looked for again.
			more := newSegment(t, 20, 1)
			_, err = tbl.Commit(t.Context(), []Segment{again, more})
			require.NoError(t, err)
			st, err = tbl.load(t.Context())
			require.NoError(t, err)
			require.Equal(t, int64(6), st.proof.rows()[seg.ID])
			requireExactly(t, l, append(later, seg, more)...)
		})
	}
}

// LAKE-1: a table whose proof was lost, or that never had one, is asked for its rows.
func TestCommit_a_lost_proof_duplicates_nothing(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	segs := []Segment{newSegment(t, 1, 3), newSegment(t, 2, 4)}
	_, err := tbl.Commit(t.Context(), segs)
	require.NoError(t, err)
	setProperty(t, l, "events", propProof, "")
	fresh := newSegment(t, 3, 2)
	out, err := tbl.Commit(t.Context(), append(segs, fresh))
	require.NoError(t, err)
	require.Equal(t, int64(2), out.RowsWritten)
	require.Equal(t, int64(7), out.Duplicates)
	requireExactly(t, l, append(segs, fresh)...)
}

// A proof that came along with a table's copied properties speaks of rows that are not there.
func TestCommit_a_copied_proof_is_not_believed(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	seg := newSegment(t, 1, 3)
	_, err := tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	st, err := tbl.load(t.Context())
	require.NoError(t, err)
	copied, _, err := l.Ensure(t.Context(), "default", "copy", 0)
	require.NoError(t, err)
	setProperty(t, l, "copy", propProof, st.tbl.Properties()[propProof])
	out, err := copied.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	require.Equal(t, int64(3), out.RowsWritten)
}

// LOUD-1: a proof that cannot be read stops the table; it is never taken for an empty one.
func TestCommit_a_corrupt_proof_stops_the_table(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	seg := newSegment(t, 1, 3)
	_, err := tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	setProperty(t, l, "events", propProof, "1.AAAA")
	_, err = tbl.Commit(t.Context(), []Segment{seg, newSegment(t, 2, 1)})
	require.ErrorIs(t, err, ErrProof)
	require.ErrorContains(t, err, "siglake.consumed-proof of siglake.events")
	_, err = tbl.Lookup(t.Context(), []string{seg.ID})
	require.ErrorIs(t, err, ErrProof)
	requireExactly(t, l, seg)
}

// Copies of a segment are prefixes of each other: only rows beyond those committed are written.
func TestCommit_a_longer_copy_adds_only_its_tail_T10(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []bool{false, true} {
		t.Run(fmt.Sprintf("forgotten_%t", forgotten), func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{})
			tbl := events(t, l)
			seg := newSegment(t, 1, 10)
			for _, n := range []int64{3, 3, 7, 5, 10, 1} {
				out, err := tbl.Commit(t.Context(), []Segment{prefix(seg, n)})
				require.NoError(t, err)
				require.GreaterOrEqual(t, out.Committed[seg.ID], n)
				if forgotten {
					setProperty(t, l, "events", propProof, "")
				}
			}
			requireExactly(t, l, seg)
		})
	}
}

func TestLookup_proof_first_then_the_table(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{proofEntries: 1}})
	tbl := events(t, l)
	none, err := tbl.Lookup(t.Context(), []string{"x"})
	require.NoError(t, err)
	require.Empty(t, none)
	var segs []Segment
	for i := range 5 {
		segs = append(segs, newSegment(t, uint64(i), i+1))
		_, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
	}
	want := map[string]int64{}
	ids := []string{"absent", testID(t, time.Now(), 99)}
	for _, s := range segs {
		want[s.ID] = s.Rows
		ids = append(ids, s.ID)
	}
	got, err := tbl.Lookup(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A lookup opens only files whose bounds allow for the segment.
func TestLookup_prunes_by_the_bounds_of_files(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{limits: limits{proofEntries: 1}})
	tbl := events(t, l)
	var segs []Segment
	for i := range 4 {
		segs = append(segs, segment(t, testID(t, day0.Add(time.Duration(i)*time.Hour), uint64(i)), rowsAt(day0, 2)))
		segs[i].Doubtful = false
		_, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
	}
	// All files but that of segment 1 become unreadable: who opens them fails.
	for _, df := range manifestFiles(t, l) {
		if found := readSegmentOf(t, l, df.FilePath(), segs); found != 1 {
			require.NoError(t, newSyncIO(osDisk{}).WriteFile(df.FilePath(), []byte("x")))
		}
	}
	got, err := tbl.Lookup(t.Context(), []string{segs[1].ID})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{segs[1].ID: 2}, got)
	_, err = tbl.Lookup(t.Context(), []string{segs[0].ID})
	require.ErrorContains(t, err, "look up 1 segments in siglake.events", "unreadable is not the same as absent")
}

func readSegmentOf(tb testing.TB, l *Lake, path string, segs []Segment) int {
	tb.Helper()
	for _, df := range manifestFiles(tb, l) {
		if df.FilePath() != path {
			continue
		}
		want := map[string]*seen{}
		for _, s := range segs {
			want[s.ID] = &seen{}
		}
		sc, err := newTableSchema(0)
		require.NoError(tb, err)
		require.NoError(tb, l.count(tb.Context(), df, sc, want))
		for i, s := range segs {
			if want[s.ID].rows > 0 {
				return i
			}
		}
	}
	return -1
}

// Rows at the end of a segment prove those before them, even if a retention job deleted some since.
func TestLookup_counts_by_the_last_row(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{proofEntries: 1}})
	tbl := events(t, l)
	// Two days, two files; the first of them is deleted from the table.
	rows := append(rowsAt(day0, 3), rowsAt(day0.Add(24*time.Hour), 2)...)
	seg := segment(t, testID(t, time.Now(), 1), rows)
	_, err := tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	st, err := tbl.load(t.Context())
	require.NoError(t, err)
	tx := st.tbl.NewTransaction()
	var old []string
	for _, df := range manifestFiles(t, l) {
		if df.Count() == 3 {
			old = append(old, df.FilePath())
		}
	}
	require.NoError(t, tx.ReplaceDataFiles(t.Context(), old, nil, nil))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	require.Len(t, readAll(t, l), 2)
	setProperty(t, l, "events", propProof, "")
	got, err := tbl.Lookup(t.Context(), []string{seg.ID})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{seg.ID: 5}, got)
}
