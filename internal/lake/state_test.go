package lake

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"golang.org/x/sync/errgroup"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// pointTo makes the catalog point a table at another of its metadata files, as a restored backup would.
func pointTo(tb testing.TB, l *Lake, metadata string) {
	tb.Helper()
	_, err := l.db.ExecContext(context.Background(), "UPDATE iceberg_tables SET metadata_location = ?", metadata)
	require.NoError(tb, err)
}

// LOUD-1: a catalog restored from a backup stops the table, and the error names both states.
func TestCommit_a_catalog_gone_back_stops_the_table(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart_%t", restart), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := lakeAt(t, dir, hooks{})
			tbl := events(t, l)
			a, b := newSegment(t, 1, 3), newSegment(t, 2, 2)
			_, err := tbl.Commit(t.Context(), []Segment{a})
			require.NoError(t, err)
			_, backup := tbl.Head()
			_, err = tbl.Commit(t.Context(), []Segment{b})
			require.NoError(t, err)
			sequence, metadata := tbl.Head()
			require.Equal(t, int64(2), sequence)
			pointTo(t, l, backup)
			if restart { // the head file survives, the process does not
				l = lakeAt(t, dir, hooks{})
				tbl = events(t, l)
				tbl.Expect(sequence, metadata)
			}
			out, err := tbl.Commit(t.Context(), []Segment{a, b})
			var back *GoneBackError
			require.ErrorAs(t, err, &back)
			require.Equal(t, GoneBackError{
				Table: "siglake.events", WantSequence: 2, HaveSequence: 1, WantMetadata: metadata, HaveMetadata: backup,
			}, *back)
			require.ErrorContains(t, err, backup)
			require.Empty(t, out.Committed)
			_, err = tbl.Lookup(t.Context(), []string{b.ID})
			require.ErrorAs(t, err, &back)
		})
	}
}

// LOUD-1: older content under the name of the newest metadata file, as when a wrong file is put back, shows less than was
// committed. It stops the table, and the error names the file.
func TestCommit_older_content_under_the_same_name_stops_the_table(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	a, b := newSegment(t, 1, 3), newSegment(t, 2, 2)
	_, err := tbl.Commit(t.Context(), []Segment{a})
	require.NoError(t, err)
	_, older := tbl.Head()
	_, err = tbl.Commit(t.Context(), []Segment{b})
	require.NoError(t, err)
	sequence, newest := tbl.Head()
	right := swapContent(t, newest, older)

	again := lakeAt(t, dir, hooks{})
	tbl = events(t, again)
	tbl.Expect(sequence, newest)
	out, err := tbl.Commit(t.Context(), []Segment{a, b})
	var back *GoneBackError
	require.ErrorAs(t, err, &back)
	require.Equal(t, GoneBackError{
		Table: "siglake.events", WantSequence: 2, HaveSequence: 1, WantMetadata: newest, HaveMetadata: newest,
	}, *back)
	require.ErrorContains(t, err, "older than the file's name: sequence 2 was committed as "+newest+", which has sequence 1 now; put the right content of that file back")
	require.Empty(t, out.Committed)
	_, err = tbl.Lookup(t.Context(), []string{b.ID})
	require.ErrorAs(t, err, &back)
	found, err := again.Collect(t.Context(), nil, GC{MinAge: LeastOrphanAge, Seen: func(string, string) (Seen, error) {
		return Seen{tbl.UUID(), sequence, newest}, nil
	}})
	require.NoError(t, err)
	require.ErrorAs(t, found[0].Err, &back)

	require.NoError(t, os.WriteFile(fileOf(t, newest), right, 0o600))
	forget(again)
	_, err = tbl.Commit(t.Context(), []Segment{a, b, newSegment(t, 3, 1)})
	require.NoError(t, err)
	require.Len(t, readAll(t, again), 6)
}

// swapContent puts the content of one metadata file under the name of another, and returns what was there.
func swapContent(tb testing.TB, name, from string) []byte {
	tb.Helper()
	was, err := os.ReadFile(fileOf(tb, name))
	require.NoError(tb, err)
	content, err := os.ReadFile(fileOf(tb, from))
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(fileOf(tb, name), content, 0o600))
	return was
}

// A restored catalog that others have committed to since has a sequence number like the one seen, and another past.
func TestCommit_a_forked_catalog_stops_the_table(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	_, err := tbl.Commit(t.Context(), []Segment{newSegment(t, 1, 3)})
	require.NoError(t, err)
	_, backup := tbl.Head()
	_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 2, 2)})
	require.NoError(t, err)
	pointTo(t, l, backup)
	other := events(t, lakeAt(t, dir, hooks{}))
	for i := range 2 {
		_, err = other.Commit(t.Context(), []Segment{newSegment(t, uint64(3+i), 2)})
		require.NoError(t, err)
	}
	_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 9, 1)})
	var back *GoneBackError
	require.ErrorAs(t, err, &back)
	require.Equal(t, int64(3), back.HaveSequence)
}

// Whoever looks something up while this process commits sees an older state or a newer one, but no step back.
func TestLookup_during_commits(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	for range 3 {
		g.Go(func() error {
			for ctx.Err() == nil {
				if _, err := tbl.Lookup(t.Context(), []string{"x"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range 8 {
		_, err := tbl.Commit(t.Context(), []Segment{newSegment(t, uint64(i), 1)})
		require.NoError(t, err)
	}
	cancel()
	require.NoError(t, g.Wait())
}

// What others do to a table in the ordinary way is no step back.
func TestCommit_goes_on_after_the_commits_of_others(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	var all []Segment
	for i := range 5 {
		all = append(all, newSegment(t, uint64(i), 1))
		_, err := tbl.Commit(t.Context(), all[i:])
		require.NoError(t, err)
		setProperty(t, l, "events", "someone", fmt.Sprint(i)) // moves the metadata file, not the sequence number
	}
	sequence, metadata := tbl.Head()
	again := events(t, lakeAt(t, dir, hooks{}))
	again.Expect(sequence, metadata)
	_, err := again.Commit(t.Context(), []Segment{newSegment(t, 9, 1)})
	require.NoError(t, err)
}

// The history of metadata files is bounded: a head from before it is not taken for a fork.
func TestCommit_an_old_head_is_no_fork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	_, err := tbl.Commit(t.Context(), []Segment{newSegment(t, 0, 1)})
	require.NoError(t, err)
	sequence, metadata := tbl.Head()
	for i := range 25 {
		setProperty(t, l, "events", "n", fmt.Sprint(i))
	}
	again := events(t, lakeAt(t, dir, hooks{}))
	again.Expect(sequence, metadata)
	_, err = again.Commit(t.Context(), []Segment{newSegment(t, 9, 1)})
	require.NoError(t, err)
	kept := filesUnderDir(t, filepath.Join(dir, "warehouse/siglake.db/events/metadata"), ".metadata.json")
	require.LessOrEqual(t, len(kept), 22, "old metadata files are deleted")
}

func filesUnderDir(tb testing.TB, dir, suffix string) []string {
	tb.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	require.NoError(tb, err)
	return all
}

// Nothing is ever written into another incarnation of a table.
func TestCommit_refuses_another_incarnation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	old := events(t, l)
	seg := newSegment(t, 1, 3)
	_, err := l.db.ExecContext(t.Context(), "DELETE FROM iceberg_tables")
	require.NoError(t, err)
	_, err = old.Commit(t.Context(), []Segment{seg})
	require.ErrorIs(t, err, ErrNoTable)
	made, created, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
	require.NoError(t, err)
	require.True(t, created)
	require.NotSame(t, old, made)
	_, err = old.Commit(t.Context(), []Segment{seg})
	var other *IncarnationError
	require.ErrorAs(t, err, &other)
	require.Equal(t, IncarnationError{Table: "siglake.events", Want: old.UUID(), Have: made.UUID()}, *other)
	require.Empty(t, readAll(t, l))
	_, err = made.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	requireExactly(t, l, seg)
}

// The table is replaced while rows are on their way to it.
func TestCommit_refuses_an_incarnation_made_meanwhile_R19(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	l := lakeAt(t, t.TempDir(), faults(f))
	old := events(t, l)
	f.answers = []answer{after(func() {
		_, err := l.db.ExecContext(context.Background(), "DELETE FROM iceberg_tables")
		require.NoError(t, err)
		_, _, err = l.Ensure(context.Background(), "default", "events", otelarrow.Logs)
		require.NoError(t, err)
	})}
	_, err := old.Commit(t.Context(), []Segment{newSegment(t, 1, 3)})
	var other *IncarnationError
	require.ErrorAs(t, err, &other)
	require.Empty(t, readAll(t, l))
	require.Less(t, f.loads, 8, "what another attempt would meet again is not attempted again")
}

// Iceberg refuses a snapshot older than the last one by a minute. That is said before anything is written, with what
// to do, and does not keep committed segments from being recognised.
func TestCommit_says_when_the_clock_is_behind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	seg := newSegment(t, 1, 3)
	_, err := tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	future := time.Now().Add(10 * time.Minute)
	moveMetadataTo(t, tbl, future)
	files := len(filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet"))

	out, err := tbl.Commit(t.Context(), []Segment{seg, newSegment(t, 2, 1)})
	require.ErrorIs(t, err, ErrClock)
	require.ErrorContains(t, err, future.UTC().Format(time.RFC3339))
	require.Equal(t, int64(3), out.Committed[seg.ID])
	require.Len(t, filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet"), files)
	_, err = tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)

	moveMetadataTo(t, tbl, time.Now().Add(40*time.Second)) // within what Iceberg allows
	_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 3, 1)})
	require.NoError(t, err)
}

// moveMetadataTo changes the times in the table's metadata, as a machine with another clock would have written them.
func moveMetadataTo(tb testing.TB, t *Table, at time.Time) {
	tb.Helper()
	_, location := t.Head()
	path, err := localPath(location)
	require.NoError(tb, err)
	b, err := os.ReadFile(path)
	require.NoError(tb, err)
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	require.NoError(tb, d.Decode(&m))
	ms := at.UnixMilli()
	m["last-updated-ms"] = ms
	snaps := m["snapshots"].([]any)
	snaps[len(snaps)-1].(map[string]any)["timestamp-ms"] = ms
	log := m["snapshot-log"].([]any)
	log[len(log)-1].(map[string]any)["timestamp-ms"] = ms
	b, err = json.Marshal(m)
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(path, b, 0o600))
	forget(t.lake) // no other program changes a metadata file in its place
}

// The proof keeps its order when the clock of the drain jumps, and nothing is committed twice for it.
func TestCommit_the_drains_clock_may_jump(t *testing.T) {
	t.Parallel()
	now := time.Now()
	opt := Options{Now: func() time.Time { return now }}
	dir := t.TempDir()
	opt.Catalog, opt.Warehouse = "sqlite://"+filepath.Join(dir, "c.db"), filepath.Join(dir, "wh")
	l, err := open(t.Context(), opt, hooks{limits: limits{proofEntries: 2}})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	tbl := events(t, l)
	var all []Segment
	for i, jump := range []time.Duration{0, -48 * time.Hour, 72 * time.Hour, -time.Minute, time.Hour} {
		now = now.Add(jump)
		all = append(all, newSegment(t, uint64(i), 2))
		_, err := tbl.Commit(t.Context(), all[i:])
		require.NoError(t, err)
	}
	out, err := tbl.Commit(t.Context(), all)
	require.NoError(t, err)
	require.Zero(t, out.RowsWritten)
	requireExactly(t, l, all...)
}

// A transaction takes a bounded number of partitions, by the longest prefix of rows, and ends the call; the rest follows in
// the next ones, and is counted neither twice nor as a duplicate.
func TestCommit_many_partitions_in_several_transactions(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{partitions: 3, scattered: 3}})
	tbl := events(t, l)
	var a, b []record
	for i := range 8 { // days 0 1 0 2 | 3 4 0 1 | 5 …: the prefix counts, not the day
		day := []int{0, 1, 0, 2, 3, 4, 0, 1}[i]
		a = append(a, record{at: day0.Add(time.Duration(day) * 24 * time.Hour), body: fmt.Sprint("a", i)})
		b = append(b, record{at: day0.Add(time.Duration(10+i) * 24 * time.Hour), body: fmt.Sprint("b", i)})
	}
	segs := []Segment{segment(t, testID(t, time.Now(), 1), a), segment(t, testID(t, time.Now(), 2), b)}
	var out Outcome
	var err error
	for calls, want := range []int64{4, 3, 3, 3, 3} {
		out, err = tbl.Commit(t.Context(), segs)
		require.NoError(t, err)
		require.Equal(t, want, out.RowsWritten)
		require.Equal(t, calls < 4, out.Cut)
		require.Zero(t, out.Duplicates)
		for i := range segs {
			segs[i].Written = out.Committed[segs[i].ID]
		}
	}
	require.Equal(t, committed(segs...), out.Committed)
	requireExactly(t, l, segs...)
	raw, err := l.open(t.Context(), table.Identifier{"siglake", "events"})
	require.NoError(t, err)
	var rows []string
	for _, s := range raw.Metadata().Snapshots() {
		rows = append(rows, s.Summary.Properties["added-records"])
		require.LessOrEqual(t, s.Summary.Properties["changed-partition-count"], "3")
	}
	require.Equal(t, []string{"4", "3", "3", "3", "3"}, rows)
}

// What is committed in part is said, and the rest is committed by the next call.
func TestCommit_in_part(t *testing.T) {
	t.Parallel()
	f := &faultyCatalog{}
	h := faults(f)
	h.limits = limits{partitions: 2, scattered: 2, attempts: 2}
	l := lakeAt(t, t.TempDir(), h)
	tbl := events(t, l)
	var rows []record
	for i := range 6 {
		rows = append(rows, record{at: day0.Add(time.Duration(i) * 24 * time.Hour), body: "x"})
	}
	seg := segment(t, testID(t, time.Now(), 1), rows)
	f.answers = []answer{nil, lost, lost}
	out, err := tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{seg.ID: 2}, out.Committed)
	require.True(t, out.Cut)
	out, err = tbl.Commit(t.Context(), []Segment{seg})
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, map[string]int64{seg.ID: 2}, out.Committed)
	require.Equal(t, int64(2), out.Duplicates)
	for _, want := range []int64{4, 6} {
		out, err = tbl.Commit(t.Context(), []Segment{seg})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{seg.ID: want}, out.Committed)
	}
	requireExactly(t, l, seg)
}

// Rows of random days: while a file would have few of them, more partitions in a transaction are fewer files in all.
func TestCommit_scattered_rows_share_files(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{partitions: 4, scattered: 10, fileRows: 3}})
	tbl := events(t, l)
	of := func(n uint64, days ...int) Segment {
		var rows []record
		for _, d := range days {
			rows = append(rows, record{at: day0.Add(time.Duration(d) * 24 * time.Hour), body: "x"})
		}
		return segment(t, testID(t, time.Now(), n), rows)
	}
	for _, tc := range []struct {
		name  string
		days  []int
		files int64
		cut   bool
	}{
		{"eight_days_a_row_each", []int{0, 1, 2, 3, 4, 5, 6, 7}, 8, false},
		{"as_many_rows_as_four_files_are_to_have", []int{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4}, 4, true},
		{"more_days_than_any_transaction_takes", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 10, true},
	} {
		out, err := tbl.Commit(t.Context(), []Segment{of(uint64(len(tc.days)), tc.days...)})
		require.NoError(t, err, tc.name)
		require.Equal(t, tc.files, out.FilesWritten, tc.name)
		require.Equal(t, tc.cut, out.Cut, tc.name)
	}
}

// More segments than the proof of one commit may hold are several transactions.
func TestCommit_many_segments_in_several_transactions(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{segments: 4, proofEntries: 4}})
	var segs []Segment
	for i := range 10 {
		segs = append(segs, newSegment(t, uint64(i), 1))
	}
	out, err := events(t, l).Commit(t.Context(), segs)
	require.NoError(t, err)
	require.Equal(t, committed(segs...), out.Committed)
	requireExactly(t, l, segs...)
	infos, err := l.Tables(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, infos[0].Snapshots)
}

func TestCommit_refuses_bad_segments(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	good := newSegment(t, 1, 2)
	for _, tc := range []struct {
		name string
		segs []Segment
		want string
	}{
		{"no_id", []Segment{{}}, "want 1 to 255 bytes"},
		{"twice", []Segment{good, good}, "offered twice"},
		{"wrong_rows", []Segment{{ID: "x", Rows: 3, Batches: good.Batches}}, "2 rows in its batches, not 3"},
	} {
		_, err := tbl.Commit(t.Context(), tc.segs)
		require.ErrorContains(t, err, tc.want)
	}
	// Rows of another signal: the error names the segment, and the others can go on without it.
	bad := Segment{ID: "bad", Rows: 1, Batches: []arrow.RecordBatch{spanBatch(t)}}
	_, err := tbl.Commit(t.Context(), []Segment{good, bad})
	var which *SegmentError
	require.ErrorAs(t, err, &which)
	require.Equal(t, "bad", which.ID)
	require.ErrorIs(t, err, otelarrow.ErrDamaged)
	_, err = tbl.Commit(t.Context(), []Segment{good})
	require.NoError(t, err)
	requireExactly(t, l, good)
}

// spanBatch is one row of another signal.
func spanBatch(tb testing.TB) arrow.RecordBatch {
	tb.Helper()
	td := ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("s")
	b, err := otelarrow.EncodeTraces(td, day0, memory.DefaultAllocator)
	require.NoError(tb, err)
	return b.Record
}
