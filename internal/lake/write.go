package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// written are the data files of one transaction. They are durable, and can be offered again until the rows they
// hold or the ids of their columns are no longer the right ones.
type written struct {
	commitID string
	parts    []part
	cut      bool // rows behind the parts are left for another transaction: the bound on partitions
	columns  *arrow.Schema
	files    []iceberg.DataFile
	rows     int64
	bytes    int64
	misfits  []misfits
	began    time.Time // by the wall clock: a machine that slept is to notice
	// sent says that a catalog was asked to commit the files: from then on they may be part of a table.
	sent bool
}

// fits tells whether the files hold just these rows, under just these columns, and are too young to be taken for orphans.
func (w *written) fits(parts []part, columns *arrow.Schema, l limits) bool {
	if w == nil || !w.columns.Equal(columns) || len(w.parts) > len(parts) || time.Now().Round(0).Sub(w.began) > l.orphanAge/2 {
		return false
	}
	for i, p := range w.parts {
		if q := parts[i]; p.seg.ID != q.seg.ID || p.from != q.from || p.to > q.to {
			return false
		}
	}
	return true
}

// target is where the files of a transaction go.
type target struct {
	schema    *iceberg.Schema
	columns   *arrow.Schema
	promoted  []otelarrow.PromotedColumn
	remember  string // what propPromote is to become; empty when it is that
	spec      iceberg.PartitionSpec
	sortOrder int
	props     iceberg.Properties
	version   int
	location  table.LocationProvider
}

// writer writes the files of one transaction, one after the other.
type writer struct {
	io      iceio.WriteFileIO
	limits  limits
	turns   chan *arena
	signal  otelarrow.Signal
	target  target
	set     *rowSet
	columns *parquetColumns
	out     *written
	paths   []string
	misfits []misfits // of the file being written
}

// write writes the longest prefix of the parts that fits a transaction. On an error it leaves no file behind.
//
//	durable  on return: each file, its name and its directories
//	ctx      ends it between two chunks of rows
func (l *Lake) write(ctx context.Context, s otelarrow.Signal, tg target, parts []part) (_ *written, err error) {
	set, taken, cut, err := collect(parts, l.limits)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a commit id: %w", err)
	}
	w := &writer{
		io: l.io, limits: l.limits, turns: l.encoding, signal: s, target: tg, set: set,
		columns: newParquetColumns(tg.columns),
		out:     &written{commitID: id.String(), parts: taken, cut: cut, columns: tg.columns, rows: int64(len(set.keys)), began: time.Now().Round(0)},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.removeAll())
		}
	}()
	for lo := 0; lo < len(set.keys); {
		hi, day := set.day(lo)
		for lo < hi {
			if lo, err = w.file(ctx, lo, hi, day); err != nil {
				return nil, err
			}
		}
	}
	return w.out, nil
}

// removeAll removes files that no catalog has heard of.
func (w *writer) removeAll() error {
	var err error
	for _, path := range w.paths {
		if rerr := w.io.Remove(path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

// file writes keys [lo, hi), or as many of them as fit a file, and returns the first one it did not write.
func (w *writer) file(ctx context.Context, lo, hi int, day int32) (next int, err error) {
	for {
		name := fmt.Sprintf("%s=%s/%s-%05d.parquet", w.target.spec.Field(0).Name, dayText(day), w.out.commitID, len(w.paths))
		path := w.target.location.NewDataLocation(name)
		w.paths = append(w.paths, path)
		w.misfits = nil
		clear(w.columns.emptyText)
		meta, size, next, err := w.fill(ctx, path, lo, hi)
		if err != nil {
			return lo, fmt.Errorf("write %s: %w", path, err)
		}
		bad := unsafeStats(meta, w.columns)
		if len(bad) == 0 {
			return next, w.describe(path, meta, size, day)
		}
		for _, column := range bad {
			w.columns.noStats[column] = true
		}
		if err := w.io.Remove(path); err != nil {
			return lo, fmt.Errorf("remove %s, to be written without statistics: %w", path, err)
		}
	}
}

// fill writes one file.
func (w *writer) fill(ctx context.Context, path string, lo, hi int) (_ *metadata.FileMetaData, size int64, next int, err error) {
	f, err := createParquet(w.io, path, w.columns, w.set.traces(lo, hi))
	if err != nil {
		return nil, 0, lo, err
	}
	defer func() {
		if err != nil {
			f.abandon()
		}
	}()
	for next = lo; next < hi && f.size() < w.limits.fileBytes; {
		if next, err = w.chunk(ctx, f, next, hi); err != nil {
			return nil, 0, lo, err
		}
	}
	meta, size, err := f.close()
	return meta, size, next, err
}

// chunk writes keys [lo, hi), or as many of them as may be in table form at one time, when it is its turn.
func (w *writer) chunk(ctx context.Context, f *parquetFile, lo, hi int) (next int, err error) {
	if ctx.Err() != nil {
		return lo, context.Cause(ctx)
	}
	var mem *arena
	select {
	case mem = <-w.turns:
	case <-ctx.Done():
		return lo, context.Cause(ctx)
	}
	defer func() {
		mem.reset(int(2 * w.limits.chunkBytes))
		w.turns <- mem
	}()
	end := w.set.chunk(lo, hi, w.limits)
	rec, misfits, err := w.set.gather(w.signal, w.target.promoted, lo, end, mem)
	if err != nil {
		return lo, fmt.Errorf("gather rows: %w", err)
	}
	defer rec.Release()
	w.misfits = append(w.misfits, misfits...)
	w.columns.noteEmptyText(rec)
	return end, f.write(rec, w.limits.rowGroupBytes)
}

// describe adds the file to what the transaction will commit.
func (w *writer) describe(path string, meta *metadata.FileMetaData, size int64, day int32) error {
	df, err := w.target.dataFile(path, meta, size, day)
	if err != nil {
		return err
	}
	w.out.files = append(w.out.files, df)
	w.out.bytes += size
	w.out.misfits = append(w.out.misfits, w.misfits...)
	return nil
}

// dataFile is what a manifest says of a file of rows of a day.
func (tg target) dataFile(path string, meta *metadata.FileMetaData, size int64, day int32) (iceberg.DataFile, error) {
	df, err := table.DataFileFromMetadata(table.DataFileArgs{
		Schema:          tg.schema,
		Spec:            tg.spec,
		Format:          iceberg.ParquetFile,
		Metadata:        meta,
		FilePath:        path,
		FileSize:        size,
		Content:         iceberg.EntryContentData,
		PartitionValues: map[int]any{tg.spec.Field(0).FieldID: iceberg.Date(day)},
		SortOrderID:     tg.sortOrder,
		Properties:      tg.props,
		FormatVersion:   tg.version,
	})
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", path, err)
	}
	return df, nil
}

// dayText is the day as Iceberg spells it in paths.
func dayText(day int32) string {
	return time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly)
}

// traces estimates how many different trace ids keys [lo, hi) have.
func (s *rowSet) traces(lo, hi int) int64 {
	columns := make([]*array.FixedSizeBinary, len(s.sources))
	for i, src := range s.sources {
		if at := src.Record.Schema().FieldIndices(colTraceID); len(at) == 1 {
			columns[i], _ = src.Record.Column(at[0]).(*array.FixedSizeBinary)
		}
	}
	d := newDistinct(hi - lo)
	for _, k := range s.keys[lo:hi] {
		if c := columns[k.source]; c != nil && c.IsValid(int(k.row)) {
			d.add(c.Value(int(k.row)))
		}
	}
	return d.estimate()
}
