package frame

import (
	"bytes"
	"encoding/binary"
)

// scanBudget bounds the bytes that scan checksums, in multiples of the body: a tail may be full of starts that
// each claim the rest of it.
const scanBudget = 4

// found is what scan knows about the bytes behind a bad message.
type found struct {
	first  int64 // where the first whole record batch starts; 0 = there is none
	at     int64 // where the one starts that says most about what was synced
	synced int64 // how much that was
}

// scan looks for whole record batches from off to the end of the body.
//
// A record that holds an Arrow message as text can look like one. The segment is then refused instead of
// shortened, which loses nothing.
func (w *walk) scan(off int64) (found, error) {
	probe := &walk{src: w.src.clone(), schema: true, crcs: w.crcs}
	budget := scanBudget * w.src.size
	mark := EOS()[:4]
	var f found
	for off+prefixSize < w.src.size {
		part := min(w.src.size-off, windowSize)
		b, err := w.src.view(off, part)
		if err != nil {
			return f, err
		}
		i := bytes.Index(b, mark)
		if i < 0 {
			off += part - int64(len(mark)) + 1
			continue
		}
		probe.pos = off + int64(i)
		size, cost, synced, err := probe.whole()
		if err != nil {
			return f, err
		}
		if size > 0 && f.first == 0 {
			f.first = probe.pos
		}
		if size > 0 && synced >= f.synced {
			f.at, f.synced = probe.pos, synced
		}
		if budget -= cost; budget < 0 {
			// Bytes made to look like this are not a tear.
			return found{first: probe.pos, at: probe.pos, synced: w.src.base + w.src.size}, nil
		}
		off = probe.pos + max(size, 1)
	}
	return f, nil
}

// whole returns the size of the record batch that stands at pos, or 0; how many bytes it took to know; and how
// much of the file was synced when it was written.
func (w *walk) whole() (size, cost, synced int64, err error) {
	rest := w.src.size - w.pos - prefixSize
	if rest < 0 {
		return 0, 0, 0, nil
	}
	prefix, err := w.src.view(w.pos, prefixSize)
	if err != nil {
		return 0, 0, 0, err
	}
	metaLen := int64(int32(binary.LittleEndian.Uint32(prefix[4:])))
	if metaLen <= 0 || metaLen > maxMetadata || metaLen%8 != 0 || metaLen > rest {
		return 0, 0, 0, nil
	}
	meta, err := w.src.view(w.pos+prefixSize, metaLen)
	if err != nil {
		return 0, 0, 0, err
	}
	m, perr := parseMessage(meta)
	if perr != nil || w.expect(&m) != nil || m.bodyLen > rest-metaLen || len(m.nodes) == 0 {
		return 0, metaLen, 0, nil
	}
	size, synced = prefixSize+metaLen+m.bodyLen, m.synced(meta)
	if m.crcAt == 0 {
		return size, metaLen, synced, nil
	}
	want, got, err := w.checksum(&m, meta)
	if err != nil || want != got {
		return 0, size, 0, err
	}
	return size, size, synced, nil
}
