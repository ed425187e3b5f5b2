package otelarrow

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// lists copies lists of numbers.
func lists[T fixedWidth](g *gatherer, c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	spans := make([]spanView, len(p.structs))
	elems := make([][]T, len(p.structs))
	for i, s := range p.structs {
		span, elem, ok, err := listViewOf(s, c.wal())
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if elem.DataType().ID() != arrow.GetType[T]() {
			return nil, fmt.Errorf("%w: list of %s", ErrDamaged, elem.DataType())
		}
		spans[i] = span
		if elems[i], err = values[T](elem, 1, elem.Offset()); err != nil {
			return nil, err
		}
	}
	offBuf, nulls, err := g.spans(p, spans, func(int32, int, int) error { return nil })
	if err != nil {
		return nil, err
	}
	off := arrow.GetData[int32](offBuf.Bytes())
	var zero T
	n := int(off[len(p.idx)])
	buf := g.buffer(n * int(unsafe.Sizeof(zero)))
	out := arrow.GetData[T](buf.Bytes())
	for r, i := range p.idx {
		if lo, hi := off[r], off[r+1]; lo != hi {
			copy(out[lo:hi], elems[p.src[r]][spans[p.src[r]].off[i]:])
		}
	}
	elem := g.data(as[*arrow.ListType](dt).Elem(), n, nil, nil, buf)
	return g.data(dt, len(p.idx), nulls, []arrow.ArrayData{elem}, offBuf), nil
}

// spans computes the offsets of lists in the result and calls each for those
// that are there, with their elements in the source.
func (g *gatherer) spans(p *place, spans []spanView, each func(src int32, lo, hi int) error) (*memory.Buffer, *nullBits, error) {
	offBuf, off := g.offsets(len(p.idx))
	nulls := g.nulls(len(p.idx))
	total := 0
	for r, i := range p.idx {
		lo, hi, ok, err := spans[p.src[r]].at(i)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			nulls.set(r)
		}
		if total += hi - lo; total > math.MaxInt32 {
			return nil, nil, ErrTooBig
		}
		off[r+1] = int32(total)
		if lo != hi {
			if err := each(p.src[r], lo, hi); err != nil {
				return nil, nil, err
			}
		}
	}
	return offBuf, nulls, nil
}

// structs copies lists of structs, field by field.
func (g *gatherer) structs(c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	in := &place{structs: make([]structView, len(p.structs))}
	spans := make([]spanView, len(p.structs))
	for i, s := range p.structs {
		span, elem, ok, err := listViewOf(s, c.wal())
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		spans[i] = span
		if in.structs[i], err = newStructView(elem); err != nil {
			return nil, err
		}
	}
	offBuf, nulls, err := g.spans(p, spans, func(src int32, lo, hi int) error {
		for e := lo; e < hi; e++ {
			in.src = append(in.src, src)
			in.idx = append(in.idx, int32(e))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	st := as[*arrow.StructType](as[*arrow.ListType](dt).Elem())
	fields := make([]arrow.ArrayData, len(c.fields))
	for i, f := range c.fields {
		if fields[i], err = g.column(f, st.Field(i).Type, in); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	elem := g.data(st, len(in.idx), nil, fields)
	return g.data(dt, len(p.idx), nulls, []arrow.ArrayData{elem}, offBuf), nil
}

// attrsViews are the attributes of all sources, under one name.
type attrsViews struct {
	views []attrsView
	spans []spanView
}

func (p *place) attributes(name string) (*attrsViews, error) {
	if have, ok := p.attrs[name]; ok {
		return have, nil
	}
	a := &attrsViews{views: make([]attrsView, len(p.structs)), spans: make([]spanView, len(p.structs))}
	for i, s := range p.structs {
		var err error
		if a.views[i], err = attrsViewOf(s, name); err != nil {
			return nil, err
		}
		a.spans[i] = a.views[i].spanView
	}
	if p.attrs == nil {
		p.attrs = map[string]*attrsViews{}
	}
	p.attrs[name] = a
	return a, nil
}

// maps copies attributes: of each row all keys in one piece, then all values.
func (g *gatherer) maps(c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	in, err := p.attributes(c.wal())
	if err != nil {
		return nil, err
	}
	views := in.views
	var keyBytes, valBytes int
	offBuf, nulls, err := g.spans(p, in.spans, func(src int32, lo, hi int) error {
		k, err := views[src].key.bytesOf(lo, hi)
		if err != nil {
			return err
		}
		v, err := views[src].val.bytesOf(lo, hi)
		if err != nil {
			return err
		}
		if keyBytes, valBytes = keyBytes+k, valBytes+v; max(keyBytes, valBytes) > math.MaxInt32 {
			return ErrTooBig
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	off := arrow.GetData[int32](offBuf.Bytes())
	n := int(off[len(p.idx)])
	keys, vals := g.pieces(n, keyBytes), g.pieces(n, valBytes)
	for r, i := range p.idx {
		if off[r] == off[r+1] {
			continue
		}
		v := &views[p.src[r]]
		lo, hi := int(v.off[i]), int(v.off[i+1])
		if err := keys.add(&v.key, lo, hi); err != nil {
			return nil, err
		}
		if err := vals.add(&v.val, lo, hi); err != nil {
			return nil, err
		}
	}
	return g.mapData(dt, len(p.idx), nulls, offBuf, keys, vals), nil
}

func (g *gatherer) mapData(dt arrow.DataType, rows int, nulls *nullBits, offBuf *memory.Buffer, keys, vals *pieces) arrow.ArrayData {
	mt := as[*arrow.MapType](dt)
	k := g.data(arrow.BinaryTypes.String, keys.n, nil, nil, keys.offBuf, keys.buf)
	v := g.data(arrow.BinaryTypes.String, vals.n, nil, nil, vals.offBuf, vals.buf)
	entries := g.data(mt.Elem(), keys.n, nil, []arrow.ArrayData{k, v})
	return g.data(dt, rows, nulls, []arrow.ArrayData{entries}, offBuf)
}

// bytesOf is the size of the strings lo to hi, which lie in one piece.
func (v *textView) bytesOf(lo, hi int) (int, error) {
	a, b := int(v.off[lo]), int(v.off[hi])
	if a < 0 || b < a || b > v.limit {
		return 0, fmt.Errorf("%w: strings %d to %d lie from %d to %d of %d", ErrDamaged, lo, hi, a, b, v.limit)
	}
	return b - a, nil
}

// pieces is a string column that is filled by whole runs of strings.
type pieces struct {
	offBuf, buf *memory.Buffer
	off         []int32
	bytes       []byte
	n           int
}

func (g *gatherer) pieces(n, bytes int) *pieces {
	p := &pieces{buf: g.buffer(bytes)}
	p.offBuf, p.off = g.offsets(n)
	p.bytes = p.buf.Bytes()
	return p
}

// add copies the strings lo to hi, whose ends were checked by bytesOf.
func (p *pieces) add(v *textView, lo, hi int) error {
	at := p.off[p.n]
	from, to := v.off[lo], v.off[hi]
	copy(p.bytes[at:], v.bytes[from:to])
	out := p.off[p.n+1 : p.n+1+hi-lo]
	shift, last := at-from, from
	for i, o := range v.off[lo+1 : hi+1] {
		if o < last {
			return fmt.Errorf("%w: string %d ends before it starts", ErrDamaged, lo+i)
		}
		out[i], last = o+shift, o
	}
	p.n += hi - lo
	return nil
}

// typeMaps writes the types of the values that are no strings; NULL when all are.
func (g *gatherer) typeMaps(c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	in, err := p.attributes(c.wal())
	if err != nil {
		return nil, err
	}
	views := in.views
	offBuf, off := g.offsets(len(p.idx))
	nulls := g.nulls(len(p.idx))
	var n, keyBytes, valBytes int
	for r, i := range p.idx {
		v := &views[p.src[r]]
		lo, hi, _, err := v.at(i)
		if err != nil {
			return nil, err
		}
		for e := lo; e < hi; e++ {
			k := v.kind.v[e]
			if k == valueString {
				continue
			}
			if int(k) >= len(valueNames) {
				return nil, fmt.Errorf("%w: value of kind %d", ErrDamaged, k)
			}
			b, err := v.key.bytesOf(e, e+1)
			if err != nil {
				return nil, err
			}
			n, keyBytes, valBytes = n+1, keyBytes+b, valBytes+len(valueNames[k])
		}
		if n == int(off[r]) {
			nulls.set(r)
		}
		if max(n, keyBytes, valBytes) > math.MaxInt32 {
			return nil, ErrTooBig
		}
		off[r+1] = int32(n)
	}
	keys, vals := g.pieces(n, keyBytes), g.pieces(n, valBytes)
	for r, i := range p.idx {
		if off[r] == off[r+1] {
			continue
		}
		v := &views[p.src[r]]
		for e := int(v.off[i]); e < int(v.off[i+1]); e++ {
			if k := v.kind.v[e]; k != valueString {
				addText(keys, v.key.bytes[v.key.off[e]:v.key.off[e+1]])
				addText(vals, valueNames[k])
			}
		}
	}
	return g.mapData(dt, len(p.idx), nulls, offBuf, keys, vals), nil
}

// addText adds one string; there is room for all.
func addText[S string | []byte](p *pieces, s S) {
	at := p.off[p.n]
	p.off[p.n+1] = at + int32(copy(p.bytes[at:], s))
	p.n++
}
