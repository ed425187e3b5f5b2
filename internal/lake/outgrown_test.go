package lake

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A catalog was restored, and another writer has committed far past what was seen: beyond the metadata files that its history names,
// and beyond the snapshots that it keeps. Whoever has seen the other way notices, also when the table was open, and the rows that
// are in no table come back.
func TestPast_a_fork_that_was_outgrown(t *testing.T) {
	t.Parallel()
	for _, expire := range []int{0, 3} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("snapshots_%d_open_%t", expire, open), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				mine := lakeAt(t, dir, hooks{})
				tbl := events(t, mine)
				commitEach(t, tbl, 1)
				_, backup := tbl.Head()
				lost := newSegment(t, 50, 4)
				_, err := tbl.Commit(t.Context(), []Segment{lost})
				require.NoError(t, err)
				seen := seenOf(tbl)
				pointTo(t, mine, backup)
				other := lakeAt(t, dir, hooks{})
				commitEach(t, events(t, other), 24)
				if expire > 0 {
					left, err := events(t, other).Expire(t.Context(), expire)
					require.NoError(t, err)
					require.Equal(t, expire, left)
				}
				require.Greater(t, firstOf(t, other), versionNumber(seen.Metadata), "past what its history names")

				if !open {
					mine = lakeAt(t, dir, hooks{})
				}
				mine.Expect("default", "events", seen)
				var back *GoneBackError
				next := newSegment(t, 99, 1)
				for range 2 {
					again := events(t, mine)
					again.Expect(seen.Sequence, seen.Metadata)
					_, err = again.Commit(t.Context(), []Segment{next})
					require.ErrorAs(t, err, &back)
				}

				p := past(t, other, seen)
				require.Equal(t, WentBack, p.Standing)
				require.Nil(t, p.Forward)
				require.EqualValues(t, 4, p.Named[lost.ID])
				require.True(t, p.NamesAll())
				require.NoError(t, p.FindStrays(t.Context()))
				require.Len(t, p.Strays, 1)
				require.EqualValues(t, 4, p.Strays[0].Rows)
				require.NoError(t, p.AddStrays(t.Context()))
				found, err := past(t, other, seenOf(events(t, other))).Lookup(t.Context(), []string{lost.ID})
				require.NoError(t, err)
				require.Equal(t, committed(lost), found)
			})
		}
	}
}

func firstOf(t *testing.T, l *Lake) int {
	t.Helper()
	first, ok := firstVersion(loaded(t, l))
	require.True(t, ok)
	return first
}

// A table that others have carried on far past what was seen, the same way, fits: also where the metadata file that was seen was left
// behind.
func TestPast_far_ahead_is_no_fork(t *testing.T) {
	t.Parallel()
	for _, expire := range []int{0, 3} {
		for _, left := range []bool{false, true} {
			t.Run(fmt.Sprintf("snapshots_%d_left_%t", expire, left), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				l := lakeAt(t, dir, hooks{})
				tbl := events(t, l)
				commitEach(t, tbl, 2)
				seen := seenOf(tbl)
				kept, err := os.ReadFile(fileOf(t, seen.Metadata))
				require.NoError(t, err)
				commitEach(t, events(t, lakeAt(t, dir, hooks{})), 24)
				if expire > 0 {
					_, err := tbl.Expire(t.Context(), expire)
					require.NoError(t, err)
				}
				require.NoFileExists(t, fileOf(t, seen.Metadata))
				if left {
					require.NoError(t, os.WriteFile(fileOf(t, seen.Metadata), kept, 0o600))
				}
				again := lakeAt(t, dir, hooks{})
				again.Expect("default", "events", seen)
				require.Equal(t, Fits, past(t, again, seen).Standing)
				_, err = events(t, again).Commit(t.Context(), []Segment{newSegment(t, 99, 1)})
				require.NoError(t, err)
			})
		}
	}
}

// A log was away while others committed far past what it had seen and retention dropped the days of its rows: no fork, as long as the
// file that was seen was removed with the history that named it, or the table still lists the log's last segments. Where neither holds
// it is taken for one, which ADR 0031 tells.
func TestPast_days_dropped_since(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left bool // the metadata file that was seen
		list int  // segments that the table lists
		want Standing
	}{
		"removed":         {list: 4, want: Fits},
		"left_and_listed": {left: true, want: Fits},
		"left_only":       {left: true, list: 4, want: WentBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			h := hooks{limits: limits{proofEntries: c.list}}
			now := time.Now().UTC().Truncate(day).Add(day)
			tbl := events(t, lakeAt(t, dir, h))
			commit := func(tbl *Table, s Segment) {
				_, err := tbl.Commit(t.Context(), []Segment{s})
				require.NoError(t, err)
			}
			commit(tbl, arrived(t, 1, 20*day, 2, now, 20))
			seen := seenOf(tbl)
			kept, err := os.ReadFile(fileOf(t, seen.Metadata))
			require.NoError(t, err)
			others := lakeAt(t, dir, h)
			for i := range 24 {
				commit(events(t, others), arrived(t, uint64(2+i), time.Minute, 1, now, 1))
			}
			_, err = events(t, others).Expire(t.Context(), 3)
			require.NoError(t, err)
			require.NoError(t, others.dropRound(t.Context(), keepTen(), now))
			requireDays(t, others, map[string]int{dayBefore(now, 1): 24})
			require.NoFileExists(t, fileOf(t, seen.Metadata))
			if c.left {
				require.NoError(t, os.WriteFile(fileOf(t, seen.Metadata), kept, 0o600))
			}
			require.Equal(t, c.want, past(t, lakeAt(t, dir, h), seen).Standing)
		})
	}
}
