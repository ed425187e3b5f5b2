package lake

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

func promotions(tb testing.TB, list ...otelarrow.Promotion) *otelarrow.Promotions {
	tb.Helper()
	p, err := otelarrow.NewPromotions(list)
	require.NoError(tb, err)
	return p
}

func status(typ string) otelarrow.Promotion {
	return otelarrow.Promotion{Attribute: "http.status", Type: typ}
}

// promotingLake opens the lake of a directory with promotions; nil is a process without a configuration.
func promotingLake(tb testing.TB, dir string, p *otelarrow.Promotions, m metric.Meter, h hooks) *Lake {
	tb.Helper()
	h.wait = noWait
	l, err := open(tb.Context(), Options{
		Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse"), Promote: p, Meter: m,
	}, h)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

// attributed is a segment whose rows have an attribute http.status each; nil is a row without.
func attributed(tb testing.TB, seq uint64, values ...any) Segment {
	tb.Helper()
	ld := plog.NewLogs()
	sl := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	for i, v := range values {
		lr := sl.LogRecords().AppendEmpty()
		lr.SetTimestamp(pcommon.NewTimestampFromTime(day0.AddDate(0, 0, i%2)))
		lr.Body().SetStr("b")
		if v != nil {
			require.NoError(tb, lr.Attributes().PutEmpty("http.status").FromRaw(v))
		}
	}
	rec := encoded(tb, ld)
	return Segment{ID: testID(tb, day0, seq), Batches: []arrow.RecordBatch{rec}, Rows: int64(len(values))}
}

func commitTo(tb testing.TB, l *Lake, seg Segment) {
	tb.Helper()
	_, err := events(tb, l).Commit(tb.Context(), []Segment{seg})
	require.NoError(tb, err)
}

// columnOf reads a column of all rows, in the order of segment and row, with iceberg-go's reader: by field id.
func columnOf(tb testing.TB, l *Lake, name string) map[string][]any {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", "events"})
	require.NoError(tb, err)
	_, batches, err := t.Scan(table.WithSelectedFields(colSegmentID, colSegmentRow, name)).ToArrowRecords(context.Background())
	require.NoError(tb, err)
	out := map[string][]any{}
	for rec, err := range batches {
		require.NoError(tb, err)
		at := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
		for i := range int(rec.NumRows()) {
			id := at(colSegmentID).(*array.String).Value(i)
			row := int(at(colSegmentRow).(*array.Int64).Value(i))
			for len(out[id]) <= row {
				out[id] = append(out[id], "no row")
			}
			out[id][row] = nil
			if a := at(name); a.IsValid(i) {
				out[id][row] = a.GetOneForMarshal(i)
			}
		}
		rec.Release()
	}
	return out
}

func loaded(tb testing.TB, l *Lake) *table.Table {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", "events"})
	require.NoError(tb, err)
	return t
}

// alter changes the table as another engine would.
func alter(tb testing.TB, l *Lake, change func(*table.UpdateSchema)) {
	tb.Helper()
	tx := loaded(tb, l).NewTransaction()
	us := tx.UpdateSchema(true, true)
	change(us)
	require.NoError(tb, us.Commit())
	_, err := tx.Commit(context.Background())
	require.NoError(tb, err)
}

// The column comes in the transaction of the first rows that have it, with an id above ours. Older rows are NULL.
func TestCommit_promotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := attributed(t, 1, int64(200))
	commitTo(t, lakeAt(t, dir, hooks{}), old)
	reader := sdk.NewManualReader()
	l := promotingLake(t, dir, promotions(t, status("int")), sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("t"), hooks{})
	events(t, l)
	require.Len(t, loaded(t, l).Metadata().Schemas(), 1, "nothing changes before there are rows")
	seg := attributed(t, 2, int64(404), "503", "abc", nil, 1.5, int64(1)<<40)
	commitTo(t, l, seg)

	raw := loaded(t, l)
	require.Len(t, raw.Metadata().Snapshots(), 2)
	require.Equal(t, raw.Schema().ID, *raw.CurrentSnapshot().SchemaID)
	f, ok := raw.Schema().FindFieldByName("http_status")
	require.True(t, ok)
	require.Equal(t, 1000, f.ID)
	require.Equal(t, iceberg.PrimitiveTypes.Int32, f.Type)
	require.False(t, f.Required)
	require.JSONEq(t, `[{"column":"http_status","type":"int","from":[{"from":"attributes","attribute":"http.status"}],"id":1000}]`,
		raw.Properties()[propPromote])
	require.Equal(t, map[string][]any{
		old.ID: {nil},
		seg.ID: {int32(404), int32(503), nil, nil, nil, nil},
	}, columnOf(t, l, "http_status"))
	requireExactly(t, l, old, seg)
	require.Equal(t, map[string]int64{"type": 1, "fraction": 1, "range": 1}, misfitsOf(t, reader))
}

func misfitsOf(tb testing.TB, reader sdk.Reader) map[string]int64 {
	tb.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(tb, reader.Collect(tb.Context(), &rm))
	out := map[string]int64{}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		if m.Name != "siglake_lake_promotion_misfits_total" {
			continue
		}
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			column, _ := p.Attributes.Value(attribute.Key("column"))
			require.Equal(tb, "http_status", column.AsString())
			reason, _ := p.Attributes.Value(attribute.Key("reason"))
			out[reason.AsString()] = p.Value
		}
	}
	return out
}

// Misfits of a transaction that is tried again, or whose file is written again, are counted once.
func TestCommit_counts_misfits_once(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	h := faults(f)
	reader := sdk.NewManualReader()
	l := promotingLake(t, dir, promotions(t, status("int"), otelarrow.Promotion{Attribute: "http.status", Column: "text"}),
		sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("t"), h)
	tbl := events(t, l)
	f.answers = []answer{lost, after(func() { appendForeign(t, lakeAt(t, dir, hooks{}), "foreign") })}
	seg := attributed(t, 1, "abc", nil, strings.Repeat("z", 5000)) // too long for statistics: the file is written twice
	_, err := tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &rm))
	var total int64
	for _, m := range rm.ScopeMetrics[0].Metrics {
		if m.Name == "siglake_lake_promotion_misfits_total" {
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				total += p.Value
			}
		}
	}
	require.EqualValues(t, 2, total)
}

// A process without a configuration, such as siglake drain, fills the columns that the table remembers.
func TestCommit_without_a_configuration_promotes_what_the_table_remembers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := attributed(t, 1, int64(1)), attributed(t, 2, int64(2), "x")
	commitTo(t, promotingLake(t, dir, promotions(t, status("long")), nil, hooks{}), first)
	l := promotingLake(t, dir, nil, nil, hooks{})
	commitTo(t, l, second)
	require.Equal(t, map[string][]any{first.ID: {int64(1)}, second.ID: {int64(2), nil}}, columnOf(t, l, "http_status"))

	setProperty(t, l, "events", propPromote, "{")
	_, err := ensureEvents(t, l)
	require.ErrorIs(t, err, ErrShape)
	require.ErrorContains(t, err, "property siglake.promote of siglake.events")
	third := attributed(t, 3, int64(3)) // who has a configuration writes it anew
	commitTo(t, promotingLake(t, dir, promotions(t, status("long")), nil, hooks{}), third)
	commitTo(t, l, attributed(t, 4, int64(4)))
	require.Equal(t, []any{int64(3)}, columnOf(t, l, "http_status")[third.ID])
}

func ensureEvents(tb testing.TB, l *Lake) (*Table, error) {
	tb.Helper()
	t, _, err := l.Ensure(tb.Context(), "default", "events", otelarrow.Logs)
	return t, err
}

// A promotion that is taken out of the configuration leaves its column; one that comes back finds it again.
func TestCommit_a_promotion_that_ends_and_comes_back(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	segs := []Segment{attributed(t, 1, int64(1)), attributed(t, 2, int64(2)), attributed(t, 3, int64(3)), attributed(t, 4, int64(4))}
	with, without := promotions(t, status("long")), promotions(t)
	var l *Lake
	for i, p := range []*otelarrow.Promotions{with, without, nil, with} {
		l = promotingLake(t, dir, p, nil, hooks{})
		commitTo(t, l, segs[i])
	}
	require.Equal(t, map[string][]any{segs[0].ID: {int64(1)}, segs[1].ID: {nil}, segs[2].ID: {nil}, segs[3].ID: {int64(4)}},
		columnOf(t, l, "http_status"))
	require.Len(t, loaded(t, l).Metadata().Schemas(), 2, "one column, added once")
}

// A column that another engine renames goes on being filled; one that it drops comes again, with another id.
func TestCommit_follows_a_renamed_column(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := promotingLake(t, dir, promotions(t, status("long")), nil, hooks{})
	segs := []Segment{attributed(t, 1, int64(1)), attributed(t, 2, int64(2)), attributed(t, 3, int64(3))}
	commitTo(t, l, segs[0])
	alter(t, l, func(us *table.UpdateSchema) { us.RenameColumn([]string{"http_status"}, "Status code") })
	commitTo(t, l, segs[1])
	require.Equal(t, map[string][]any{segs[0].ID: {int64(1)}, segs[1].ID: {int64(2)}}, columnOf(t, l, "Status code"))
	_, ok := loaded(t, l).Schema().FindFieldByName("http_status")
	require.False(t, ok)

	alter(t, l, func(us *table.UpdateSchema) { us.DeleteColumn([]string{"Status code"}) })
	commitTo(t, l, segs[2])
	f, ok := loaded(t, l).Schema().FindFieldByName("http_status")
	require.True(t, ok)
	require.Equal(t, 1001, f.ID)
	require.Equal(t, map[string][]any{segs[0].ID: {nil}, segs[1].ID: {nil}, segs[2].ID: {int64(3)}}, columnOf(t, l, "http_status"))
}

// What cannot be is refused before anything is written, and says what to do.
func TestEnsure_refuses_a_promotion_that_does_not_fit_the_table(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		alter   []func(*table.UpdateSchema)
		promote otelarrow.Promotion
		want    []string
	}{
		{
			"other_type", nil, status("string"),
			[]string{"column http_status of siglake.events is int", "attribute http.status is promoted to it as string", "give that promotion the type of the column, or another column"},
		},
		{
			"other_letter_case", nil,
			otelarrow.Promotion{Attribute: "x", Column: "HTTP_status"},
			[]string{"siglake.events has the column http_status", "HTTP_status in letter case only", "another column"},
		},
		{
			"of_another_engine",
			[]func(*table.UpdateSchema){
				func(us *table.UpdateSchema) {
					us.AddColumn([]string{"region"}, iceberg.PrimitiveTypes.Date, "", false, nil)
				},
			},
			otelarrow.Promotion{Attribute: "region"},
			[]string{"column region of siglake.events is date", "promoted to it as string"},
		},
		{
			"renamed_to_one_of_ours",
			[]func(*table.UpdateSchema){
				func(us *table.UpdateSchema) { us.RenameColumn([]string{"scope_name"}, "old") },
				func(us *table.UpdateSchema) { us.RenameColumn([]string{"text"}, "scope_name") },
			},
			otelarrow.Promotion{Attribute: "t", Column: "text"},
			[]string{"promoted column text of siglake.events is called scope_name there", "rename it"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := promotingLake(t, dir, promotions(t, status("int"), otelarrow.Promotion{Attribute: "t", Column: "text"}), nil, hooks{})
			commitTo(t, l, attributed(t, 1, int64(1)))
			for _, change := range tc.alter {
				alter(t, l, change)
			}
			before := loaded(t, l).MetadataLocation()
			other := promotingLake(t, dir, promotions(t, tc.promote), nil, hooks{})
			_, err := ensureEvents(t, other)
			require.ErrorIs(t, err, ErrShape)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			_, _, err = other.Ensure(t.Context(), "default", "spans", otelarrow.Traces)
			require.NoError(t, err, "the other tables go on")
			require.Equal(t, before, loaded(t, l).MetadataLocation())
		})
	}
}

// Two processes that add the column at once, each with rows: one column, all rows once, all values there.
func TestCommit_promoted_by_two_at_once(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		dir := t.TempDir()
		f := &faultyCatalog{}
		list := []otelarrow.Promotion{status("long")}
		others := append([]otelarrow.Promotion{}, list...)
		if !same { // then the column has the id that ours would have taken
			others = append([]otelarrow.Promotion{{Attribute: "a"}}, others...)
		}
		l := promotingLake(t, dir, promotions(t, list...), nil, faults(f))
		other := promotingLake(t, dir, promotions(t, others...), nil, hooks{})
		ours, theirs := attributed(t, 1, int64(1), int64(2)), attributed(t, 2, int64(3))
		tbl := events(t, l)
		f.answers = []answer{after(func() {
			_, err := events(t, other).Commit(context.Background(), []Segment{theirs})
			require.NoError(t, err)
		})}
		_, err := tbl.Commit(t.Context(), []Segment{ours})
		require.NoError(t, err)
		requireExactly(t, l, ours, theirs)
		require.Equal(t, map[string][]any{ours.ID: {int64(1), int64(2)}, theirs.ID: {int64(3)}}, columnOf(t, l, "http_status"))
		var have []remembered
		require.NoError(t, json.Unmarshal([]byte(loaded(t, l).Properties()[propPromote]), &have))
		require.Len(t, have, 1, "the configuration of who wrote last")
		id, ok := loaded(t, l).Schema().FindFieldByName("http_status")
		require.True(t, ok)
		require.Equal(t, id.ID, have[0].ID)
	}
}

// The 4,096-byte fault: one long value must not make a bound that hides the others.
func TestCommit_promoted_strings_have_true_bounds(t *testing.T) {
	t.Parallel()
	l := promotingLake(t, t.TempDir(), promotions(t, status("string")), nil, hooks{})
	seg := attributed(t, 1, "b", nil, strings.Repeat("y", 6000), nil, "z")
	commitTo(t, l, seg)
	for want, filter := range map[int]iceberg.BooleanExpression{
		3: iceberg.GreaterThan(iceberg.Reference("http_status"), "a"),
		2: iceberg.GreaterThan(iceberg.Reference("http_status"), "x"),
		1: iceberg.EqualTo(iceberg.Reference("http_status"), "b"),
		0: iceberg.LessThan(iceberg.Reference("http_status"), "b"),
	} {
		require.Len(t, readAll(t, l, table.WithRowFilter(filter)), want, "%s", filter)
	}
}
