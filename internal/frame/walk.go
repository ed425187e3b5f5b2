package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// walk is one pass over the lengths of a body. Nothing is allocated by what a length says: each is compared
// with the bytes that are there first.
type walk struct {
	src       *source
	tolerant  bool                                              // a torn tail is reported, not refused
	verified  bool                                              // the header's CRC covers these bytes, so a missing end of stream is no tear
	unchecked bool                                              // no checksum of a message is taken
	visit     func(m *message, meta []byte, bodyAt int64) error // the body starts at bodyAt in the source

	pos      int64 // start of the message at hand
	end      int64 // end of the last whole message
	schema   bool  // the schema message was seen
	crcs     bool  // the schema carries a CRC, so every batch must
	batches  int
	rows     int64
	synced   int64 // the most of the file that a batch says was synced before it
	cut      bool  // the end of the file cuts the batch at pos
	complete bool  // the end-of-stream mark is there and nothing follows
}

// tail is the number of bytes behind the last whole message that are not an end of stream.
func (w *walk) tail() int64 {
	if w.complete {
		return 0
	}
	return w.src.size - w.end
}

func (w *walk) corrupt(sentinel error, format string, args ...any) error {
	return corrupt(w.src.base+w.pos, sentinel, format, args...)
}

// run walks to the end of stream, to a torn tail (tolerant only), or to the first damage.
func (w *walk) run() error {
	for {
		done, err := w.step()
		if err != nil {
			return err
		}
		if done {
			return w.finish()
		}
	}
}

// finish decides about a walk that reached the end of the bytes.
func (w *walk) finish() error {
	switch {
	case w.batches > 0:
		return nil
	case !w.complete && w.schema && w.tail() == 0:
		// The schema is written with the header; without a byte of a batch no record was ever here.
		return &CorruptError{Offset: w.src.base + w.src.size, Err: fmt.Errorf("%w: a schema and no record batch", ErrEmpty)}
	case w.cut:
		return w.corrupt(ErrCut, "%d bytes of body", w.src.size)
	default:
		return w.corrupt(ErrNoBatch, "%d bytes of body", w.src.size)
	}
}

// step reads one message. done means that nothing is left to read.
func (w *walk) step() (done bool, err error) {
	rest := w.src.size - w.pos
	if rest == 0 {
		if w.tolerant || w.verified {
			return true, nil
		}
		return false, w.corrupt(ErrFraming, "no end of stream")
	}
	prefix, err := w.src.view(w.pos, min(rest, prefixSize))
	if err != nil {
		return false, err
	}
	if rest < prefixSize {
		if isStart(prefix) {
			return w.torn("%d bytes of a message", rest)
		}
		return w.damaged(ErrFraming, w.src.size, "no message")
	}
	metaLen := int64(int32(binary.LittleEndian.Uint32(prefix[4:])))
	switch {
	case binary.LittleEndian.Uint32(prefix) != continuation:
		return w.damaged(ErrFraming, 0, "no message")
	case metaLen == 0:
		return w.endOfStream(rest)
	case metaLen < 0 || metaLen > maxMetadata || metaLen%8 != 0:
		return w.damaged(ErrFraming, w.pos+prefixSize, "metadata of %d bytes", metaLen)
	case metaLen > rest-prefixSize:
		return w.torn("metadata of %d bytes, %d there", metaLen, rest-prefixSize)
	}
	return w.message(metaLen, rest-prefixSize-metaLen)
}

// isStart reports whether fewer than 8 bytes could be the start of a message.
func isStart(b []byte) bool {
	return bytes.HasPrefix([]byte{0xFF, 0xFF, 0xFF, 0xFF}, b[:min(len(b), 4)])
}

func (w *walk) endOfStream(rest int64) (bool, error) {
	if rest == prefixSize {
		if !w.schema {
			return false, w.corrupt(ErrFraming, "end of stream before a schema")
		}
		w.complete = true
		return true, nil
	}
	// A sector that was never written can begin right behind a continuation marker and make it look like this.
	return w.damaged(ErrFraming, w.pos+prefixSize, "%d bytes behind the end of stream", rest-prefixSize)
}

// message verifies the message at pos, whose metadata is there whole; rest bytes follow the metadata.
func (w *walk) message(metaLen, rest int64) (bool, error) {
	bodyAt := w.pos + prefixSize + metaLen
	meta, err := w.src.view(w.pos+prefixSize, metaLen)
	if err != nil {
		return false, err
	}
	m, err := parseMessage(meta)
	if err == nil {
		err = w.expect(&m)
	}
	if err != nil {
		return w.damaged(ErrFraming, bodyAt, "%v", err)
	}
	if m.bodyLen > rest {
		return w.torn("body of %d bytes, %d there", m.bodyLen, rest)
	}
	next, synced := bodyAt+m.bodyLen, m.synced(meta) // before the window moves on
	if m.crcAt != 0 && !w.unchecked {
		want, got, err := w.checksum(&m, meta)
		if err != nil {
			return false, err
		}
		if want != got {
			return w.damaged(ErrCRC, next, "message says %s, bytes say %s", want, got)
		}
	}
	if w.visit != nil {
		if err := w.visit(&m, meta, bodyAt); err != nil {
			return false, w.corrupt(ErrFraming, "%v", err)
		}
	}
	w.accept(&m, next)
	w.synced = max(w.synced, synced)
	return false, nil
}

func (w *walk) accept(m *message, next int64) {
	if m.kind == headerSchema {
		w.schema, w.crcs = true, m.crcAt != 0
	} else {
		w.batches++
		w.rows += m.rows
	}
	w.pos, w.end = next, next
}

// expect checks that the message fits in its place: the schema first and once, batches behind it.
func (w *walk) expect(m *message) error {
	switch {
	case !w.schema && m.kind != headerSchema:
		return errors.New("record batch before the schema")
	case w.schema && m.kind == headerSchema:
		return errors.New("second schema")
	case m.bodyLen%8 != 0:
		return fmt.Errorf("body of %d bytes is not padded", m.bodyLen)
	case m.kind == headerRecordBatch && m.rows > maxRows(m.bodyLen):
		return fmt.Errorf("%d rows in a body of %d bytes", m.rows, m.bodyLen)
	case w.schema && w.crcs != (m.crcAt != 0):
		return fmt.Errorf("%s on some messages only", crcKey)
	}
	return nil
}

// checksum returns the CRC digits that the message carries and those that its bytes give.
func (w *walk) checksum(m *message, meta []byte) (want, got string, err error) {
	want = m.crcOf(meta)
	crc, err := w.src.checksum(m.sum(meta), castagnoli(), w.pos+prefixSize+int64(len(meta)), m.bodyLen)
	var digits [len(crcBlank)]byte
	putCRC(digits[:], crc)
	return want, string(digits[:]), err
}

// torn ends a tolerant walk at a message that the end of the file cuts. A strict walk refuses it. So does a
// tolerant one when a whole message follows where a cut one would leave nothing but its own beginning: then the
// length lies, and dropping what follows would lose records.
func (w *walk) torn(format string, args ...any) (bool, error) {
	if !w.tolerant {
		return false, w.corrupt(ErrFraming, "truncated: "+format, args...)
	}
	after, err := w.scan(w.pos + prefixSize)
	if err != nil {
		return false, err
	}
	if after.first != 0 {
		return false, w.corrupt(ErrFraming, "a whole message follows at %d: "+format, append([]any{w.src.base + after.first}, args...)...)
	}
	lies, err := w.lies()
	w.cut = w.schema && !lies
	return true, err
}

// lies reports whether one of the lengths of the batch at pos, and not the end of the file, makes it look cut: they
// contradict its buffers, or with another length of its metadata it ends where the file does and its CRC matches.
func (w *walk) lies() (bool, error) {
	rest := w.src.size - w.pos - prefixSize
	if rest <= 0 {
		return false, nil
	}
	meta, err := w.src.view(w.pos+prefixSize, min(rest, maxMetadata))
	if err != nil {
		return false, err
	}
	m, cut := parseMessage(meta)
	metaLen := rest - m.bodyLen
	switch {
	case cut != nil:
		return false, nil //nolint:nilerr // its metadata is not whole: no length lies
	case m.bodyLen != m.bodyEnd():
		return true, nil
	case m.crcAt == 0 || metaLen < int64(m.crcAt+len(crcBlank)) || metaLen > int64(len(meta)):
		return false, nil
	}
	want, got, err := w.checksum(&m, meta[:metaLen])
	return want == got, err
}

// damaged refuses a message whose bytes are there and make no sense, unless they look like what a power loss
// leaves of bytes that were never synced: a sector of zeros in the message, and no later message that was written
// when this one was already durable. The message ends at end; 0 = nobody knows.
func (w *walk) damaged(sentinel error, end int64, format string, args ...any) (bool, error) {
	if !w.tolerant {
		return false, w.corrupt(sentinel, format, args...)
	}
	after, err := w.scan(w.pos + 1)
	if err != nil {
		return false, err
	}
	if end == 0 {
		// Then only its first sector can tell, up to the next message that is one.
		end = w.src.nextSector(w.pos)
		if after.first != 0 {
			end = min(end, after.first)
		}
	}
	lost, err := w.src.lost(w.pos, end)
	switch {
	case err != nil:
		return false, err
	case !lost:
		return false, w.corrupt(sentinel, format, args...)
	case after.synced > w.src.base+w.pos:
		return false, w.corrupt(sentinel, "synced before %d was written: "+format, append([]any{w.src.base + after.at}, args...)...)
	}
	return true, nil
}
