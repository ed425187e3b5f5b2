package frame

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// EOS returns the end-of-stream mark that closes a sealed body.
func EOS() []byte { return []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0} }

// EncodeSchema returns the IPC schema message that starts a body. It carries its own CRC in the schema's
// metadata, which Decode checks and takes away again.
func EncodeSchema(s *arrow.Schema) ([]byte, error) {
	if err := supported(s); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	meta := s.Metadata()
	if meta.FindKey(crcKey) >= 0 {
		return nil, fmt.Errorf("encode schema: metadata key %s is the format's own", crcKey)
	}
	withCRC := arrow.NewMetadata(append(slices.Clone(meta.Keys()), crcKey), append(slices.Clone(meta.Values()), crcBlank))
	payload := ipc.GetSchemaPayload(arrow.NewSchema(s.Fields(), &withCRC), memory.DefaultAllocator)
	defer payload.Release()
	buf := payload.Meta()
	defer buf.Release()
	msg := appendPrefixed(nil, buf.Bytes())
	if err := stamp(msg, len(msg)-prefixSize); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return msg, nil
}

// appendPrefixed appends continuation marker, metadata length and metadata, padded to 8 bytes.
func appendPrefixed(dst, meta []byte) []byte {
	padded := (len(meta) + 7) &^ 7
	dst = binary.LittleEndian.AppendUint32(dst, continuation)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(padded))
	dst = append(dst, meta...)
	return append(dst, make([]byte, padded-len(meta))...)
}

// stamp writes the CRC of a whole message into the digits its metadata keeps free for it.
func stamp(msg []byte, metaLen int) error {
	m, err := parseMessage(msg[prefixSize : prefixSize+metaLen])
	if err != nil {
		return err
	}
	if m.crcAt == 0 {
		return fmt.Errorf("metadata has no room for %s", crcKey)
	}
	putCRC(msg[prefixSize+m.crcAt:], crc32.Checksum(msg, castagnoli()))
	return nil
}

func putCRC(dst []byte, crc uint32) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], crc)
	hex.Encode(dst, b[:])
}

// Encoder turns record batches of one schema into IPC record-batch messages that stand for themselves: no
// schema, no dictionaries, no end of stream, each with its own CRC. One goroutine at a time; reusable.
type Encoder struct {
	schema *arrow.Schema
	meta   arrow.Metadata
}

// NewEncoder returns an encoder for batches of schema s.
func NewEncoder(s *arrow.Schema) (*Encoder, error) {
	if err := supported(s); err != nil {
		return nil, fmt.Errorf("new encoder: %w", err)
	}
	return &Encoder{schema: s, meta: arrow.NewMetadata([]string{crcKey}, []string{crcBlank})}, nil
}

// Append appends one message that holds rec to dst and returns the longer slice. dst is as it was when an error
// is returned. rec is not kept.
func (e *Encoder) Append(dst []byte, rec arrow.RecordBatch) ([]byte, error) {
	if rec.Schema() != e.schema && !rec.Schema().Equal(e.schema) {
		return dst, fmt.Errorf("encode batch: schema differs from the encoder's")
	}
	marked := array.NewRecordBatchWithMetadata(rec.Schema(), rec.Columns(), rec.NumRows(), e.meta)
	defer marked.Release()
	payload, err := ipc.GetRecordBatchPayload(marked)
	if err != nil {
		return dst, fmt.Errorf("encode batch: %w", err)
	}
	defer payload.Release()
	meta := payload.Meta()
	defer meta.Release()
	start := len(dst)
	w := sliceWriter{appendPrefixed(dst, meta.Bytes())}
	metaLen := len(w.b) - start - prefixSize
	if err := payload.SerializeBody(&w); err != nil {
		return dst, fmt.Errorf("encode batch: %w", err)
	}
	if err := stamp(w.b[start:], metaLen); err != nil {
		return dst, fmt.Errorf("encode batch: %w", err)
	}
	return w.b, nil
}

type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}
