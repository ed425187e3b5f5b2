package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The part of the Arrow IPC message format that a segment may hold. Numbers are those of Message.fbs and
// Schema.fbs of the Arrow project.
const (
	prefixSize   = 8          // continuation marker and metadata length
	continuation = 0xFFFFFFFF // every message starts with it since Arrow 0.15

	metadataV4 = 3 // Arrow 0.8 to 0.17
	metadataV5 = 4 // Arrow 1.0 and later

	headerSchema      = 1
	headerRecordBatch = 3

	// maxMetadata bounds what one message's metadata may take. A batch of 100 columns needs 4 KiB, a schema
	// of them 20 KiB; 16 MiB is far above any schema that an index could have.
	maxMetadata = 16 << 20
	// maxDepth and maxFields bound a schema. arrow-go itself stops at depth 64.
	maxDepth  = 32
	maxFields = 1 << 14
)

// Custom metadata that the messages of a segment carry. Any Arrow reader skips it.
const (
	// crcKey: the CRC-32C of the whole message as 8 hex digits.
	crcKey = "siglake.crc32c"
	// syncedKey: how many bytes of the file were synced when the message was written, as 16 hex digits, and
	// the CRC-32C of those digits as 8 more. All zero = not said. Batches only.
	syncedKey = "siglake.synced"

	// What stands in the place of the digits while a message's CRC is taken.
	crcBlank    = "00000000"
	syncedBlank = "000000000000000000000000"
)

// message is what the walk needs to know of one IPC message's metadata.
type message struct {
	kind    uint8 // headerSchema or headerRecordBatch
	bodyLen int64
	rows    int64    // record batch only
	nodes   []byte   // record batch only: 16 bytes each, length and null count
	buffers []byte   // record batch only: 16 bytes each, offset and length
	crcAt   int      // where in the metadata the CRC digits stand; 0 = none
	syncAt  int      // where in the metadata the synced digits stand; 0 = none
	header  table    // the Schema or RecordBatch table
	_       struct{} // keyed literals only
}

func (m *message) numBuffers() int { return len(m.buffers) / 16 }

// node returns length and null count of the i-th field.
func (m *message) node(i int) (length, nulls int64) {
	b := m.nodes[16*i:]
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
}

// buffer returns offset and length of the i-th buffer within the body.
func (m *message) buffer(i int) (offset, length int64) {
	b := m.buffers[16*i:]
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
}

// bodyEnd is where the last buffer ends, padded: what the writer of a segment says as bodyLen.
func (m *message) bodyEnd() int64 {
	end := int64(0)
	for i := range m.numBuffers() {
		off, length := m.buffer(i)
		end = max(end, off+length)
	}
	return end + int64(pad8(int(end)))
}

// parseMessage verifies the metadata of one message. It keeps slices of meta and allocates nothing that meta's
// content could size.
func parseMessage(meta []byte) (message, error) {
	root, err := rootTable(meta)
	if err != nil {
		return message{}, err
	}
	version, err := root.int16(0)
	if err != nil {
		return message{}, err
	}
	if version != metadataV4 && version != metadataV5 {
		return message{}, fmt.Errorf("metadata version %d", version)
	}
	var m message
	if m.kind, err = root.uint8(1); err != nil {
		return message{}, err
	}
	header, ok, err := root.sub(2)
	if err != nil {
		return message{}, err
	}
	if !ok {
		return message{}, fmt.Errorf("message type %d without a header", m.kind)
	}
	m.header = header
	if m.bodyLen, err = root.int64(3); err != nil {
		return message{}, err
	}
	if m.bodyLen < 0 {
		return message{}, fmt.Errorf("body length %d", m.bodyLen)
	}
	budget := newBudget(meta)
	if err = m.findKeys(root, 4, budget); err != nil {
		return message{}, err
	}
	switch m.kind {
	case headerSchema:
		err = m.parseSchema(budget)
	case headerRecordBatch:
		err = m.parseBatch()
	default:
		err = fmt.Errorf("message type %d is not part of the format", m.kind)
	}
	if err != nil {
		return message{}, err
	}
	return m, nil
}

func (m *message) parseBatch() error {
	var err error
	if m.rows, err = m.header.int64(0); err != nil {
		return err
	}
	if m.rows < 0 {
		return fmt.Errorf("batch of %d rows", m.rows)
	}
	buf := m.header.buf
	start, n, err := m.header.vector(1, 16)
	if err != nil {
		return err
	}
	m.nodes = buf[start : start+16*n]
	if start, n, err = m.header.vector(2, 16); err != nil {
		return err
	}
	m.buffers = buf[start : start+16*n]
	// Compressed buffers would hide a second layer of lengths inside the body; nobody writes them here.
	if _, ok, err := m.header.sub(3); err != nil || ok {
		return errors.New("compressed buffers are not part of the format")
	}
	if _, n, err = m.header.vector(4, 8); err != nil || n != 0 {
		return errors.New("variadic buffers are not part of the format")
	}
	for i := range m.numBuffers() {
		off, length := m.buffer(i)
		if off < 0 || length < 0 || off > m.bodyLen || length > m.bodyLen-off {
			return fmt.Errorf("buffer %d at %d+%d in a body of %d bytes", i, off, length, m.bodyLen)
		}
	}
	return nil
}

// budget bounds the work a message can ask for by pointing many times at the same bytes: flatbuffer offsets
// may share targets, and a decoder copies each of them.
type budget struct {
	bytes  int
	fields int
}

func newBudget(meta []byte) *budget {
	// Writers do share strings, so a small multiple of the size is legitimate.
	return &budget{bytes: 8*len(meta) + 4096, fields: maxFields}
}

func (b *budget) spend(n int) error {
	if b.bytes -= n; b.bytes < 0 {
		return errors.New("metadata points at the same bytes too often")
	}
	return nil
}

// findKeys checks the key-value vector in the given slot and notes where the digits of our own keys stand.
func (m *message) findKeys(t table, slot int, b *budget) error {
	start, n, err := t.vector(slot, 4)
	if err != nil {
		return err
	}
	for i := range n {
		kv, err := t.element(start, i)
		if err != nil {
			return err
		}
		key, keyLen, err := kv.vector(0, 1)
		if err != nil {
			return err
		}
		val, valLen, err := kv.vector(1, 1)
		if err != nil {
			return err
		}
		if err := b.spend(keyLen + valLen + 16); err != nil {
			return err
		}
		switch string(t.buf[key : key+keyLen]) {
		case crcKey:
			err = place(&m.crcAt, val, valLen, len(crcBlank))
		case syncedKey:
			err = place(&m.syncAt, val, valLen, len(syncedBlank))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func place(at *int, val, valLen, want int) error {
	if *at != 0 || valLen != want {
		return fmt.Errorf("metadata of the format's own is not one value of %d digits", want)
	}
	*at = val
	return nil
}
