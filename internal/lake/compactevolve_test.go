package lake

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// addOlder commits a row as our own writer did when it knew only the table's columns of that time.
func addOlder(tb testing.TB, l *Lake, s otelarrow.Signal, seg Segment, extra ...arrow.Array) {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", s.Table()})
	require.NoError(tb, err)
	rec, err := otelarrow.Gather(s, []otelarrow.Source{{SegmentID: seg.ID, Record: seg.Batches[0]}}, []otelarrow.RowRef{{}}, memory.DefaultAllocator)
	require.NoError(tb, err)
	columns, err := table.SchemaToArrowSchema(t.Schema(), nil, true, false)
	require.NoError(tb, err)
	cols := make([]arrow.Array, columns.NumFields())
	for i, have := range t.Schema().Fields() {
		at := rec.Schema().FieldIndices(have.Name)
		if len(at) == 0 {
			cols[i], extra = extra[0], extra[1:]
			continue
		}
		_, data := cut(rec.Schema().Field(at[0]).Type, rec.Column(at[0]).Data(), have.Type)
		cols[i] = array.MakeFromData(data)
	}
	tg := target{schema: t.Schema(), spec: t.Spec(), sortOrder: 1, props: t.Properties(), version: 2}
	path := l.home + "/siglake.db/" + s.Table() + "/data/" + seg.ID + ".parquet"
	f, err := createParquet(l.io, path, newParquetColumns(columns), 1)
	require.NoError(tb, err)
	require.NoError(tb, f.write(array.NewRecordBatch(columns, cols, 1), 1<<20))
	meta, size, err := f.close()
	require.NoError(tb, err)
	df, err := tg.dataFile(path, meta, size, dayOf(day0.UnixNano()))
	require.NoError(tb, err)
	tx := t.NewTransaction()
	require.NoError(tb, tx.AddDataFiles(context.Background(), []iceberg.DataFile{df}, nil, table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping()))
	_, err = tx.Commit(context.Background())
	require.NoError(tb, err)
}

// Files that were written before a column was added, a field of a struct was added, or a column got wider, are merged with
// those that came after. Each column reads as it did.
func TestCompact_files_of_older_schemas(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	signal, name := otelarrow.Traces, otelarrow.Traces.Table()
	narrow := iceberg.NestedField{ID: 900, Name: "theirs", Type: iceberg.PrimitiveTypes.Int32}
	makeTable(t, l, name, dayOfField(1), append(older(t, signal, "trace_state", "events.name", "events.dropped_attributes_count"), narrow)...)
	id := table.Identifier{"siglake", name}
	raw, err := l.open(t.Context(), id)
	require.NoError(t, err)
	order, err := newSortOrder(raw.Schema(), 1)
	require.NoError(t, err)
	_, _, err = l.cat.CommitTable(t.Context(), id, nil, []table.Update{
		table.NewAddSortOrderUpdate(&order), table.NewSetDefaultSortOrderUpdate(-1),
		table.NewSetPropertiesUpdate(iceberg.Properties{propSignal: signal.String()}),
	})
	require.NoError(t, err)
	for i := range 4 {
		b := array.NewInt32Builder(memory.DefaultAllocator)
		if i == 0 {
			b.AppendNull()
		} else {
			b.Append(int32(-i))
		}
		addOlder(t, l, signal, spanSegment(t, uint64(i)), b.NewArray())
	}
	raw, err = l.open(t.Context(), id)
	require.NoError(t, err)
	tx := raw.NewTransaction()
	require.NoError(t, tx.UpdateSchema(true, false).
		UpdateColumn([]string{"theirs"}, table.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: iceberg.PrimitiveTypes.Int64, Valid: true}}).Commit())
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	tbl, created, err := l.Ensure(t.Context(), "default", name, signal)
	require.NoError(t, err)
	require.False(t, created)
	for i := range 5 {
		_, err = tbl.Commit(t.Context(), []Segment{spanSegment(t, uint64(10+i))})
		require.NoError(t, err)
	}
	read := func() map[string][]string {
		raw, err := l.open(t.Context(), id)
		require.NoError(t, err)
		out := map[string][]string{}
		for _, f := range raw.Schema().Fields() {
			out[f.Name] = scanRows(t, raw, f.Name)
		}
		return out
	}
	before := read()
	require.Len(t, before["events"], 9)
	require.NotEqual(t, before["events"][0], before["events"][8])
	require.Contains(t, before["theirs"], "[-3]")
	compactAll(t, l)
	plan, err := l.Plan(t.Context(), "siglake", name)
	require.NoError(t, err)
	require.Len(t, plan.Files, 1)
	require.Equal(t, before, read())
}
