package lake

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/cespare/xxhash/v2"
)

// Why the lake writes Parquet itself: iceberg-go's writer sorts only within a batch, records no sort order, knows
// neither delta encodings nor a page index nor a size for a bloom filter, and can write a false bound (below). Why it
// cuts rows into leaves itself: ADR 0015.

// unboundedText are columns whose values are long more often than not: no reader prunes by their minimum, and
// keeping it costs time and room.
var unboundedText = []string{"body", "status_message", "description"}

// plainColumns have no dictionary. Two spans hardly ever have one id. In the attributes of a record ids lie between values
// that repeat, so that a dictionary is filled with hashing only to be thrown away; without one a commit takes a sixth less
// CPU, and files are as large (96, 83 and 22 bytes a row in BenchmarkCommit). Bodies are not among them: programs repeat
// themselves (75 against 89 bytes a row with 6,500 different lines in 200,000 rows).
var plainColumns = []string{"span_id", "attributes.key_value.value"}

// The size that arrow-go gives up a minimum or a maximum at. It drops the one that is too long and keeps the other,
// and iceberg-go then takes the missing one for the empty string: a bound that hides rows from every reader. A file
// that shows this is written again without statistics for the column.
const maxStatsSize = 4096

// pageBytes is a quarter of the usual page: the page index then tells a reader more about when rows were, files are
// no larger (96.1 against 96.3 bytes a row in BenchmarkCommit) and a fifth less memory is allocated on the way.
const pageBytes = 256 << 10

// zstdLevel is the fastest: files are no larger than at level 3, and a quarter of the CPU is saved (ADR 0015).
const zstdLevel = 1

// parquetColumns decides the encoding of each leaf column of a file.
type parquetColumns struct {
	arrow *arrow.Schema
	// noStats are leaf paths without minimum and maximum.
	noStats map[string]bool
	// emptyText are columns that hold an empty text in the file at hand (emptytext.go).
	emptyText map[string]bool
	// spans of one trace share its id, and come close together; other rows hardly ever do.
	spans bool
}

// newParquetColumns prepares the columns of the schema, which carries field ids.
func newParquetColumns(sc *arrow.Schema) *parquetColumns {
	c := &parquetColumns{arrow: sc, noStats: map[string]bool{}, emptyText: map[string]bool{}, spans: sc.HasField("parent_span_id")}
	for _, name := range unboundedText {
		c.noStats[name] = true
	}
	return c
}

// properties of a file whose trace_id has about ndv different values.
func (c *parquetColumns) properties(ndv int64) (*parquet.WriterProperties, error) {
	// Data pages of version 1: with statistics off, arrow-go writes version 2 pages that claim to have no nulls.
	opts := []parquet.WriterProperty{
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithCreatedBy("siglakecol"),
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(zstdLevel),
		parquet.WithPageIndexEnabled(true),
		parquet.WithDataPageSize(pageBytes),
		parquet.WithMaxStatsSize(maxStatsSize),
	}
	leaves, err := pqarrow.ToParquet(c.arrow, nil, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, fmt.Errorf("turn the schema into Parquet: %w", err)
	}
	var sorting []parquet.SortingColumn
	for i := range leaves.NumColumns() {
		leaf := leaves.Column(i)
		path := leaf.Path()
		switch {
		case isTime(leaf):
			opts = append(opts, parquet.WithDictionaryFor(path, false), parquet.WithEncodingFor(path, parquet.Encodings.DeltaBinaryPacked))
		case slices.Contains(plainColumns, path), path == colTraceID && !c.spans:
			opts = append(opts, parquet.WithDictionaryFor(path, false))
		}
		// Within maps and lists a minimum over all rows tells a reader nothing.
		if c.noStats[path] || strings.Contains(path, ".") {
			opts = append(opts, parquet.WithStatsFor(path, false), parquet.WithPageIndexEnabledFor(path, false))
		}
		if path == colTimestamp || path == colTimestampNs {
			sorting = append(sorting, parquet.SortingColumn{ColumnIdx: int32(i), NullsFirst: true})
		}
		if path == colTraceID && ndv > 0 {
			opts = append(opts, parquet.WithBloomFilterEnabledFor(path, true), parquet.WithBloomFilterFPPFor(path, 0.01),
				parquet.WithBloomFilterNDVFor(path, ndv))
		}
	}
	return parquet.NewWriterProperties(append(opts, parquet.WithSortingColumns(sorting))...), nil
}

// isTime is true for whole numbers that grow, or nearly, from row to row.
func isTime(leaf *schema.Column) bool {
	if leaf.PhysicalType() != parquet.Types.Int64 {
		return false
	}
	name := leaf.Path()[strings.LastIndexByte(leaf.Path(), '.')+1:]
	return name == colSegmentRow || name == "ingested_at" ||
		strings.HasSuffix(name, "timestamp") || strings.HasSuffix(name, "_ns") || strings.HasSuffix(name, "_nano")
}

// parquetFile is one open data file.
type parquetFile struct {
	sink  *countedSink
	w     *file.Writer
	sc    *arrow.Schema
	group *leaves // the row group at hand; nil when the next rows begin one
}

func createParquet(fsys iceio.WriteFileIO, path string, c *parquetColumns, ndv int64) (*parquetFile, error) {
	props, err := c.properties(ndv)
	if err != nil {
		return nil, err
	}
	sc, err := pqarrow.ToParquet(c.arrow, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, fmt.Errorf("turn the schema into Parquet: %w", err)
	}
	f, err := fsys.Create(path)
	if err != nil {
		return nil, err
	}
	sink := &countedSink{f: f, w: bufio.NewWriterSize(f, 256<<10)}
	w, err := file.NewParquetWriterWithError(sink, sc.Root(), file.WithWriterProps(props))
	if err != nil {
		return nil, errors.Join(err, sink.Close())
	}
	return &parquetFile{sink: sink, w: w, sc: c.arrow}, nil
}

// write appends rows and ends the row group when it is large enough. The columns of rec are those of the file's
// schema; its field ids may be others.
func (f *parquetFile) write(rec arrow.RecordBatch, rowGroupBytes int64) error {
	if f.group == nil {
		group, err := f.w.AppendBufferedRowGroupChecked()
		if err != nil {
			return err
		}
		f.group = newLeaves(group)
	}
	if err := f.group.write(rec, f.sc); err != nil {
		return err
	}
	if f.group.group.TotalCompressedBytes() < rowGroupBytes {
		return nil
	}
	err := f.group.group.Close()
	f.group = nil
	return err
}

// size is about what the file would have if it were closed now.
func (f *parquetFile) size() int64 {
	if f.group == nil {
		return f.sink.n
	}
	return f.sink.n + f.group.group.TotalCompressedBytes()
}

// close writes the footer and makes the file durable.
func (f *parquetFile) close() (*metadata.FileMetaData, int64, error) {
	if err := f.w.Close(); err != nil {
		return nil, 0, errors.Join(err, f.sink.Close())
	}
	if err := f.sink.Close(); err != nil {
		return nil, 0, err
	}
	meta, err := f.w.FileMetadata()
	if err != nil {
		return nil, 0, err
	}
	return meta, f.sink.n, nil
}

// abandon closes a file that is not wanted.
func (f *parquetFile) abandon() {
	// An object that is only half written must not be shown.
	if a, ok := f.sink.f.(interface{ Abandon() }); ok {
		a.Abandon()
		return
	}
	_ = f.sink.Close()
}

// countedSink buffers, counts and closes once. The Parquet writer closes it, and may fail to.
type countedSink struct {
	f      iceio.FileWriter
	w      *bufio.Writer
	n      int64
	closed bool
	err    error
}

func (s *countedSink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	return n, err
}

func (s *countedSink) Close() error {
	if s.closed {
		return s.err
	}
	s.closed = true
	s.err = s.w.Flush()
	if err := s.f.Close(); s.err == nil {
		s.err = err
	}
	return s.err
}

// unsafeStats names the columns with text in a row group but not both a minimum and a maximum of it, or not to be trusted.
func unsafeStats(meta *metadata.FileMetaData, c *parquetColumns) []string {
	bad := map[string]struct{}{}
	for _, group := range meta.RowGroups {
		for i, col := range group.Columns {
			leaf := meta.Schema.Column(i)
			path := leaf.Path()
			if leaf.PhysicalType() != parquet.Types.ByteArray || c.noStats[path] || strings.Contains(path, ".") {
				continue
			}
			// arrow-go's own HasMinMax is true when one side is set, so ask the footer itself.
			stats := col.MetaData.Statistics
			switch {
			case c.emptyText[path]:
				bad[path] = struct{}{}
			case stats != nil && stats.IsSetMinValue() && stats.IsSetMaxValue():
			case stats != nil && stats.GetNullCount() == col.MetaData.NumValues: // no value at all
			default:
				bad[path] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(bad))
}

// distinct estimates how many different values a column has, to a few percent and from above for small
// columns: it hashes each value to a bit and counts the bits left over (linear counting).
type distinct struct {
	set  []uint64
	mask uint64
}

func newDistinct(rows int) *distinct {
	n := uint64(1) << bits.Len(uint(max(rows, 64))*2)
	return &distinct{set: make([]uint64, n/64), mask: n - 1}
}

func (d *distinct) add(value []byte) {
	h := xxhash.Sum64(value) & d.mask
	d.set[h/64] |= 1 << (h % 64)
}

func (d *distinct) estimate() int64 {
	empty := 0
	for _, w := range d.set {
		empty += bits.OnesCount64(^w)
	}
	total := len(d.set) * 64
	if empty == total {
		return 0
	}
	n := -float64(total) * math.Log(float64(max(empty, 1))/float64(total))
	return int64(math.Ceil(n*1.05)) + 1
}
