package otelarrow

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Source is one WAL batch and where it stands in its segment.
type Source struct {
	SegmentID string            // shown in segment_id
	FirstRow  int64             // segment_row of the record's row 0
	Record    arrow.RecordBatch // of WALSchema, or of an older one with fewer columns
}

// RowRef is one row of one source.
type RowRef struct{ Source, Row int32 }

// ErrDamaged is returned for a batch whose columns are not what WALSchema says or
// point outside their own bytes. The error names the column.
var ErrDamaged = errors.New("otelarrow: damaged batch")

// Gather builds table rows (TableSchema) from WAL rows, column by column: row i
// of the result is rows[i]. Rows may come in any order and more than once.
//
//	sources  not kept; a column they do not have reads as NULL
//	mem      holds the result until it is released
//	errors   ErrDamaged (names the column; nothing of the batch is used), ErrTooBig (take
//	         fewer rows: RowBytes bounds them)
func Gather(s Signal, sources []Source, rows []RowRef, mem memory.Allocator) (arrow.RecordBatch, error) {
	g := &gatherer{mem: mem, sources: sources, layout: layouts[s]}
	defer g.release()
	if err := g.locate(rows); err != nil {
		return nil, err
	}
	cols := make([]arrow.Array, len(g.layout.columns))
	for i, c := range g.layout.columns {
		field := g.layout.table.Field(i)
		d, err := g.column(c, field.Type, g.places[c.group])
		if err == nil && c.required && d.NullN() > 0 {
			err = fmt.Errorf("%w: %d rows without it", ErrDamaged, d.NullN())
		}
		if err != nil {
			return nil, fmt.Errorf("gather column %s: %w", c.name, err)
		}
		cols[i] = array.MakeFromData(d)
		g.owned = append(g.owned, cols[i])
	}
	return array.NewRecordBatch(g.layout.table, cols, int64(len(rows))), nil
}

// gatherer is the state of one Gather.
type gatherer struct {
	mem     memory.Allocator
	sources []Source
	used    []*Source // those that rows come from
	layout  *layout
	places  map[string]*place        // by group, "" = the rows themselves
	owned   []interface{ Release() } // released at the end; the result holds its own references
}

// place says where the values of the output rows are: row r is element idx[r] of
// used source src[r], and -1 where the source has none. Columns are looked up in the
// sources' structs.
type place struct {
	structs []structView
	src     []int32
	idx     []int32
	attrs   map[string]*attrsViews // by WAL field: a map and its types read the same
}

func (g *gatherer) release() {
	for _, o := range g.owned {
		o.Release()
	}
}

// locate finds the rows, and in each group what belongs to them. Sources without
// a row to take cost nothing: a caller may pass all it has with each chunk.
func (g *gatherer) locate(rows []RowRef) error {
	top := &place{src: make([]int32, len(rows)), idx: make([]int32, len(rows))}
	at := make([]int32, len(g.sources)) // 1 + the place of the source in g.used
	for r, ref := range rows {
		if ref.Source < 0 || int(ref.Source) >= len(g.sources) {
			return fmt.Errorf("gather row %d: %w: no source %d", r, ErrDamaged, ref.Source)
		}
		if at[ref.Source] == 0 {
			g.used = append(g.used, &g.sources[ref.Source])
			at[ref.Source] = int32(len(g.used))
		}
		top.src[r], top.idx[r] = at[ref.Source]-1, ref.Row
		if n := g.used[top.src[r]].Record.NumRows(); ref.Row < 0 || int64(ref.Row) >= n {
			return fmt.Errorf("gather row %d: %w: no row %d in the %d of source %d", r, ErrDamaged, ref.Row, n, ref.Source)
		}
	}
	if err := g.view(top); err != nil {
		return err
	}
	g.places = map[string]*place{"": top}
	for _, grp := range g.layout.groups {
		p, err := top.group(grp)
		if err != nil {
			return fmt.Errorf("gather column %s: %w", grp.name, err)
		}
		g.places[grp.name] = p
	}
	return nil
}

// view opens the used sources.
func (g *gatherer) view(top *place) error {
	top.structs = make([]structView, len(g.used))
	var last *arrow.Schema // batches of one segment share theirs
	var names *arrow.StructType
	for i, src := range g.used {
		if schema := src.Record.Schema(); schema != last {
			if err := g.layout.checkKnown(schema); err != nil {
				return fmt.Errorf("gather from %s: %w", src.SegmentID, err)
			}
			last, names = schema, arrow.StructOf(schema.Fields()...)
		}
		top.structs[i] = recordView(src.Record, names)
	}
	return nil
}

// group finds the struct of the group that belongs to each row.
func (p *place) group(grp group) (*place, error) {
	in := &place{structs: make([]structView, len(p.structs)), src: p.src, idx: make([]int32, len(p.idx))}
	views := make([]groupView, len(p.structs))
	for i, s := range p.structs {
		var err error
		if views[i], in.structs[i], err = s.group(grp); err != nil {
			return nil, err
		}
	}
	for r, i := range p.idx {
		at, ok := views[p.src[r]].at(i)
		if !ok {
			return nil, fmt.Errorf("%w: row %d belongs to no struct", ErrDamaged, i)
		}
		in.idx[r] = at
	}
	return in, nil
}

// column builds one column, or one field of a struct.
func (g *gatherer) column(c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	switch c.kind {
	case kindLong, kindRawTime, kindMicros, kindRawMicros, kindClampNanos:
		return g.times(c, dt, p)
	case kindDuration:
		return g.duration(dt, p)
	case kindUint32:
		return numbers[uint32, int64](g, c, dt, p)
	case kindInt:
		return numbers[int32, int32](g, c, dt, p)
	case kindDouble:
		return numbers[float64, float64](g, c, dt, p)
	case kindBool:
		return g.bools(c, dt, p)
	case kindText, kindTextOrNull:
		return g.texts(c, dt, p)
	case kindTraceID:
		return g.hexes(c, 16, dt, p)
	case kindSpanID:
		return g.hexes(c, 8, dt, p)
	case kindSpanKind:
		return g.enums(c, spanKindNames[:], dt, p)
	case kindStatusCode:
		return g.enums(c, statusCodeNames[:], dt, p)
	case kindTemporality:
		return g.enums(c, temporalityNames[:], dt, p)
	case kindValueKind:
		return g.valueKinds(c, dt, p)
	case kindAttrs:
		return g.maps(c, dt, p)
	case kindAttrTypes:
		return g.typeMaps(c, dt, p)
	case kindLongs:
		return lists[int64](g, c, dt, p)
	case kindDoubles:
		return lists[float64](g, c, dt, p)
	case kindStructs:
		return g.structs(c, dt, p)
	case kindSegmentID:
		return g.segmentIDs(dt, p)
	case kindSegmentRow:
		return g.segmentRows(dt, p)
	default:
		panic("otelarrow: column " + c.name + " has no kind")
	}
}

// Names of OTLP's enums without their prefixes, by number.
var (
	spanKindNames    = [...]string{"UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"}
	statusCodeNames  = [...]string{"UNSET", "OK", "ERROR"}
	temporalityNames = [...]string{"UNSPECIFIED", "DELTA", "CUMULATIVE"}
)

// buffer allocates one buffer of the result.
func (g *gatherer) buffer(n int) *memory.Buffer {
	b := memory.NewResizableBuffer(g.mem)
	b.Resize(n)
	g.owned = append(g.owned, b)
	return b
}

// data makes array data from buffers and children that the gatherer owns.
func (g *gatherer) data(dt arrow.DataType, n int, nulls *nullBits, children []arrow.ArrayData, buffers ...*memory.Buffer) arrow.ArrayData {
	var validity *memory.Buffer
	count := 0
	if nulls != nil {
		validity, count = nulls.bits, nulls.n
	}
	d := array.NewData(dt, n, append([]*memory.Buffer{validity}, buffers...), children, count, 0)
	g.owned = append(g.owned, d)
	return d
}

// nullBits marks NULLs of a column; it costs nothing until the first.
type nullBits struct {
	g    *gatherer
	rows int
	bits *memory.Buffer
	n    int
}

func (g *gatherer) nulls(rows int) *nullBits { return &nullBits{g: g, rows: rows} }

func (b *nullBits) set(r int) {
	if b.bits == nil {
		b.bits = b.g.buffer((b.rows + 7) / 8)
		memory.Set(b.bits.Bytes(), 0xff)
	}
	b.bits.Bytes()[r/8] &^= 1 << (r % 8)
	b.n++
}
