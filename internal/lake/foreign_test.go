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
