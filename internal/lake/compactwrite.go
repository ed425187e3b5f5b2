package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"go.uber.org/zap"
)

// mergeTarget is what files of the table are merged into: all its columns as they are now. False: the table is not
// one to merge files of, because this version could not write all that is in it, or its files have no order.
func (t *Table) mergeTarget(st state) (target, bool) {
	meta := st.tbl.Metadata()
	fits, err := fit(t.Name(), meta, t.signal, t.lake.promote)
	if err != nil || fits.sortOrder == 0 || unreadable(meta) != "" {
		return target{}, false // a commit of rows says what is wrong with it
	}
	tg := target{
		schema: st.tbl.Schema(), spec: fits.spec, sortOrder: fits.sortOrder, props: st.tbl.Properties(), version: meta.Version(),
	}
	if tg.columns, err = table.SchemaToArrowSchema(tg.schema, nil, true, false); err != nil {
		return target{}, false
	}
	for _, f := range tg.columns.Fields() {
		if !writable(f.Type) {
			return target{}, false
		}
	}
	for _, name := range []string{colTimestamp, colTimestampNs, colSegmentID, colSegmentRow} {
		if _, ok := tg.schema.FindFieldByName(name); !ok {
			return target{}, false
		}
	}
	tg.location, err = st.tbl.LocationProvider()
	return tg, err == nil
}

// writable is true for the types that leaves write.
func writable(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.StringType, *arrow.Int32Type, *arrow.Int64Type, *arrow.Float64Type, *arrow.BooleanType:
		return true
	case *arrow.TimestampType:
		return t.Unit == arrow.Microsecond
	case *arrow.ListType:
		return t.ElemField().Nullable && writable(t.Elem())
	case *arrow.MapType:
		return t.ItemField().Nullable && t.KeyType().ID() == arrow.STRING && writable(t.ItemType())
	case *arrow.StructType:
		for _, f := range t.Fields() {
			if !writable(f.Type) {
				return false
			}
		}
		return true
	}
	return false
}

// merged is a file made of others. It is durable, and can be offered again until one of those has gone.
type merged struct {
	commitID string
	from     []mergeFile
	file     iceberg.DataFile
	began    time.Time // by the wall clock: a machine that slept is to notice
	sent     bool      // a catalog was asked to commit it
	// base is the metadata file that the last commit was made from: once the table has another one, that commit cannot land.
	base string
}

// writeMerged writes one file of the rows of several. On an error it leaves none behind.
//
//	durable  on return: the file, its name and its directories
//	ctx      ends it between two chunks of rows, after each of which it rests
func (l *Lake) writeMerged(ctx context.Context, tg target, files []mergeFile, rest resting) (_ *merged, err error) {
	if err := rest(ctx, 0); err != nil {
		return nil, err
	}
	before := newTally(rowsOfFiles(files))
	for _, f := range files {
		begin := time.Now()
		if err := l.tally(ctx, f.df.FilePath(), tg.schema, before); err != nil {
			return nil, &unreadError{f.df.FilePath(), err}
		}
		if err := rest(ctx, time.Since(begin)); err != nil {
			return nil, err
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a commit id: %w", err)
	}
	out := &merged{commitID: id.String(), from: files, began: time.Now().Round(0)}
	day := files[0].day
	path := tg.location.NewDataLocation(fmt.Sprintf("%s=%s/merged-%s.parquet", tg.spec.Field(0).Name, dayText(day), out.commitID))
	defer func() {
		if err != nil {
			l.removeMerged(path)
		}
	}()
	columns := newParquetColumns(tg.columns)
	for name := range before.unbounded {
		columns.noStats[name] = true
	}
	for {
		meta, size, err := l.fillMerged(ctx, path, columns, files, before.traces.estimate(), rest)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		bad := unsafeStats(meta, columns)
		if len(bad) == 0 {
			if out.file, err = tg.dataFile(path, meta, size, day); err != nil {
				return nil, err
			}
			break
		}
		for _, column := range bad {
			columns.noStats[column] = true
		}
		if err := l.io.Remove(path); err != nil {
			return nil, fmt.Errorf("remove %s, to be written without statistics: %w", path, err)
		}
	}
	after := newTally(before.rows)
	if err := l.tally(ctx, path, tg.schema, after); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotConserved, err)
	}
	if !after.same(before) || out.file.Count() != before.rows {
		return nil, fmt.Errorf("%w: %d rows of %d segments, not %d of %d", errNotConserved,
			after.rows, len(after.segments), before.rows, len(before.segments))
	}
	return out, nil
}

// fillMerged writes the rows into a file whose trace_id has about ndv different values.
func (l *Lake) fillMerged(
	ctx context.Context, path string, columns *parquetColumns, files []mergeFile, ndv int64, rest resting,
) (_ *metadata.FileMetaData, size int64, err error) {
	clear(columns.emptyText)
	f, err := createParquet(l.io, path, columns, ndv)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			f.abandon()
		}
	}()
	m := l.newMerger(ctx, files, columns.arrow)
	defer m.close()
	for {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		begin := time.Now()
		rec, err := m.next()
		if err != nil {
			return nil, 0, err
		}
		if rec == nil {
			return f.close()
		}
		columns.noteEmptyText(rec)
		if err := f.write(rec, l.limits.rowGroupBytes/2); err != nil {
			return nil, 0, err
		}
		if err := rest(ctx, time.Since(begin)); err != nil {
			return nil, 0, err
		}
	}
}

// removeMerged removes a file that no catalog has heard of, if it is there.
func (l *Lake) removeMerged(path string) {
	if err := l.io.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.log.Warn("A data file that is not needed was left behind", zap.String("file", path), zap.Error(err))
	}
}

func rowsOfFiles(files []mergeFile) (rows int64) {
	for _, f := range files {
		rows += f.df.Count()
	}
	return rows
}
