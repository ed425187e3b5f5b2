package lake

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Tables describes all tables of the catalog. A table that cannot be read is left out and named in the error; the
// others are returned all the same.
//
//	errors  joined, one a table: Unreadable tells which
func (l *Lake) Tables(ctx context.Context) ([]TableInfo, error) {
	spaces, err := l.cat.ListNamespaces(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var (
		out  []TableInfo
		errs []error
	)
	for _, ns := range spaces {
		ids, err := l.cat.tableNames(ctx, ns)
		if err != nil {
			errs = append(errs, fmt.Errorf("list tables of %s: %w", strings.Join(ns, "."), err))
			continue
		}
		for _, id := range ids {
			t, err := l.open(ctx, id)
			if err == nil {
				var info TableInfo
				if info, err = l.info(t); err == nil {
					out = append(out, info)
				}
			}
			if err != nil {
				errs = append(errs, &TableError{Namespace: strings.Join(ns, "."), Name: id[len(id)-1], Err: err})
			}
		}
	}
	return out, errors.Join(errs...)
}

// Plan tells a reader what to scan for the current snapshot of a table.
//
//	errors  ErrNoTable
func (l *Lake) Plan(ctx context.Context, namespace, name string) (Plan, error) {
	t, err := l.open(ctx, table.Identifier{namespace, name})
	if err != nil {
		return Plan{}, err
	}
	return l.plan(t)
}

func (l *Lake) plan(t *table.Table) (Plan, error) {
	plan, err := l.describe(t)
	snap := t.CurrentSnapshot()
	if err != nil || snap == nil {
		return plan, err
	}
	for df, err := range l.liveFiles(snap) {
		if err != nil {
			return Plan{}, fmt.Errorf("plan %s: %w", strings.Join(t.Identifier(), "."), err)
		}
		if df.ContentType() != iceberg.EntryContentData {
			plan.DeleteFiles++
			continue
		}
		if format := df.FileFormat(); format != iceberg.ParquetFile {
			plan.Unreadable = fmt.Sprintf("data files of format %s", format)
		}
		path := df.FilePath()
		if !isObject(path) {
			if path, err = localPath(path); err != nil {
				return Plan{}, fmt.Errorf("plan %s: %w", strings.Join(t.Identifier(), "."), err)
			}
		}
		f := PlanFile{Path: path, Rows: df.Count(), Bytes: df.FileSizeBytes()}
		if lo, hi, ok := timestampBounds(df, t.Schema()); ok {
			f.Min, f.Max = time.UnixMicro(lo), time.UnixMicro(hi)
		}
		plan.Files = append(plan.Files, f)
	}
	return plan, nil
}

// liveFiles are the data and delete files of a snapshot. An error ends it.
func (l *Lake) liveFiles(snap *table.Snapshot) iter.Seq2[iceberg.DataFile, error] {
	return func(yield func(iceberg.DataFile, error) bool) {
		manifests, err := l.io.manifestsOf(snap)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, m := range manifests {
			for e, err := range m.Entries(l.io, true) {
				if err != nil {
					yield(nil, l.io.fileError("manifest", m.FilePath(), err))
					return
				}
				if !yield(e.DataFile(), nil) {
					return
				}
			}
		}
	}
}

// dataFiles are the files of a snapshot that hold rows.
func (l *Lake) dataFiles(snap *table.Snapshot) iter.Seq2[iceberg.DataFile, error] {
	return func(yield func(iceberg.DataFile, error) bool) {
		for df, err := range l.liveFiles(snap) {
			if err == nil && df.ContentType() != iceberg.EntryContentData {
				continue
			}
			if !yield(df, err) || err != nil {
				return
			}
		}
	}
}

// info reads totals from the summary of the current snapshot, or from its manifests where the summary, written by
// others, has none.
func (l *Lake) info(t *table.Table) (TableInfo, error) {
	meta := t.Metadata()
	id := t.Identifier()
	out := TableInfo{
		Namespace: strings.Join(id[:len(id)-1], "."),
		Name:      id[len(id)-1],
		Signal:    t.Properties()[propSignal],
		UUID:      meta.TableUUID(),
		Snapshots: len(meta.Snapshots()),
		Location:  meta.Location(),
	}
	snap := t.CurrentSnapshot()
	if snap == nil {
		return out, nil
	}
	out.LastCommit = time.UnixMilli(snap.TimestampMs)
	if _, err := l.io.manifestsOf(snap); err != nil { // without it nothing is committed nor read
		return TableInfo{}, fmt.Errorf("table %s: %w", strings.Join(id, "."), err)
	}
	if readTotals(snap, &out) {
		return out, nil
	}
	for df, err := range l.dataFiles(snap) {
		if err != nil {
			return TableInfo{}, fmt.Errorf("count the files of %s: %w", strings.Join(id, "."), err)
		}
		out.Files++
		out.Rows += df.Count()
		out.Bytes += df.FileSizeBytes()
	}
	return out, nil
}

func readTotals(snap *table.Snapshot, out *TableInfo) bool {
	if snap.Summary == nil {
		return false
	}
	read := func(key string) (int64, bool) {
		n, err := strconv.ParseInt(snap.Summary.Properties[key], 10, 64)
		return n, err == nil
	}
	rows, ok1 := read("total-records")
	files, ok2 := read("total-data-files")
	size, ok3 := read("total-files-size")
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	out.Rows, out.Files, out.Bytes = rows, files, size
	return true
}

func planColumns(sc *iceberg.Schema) []PlanColumn {
	out := make([]PlanColumn, 0, sc.NumFields())
	for _, f := range sc.Fields() {
		out = append(out, PlanColumn{FieldID: f.ID, Name: f.Name, DuckDBType: duckType(f.Type), Required: f.Required})
	}
	return out
}

// duckType is a type in DuckDB's syntax. What DuckDB has no word for is BLOB, as Parquet stores it.
func duckType(t iceberg.Type) string {
	switch t := t.(type) {
	case *iceberg.ListType:
		return duckType(t.Element) + "[]"
	case *iceberg.MapType:
		return "MAP(" + duckType(t.KeyType) + ", " + duckType(t.ValueType) + ")"
	case *iceberg.StructType:
		fields := make([]string, len(t.FieldList))
		for i, f := range t.FieldList {
			fields[i] = `"` + strings.ReplaceAll(f.Name, `"`, `""`) + `" ` + duckType(f.Type)
		}
		return "STRUCT(" + strings.Join(fields, ", ") + ")"
	case iceberg.BooleanType:
		return "BOOLEAN"
	case iceberg.Int32Type:
		return "INTEGER"
	case iceberg.Int64Type:
		return "BIGINT"
	case iceberg.Float32Type:
		return "FLOAT"
	case iceberg.Float64Type:
		return "DOUBLE"
	case iceberg.DecimalType:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision(), t.Scale())
	case iceberg.DateType:
		return "DATE"
	case iceberg.TimeType:
		return "TIME"
	case iceberg.TimestampType:
		return "TIMESTAMP"
	case iceberg.TimestampTzType:
		return "TIMESTAMPTZ"
	case iceberg.TimestampNsType:
		return "TIMESTAMP_NS"
	case iceberg.StringType:
		return "VARCHAR"
	case iceberg.UUIDType:
		return "UUID"
	default:
		return "BLOB"
	}
}
