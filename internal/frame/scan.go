package frame

import (
	"bytes"
	"encoding/binary"
)

// scanBudget bounds the bytes that findMessage checksums, in multiples of the body: a tail may be full of
// starts that each claim the rest of it.
const scanBudget = 4

// findMessage looks for a whole record batch in the bytes from off to the end, where a torn message would have
// left nothing but its own beginning. It returns where one starts, or 0.
//
// A record that holds an Arrow message as text can look like one. The segment is then refused instead of
// shortened, which loses nothing.
func (w *walk) findMessage(off int64) (int64, error) {
	probe := &walk{src: w.src.clone(), schema: true, crcs: w.crcs}
	budget := scanBudget * w.src.size
	mark := EOS()[:4]
	for off+prefixSize < w.src.size {
		part := min(w.src.size-off, windowSize)
		b, err := w.src.view(off, part)
		if err != nil {
			return 0, err
		}
		i := bytes.Index(b, mark)
		if i < 0 {
			off += part - min(part, int64(len(mark))-1)
			if part < windowSize {
				return 0, nil
			}
			continue
		}
		probe.pos = off + int64(i)
		whole, cost, err := probe.whole()
		if err != nil {
			return 0, err
		}
		if budget -= cost; whole || budget < 0 {
			return probe.pos, nil
		}
		off = probe.pos + 1
	}
	return 0, nil
}

// whole reports whether a record batch stands at pos, and how many bytes it took to know.
func (w *walk) whole() (ok bool, cost int64, err error) {
	rest := w.src.size - w.pos - prefixSize
	if rest < 0 {
		return false, 0, nil
	}
	prefix, err := w.src.view(w.pos, prefixSize)
	if err != nil {
		return false, 0, err
	}
	metaLen := int64(int32(binary.LittleEndian.Uint32(prefix[4:])))
	if metaLen <= 0 || metaLen > maxMetadata || metaLen%8 != 0 || metaLen > rest {
		return false, 0, nil
	}
	meta, err := w.src.view(w.pos+prefixSize, metaLen)
	if err != nil {
		return false, 0, err
	}
	m, perr := parseMessage(meta)
	if perr != nil || w.expect(&m) != nil || m.bodyLen > rest-metaLen || len(m.nodes) == 0 {
		return false, metaLen, nil
	}
	if m.crcAt == 0 {
		return true, metaLen, nil
	}
	want, got, err := w.checksum(&m, meta)
	return want == got, metaLen + m.bodyLen, err
}
