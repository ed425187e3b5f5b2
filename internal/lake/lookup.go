package lake

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"go.uber.org/zap"
)

// lookupBatch is how many rows of two columns are in memory at a time.
const lookupBatch = 64 << 10

// Lookup tells how many rows of each segment were committed: rows [0, n). The proof answers first, then the rows of
// the table themselves. An id that is missing from the result has no rows in the table. Rows count as committed also
// when they were deleted from the table since, as long as a later row of the segment is there.
//
//	errors  anything means "not known", never "not committed"
//	ctx     ends it
func (t *Table) Lookup(ctx context.Context, ids []string) (map[string]int64, error) {
	st, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	return t.committed(ctx, st, ids)
}

// Seen is a state of a table that was seen before. The zero value: none was.
type Seen struct {
	Table    uuid.UUID // the incarnation
	Sequence int64
	Metadata string
}

// Committed is Lookup for who has no Table: in the table of tenant and index, which is not made when it is missing.
//
//	errors  ErrNoTable; *IncarnationError and *GoneBackError when the catalog shows another or an older table than was
//	        seen; anything means "not known", never "not committed"
//	ctx     ends it
func (l *Lake) Committed(ctx context.Context, tenant, index string, seen Seen, ids []string) (map[string]int64, error) {
	if err := checkIdentifier(tenant, index); err != nil {
		return nil, err
	}
	t, err := l.asSeen(ctx, tenant, index, seen)
	if err != nil {
		return nil, err
	}
	return t.Lookup(ctx, ids)
}

// asSeen is the table of tenant and index, and refuses another or an older one than was seen.
func (l *Lake) asSeen(ctx context.Context, tenant, index string, seen Seen) (*Table, error) {
	t := &Table{lake: l, id: table.Identifier{NamespaceOf(tenant), index}, uuid: seen.Table}
	if t.uuid == uuid.Nil {
		tbl, err := l.open(ctx, t.id)
		if err != nil {
			return nil, err
		}
		t.uuid = tbl.Metadata().TableUUID()
	}
	t.Expect(seen.Sequence, seen.Metadata)
	return t, nil
}

// Evidence is what a table shows of one segment.
type Evidence struct {
	Committed int64 // rows [0, Committed) were committed
	Proved    bool  // by the proof; else by the last row that is there
	Rows      int64 // rows of it in the table's files now: fewer where some were deleted since, more if some are twice
}

// Evidence is Committed with the reasons, and counts also the rows of segments that the proof has. It returns the UUID of
// the table that was asked. errors and ctx as Committed.
func (l *Lake) Evidence(ctx context.Context, tenant, index string, seen Seen, ids []string) (uuid.UUID, map[string]Evidence, error) {
	if err := checkIdentifier(tenant, index); err != nil {
		return uuid.Nil, nil, err
	}
	t, err := l.asSeen(ctx, tenant, index, seen)
	if err != nil {
		return uuid.Nil, nil, err
	}
	st, err := t.load(ctx)
	if err != nil {
		return uuid.Nil, nil, err
	}
	found, err := t.seenOf(ctx, st.tbl, ids)
	if err != nil {
		return uuid.Nil, nil, fmt.Errorf("look up %d segments in %s: %w", len(ids), t.Name(), err)
	}
	proved := st.proof.rows()
	out := make(map[string]Evidence, len(ids))
	for id, s := range found {
		e := Evidence{Committed: s.end, Rows: s.rows}
		if n, ok := proved[id]; ok {
			e.Committed, e.Proved = n, true
		}
		out[id] = e
	}
	return t.uuid, out, nil
}

// committed is Lookup in a state of the table.
func (t *Table) committed(ctx context.Context, st state, ids []string) (map[string]int64, error) {
	out := make(map[string]int64, len(ids))
	proved := st.proof.rows()
	var ask []string
	for _, id := range ids {
		if n, ok := proved[id]; ok {
			out[id] = n
		} else {
			ask = append(ask, id)
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	found, err := t.rowsOf(ctx, st.tbl, ask)
	if err != nil {
		return nil, fmt.Errorf("look up %d segments in %s: %w", len(ask), t.Name(), err)
	}
	maps.Copy(out, found)
	return out, nil
}

// seen is what the table holds of one segment.
type seen struct {
	rows int64 // how many
	end  int64 // the last position, plus one
}

// rowsOf finds the rows of segments in the table's current snapshot. Rows of a segment are committed in order, so the
// last one tells how many were.
func (t *Table) rowsOf(ctx context.Context, tbl *table.Table, ids []string) (map[string]int64, error) {
	found, err := t.seenOf(ctx, tbl, ids)
	out := map[string]int64{}
	for id, s := range found {
		if s.rows > 0 {
			out[id] = s.end
		}
	}
	return out, err
}

// seenOf is what the current snapshot holds of each segment.
func (t *Table) seenOf(ctx context.Context, tbl *table.Table, ids []string) (map[string]*seen, error) {
	t.lake.metrics.lookups.Add(ctx, int64(len(ids)))
	want := make(map[string]*seen, len(ids))
	for _, id := range ids {
		want[id] = &seen{}
	}
	snap := tbl.CurrentSnapshot()
	if snap == nil {
		return want, nil
	}
	bounded := -1 // no file has bounds of it: another engine has renamed or dropped the column, so look into all
	if column, ok := tbl.Schema().FindFieldByName(colSegmentID); ok {
		bounded = column.ID
	}
	sorted := slices.Sorted(slices.Values(ids))
	for df, err := range t.lake.dataFiles(snap) {
		if err != nil {
			return nil, err
		}
		if !mayHold(df, bounded, sorted) {
			continue
		}
		if err := t.lake.count(ctx, df, tbl.Schema(), want); err != nil {
			return nil, fmt.Errorf("read %s: %w", df.FilePath(), err)
		}
	}
	for id, s := range want {
		if s.rows > s.end {
			t.lake.metrics.doubled.Add(ctx, 1)
			t.lake.log.Error("A segment has more rows in the table than it has positions: rows were committed twice",
				zap.String("table", t.Name()), zap.String("segment", id), zap.Int64("rows", s.rows), zap.Int64("positions", s.end))
		}
	}
	return want, nil
}

// mayHold is false when the file's bounds exclude all of the sorted ids. The ids begin with a time, so a file's
// bounds are as narrow as its segments are close in age.
func mayHold(df iceberg.DataFile, fieldID int, sorted []string) bool {
	lower, hasLower := df.LowerBoundValues()[fieldID]
	upper, hasUpper := df.UpperBoundValues()[fieldID]
	first := 0
	if hasLower {
		first, _ = slices.BinarySearchFunc(sorted, lower, func(id string, b []byte) int { return bytes.Compare([]byte(id), b) })
	}
	return first < len(sorted) && (!hasUpper || bytes.Compare([]byte(sorted[first]), upper) <= 0)
}

// count adds the rows of one data file to want.
func (l *Lake) count(ctx context.Context, df iceberg.DataFile, sc *iceberg.Schema, want map[string]*seen) error {
	if df.FileFormat() != iceberg.ParquetFile {
		return fmt.Errorf("format %s cannot be read", df.FileFormat())
	}
	_, err := l.eachSegmentRow(ctx, df.FilePath(), sc, func(ids *array.String, rows *array.Int64) {
		countBatch(ids, rows, want)
	})
	return err
}

// eachSegmentRow shows the columns segment_id and segment_row of a Parquet file, a batch at a time. A file that others wrote has
// none.
func (l *Lake) eachSegmentRow(
	ctx context.Context, path string, sc *iceberg.Schema, show func(ids *array.String, rows *array.Int64),
) (*metadata.FileMetaData, error) {
	in, err := l.io.Open(path)
	if err != nil {
		return nil, err
	}
	pf, err := file.NewParquetReader(in)
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	defer func() { _ = pf.Close() }() // closes in; only read from
	meta := pf.MetaData()
	id, row := leafOf(meta.Schema, sc, colSegmentID), leafOf(meta.Schema, sc, colSegmentRow)
	if id < 0 || row < 0 {
		return meta, nil // written by others: no row of it came from a segment
	}
	reader, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: lookupBatch}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	batches, err := reader.GetRecordReader(ctx, []int{id, row}, nil)
	if err != nil {
		return nil, err
	}
	defer batches.Release()
	for batches.Next() {
		rec := batches.RecordBatch()
		ids, ok := rec.Column(at(rec.Schema().FieldIndices(colSegmentID))).(*array.String)
		if !ok {
			return nil, fmt.Errorf("%s is no text", colSegmentID)
		}
		rows, ok := rec.Column(at(rec.Schema().FieldIndices(colSegmentRow))).(*array.Int64)
		if !ok {
			return nil, fmt.Errorf("%s is no whole number", colSegmentRow)
		}
		show(ids, rows)
	}
	return meta, batches.Err()
}

func at(indices []int) int {
	if len(indices) == 0 {
		return 0
	}
	return indices[0]
}

func countBatch(ids *array.String, rows *array.Int64, want map[string]*seen) {
	for i := range ids.Len() {
		if ids.IsNull(i) || rows.IsNull(i) {
			continue
		}
		if s := want[ids.Value(i)]; s != nil {
			s.rows++
			s.end = max(s.end, rows.Value(i)+1)
		}
	}
}

// leafOf finds a top-level column of the table in a file: by field id, or by the name that the file has for it, also
// where the table has another or none by now. -1 if none.
func leafOf(leaves *schema.Schema, sc *iceberg.Schema, name string) int {
	f, ok := sc.FindFieldByName(name)
	for i := range leaves.NumColumns() {
		if ok && leaves.Column(i).SchemaNode().FieldID() == int32(f.ID) {
			return i
		}
	}
	return leaves.ColumnIndexByName(name)
}
