package lake

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// dictionary knows the entries of a column chunk's dictionary, and writes indices where arrow-go would look up, hash
// and box each value: half of what an attribute key cost.
//
// It is not handed over as an Arrow dictionary array, because arrow-go then wants the same dictionary with each batch,
// never ends a page, and leaves the empty string out of the minimum.
type dictionary struct {
	index  map[string]int32
	values []parquet.ByteArray // own copies, in the order of the chunk's dictionary
	recent [256]int32          // 1 + the entry found last under a sign

	indices []int32  // of the values at hand
	used    []uint32 // by entry: the write that used it last
	write   uint32
	raw     int64 // bytes of the values written as indices since a page was ended: arrow-go does not count them
	off     bool  // the column has no dictionary, or no longer, or has too many new values for it to be of use
}

// manyNew is the part of the values of a write, 1 of so many, that are new where looking up is in vain: some value of each
// write will be, as where an attribute is an id. What a column of few values has was in its first write.
const manyNew = 16

func newDictionary() *dictionary { return &dictionary{index: map[string]int32{}} }

// sign tells most values apart that a column has at the same time: by their length and both ends.
func sign(v []byte) uint8 {
	n := len(v)
	h := uint64(n)
	if n >= 8 {
		h ^= binary.LittleEndian.Uint64(v) ^ binary.LittleEndian.Uint64(v[n-8:])*3
	} else {
		for _, c := range v {
			h = h<<8 | uint64(c)
		}
	}
	return uint8((h * 0x9e3779b97f4a7c15) >> 56)
}

// find looks all values up; false when one is not in the dictionary.
func (d *dictionary) find(values []parquet.ByteArray) bool {
	d.indices = d.indices[:0]
	for _, v := range values {
		slot := &d.recent[sign(v)]
		if at := *slot - 1; at >= 0 && string(d.values[at]) == string(v) {
			d.indices = append(d.indices, at)
			continue
		}
		at, ok := d.index[string(v)]
		if !ok {
			return false
		}
		*slot = at + 1
		d.indices = append(d.indices, at)
	}
	return true
}

// put writes the values of the slots as indices. It writes nothing and returns false when it cannot.
func (d *dictionary) put(w *file.ByteArrayColumnChunkWriter, values []parquet.ByteArray, s *slots, def []int16, valid validity) (bool, error) {
	if !d.inStep(w) || len(values) == 0 || !d.find(values) {
		return false, nil
	}
	d.count(w, values, len(s.at)-len(values))
	indices := d.spaced(s, valid)
	defer indices.Release()
	if err := w.WriteDictIndices(indices, def, s.rep); err != nil {
		return false, err
	}
	for _, v := range values {
		d.raw += int64(len(v)) + 4
	}
	if d.raw < pageBytes {
		return true, nil
	}
	d.raw = 0
	return true, w.FlushCurrentPage()
}

// inStep checks that the column chunk has a dictionary with as many entries as were seen.
func (d *dictionary) inStep(w *file.ByteArrayColumnChunkWriter) bool {
	enc, ok := w.CurrentEncoder().(interface{ NumEntries() int })
	if d.off = d.off || !ok || enc.NumEntries() != len(d.values); d.off {
		*d = dictionary{off: true}
	}
	return !d.off
}

// learn takes in values that were written to the column chunk.
func (d *dictionary) learn(w *file.ByteArrayColumnChunkWriter, values []parquet.ByteArray) {
	if d.off {
		return
	}
	before := len(d.values)
	for _, v := range values {
		if slot := d.recent[sign(v)]; slot > 0 && string(d.values[slot-1]) == string(v) {
			continue
		}
		if _, ok := d.index[string(v)]; !ok {
			own := append(parquet.ByteArray{}, v...)
			d.index[string(own)] = int32(len(d.values))
			d.values = append(d.values, own)
			d.used = append(d.used, 0)
		}
	}
	if before > 0 && (len(d.values)-before)*manyNew > len(values) {
		*d = dictionary{off: true}
	}
	d.inStep(w)
}

// count brings the page's statistics up to date, with each different value once. Nothing ends the page before the
// indices are in it.
func (d *dictionary) count(w *file.ByteArrayColumnChunkWriter, values []parquet.ByteArray, nulls int) {
	stats, ok := w.PageStatistics().(*metadata.ByteArrayStatistics)
	if !ok {
		return
	}
	d.write++
	var different []parquet.ByteArray
	for _, at := range d.indices {
		if d.used[at] != d.write {
			d.used[at] = d.write
			different = append(different, d.values[at])
		}
	}
	stats.Update(different, int64(nulls))
	stats.IncNumValues(int64(len(values) - len(different)))
}

// spaced are the indices with room for the nulls, as arrow-go wants them.
func (d *dictionary) spaced(s *slots, valid validity) arrow.Array {
	indices, bits, nulls := d.indices, []byte(nil), s.held-len(d.indices)
	if nulls > 0 {
		indices, bits = make([]int32, 0, s.held), make([]byte, bitutil.BytesForBits(int64(s.held)))
		next := 0
		for _, e := range s.at {
			switch {
			case e < 0:
			case valid.has(e):
				bitutil.SetBit(bits, len(indices))
				indices = append(indices, d.indices[next])
				next++
			default:
				indices = append(indices, 0)
			}
		}
	}
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(indices))}
	if nulls > 0 {
		buffers[0] = memory.NewBufferBytes(bits)
	}
	data := array.NewData(arrow.PrimitiveTypes.Int32, len(indices), buffers, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}
