package frame

import (
	"errors"
	"hash/crc32"

	"github.com/google/uuid"
)

// Stamp returns a sealed segment, framed or a bare IPC stream, with a header that names table and is otherwise what it was;
// one of version 1, which has no place for a table, becomes version 2. The body is the same, byte for byte, so the result is
// a copy of the segment. The caller has decoded file.
//
//	errors  as ParseHeader; an unframed file is none
func Stamp(file []byte, table uuid.UUID) ([]byte, error) {
	h, err := ParseHeader(file)
	var body []byte
	switch {
	case errors.Is(err, ErrNotFramed):
		body = file
		h = Header{BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body)}
	case err != nil:
		return nil, err
	default:
		body = file[h.Size():]
	}
	h.Table = table
	head := h.Encode()
	return append(head[:], body...), nil
}
