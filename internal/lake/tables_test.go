package lake

import (
	"context"
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

func TestEnsure_makes_each_table_once(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	for s := otelarrow.Logs; s <= otelarrow.Metrics; s++ {
		first, created, err := l.Ensure(t.Context(), "default", s.Table(), s)
		require.NoError(t, err)
		require.True(t, created)
		again, created, err := l.Ensure(t.Context(), "default", s.Table(), s)
		require.NoError(t, err)
		require.False(t, created)
		require.Same(t, first, again, "commits of one process must meet in one Table")

		raw, err := l.open(t.Context(), table.Identifier{"siglake", s.Table()})
		require.NoError(t, err)
		want, err := newTableSchema(s)
		require.NoError(t, err)
		require.True(t, raw.Schema().Equals(want), "field ids are those of otelarrow, for ever:\n%s\n%s", raw.Schema(), want)
		require.Len(t, raw.Metadata().Schemas(), 1)
		require.Equal(t, 2, raw.Metadata().Version())
		spec := raw.Spec()
		require.Equal(t, "day", spec.Field(0).Transform.String())
		require.Equal(t, 1, spec.NumFields())
		order := raw.SortOrder()
		require.Equal(t, 2, order.Len())
		require.Equal(t, "0", raw.Properties()[table.CommitNumRetriesKey])
		require.Equal(t, "true", raw.Properties()[table.ManifestMergeEnabledKey])
		require.Equal(t, "1048576", raw.Properties()[table.ManifestTargetSizeBytesKey])
		require.Equal(t, first.UUID(), raw.Metadata().TableUUID())
	}
}

func TestEnsure_gives_each_tenant_a_namespace_R23(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	a, _, err := l.Ensure(t.Context(), "acme", "audit", otelarrow.Logs)
	require.NoError(t, err)
	require.Equal(t, "tenant_acme.audit", a.Name())
	own, _, err := l.Ensure(t.Context(), "default", "audit", otelarrow.Logs)
	require.NoError(t, err)
	require.Equal(t, "siglake.audit", own.Name())
	for _, bad := range [][2]string{{"", "x"}, {"x", ""}, {"..", "x"}, {"x", "a/b"}, {"x", "."}} {
		_, _, err := l.Ensure(t.Context(), bad[0], bad[1], otelarrow.Logs)
		require.ErrorContains(t, err, "not the name of a table")
	}
}

// Several processes may find the table missing at the same time.
func TestEnsure_at_once_by_many_processes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := make(chan bool, 6)
	uuids := make(chan string, 6)
	var g errgroup.Group
	for range cap(made) {
		l := lakeAt(t, dir, hooks{})
		g.Go(func() error {
			tbl, created, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
			if err != nil {
				return err
			}
			made <- created
			uuids <- tbl.UUID().String()
			return nil
		})
	}
	require.NoError(t, g.Wait())
	close(made)
	close(uuids)
	n := 0
	for c := range made {
		if c {
			n++
		}
	}
	require.Equal(t, 1, n)
	require.Len(t, slices.Compact(slices.Sorted(chanValues(uuids))), 1)
}

func chanValues(c <-chan string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for v := range c {
			if !yield(v) {
				return
			}
		}
	}
}

// Whatever becomes of the answer to a creation, the table is there and whole.
func TestEnsure_survives_every_answer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		a    answer
		ok   bool
	}{{"landed_unheard", landedUnheard, true}, {"lost", lost, false}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := &faultyCatalog{answers: []answer{tc.a}}
			l := lakeAt(t, t.TempDir(), faults(f))
			_, created, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
			if !tc.ok {
				require.ErrorIs(t, err, errInjected)
				_, created, err = l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
				require.NoError(t, err)
				require.True(t, created)
				return
			}
			require.NoError(t, err)
			require.False(t, created)
			_, err = events(t, l).Commit(t.Context(), []Segment{newSegment(t, 1, 2)})
			require.NoError(t, err)
		})
	}
}

// makeTable makes a table as somebody else would.
func makeTable(tb testing.TB, l *Lake, name string, spec *iceberg.PartitionSpec, fields ...iceberg.NestedField) {
	tb.Helper()
	require.NoError(tb, l.createNamespace(context.Background(), table.Identifier{"siglake"}))
	sc := iceberg.NewSchema(0, fields...)
	updates := []table.Update{
		table.NewAddSchemaUpdate(sc), table.NewSetCurrentSchemaUpdate(-1),
		table.NewSetLocationUpdate(l.home + "/siglake.db/" + name),
	}
	if spec != nil {
		updates = append(updates, table.NewAddPartitionSpecUpdate(spec, true), table.NewSetDefaultSpecUpdate(-1))
	}
	_, _, err := l.cat.CommitTable(context.Background(), table.Identifier{"siglake", name}, []table.Requirement{table.AssertCreate()}, updates)
	require.NoError(tb, err)
}

func fieldsWithout(tb testing.TB, names ...string) []iceberg.NestedField {
	tb.Helper()
	sc, err := newTableSchema(otelarrow.Logs)
	require.NoError(tb, err)
	return slices.DeleteFunc(slices.Clone(sc.Fields()), func(f iceberg.NestedField) bool { return slices.Contains(names, f.Name) })
}

func dayOfField(id int) *iceberg.PartitionSpec {
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{id}, FieldID: 1000, Name: "d", Transform: iceberg.DayTransform{}})
	return &spec
}

// A table that merely has the name is refused before anything is written to it.
func TestEnsure_refuses_another_shape(t *testing.T) {
	t.Parallel()
	all := fieldsWithout(t)
	with := func(f iceberg.NestedField) []iceberg.NestedField {
		return append(fieldsWithout(t, f.Name), f)
	}
	for _, tc := range []struct {
		name   string
		spec   *iceberg.PartitionSpec
		fields []iceberg.NestedField
		want   string
	}{
		{"other_type", dayOfField(1), with(iceberg.NestedField{ID: 106, Name: "body", Type: iceberg.PrimitiveTypes.Int64}), "column body of siglake.x is long, want string"},
		{"lacks_a_required_column", dayOfField(2), fieldsWithout(t, "timestamp"), "lacks the required column timestamp"},
		{"requires_what_may_be_null", dayOfField(1), with(iceberg.NestedField{ID: 106, Name: "body", Type: iceberg.PrimitiveTypes.String, Required: true}), "column body of siglake.x must not be required"},
		{"requires_what_no_row_has", dayOfField(1), with(iceberg.NestedField{ID: 900, Name: "region", Type: iceberg.PrimitiveTypes.String, Required: true}), "requires the column region"},
		{"not_partitioned", nil, all, "not partitioned by day(timestamp)"},
		{"partitioned_otherwise", dayOfField(100), all, "not partitioned by day(timestamp)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{})
			if tc.name == "lacks_a_required_column" {
				tc.spec = nil
			}
			makeTable(t, l, "x", tc.spec, tc.fields...)
			_, _, err := l.Ensure(t.Context(), "default", "x", otelarrow.Logs)
			require.ErrorIs(t, err, ErrShape)
			require.ErrorContains(t, err, tc.want)
		})
	}
	l := lakeAt(t, t.TempDir(), hooks{})
	events(t, l)
	_, _, err := l.Ensure(t.Context(), "default", "events", otelarrow.Traces)
	require.ErrorIs(t, err, ErrShape)
	require.ErrorContains(t, err, "siglake.events holds logs: a segment of traces is in the wrong index")
}

// Columns the table lacks come with the first rows that have them, under their own ids where those are free.
func TestCommit_adds_missing_columns(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	fields := append(fieldsWithout(t, "event_name", "scope_attributes", "body"),
		iceberg.NestedField{ID: 106, Name: "theirs", Type: iceberg.PrimitiveTypes.String}) // has taken the id of body
	makeTable(t, l, "events", dayOfField(1), fields...)
	tbl := events(t, l)
	seg := segment(t, testID(t, day0, 1), []record{{at: day0, body: "b", event: "e"}})
	_, err := tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)

	raw, err := l.open(t.Context(), table.Identifier{"siglake", "events"})
	require.NoError(t, err)
	require.Len(t, raw.Metadata().Snapshots(), 1)
	require.Equal(t, raw.Schema().ID, *raw.CurrentSnapshot().SchemaID, "the snapshot has the schema that its rows need")
	ids := map[string]int{}
	for _, f := range raw.Schema().Fields() {
		ids[f.Name] = f.ID
	}
	require.Equal(t, 105, ids["event_name"])
	require.Equal(t, 30, ids["scope_attributes"])
	require.Equal(t, 106, ids["theirs"])
	require.Equal(t, 108, ids["body"])
	require.Equal(t, []stored{{seg.ID, 0, day0.UnixNano(), "b"}}, readAll(t, l))
	requireExactly(t, l, seg)

	more := newSegment(t, 2, 3)
	_, err = tbl.Commit(t.Context(), []Segment{more})
	require.NoError(t, err)
	requireExactly(t, l, seg, more)
}

// A column added by somebody else while rows are on their way makes the files fit the table again.
func TestCommit_columns_added_by_two_at_once(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	l := lakeAt(t, dir, faults(f))
	makeTable(t, l, "events", dayOfField(1), fieldsWithout(t, "event_name")...)
	tbl := events(t, l)
	other := lakeAt(t, dir, hooks{})
	theirs := newSegment(t, 1, 2)
	f.answers = []answer{after(func() {
		raw, err := other.open(context.Background(), table.Identifier{"siglake", "events"})
		require.NoError(t, err)
		tx := raw.NewTransaction()
		us := tx.UpdateSchema(true, false)
		us.AddColumn([]string{"event_name"}, iceberg.PrimitiveTypes.String, "", false, nil) // gets the id 108
		require.NoError(t, us.Commit())
		_, err = tx.Commit(context.Background())
		require.NoError(t, err)
		_, err = events(t, other).Commit(context.Background(), []Segment{theirs})
		require.NoError(t, err)
	})}
	ours := segment(t, testID(t, day0, 2), []record{{at: day0, body: "b", event: "e"}})
	_, err := tbl.Commit(t.Context(), []Segment{ours})
	require.NoError(t, err)
	requireExactly(t, l, theirs, ours)
	require.Len(t, readAll(t, l, table.WithRowFilter(iceberg.EqualTo(iceberg.Reference("event_name"), "e"))), 1)
}
