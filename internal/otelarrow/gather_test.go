package otelarrow_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Rows of several sources, in any order and some twice, are the rows of each source alone.
func TestGather_any_order_over_sources(t *testing.T) {
	t.Parallel()
	g := newGen(t, true)
	for _, sig := range signals {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		var sources []otelarrow.Source
		var refs []otelarrow.RowRef
		want := []row{}
		for s := range 6 {
			_, b := encode(t, g.request(sig), mem)
			src := otelarrow.Source{SegmentID: "segment-" + strconv.Itoa(s), FirstRow: int64(100 * s), Record: b.Record}
			sources = append(sources, src)
			for i, r := range gatherAll(t, sig, b.Record) {
				r["segment_id"], r["segment_row"] = src.SegmentID, int64(100*s+i)
				want = append(want, r)
				refs = append(refs, otelarrow.RowRef{Source: int32(s), Row: int32(i)})
			}
		}
		for range len(refs) / 3 {
			i := g.IntN(len(refs))
			refs, want = append(refs, refs[i]), append(want, want[i])
		}
		g.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i]; want[i], want[j] = want[j], want[i] })
		table, err := otelarrow.Gather(sig, sources, refs, mem)
		require.NoError(t, err)
		require.Equal(t, spell(want), spell(rowsOf(t, table)))
		table.Release()
		for _, s := range sources {
			s.Record.Release()
		}
		mem.AssertSize(t, 0)
	}
}

// A segment may be read in slices.
func TestGather_from_slices(t *testing.T) {
	t.Parallel()
	g := newGen(t, false)
	for range 30 {
		for _, data := range []any{g.logs(), g.traces(), g.metrics()} {
			sig, b := encode(t, data, memory.DefaultAllocator)
			want := gatherAll(t, sig, b.Record)
			lo := g.IntN(len(want) + 1)
			hi := lo + g.IntN(len(want)-lo+1)
			slice := b.Record.NewSlice(int64(lo), int64(hi))
			for i := range want[lo:hi] {
				want[lo+i]["segment_row"] = int64(i)
			}
			require.Equal(t, spell(want[lo:hi]), spell(gatherAll(t, sig, slice)))
			times, err := otelarrow.Timestamps(slice)
			require.NoError(t, err)
			require.Len(t, times, hi-lo)
			whole, err := otelarrow.RowBytes(b.Record)
			require.NoError(t, err)
			part, err := otelarrow.RowBytes(slice)
			require.NoError(t, err)
			require.Equal(t, whole[lo:hi], part)
		}
	}
}

func TestGather_no_rows(t *testing.T) {
	t.Parallel()
	table, err := otelarrow.Gather(otelarrow.Traces, nil, nil, memory.DefaultAllocator)
	require.NoError(t, err)
	require.Zero(t, table.NumRows())
}

func TestGather_refuses_rows_that_are_not_there(t *testing.T) {
	t.Parallel()
	_, b := encode(t, realLogs(t, 3), memory.DefaultAllocator)
	for _, ref := range []otelarrow.RowRef{{Source: 1}, {Source: -1}, {Row: 3}, {Row: -1}} {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		_, err := otelarrow.Gather(otelarrow.Logs, []otelarrow.Source{{Record: b.Record}}, []otelarrow.RowRef{ref}, mem)
		require.ErrorIs(t, err, otelarrow.ErrDamaged)
		mem.AssertSize(t, 0)
	}
}

// A text column of a table batch has 31-bit offsets: the caller must take fewer rows.
func TestGather_refuses_more_text_than_offsets_reach(t *testing.T) {
	t.Parallel()
	_, b := encode(t, oneLog(func(lr plog.LogRecord) { lr.Body().SetStr(strings.Repeat("x", 3<<20)) }), memory.DefaultAllocator)
	_, err := otelarrow.Gather(otelarrow.Logs, []otelarrow.Source{{Record: b.Record}}, make([]otelarrow.RowRef, 700), memory.DefaultAllocator)
	require.ErrorIs(t, err, otelarrow.ErrTooBig)
	require.ErrorContains(t, err, "body")
	sizes, err := otelarrow.RowBytes(b.Record)
	require.NoError(t, err)
	require.Greater(t, sizes[0]*700, int64(1<<31))
}

// without is the record with one column, or one field of a group, left out.
func without(t *testing.T, rec arrow.RecordBatch, name string) arrow.RecordBatch {
	t.Helper()
	grp, field, nested := strings.Cut(name, ".")
	var fields []arrow.Field
	var cols []arrow.Array
	for i, f := range rec.Schema().Fields() {
		col := rec.Column(i)
		if f.Name == grp {
			if !nested {
				continue
			}
			ree := col.(*array.RunEndEncoded)
			st := ree.Values().(*array.Struct)
			var kept []arrow.Array
			var names []string
			for j, sf := range st.DataType().(*arrow.StructType).Fields() {
				if sf.Name != field {
					kept, names = append(kept, st.Field(j)), append(names, sf.Name)
				}
			}
			smaller, err := array.NewStructArray(kept, names)
			require.NoError(t, err)
			col = array.NewRunEndEncodedArray(ree.RunEndsArr(), smaller, ree.Len(), 0)
			f.Type = col.DataType()
		}
		fields, cols = append(fields, f), append(cols, col)
	}
	md := rec.Schema().Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), cols, rec.NumRows())
}

// Segments of an older layout must drain: what they do not have is NULL.
func TestGather_a_missing_column_is_NULL(t *testing.T) {
	t.Parallel()
	for _, sig := range signals {
		g := newGen(t, false)
		rec := encodeSome(t, g, sig)
		want := gatherAll(t, sig, rec)
		for _, f := range otelarrow.WALSchema(sig).Fields() {
			if f.Name == "timestamp_ns" || f.Name == "resource" {
				continue // what is required comes from these
			}
			older := without(t, rec, f.Name)
			sizes, err := otelarrow.RowBytes(older)
			require.NoError(t, err)
			require.Len(t, sizes, len(want))
			changed := map[string]bool{}
			for i, r := range gatherAll(t, sig, older) {
				for c, v := range r {
					if v == nil && want[i][c] != nil {
						changed[c] = true
						v = want[i][c]
					}
					require.Equal(t, spell(want[i][c]), spell(v), "%s without %s", c, f.Name)
				}
			}
			require.LessOrEqual(t, len(changed), 9, "%s took %v with it", f.Name, changed)
		}
	}
}

// encodeSome encodes random requests until one has rows.
func encodeSome(t *testing.T, g gen, sig otelarrow.Signal) arrow.RecordBatch {
	t.Helper()
	for {
		if _, b := encode(t, g.request(sig), memory.DefaultAllocator); b.Rows > 3 {
			return b.Record
		}
	}
}

func TestGather_a_missing_field_of_a_group_is_NULL(t *testing.T) {
	t.Parallel()
	_, b := encode(t, realLogs(t, 5), memory.DefaultAllocator)
	for _, r := range gatherAll(t, otelarrow.Logs, without(t, b.Record, "resource.service_name")) {
		require.Nil(t, r["service_name"])
		require.NotNil(t, r["resource_attributes"])
	}
}

// A row without a time has no partition: LOUD-1, never a made-up time.
func TestGather_refuses_rows_without_what_is_required(t *testing.T) {
	t.Parallel()
	_, b := encode(t, realLogs(t, 5), memory.DefaultAllocator)
	for name, column := range map[string]string{"timestamp_ns": "timestamp", "resource": "ingested_at", "resource.ingested_at": "ingested_at"} {
		refs := make([]otelarrow.RowRef, 1)
		_, err := otelarrow.Gather(otelarrow.Logs, []otelarrow.Source{{Record: without(t, b.Record, name)}}, refs, memory.DefaultAllocator)
		require.ErrorIs(t, err, otelarrow.ErrDamaged)
		require.ErrorContains(t, err, column)
	}
	_, err := otelarrow.Timestamps(without(t, b.Record, "timestamp_ns"))
	require.ErrorIs(t, err, otelarrow.ErrDamaged)
}

// retyped is the record with a column of another type in place of one.
func retyped(t *testing.T, rec arrow.RecordBatch, name, as string) arrow.RecordBatch {
	t.Helper()
	fields := append([]arrow.Field{}, rec.Schema().Fields()...)
	cols := append([]arrow.Array{}, rec.Columns()...)
	at := rec.Schema().FieldIndices(name)[0]
	nb := array.NewBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Date32)
	for range rec.NumRows() {
		nb.AppendEmptyValue()
	}
	fields[at].Type, cols[at] = arrow.PrimitiveTypes.Date32, nb.NewArray()
	fields[at].Name = as
	md := rec.Schema().Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), cols, rec.NumRows())
}

func TestGather_an_unexpected_type_is_an_error_that_names_the_column(t *testing.T) {
	t.Parallel()
	for _, sig := range signals {
		rec := encodeSome(t, newGen(t, false), sig)
		for _, f := range otelarrow.WALSchema(sig).Fields() {
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			_, err := otelarrow.Gather(sig, []otelarrow.Source{{Record: retyped(t, rec, f.Name, f.Name)}}, make([]otelarrow.RowRef, 1), mem)
			require.ErrorIs(t, err, otelarrow.ErrDamaged, f.Name)
			require.ErrorContains(t, err, "date32", f.Name)
			mem.AssertSize(t, 0)
		}
	}
}

// What a newer version stored must not be dropped without a word.
func TestGather_refuses_columns_it_does_not_know(t *testing.T) {
	t.Parallel()
	_, b := encode(t, realLogs(t, 5), memory.DefaultAllocator)
	_, err := otelarrow.Gather(otelarrow.Logs, []otelarrow.Source{{Record: retyped(t, b.Record, "body", "novelty")}}, make([]otelarrow.RowRef, 1), memory.DefaultAllocator)
	require.ErrorIs(t, err, otelarrow.ErrDamaged)
	require.ErrorContains(t, err, "novelty")
}

// Bytes that lie: whatever a damaged segment holds, the answer is rows or an error.
func TestGather_never_panics_on_damaged_buffers(t *testing.T) {
	t.Parallel()
	g := newGen(t, false)
	failed := 0
	for range 40 {
		for _, sig := range signals {
			rec := encodeSome(t, g, sig)
			var bufs []*memory.Buffer
			for _, c := range rec.Columns() {
				bufs = buffersOf(c.Data(), bufs)
			}
			for range 4 {
				b := bufs[g.IntN(len(bufs))].Bytes()
				at := g.IntN(len(b))
				b[at] ^= 1 << g.IntN(8)
				if g.IntN(2) == 0 {
					b[at] = 0xff
				}
			}
			refs := make([]otelarrow.RowRef, rec.NumRows())
			for i := range refs {
				refs[i].Row = int32(i)
			}
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			table, err := otelarrow.Gather(sig, []otelarrow.Source{{Record: rec}}, refs, mem)
			if err == nil {
				table.Release()
			} else {
				failed++
			}
			mem.AssertSize(t, 0)
			_, _ = otelarrow.RowBytes(rec)
			_, _ = otelarrow.Timestamps(rec)
		}
	}
	require.Positive(t, failed, "no damage was seen at all")
}

func buffersOf(d arrow.ArrayData, all []*memory.Buffer) []*memory.Buffer {
	for _, b := range d.Buffers() {
		if b != nil && b.Len() > 0 {
			all = append(all, b)
		}
	}
	for _, c := range d.Children() {
		all = buffersOf(c, all)
	}
	return all
}
