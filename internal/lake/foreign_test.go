package lake

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// LAKE-1: another engine renames the column that says where rows came from. Rows that the proof has forgotten are still
// found, before and after the drain has added the column again.
func TestCommit_segment_id_was_renamed(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{limits: limits{proofEntries: 1}})
	tbl := events(t, l)
	seg, later := newSegment(t, 1, 5), newSegment(t, 2, 5)
	for _, s := range []Segment{seg, later} {
		_, err := tbl.Commit(t.Context(), []Segment{s})
		require.NoError(t, err)
	}
	alter(t, l, func(us *table.UpdateSchema) { us.RenameColumn([]string{"segment_id"}, "origin") })
	for i := range 2 {
		found, err := tbl.Lookup(t.Context(), []string{seg.ID})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{seg.ID: 5}, found)
		again := seg
		again.Doubtful = true
		out, err := tbl.Commit(t.Context(), []Segment{again, newSegment(t, uint64(10+i), 1)})
		require.NoError(t, err)
		require.EqualValues(t, 1, out.RowsWritten)
	}
	_, ok := loaded(t, l).Schema().FindFieldByName("segment_id")
	require.True(t, ok, "the drain adds the column again")
}

// What a plan's reader would read wrongly is named, and so refused; other changes are not.
func TestPlan_tables_that_others_changed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*table.UpdateSchema)
		want   string
	}{
		"column_renamed": {func(us *table.UpdateSchema) { us.RenameColumn([]string{"status_message"}, "message") }, ""},
		"column_dropped": {func(us *table.UpdateSchema) { us.DeleteColumn([]string{"status_message"}) }, ""},
		"field_renamed":  {func(us *table.UpdateSchema) { us.RenameColumn([]string{"events", "element", "name"}, "label") }, "renamed from name to label"},
		"field_made_again": {func(us *table.UpdateSchema) {
			us.DeleteColumn([]string{"events", "element", "name"})
			us.AddColumn([]string{"events", "element", "name"}, iceberg.PrimitiveTypes.Int64, "", false, nil)
		}, "whose name another field had before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{})
			_, _, err := l.Ensure(t.Context(), "default", "spans", otelarrow.Traces)
			require.NoError(t, err)
			raw, err := l.open(t.Context(), table.Identifier{"siglake", "spans"})
			require.NoError(t, err)
			tx := raw.NewTransaction()
			us := tx.UpdateSchema(true, true)
			tc.change(us)
			require.NoError(t, us.Commit())
			_, err = tx.Commit(t.Context())
			require.NoError(t, err)
			plan, err := l.Plan(t.Context(), "siglake", "spans")
			require.NoError(t, err)
			if tc.want == "" {
				require.Empty(t, plan.Unreadable)
			} else {
				require.Contains(t, plan.Unreadable, tc.want)
			}
		})
	}
}

// docs/tables.md: format version 3 is refused to readers and writers, by its number.
func TestForeign_format_version_3(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	commitTo(t, l, newSegment(t, 1, 2))
	tbl := events(t, l)
	change(t, l, func(tx *table.Transaction) error { return tx.UpgradeFormatVersion(3) })
	_, err := tbl.Commit(t.Context(), []Segment{newSegment(t, 2, 2)})
	require.ErrorIs(t, err, ErrShape)
	require.ErrorContains(t, err, "siglake.events has format version 3")
	plan, err := l.Plan(t.Context(), "siglake", "events")
	require.NoError(t, err)
	require.Equal(t, "format version 3", plan.Unreadable)
}

// docs/tables.md: files that are not Parquet are refused to readers by name. New rows go beside them, but what the proof
// forgot cannot be looked up, and is not written a second time for that.
func TestForeign_files_of_other_formats(t *testing.T) {
	t.Parallel()
	for _, format := range []iceberg.FileFormat{iceberg.OrcFile, iceberg.AvroFile} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{limits: limits{proofEntries: 1}})
			tbl := events(t, l)
			old := newSegment(t, 1, 2)
			commitTo(t, l, old)
			change(t, l, func(tx *table.Transaction) error {
				base := loaded(t, l)
				day := manifestFiles(t, l)[0].Partition()
				b, err := iceberg.NewDataFileBuilder(base.Spec(), iceberg.EntryContentData, l.home+"/siglake.db/events/data/foreign", format, day, nil, nil, 3, 100)
				require.NoError(t, err)
				return tx.AddDataFiles(t.Context(), []iceberg.DataFile{b.Build()}, nil)
			})
			out, err := tbl.Commit(t.Context(), []Segment{newSegment(t, 2, 4)})
			require.NoError(t, err)
			require.EqualValues(t, 4, out.RowsWritten)
			plan, err := l.Plan(t.Context(), "siglake", "events")
			require.NoError(t, err)
			require.Equal(t, "data files of format "+string(format), plan.Unreadable)
			files := len(manifestFiles(t, l))
			old.Doubtful = true
			_, err = tbl.Commit(t.Context(), []Segment{old})
			require.ErrorContains(t, err, "format "+string(format)+" cannot be read")
			require.Len(t, manifestFiles(t, l), files)
		})
	}
}

// docs/tables.md: a table that another engine partitions otherwise is read, and our rows go on by day(timestamp).
func TestForeign_another_partition_spec(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	first, second := newSegment(t, 1, 2), newSegment(t, 2, 3)
	commitTo(t, l, first)
	was := loaded(t, l).Spec()
	change(t, l, func(tx *table.Transaction) error {
		return tx.UpdateSpec(true).AddIdentity("service_name").Commit()
	})
	require.NotEqual(t, was.ID(), loaded(t, l).Metadata().DefaultPartitionSpec())
	commitTo(t, l, second)
	requireExactly(t, l, first, second)
	for _, df := range manifestFiles(t, l) {
		require.EqualValues(t, was.ID(), df.SpecID())
	}
	plan, err := l.Plan(t.Context(), "siglake", "events")
	require.NoError(t, err)
	require.Empty(t, plan.Unreadable)
	require.Len(t, plan.Files, 2)
}

// docs/tables.md: the snapshot of main is read and written; branches of others stay where they are.
func TestForeign_branch(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	first, second := newSegment(t, 1, 2), newSegment(t, 2, 3)
	commitTo(t, l, first)
	snap := loaded(t, l).CurrentSnapshot().SnapshotID
	_, _, err := l.cat.CommitTable(t.Context(), table.Identifier{"siglake", "events"}, nil,
		[]table.Update{table.NewSetSnapshotRefUpdate("audit", snap, table.BranchRef, -1, -1, -1)})
	require.NoError(t, err)
	commitTo(t, l, second)
	requireExactly(t, l, first, second)
	require.Equal(t, snap, loaded(t, l).SnapshotByName("audit").SnapshotID)
	plan, err := l.Plan(t.Context(), "siglake", "events")
	require.NoError(t, err)
	require.Len(t, plan.Files, 2)
}

// change commits what another engine does to the table.
func change(t *testing.T, l *Lake, do func(*table.Transaction) error) {
	t.Helper()
	tx := loaded(t, l).NewTransaction()
	require.NoError(t, do(tx))
	_, err := tx.Commit(t.Context())
	require.NoError(t, err)
}
