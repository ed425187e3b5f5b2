package otelarrow

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Misfit says why a value is not in its promoted column. It is in the map of attributes all the same.
type Misfit uint8

// The reasons, a closed set.
const (
	MisfitType     Misfit = iota // no value of the column's type: abc for int
	MisfitFraction               // a number that is not whole, for int and long
	MisfitRange                  // more than the column's type holds
	misfits
)

// String is the value of the attribute reason of the counter.
func (m Misfit) String() string { return [...]string{"type", "fraction", "range"}[m] }

// MisfitCounts counts values by reason.
type MisfitCounts [misfits]int64

// Promote makes promoted columns for the rows that Gather makes a record of: the same sources and the same rows. The
// columns come in the order given, each of the type of its Field, NULL where a row has no value that fits.
//
//	return  the columns, held until they are released, and for each what did not fit
//	errors  ErrDamaged (names the column), ErrTooBig (take fewer rows: RowBytes bounds them)
func Promote(s Signal, sources []Source, rows []RowRef, columns []PromotedColumn, mem memory.Allocator) ([]arrow.Array, []MisfitCounts, error) {
	g := &gatherer{mem: mem, sources: sources, layout: layouts[s]}
	defer g.release()
	if err := g.locate(rows); err != nil {
		return nil, nil, err
	}
	out := make([]arrow.Array, 0, len(columns))
	counts := make([]MisfitCounts, len(columns))
	cells := make([]cell, len(rows))
	for i, c := range columns {
		clear(cells)
		err := g.fill(cells, c, &counts[i])
		var d arrow.ArrayData
		if err == nil {
			d, err = g.cells(cells, c.Field().Type)
		}
		if err != nil {
			for _, a := range out {
				a.Release()
			}
			return nil, nil, fmt.Errorf("promote column %s: %w", c.Name, err)
		}
		out = append(out, array.MakeFromData(d))
	}
	return out, counts, nil
}

// cell is a value of a promoted column: text of a string, bits of everything else.
type cell struct {
	text []byte
	bits uint64
	ok   bool
}

// fill looks each row's value up. What rows share is read once for those that follow each other.
func (g *gatherer) fill(cells []cell, c PromotedColumn, counts *MisfitCounts) error {
	read := readerOf(c.Type)
	for _, o := range c.Origins {
		p, views, err := g.origin(o)
		if err != nil {
			return err
		}
		var last cell
		var miss Misfit
		lastSrc, lastIdx, hint := int32(-1), int32(-1), 0
		for r, i := range p.idx {
			if cells[r].ok {
				continue
			}
			if src := p.src[r]; src != lastSrc || i != lastIdx {
				lastSrc, lastIdx, miss, last = src, i, misfits, cell{}
				text, kind, at, err := views[src].find(i, o.Attribute, hint)
				if err != nil {
					return err
				}
				if hint = at; at >= 0 && kind != valueEmpty {
					last, miss = read(text, kind)
				}
			}
			if cells[r] = last; miss != misfits {
				counts[miss]++
			}
		}
	}
	return nil
}

// origin is where the attributes are that an origin names.
func (g *gatherer) origin(o Origin) (*place, []attrsView, error) {
	prefix, _ := originPrefix(o.From)
	for _, c := range g.layout.columns {
		if c.kind == kindAttrs && c.name == prefix+"attributes" {
			p := g.places[c.group]
			views, err := p.attributes(c.wal())
			if err != nil {
				return nil, nil, err
			}
			return p, views.views, nil
		}
	}
	panic("otelarrow: no attributes of " + o.From)
}

// find looks for a key in element i. It tries the place first where the last element had it; at is the place, -1 when
// there is none.
func (v *attrsView) find(i int32, key string, hint int) (text []byte, kind uint8, at int, err error) {
	lo, hi, _, err := v.at(i)
	if err != nil {
		return nil, 0, -1, err
	}
	for n := range hi - lo {
		e := lo + n
		if hint > 0 && hint < hi-lo {
			switch n { // the hint, then all before it, then all behind it
			case 0:
				e = lo + hint
			default:
				if n <= hint {
					e = lo + n - 1
				}
			}
		}
		a, b, _, err := v.key.at(int32(e))
		if err != nil {
			return nil, 0, -1, err
		}
		if b-a != len(key) || string(v.key.bytes[a:b]) != key {
			continue
		}
		a, b, _, err = v.val.at(int32(e))
		if err != nil {
			return nil, 0, -1, err
		}
		return v.val.bytes[a:b], v.kind.v[e], e - lo, nil
	}
	return nil, 0, -1, nil
}

// cells puts values into an array.
func (g *gatherer) cells(cells []cell, dt arrow.DataType) (arrow.ArrayData, error) {
	nulls := g.nulls(len(cells))
	for r := range cells {
		if !cells[r].ok {
			nulls.set(r)
		}
	}
	switch dt.ID() {
	case arrow.STRING:
		return g.textCells(cells, dt, nulls)
	case arrow.BOOL:
		buf := g.buffer((len(cells) + 7) / 8)
		out := buf.Bytes()
		clear(out)
		for r := range cells {
			out[r/8] |= byte(cells[r].bits) << (r % 8)
		}
		return g.data(dt, len(cells), nulls, nil, buf), nil
	case arrow.INT32:
		buf := g.buffer(len(cells) * 4)
		out := arrow.GetData[uint32](buf.Bytes())
		for r := range cells {
			out[r] = uint32(cells[r].bits)
		}
		return g.data(dt, len(cells), nulls, nil, buf), nil
	default: // 8 bytes
		buf := g.buffer(len(cells) * 8)
		out := arrow.GetData[uint64](buf.Bytes())
		for r := range cells {
			out[r] = cells[r].bits
		}
		return g.data(dt, len(cells), nulls, nil, buf), nil
	}
}

func (g *gatherer) textCells(cells []cell, dt arrow.DataType, nulls *nullBits) (arrow.ArrayData, error) {
	offBuf, off := g.offsets(len(cells))
	total := 0
	for r := range cells {
		if total += len(cells[r].text); total > math.MaxInt32 {
			return nil, ErrTooBig
		}
		off[r+1] = int32(total)
	}
	buf := g.buffer(total)
	out := buf.Bytes()
	for r := range cells {
		copy(out[off[r]:], cells[r].text)
	}
	return g.data(dt, len(cells), nulls, nil, offBuf, buf), nil
}
