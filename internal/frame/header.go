package frame

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"
)

const (
	// HeaderSize is the length of the v2 header in bytes; the body starts there.
	HeaderSize = 52
	// headerSizeV1 is the length of the v1 header: v2 without the table UUID.
	headerSizeV1 = 36

	magic = "LWAL"

	flagZstd    = 0x01
	flagPartial = 0x02

	offVersion = 4
	offFlags   = 5
	offCheck   = 6
	offMinTime = 8
	offMaxTime = 16
	offBodyLen = 24
	offCRC     = 32
	offTable   = 36
)

// Header is what stands before the body of a framed segment.
type Header struct {
	Version uint8 // 1 or 2 as read; Encode always writes 2
	Partial bool  // the file may end anywhere; times, length and CRC say nothing
	Zstd    bool  // the body is one zstd frame (read only, never written)
	// MinTime and MaxTime are the event time range of the rows in unix ns; both 0 = unknown.
	MinTime, MaxTime int64
	BodyLen          uint64    // bytes behind the header, as stored
	CRC              uint32    // CRC-32 (IEEE) of those bytes
	Table            uuid.UUID // owning Iceberg table; zero = no opinion
}

// Encode returns the v2 header with its check.
func (h Header) Encode() [HeaderSize]byte {
	var b [HeaderSize]byte
	copy(b[:], magic)
	b[offVersion] = 2
	if h.Zstd {
		b[offFlags] |= flagZstd
	}
	if h.Partial {
		b[offFlags] |= flagPartial
	}
	binary.LittleEndian.PutUint64(b[offMinTime:], uint64(h.MinTime))
	binary.LittleEndian.PutUint64(b[offMaxTime:], uint64(h.MaxTime))
	binary.LittleEndian.PutUint64(b[offBodyLen:], h.BodyLen)
	binary.LittleEndian.PutUint32(b[offCRC:], h.CRC)
	copy(b[offTable:], h.Table[:])
	binary.LittleEndian.PutUint16(b[offCheck:], headerCheck(b[:]))
	return b
}

// Reopened returns the bytes that make a file of this header one that may end anywhere, to be written over it: of the
// same version and size, with the same table.
func (h Header) Reopened() []byte {
	b := Header{Partial: true, Table: h.Table}.Encode()
	if h.Version == 1 {
		b[offVersion], b[offCheck], b[offCheck+1] = 1, 0, 0 // there was no check then
	}
	return b[:h.Size()]
}

// Size is the number of bytes this header takes in a file: where the body starts.
func (h Header) Size() int64 {
	if h.Version == 1 {
		return headerSizeV1
	}
	return HeaderSize
}

// headerCheck is the low half of CRC-32C over the 52 bytes with the check itself taken as zero.
func headerCheck(b []byte) uint16 {
	var c [HeaderSize]byte
	copy(c[:], b)
	c[offCheck], c[offCheck+1] = 0, 0
	return uint16(crc32.Checksum(c[:], castagnoli()))
}

// castagnoli returns the shared CRC-32C table; MakeTable hands out one instance and detects SSE4.2 or the ARM
// instructions.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// ParseHeader reads a header from the first bytes of a file. b holds at least the header; more is ignored.
//
//	errors  ErrNotFramed, ErrVersion, ErrHeaderCheck; ErrLength when b ends inside the header. With
//	        ErrHeaderCheck the fields are returned as they stand.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return Header{}, ErrNotFramed
	}
	if len(b) <= offVersion {
		return Header{}, fmt.Errorf("%w: %d bytes of header", ErrLength, len(b))
	}
	version := b[offVersion]
	size := HeaderSize
	switch version {
	case 1:
		size = headerSizeV1
	case 2:
	default:
		return Header{}, fmt.Errorf("%w: %d", ErrVersion, version)
	}
	if len(b) < size {
		return Header{}, fmt.Errorf("%w: %d of %d bytes of header", ErrLength, len(b), size)
	}
	h := Header{
		Version: version,
		Zstd:    b[offFlags]&flagZstd != 0,
		Partial: b[offFlags]&flagPartial != 0,
		MinTime: int64(binary.LittleEndian.Uint64(b[offMinTime:])),
		MaxTime: int64(binary.LittleEndian.Uint64(b[offMaxTime:])),
		BodyLen: binary.LittleEndian.Uint64(b[offBodyLen:]),
		CRC:     binary.LittleEndian.Uint32(b[offCRC:]),
	}
	if version == 1 {
		return h, nil
	}
	copy(h.Table[:], b[offTable:HeaderSize])
	// Zero means that the writer put none (the reference implementation does not).
	if check := binary.LittleEndian.Uint16(b[offCheck:]); check != 0 && check != headerCheck(b[:HeaderSize]) {
		return h, ErrHeaderCheck
	}
	return h, nil
}
