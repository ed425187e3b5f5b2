package frame

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// defaultMaxBody bounds a body when DecodeOptions names no bound. A segment is sealed at 32 MiB unless a single
// request is larger; 1 GiB is what one reader may hold at the very worst.
const defaultMaxBody = 1 << 30

// DecodeOptions say how a segment is read. The zero value reads a file that stands in sealed/ or later.
type DecodeOptions struct {
	// Open means that the name is under active/: always tolerant, and what the header claims about the body is
	// ignored. A crash in the middle of a seal may have kept the header's sector and lost the tail.
	Open bool
	// MaxBody bounds the body in bytes, after decompression; 0 = 1 GiB.
	MaxBody int64
	// Allocator provides the one buffer that holds the body; nil = the Go heap.
	Allocator memory.Allocator
}

func (o DecodeOptions) maxBody() int64 {
	if o.MaxBody > 0 {
		return o.MaxBody
	}
	return defaultMaxBody
}

func (o DecodeOptions) allocator() memory.Allocator {
	if o.Allocator != nil {
		return o.Allocator
	}
	return memory.DefaultAllocator
}

// Segment is a decoded segment. Its batches share one buffer that holds the body; Release gives it back.
type Segment struct {
	Header Header // zero when not Framed
	Framed bool   // false: a bare IPC stream
	Schema *arrow.Schema
	// Batches are in the order in which they were written.
	Batches     []arrow.RecordBatch
	Rows        int64
	TailDropped int64 // bytes of a torn tail behind the last whole batch; PARTIAL and Open only
	Complete    bool  // the end-of-stream mark is there

	body *memory.Buffer
}

// Release drops the batches. Batches that somebody else retained stay valid.
func (s *Segment) Release() {
	for _, b := range s.Batches {
		b.Release()
	}
	s.Batches = nil
	if s.body != nil {
		s.body.Release()
		s.body = nil
	}
}

// Decode reads a segment of size bytes. The body is read once, into one buffer; columns point into it.
//
//	return  every whole record batch; the caller releases the segment
//	errors  ErrVersion (leave the file alone), ErrEmpty, ErrNoBatch, ErrTooBig; a *CorruptError around
//	        ErrHeaderCheck, ErrLength, ErrCRC or ErrFraming; an error of r as it came
//	holds   ACK-2, SEE-1, LOUD-1 (docs/invariants.md)
func Decode(r io.ReaderAt, size int64, opt DecodeOptions) (*Segment, error) {
	p, err := open(r, size, opt)
	if err != nil {
		return nil, err
	}
	body, err := p.load(r, opt)
	if err != nil {
		return nil, err
	}
	s := &Segment{Header: p.header, Framed: p.framed, body: body}
	if err := s.decode(p, opt); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// Summary is what Inspect finds.
type Summary struct {
	Header      Header
	Framed      bool
	Batches     int
	Rows        int64
	TailDropped int64
	Complete    bool // the end-of-stream mark is there
	// Sealed means that the header is not PARTIAL and that its length and CRC hold. Only with Open can it be
	// false without an error while the header says otherwise.
	Sealed bool
	// BadHeader means that the header's check does not match: what it says is not to be believed. Only with Open.
	BadHeader bool
	// Synced is how many bytes of the file are durable by what the batches say; 0 = none says so. Unproved: it may
	// be beyond the file's end.
	Synced int64
}

// Inspect checks header, CRCs and the walk over every length, and decodes no column. It holds one window and
// one message's metadata at a time; a compressed body (never written here) is decompressed whole. Errors as
// Decode, except those that only the columns show.
func Inspect(r io.ReaderAt, size int64, opt DecodeOptions) (Summary, error) {
	return inspect(r, size, opt, false)
}

// Count is Inspect without a checksum: it reads the lengths and some KiB a batch, and says how many rows a
// healthy segment holds. Damage that only a checksum shows goes unseen, and Sealed is always false.
func Count(r io.ReaderAt, size int64, opt DecodeOptions) (Summary, error) {
	return inspect(r, size, opt, true)
}

func inspect(r io.ReaderAt, size int64, opt DecodeOptions, unchecked bool) (Summary, error) {
	p, err := open(r, size, opt)
	if err != nil {
		return Summary{Header: p.header, Framed: p.framed}, err
	}
	sum := Summary{Header: p.header, Framed: p.framed, BadHeader: p.badHeader}
	src := fileSource(r, p.base, size)
	if p.zstd {
		body, err := p.load(r, opt)
		if err != nil {
			return sum, err
		}
		defer body.Release()
		src = memSource(body.Bytes(), 0)
		sum.Sealed = !p.header.Partial && !unchecked // load checked the CRC
	} else if !unchecked {
		if sum.Sealed, err = p.seal(src); err != nil {
			return sum, err
		}
	}
	w := &walk{src: src, tolerant: p.tolerant, unchecked: unchecked, verified: sum.Sealed || unchecked && !p.tolerant}
	err = w.run()
	sum.Batches, sum.Rows, sum.Complete, sum.Synced = w.batches, w.rows, w.complete, w.synced
	if err == nil {
		sum.TailDropped = w.tail()
	}
	return sum, err
}

// plan is how the header says a file is to be read.
type plan struct {
	header   Header
	framed   bool
	tolerant bool
	zstd     bool

	badHeader bool // its check does not match

	base int64 // where the body starts
	size int64 // of the file
}

// open reads the header and decides. The plan carries the header also with an error, as far as it was read.
func open(r io.ReaderAt, size int64, opt DecodeOptions) (plan, error) {
	p := plan{size: size, tolerant: opt.Open}
	if size == 0 {
		return p, fmt.Errorf("%w: 0 bytes", ErrEmpty)
	}
	head := make([]byte, min(size, HeaderSize))
	if err := readFull(r, head, 0); err != nil {
		return p, err
	}
	if opt.Open && size <= HeaderSize && tornHeader(head) {
		return p, fmt.Errorf("%w: %d bytes of header", ErrEmpty, size)
	}
	header, err := ParseHeader(head)
	p.header = header
	switch {
	case errors.Is(err, ErrNotFramed):
		return p, p.limit(opt)
	case errors.Is(err, ErrVersion):
		return p, err
	case errors.Is(err, ErrHeaderCheck) && opt.Open:
		// A seal that the crash cut inside the header's bytes, or rot. They claim nothing that is used under active/.
		p.badHeader = true
	case errors.Is(err, ErrHeaderCheck):
		p.framed = true
		return p, &CorruptError{Offset: offCheck, Err: err}
	case err != nil:
		p.framed = true
		return p, &CorruptError{Offset: size, Err: err}
	}
	p.framed, p.base = true, header.Size()
	p.zstd = header.Zstd && !opt.Open
	p.tolerant = opt.Open || header.Partial && !header.Zstd
	return p, p.limit(opt)
}

// limit checks the length against the header and the bound, and that there is a body at all.
func (p *plan) limit(opt DecodeOptions) error {
	body := p.size - p.base
	if p.framed && !opt.Open && !p.header.Partial && uint64(body) != p.header.BodyLen {
		return corrupt(p.size, ErrLength, "header says %d, file has %d", p.header.BodyLen, body)
	}
	if body == 0 {
		return fmt.Errorf("%w: header only", ErrEmpty)
	}
	if body > opt.maxBody() {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooBig, body, opt.maxBody())
	}
	return nil
}

// tornHeader reports whether at most HeaderSize bytes are what a crash leaves of a file whose header was being
// written: a beginning of it, or zeros.
func tornHeader(b []byte) bool {
	if len(bytes.Trim(b, "\x00")) == 0 {
		return true
	}
	return bytes.HasPrefix(b, []byte(magic)) || bytes.HasPrefix([]byte(magic), b)
}

// seal checks the CRC that the header claims for the body in src.
func (p *plan) seal(src *source) (bool, error) {
	claims := p.framed && !p.header.Partial && uint64(p.size-p.base) == p.header.BodyLen
	if !claims {
		return false, nil
	}
	crc, err := src.checksum(0, crc32.IEEETable, 0, p.size-p.base)
	if err != nil {
		return false, err
	}
	if crc == p.header.CRC {
		return true, nil
	}
	if p.tolerant {
		return false, nil
	}
	return false, corrupt(p.base, ErrCRC, "header says %08x, body has %08x", p.header.CRC, crc)
}

// load reads the body, checks the header's CRC and decompresses where the header says so.
func (p *plan) load(r io.ReaderAt, opt DecodeOptions) (*memory.Buffer, error) {
	mem := opt.allocator()
	buf := memory.NewResizableBuffer(mem)
	buf.Resize(int(p.size - p.base))
	if err := readFull(r, buf.Bytes(), p.base); err != nil {
		buf.Release()
		return nil, err
	}
	if !p.zstd {
		return buf, nil
	}
	defer buf.Release()
	if _, err := p.seal(memSource(buf.Bytes(), p.base)); err != nil {
		return nil, err
	}
	plain, err := decompress(buf.Bytes(), opt.maxBody(), mem)
	if err != nil {
		return nil, fmt.Errorf("decompress body: %w", err)
	}
	return plain, nil
}

// decode walks the body and turns each message into a record batch.
func (s *Segment) decode(p plan, opt DecodeOptions) error {
	src := memSource(s.body.Bytes(), p.base)
	sealed := !p.header.Partial
	if p.zstd { // load checked the CRC
		src.base = 0
	} else {
		var err error
		if sealed, err = p.seal(src); err != nil {
			return err
		}
	}
	a := assembler{body: s.body, mem: opt.allocator()}
	defer a.close()
	w := &walk{src: src, tolerant: p.tolerant, verified: sealed, visit: a.add}
	err := w.run()
	s.Schema, s.Batches = a.schema, a.batches
	if err != nil {
		return err
	}
	s.Rows, s.TailDropped, s.Complete = w.rows, w.tail(), w.complete
	return nil
}

// assembler turns verified messages into a schema and record batches that share the body's buffer.
type assembler struct {
	body    *memory.Buffer
	mem     memory.Allocator
	queue   messages
	reader  *ipc.Reader
	schema  *arrow.Schema // without the format's own metadata
	batches []arrow.RecordBatch
}

func (a *assembler) add(m *message, meta []byte, bodyAt int64) (err error) {
	// The flatbuffers runtime and arrow-go's loaders report malformed input by panicking, the former by design.
	// What parseMessage and checkBatch let through should not get there; but a segment is input from a disk,
	// and input must not end the process.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("arrow: %v", r)
		}
	}()
	if m.kind == headerSchema {
		return a.setSchema(meta)
	}
	body := memory.NewBufferBytes(nil)
	if m.bodyLen > 0 {
		body = memory.SliceBuffer(a.body, int(bodyAt), int(m.bodyLen))
	}
	defer body.Release()
	if err := checkBatch(a.schema, m, body.Bytes()); err != nil {
		return err
	}
	a.queue.push(meta, body)
	if !a.reader.Next() {
		return errors.Join(errors.New("no record batch"), a.reader.Err())
	}
	rec := a.reader.RecordBatch()
	a.batches = append(a.batches, array.NewRecordBatch(a.schema, rec.Columns(), rec.NumRows()))
	return nil
}

func (a *assembler) setSchema(meta []byte) error {
	a.queue.push(meta, memory.NewBufferBytes(nil))
	r, err := ipc.NewReaderFromMessageReader(&a.queue, ipc.WithAllocator(a.mem))
	if err != nil {
		return err
	}
	a.reader = r
	if err := supported(r.Schema()); err != nil {
		return err
	}
	a.schema = withoutCRC(r.Schema())
	return nil
}

// close gives back what the reader holds; the batches stay.
func (a *assembler) close() {
	if a.reader != nil {
		a.reader.Release()
	}
	a.queue.Release()
}

// withoutCRC returns s without the metadata key that EncodeSchema added.
func withoutCRC(s *arrow.Schema) *arrow.Schema {
	md := s.Metadata()
	var keys, values []string
	for i, k := range md.Keys() {
		if k != crcKey {
			keys, values = append(keys, k), append(values, md.Values()[i])
		}
	}
	plain := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(s.Fields(), &plain)
}

// messages hands verified messages to an ipc.Reader, one at a time.
type messages struct {
	next, held *ipc.Message
}

func (q *messages) push(meta []byte, body *memory.Buffer) {
	q.next = ipc.NewMessage(memory.NewBufferBytes(meta), body)
}

// Message returns the pushed message, valid until the next call.
func (q *messages) Message() (*ipc.Message, error) {
	if q.next == nil {
		return nil, io.EOF
	}
	if q.held != nil {
		q.held.Release()
	}
	q.held, q.next = q.next, nil
	return q.held, nil
}

func (q *messages) Retain() {}

// Release is called by the reader and by the owner; the second call finds nothing.
func (q *messages) Release() {
	for _, m := range []*ipc.Message{q.next, q.held} {
		if m != nil {
			m.Release()
		}
	}
	q.next, q.held = nil, nil
}
