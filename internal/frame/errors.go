package frame

import (
	"errors"
	"fmt"
)

// What Decode, Inspect, Salvage and ParseHeader can find. Callers branch on these with errors.Is.
var (
	// ErrNotFramed: the bytes do not start with the magic. ParseHeader only; Decode then reads a bare IPC stream.
	ErrNotFramed = errors.New("frame: no LWAL magic")
	// ErrVersion: a newer format. The file is not damaged and must be left untouched.
	ErrVersion = errors.New("frame: unsupported format version")
	// ErrHeaderCheck: the header's own checksum does not match.
	ErrHeaderCheck = errors.New("frame: header check mismatch")
	// ErrLength: the file is shorter or longer than its header says.
	ErrLength = errors.New("frame: body length mismatch")
	// ErrCRC: a checksum over the body, or over one message in it, does not match.
	ErrCRC = errors.New("frame: CRC mismatch")
	// ErrFraming: bytes that are no Arrow IPC message of this format, or a message that lies about its parts.
	ErrFraming = errors.New("frame: malformed IPC stream")
	// ErrNoBatch: a torn file without one whole record batch.
	ErrNoBatch = errors.New("frame: no whole record batch")
	// ErrCut, an ErrNoBatch: the file ends inside its first record batch. A process that is killed in the middle of its
	// first write leaves this, and nobody was told of a row in it.
	ErrCut = fmt.Errorf("%w: the end of the file cuts the first", ErrNoBatch)
	// ErrEmpty: no bytes, or a header and nothing behind it.
	ErrEmpty = errors.New("frame: empty segment")
	// ErrUnproved: a damaged file whose messages carry no checksums, so that nobody can tell its good ones. Salvage only.
	ErrUnproved = errors.New("frame: messages without checksums")
	// ErrTooBig: a body over DecodeOptions.MaxBody.
	ErrTooBig = errors.New("frame: body exceeds the limit")
)

// CorruptError says where in the file (bytes from its start; for a compressed body, from the start of the
// decompressed stream) a segment stops making sense. Err is one of the sentinels, or wraps one.
type CorruptError struct {
	Offset int64
	Err    error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("offset %d: %v", e.Offset, e.Err) }

func (e *CorruptError) Unwrap() error { return e.Err }

func corrupt(offset int64, sentinel error, format string, args ...any) error {
	return &CorruptError{Offset: offset, Err: fmt.Errorf("%w: %s", sentinel, fmt.Sprintf(format, args...))}
}
