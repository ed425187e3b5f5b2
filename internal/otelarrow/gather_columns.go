package otelarrow

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// fixedViews makes the views of one column of all sources.
func fixedViews[T fixedWidth](p *place, name string) ([]fixedView[T], error) {
	want := arrow.GetType[T]()
	views := make([]fixedView[T], len(p.structs))
	for i, s := range p.structs {
		var err error
		if views[i], err = fixedViewOf[T](s, name, want); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// numbers copies a column of numbers.
func numbers[T, U fixedWidth](g *gatherer, c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	buf, nulls, err := gatherNumbers[T, U](g, c.wal(), p)
	if err != nil {
		return nil, err
	}
	return g.data(dt, len(p.idx), nulls, nil, buf), nil
}

func gatherNumbers[T, U fixedWidth](g *gatherer, name string, p *place) (*memory.Buffer, *nullBits, error) {
	views, err := fixedViews[T](p, name)
	if err != nil {
		return nil, nil, err
	}
	var zero U
	buf := g.buffer(len(p.idx) * int(unsafe.Sizeof(zero)))
	out := arrow.GetData[U](buf.Bytes())
	nulls := g.nulls(len(p.idx))
	for r, i := range p.idx {
		v := &views[p.src[r]]
		if v.has(i) {
			out[r] = U(v.v[i])
		} else {
			out[r] = 0
			nulls.set(r)
		}
	}
	return buf, nulls, nil
}

// times copies int64 columns and then turns them into what the table shows.
func (g *gatherer) times(c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	buf, nulls, err := gatherNumbers[int64, int64](g, c.wal(), p)
	if err != nil {
		return nil, err
	}
	out := arrow.GetData[int64](buf.Bytes())
	if c.kind != kindLong && c.kind != kindMicros {
		for r, v := range out {
			// A missing value is 0 too, and already NULL.
			if v == 0 && (nulls.bits == nil || bitAt(nulls.bits.Bytes(), r)) {
				nulls.set(r)
			}
		}
	}
	if c.kind == kindRawMicros || c.kind == kindClampNanos {
		for r, v := range out {
			out[r] = clampTime(v)
		}
	}
	if c.kind == kindMicros || c.kind == kindRawMicros {
		for r, v := range out {
			out[r] = floorMicros(v)
		}
	}
	return g.data(dt, len(p.idx), nulls, nil, buf), nil
}

// floorMicros rounds towards the past, before 1970 too.
func floorMicros(ns int64) int64 {
	us := ns / 1000
	if ns%1000 < 0 {
		us--
	}
	return us
}

// duration is end minus start of what was sent; it may be negative.
func (g *gatherer) duration(dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	starts, err := fixedViews[int64](p, "start_time_unix_nano")
	if err != nil {
		return nil, err
	}
	ends, err := fixedViews[int64](p, "end_time_unix_nano")
	if err != nil {
		return nil, err
	}
	buf := g.buffer(len(p.idx) * 8)
	out := arrow.GetData[int64](buf.Bytes())
	nulls := g.nulls(len(p.idx))
	for r, i := range p.idx {
		start, end := &starts[p.src[r]], &ends[p.src[r]]
		if !start.has(i) || !end.has(i) || start.v[i] == 0 || end.v[i] == 0 {
			out[r] = 0
			nulls.set(r)
			continue
		}
		out[r] = minus(uint64(end.v[i]), uint64(start.v[i]))
	}
	return g.data(dt, len(p.idx), nulls, nil, buf), nil
}

// minus is a-b, clamped to int64.
func minus(a, b uint64) int64 {
	if a >= b {
		return int64(min(a-b, math.MaxInt64))
	}
	if b-a > math.MaxInt64 {
		return math.MinInt64
	}
	return -int64(b - a)
}

func (g *gatherer) bools(c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	views, err := fixedViews[uint8](p, c.wal())
	if err != nil {
		return nil, err
	}
	buf := g.buffer((len(p.idx) + 7) / 8)
	out := buf.Bytes()
	clear(out)
	nulls := g.nulls(len(p.idx))
	for r, i := range p.idx {
		v := &views[p.src[r]]
		switch {
		case !v.has(i):
			nulls.set(r)
		case v.v[i] != 0:
			out[r/8] |= 1 << (r % 8)
		}
	}
	return g.data(dt, len(p.idx), nulls, nil, buf), nil
}

// texts copies strings: first where each will lie, then their bytes.
func (g *gatherer) texts(c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	views := make([]textView, len(p.structs))
	for i, s := range p.structs {
		var err error
		if views[i], err = textViewOf(s, c.wal()); err != nil {
			return nil, err
		}
	}
	offBuf, off := g.offsets(len(p.idx))
	nulls := g.nulls(len(p.idx))
	total := 0
	for r, i := range p.idx {
		lo, hi, ok, err := views[p.src[r]].at(i)
		if err != nil {
			return nil, err
		}
		if !ok || (lo == hi && c.kind == kindTextOrNull) {
			nulls.set(r)
		}
		if total += hi - lo; total > math.MaxInt32 {
			return nil, ErrTooBig
		}
		off[r+1] = int32(total)
	}
	buf := g.buffer(total)
	out := buf.Bytes()
	for r, i := range p.idx {
		if lo, hi := off[r], off[r+1]; lo != hi {
			v := &views[p.src[r]]
			copy(out[lo:hi], v.bytes[v.off[i]:])
		}
	}
	return g.data(dt, len(p.idx), nulls, nil, offBuf, buf), nil
}

// offsets allocates the offsets of n strings or lists.
func (g *gatherer) offsets(n int) (*memory.Buffer, []int32) {
	buf := g.buffer((n + 1) * 4)
	off := arrow.GetData[int32](buf.Bytes())
	off[0] = 0
	return buf, off
}

// hexes writes ids as lower-case hex.
func (g *gatherer) hexes(c column, width int, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	views, err := idViews(p, c.wal(), width)
	if err != nil {
		return nil, err
	}
	if len(p.idx)*2*width > math.MaxInt32 {
		return nil, ErrTooBig
	}
	offBuf, off := g.offsets(len(p.idx))
	buf := g.buffer(len(p.idx) * 2 * width)
	out := buf.Bytes()
	nulls := g.nulls(len(p.idx))
	n := 0
	for r, i := range p.idx {
		ids := views[p.src[r]]
		if at := int(i) * width; i >= 0 && at < len(ids) && !allZero(ids[at:at+width]) {
			hex.Encode(out[n:], ids[at:at+width])
			n += 2 * width
		} else {
			nulls.set(r)
		}
		off[r+1] = int32(n)
	}
	buf.Resize(n)
	return g.data(dt, len(p.idx), nulls, nil, offBuf, buf), nil
}

// idViews are the ids of each source, one after the other; nil where it has none.
func idViews(p *place, name string, width int) ([][]byte, error) {
	views := make([][]byte, len(p.structs))
	for i, s := range p.structs {
		d, ok, err := s.field(name, arrow.FIXED_SIZE_BINARY)
		if err != nil {
			return nil, err
		}
		if !ok || d.Len() == 0 {
			continue
		}
		if w := as[*arrow.FixedSizeBinaryType](d.DataType()).ByteWidth; w != width {
			return nil, fmt.Errorf("%w: ids of %d bytes", ErrDamaged, w)
		}
		var all []byte
		if b := d.Buffers(); len(b) > 1 && b[1] != nil {
			all = b[1].Bytes()
		}
		lo, hi := (d.Offset()+s.base)*width, (d.Offset()+d.Len())*width
		if lo > hi || hi > len(all) {
			return nil, fmt.Errorf("%w: %d bytes of ids for %d", ErrDamaged, len(all), hi)
		}
		views[i] = all[lo:hi]
	}
	return views, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// enums writes the names of numbers, and numbers without a name in decimal.
func (g *gatherer) enums(c column, names []string, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	views, err := fixedViews[int32](p, c.wal())
	if err != nil {
		return nil, err
	}
	return g.names(dt, p, func(r int, i int32) (string, bool, error) {
		v := &views[p.src[r]]
		if !v.has(i) {
			return "", false, nil
		}
		if n := v.v[i]; n < 0 || int(n) >= len(names) {
			return strconv.Itoa(int(n)), true, nil
		}
		return names[v.v[i]], true, nil
	})
}

// valueKinds writes the type of each value that is not a string.
func (g *gatherer) valueKinds(c column, dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	views, err := fixedViews[uint8](p, c.wal())
	if err != nil {
		return nil, err
	}
	return g.names(dt, p, func(r int, i int32) (string, bool, error) {
		v := &views[p.src[r]]
		if !v.has(i) || v.v[i] == valueString {
			return "", false, nil
		}
		if int(v.v[i]) >= len(valueNames) {
			return "", false, fmt.Errorf("%w: value of kind %d", ErrDamaged, v.v[i])
		}
		return valueNames[v.v[i]], true, nil
	})
}

// segmentIDs and segmentRows write where each row came from.
func (g *gatherer) segmentIDs(dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	return g.names(dt, p, func(r int, _ int32) (string, bool, error) {
		return g.used[p.src[r]].SegmentID, true, nil
	})
}

func (g *gatherer) segmentRows(dt arrow.DataType, p *place) (arrow.ArrayData, error) {
	buf := g.buffer(len(p.idx) * 8)
	out := arrow.GetData[int64](buf.Bytes())
	for r, i := range p.idx {
		out[r] = g.used[p.src[r]].FirstRow + int64(i)
	}
	return g.data(dt, len(p.idx), nil, nil, buf), nil
}

// names builds a column of short texts; name gives that of a row and is asked twice.
func (g *gatherer) names(dt arrow.DataType, p *place, name func(r int, i int32) (string, bool, error)) (arrow.ArrayData, error) {
	offBuf, off := g.offsets(len(p.idx))
	nulls := g.nulls(len(p.idx))
	total := 0
	for r, i := range p.idx {
		s, ok, err := name(r, i)
		if err != nil {
			return nil, err
		}
		if !ok {
			nulls.set(r)
		}
		if total += len(s); total > math.MaxInt32 {
			return nil, ErrTooBig
		}
		off[r+1] = int32(total)
	}
	buf := g.buffer(total)
	out := buf.Bytes()
	for r, i := range p.idx {
		if off[r] != off[r+1] {
			s, _, _ := name(r, i)
			copy(out[off[r]:], s)
		}
	}
	return g.data(dt, len(p.idx), nulls, nil, offBuf, buf), nil
}
