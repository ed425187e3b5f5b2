package frame

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// sum returns the CRC-32C of a message whose metadata is meta and whose body the caller adds, with our own
// digits taken as zeros.
func (m *message) sum(meta []byte) uint32 {
	var prefix [prefixSize]byte
	binary.LittleEndian.PutUint32(prefix[:], continuation)
	binary.LittleEndian.PutUint32(prefix[4:], uint32(len(meta)))
	tab := castagnoli()
	crc := crc32.Update(0, tab, prefix[:])
	at, next := m.crcAt, m.syncAt
	blank, nextBlank := crcBlank, syncedBlank
	if next != 0 && next < at {
		at, next, blank, nextBlank = next, at, nextBlank, blank
	}
	from := 0
	for range 2 {
		if at != 0 {
			crc = crc32.Update(crc, tab, meta[from:at])
			crc = crc32.Update(crc, tab, []byte(blank))
			from = at + len(blank)
		}
		at, blank = next, nextBlank
	}
	return crc32.Update(crc, tab, meta[from:])
}

// crcOf returns the digits that the message carries.
func (m *message) crcOf(meta []byte) string { return string(meta[m.crcAt : m.crcAt+len(crcBlank)]) }

// synced returns how many bytes of the file were synced when the message was written; 0 = not known.
func (m *message) synced(meta []byte) int64 {
	if m.syncAt == 0 {
		return 0
	}
	digits := meta[m.syncAt : m.syncAt+len(syncedBlank)]
	var b [12]byte
	if _, err := hex.Decode(b[:], digits); err != nil {
		return 0
	}
	if crc32.Checksum(digits[:16], castagnoli()) != binary.BigEndian.Uint32(b[8:]) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[:8]))
}

// MarkSynced notes in every record-batch message of body that the first synced bytes of the file it is about to
// be appended to are durable. After a crash this tells damage inside acknowledged records (refused) from the
// torn group behind them (dropped), also when later parts of the group reached the disk and earlier ones did
// not. body is what Encoder.Append made; its digits are overwritten in place, which no checksum covers.
func MarkSynced(body []byte, synced int64) error {
	var b [12]byte
	var digits [len(syncedBlank)]byte
	binary.BigEndian.PutUint64(b[:], uint64(synced))
	hex.Encode(digits[:], b[:8])
	binary.BigEndian.PutUint32(b[8:], crc32.Checksum(digits[:16], castagnoli()))
	hex.Encode(digits[16:], b[8:])
	for len(body) > 0 {
		if len(body) < prefixSize {
			return errors.New("mark synced: not a whole message")
		}
		metaLen := int64(binary.LittleEndian.Uint32(body[4:]))
		if metaLen > int64(len(body)-prefixSize) {
			return errors.New("mark synced: not a whole message")
		}
		meta := body[prefixSize : prefixSize+metaLen]
		m, err := parseMessage(meta)
		if err != nil {
			return fmt.Errorf("mark synced: %w", err)
		}
		if m.syncAt != 0 {
			copy(meta[m.syncAt:], digits[:])
		}
		next := prefixSize + metaLen + m.bodyLen
		if next > int64(len(body)) {
			return errors.New("mark synced: not a whole message")
		}
		body = body[next:]
	}
	return nil
}
