package frame

import "encoding/binary"

const (
	// scanBudget bounds the bytes that scan looks at for candidates, in multiples of the body: a tail may be full
	// of starts that each claim the rest of it. scanCost is what a candidate costs at least.
	scanBudget = 4
	scanCost   = 128
)

// found is what scan knows about the bytes behind a bad message.
type found struct {
	first  int64 // where the first whole record batch starts; 0 = there is none
	at     int64 // where the one starts that says most about what was synced
	synced int64 // how much that was

	batches int // how many whole record batches there are, and their rows; at least
	rows    int64
}

// scan looks for whole record batches from off to the end of the body. Messages start at multiples of 8.
//
// A record that holds an Arrow message as text can look like one. The segment is then refused instead of
// shortened, which loses nothing.
func (w *walk) scan(off int64) (found, error) {
	probe := &walk{src: w.src.clone(), schema: true, crcs: w.crcs}
	budget := scanBudget * w.src.size
	var f found
	for off = (off + 7) &^ 7; off+prefixSize <= w.src.size; {
		b, err := w.src.view(off, min(w.src.size-off, windowSize))
		if err != nil {
			return f, err
		}
		next := off + int64(len(b))&^7
		for i := int64(0); off+i < next; i += 8 {
			if !mayStart(b[i:], w.src.size-off-i) {
				continue
			}
			probe.pos = off + i
			size, cost, synced, err := probe.whole()
			if err != nil {
				return f, err
			}
			if budget -= cost + scanCost; budget < 0 {
				// Bytes made to look like this are not a tear.
				return found{
					first: probe.pos, at: probe.pos, synced: w.src.base + w.src.size, batches: f.batches, rows: f.rows,
				}, nil
			}
			if size == 0 {
				continue
			}
			if f.first == 0 {
				f.first = probe.pos
			}
			f.batches, f.rows = probe.batches, probe.rows
			if synced >= f.synced {
				f.at, f.synced = probe.pos, synced
			}
			if i += size - 8; off+i+8 > next {
				next = off + i + 8
			}
		}
		off = next
	}
	return f, nil
}

// mayStart tells whether the 8 bytes at the start of b can be the prefix of a message in rest bytes.
func mayStart(b []byte, rest int64) bool {
	metaLen := int64(int32(binary.LittleEndian.Uint32(b[4:])))
	return binary.LittleEndian.Uint32(b) == continuation && metaLen > 0 && metaLen <= maxMetadata && metaLen%8 == 0 &&
		metaLen <= rest-prefixSize
}

// whole returns the size of the record batch that stands at pos, or 0; how many bytes it took to know; and how
// much of the file was synced when it was written. It is counted. The prefix at pos is one that mayStart accepts.
func (w *walk) whole() (size, cost, synced int64, err error) {
	rest := w.src.size - w.pos - prefixSize
	prefix, err := w.src.view(w.pos, prefixSize)
	if err != nil {
		return 0, 0, 0, err
	}
	metaLen := int64(binary.LittleEndian.Uint32(prefix[4:]))
	meta, err := w.src.view(w.pos+prefixSize, metaLen)
	if err != nil {
		return 0, 0, 0, err
	}
	m, perr := parseMessage(meta)
	if perr != nil || w.expect(&m) != nil || m.bodyLen > rest-metaLen || len(m.nodes) == 0 {
		return 0, metaLen, 0, nil //nolint:nilerr // no message here; the search goes on
	}
	size, synced = prefixSize+metaLen+m.bodyLen, m.synced(meta)
	cost = metaLen
	if m.crcAt != 0 {
		cost = size
		want, got, err := w.checksum(&m, meta)
		if err != nil || want != got {
			return 0, size, 0, err
		}
	}
	w.batches, w.rows = w.batches+1, w.rows+m.rows
	return size, cost, synced, nil
}
