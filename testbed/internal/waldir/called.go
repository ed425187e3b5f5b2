package waldir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
)

var segmentID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9a-f]{12}-\d+`)

// Called returns a copy of a segment that bears another id, which has to be as long: a segment says in its schema what it
// is called, and a file under another name is damage.
func Called(data []byte, id string) ([]byte, error) {
	out := bytes.Clone(data)
	if len(out) < headerSize+8 {
		return nil, fmt.Errorf("segment of %d bytes: it has no schema", len(out))
	}
	size := headerSize + 8 + int(binary.LittleEndian.Uint32(out[headerSize+4:]))
	if size > len(out) {
		return nil, fmt.Errorf("schema up to byte %d of %d", size, len(out))
	}
	schema := out[headerSize:size]
	at := segmentID.FindIndex(schema)
	if at == nil || at[1]-at[0] != len(id) {
		return nil, fmt.Errorf("the schema has no id as long as %s", id)
	}
	digits, err := checksum(schema)
	if err != nil {
		return nil, err
	}
	copy(schema[at[0]:], id)
	copy(digits, "00000000")
	copy(digits, fmt.Sprintf("%08x", crc32.Checksum(schema, crc32.MakeTable(crc32.Castagnoli))))
	return out, nil
}

// checksum finds the eight digits in a message that are its CRC-32C, taken with these digits as 0.
func checksum(message []byte) ([]byte, error) {
	zeroed := bytes.Clone(message)
	for _, at := range regexp.MustCompile(`[0-9a-f]{8}\x00`).FindAllIndex(message, -1) {
		digits := message[at[0] : at[0]+8]
		copy(zeroed[at[0]:], "00000000")
		if fmt.Sprintf("%08x", crc32.Checksum(zeroed, crc32.MakeTable(crc32.Castagnoli))) == string(digits) {
			return digits, nil
		}
		copy(zeroed[at[0]:], digits)
	}
	return nil, errors.New("the schema has no checksum")
}
