package frame

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
)

// ReadSchema reads the schema of a segment of size bytes and nothing behind it: the header and the first message, whose
// checksum is taken where it has one. (A compressed body, never written here, is decompressed whole.)
//
//	return  the schema; a damaged one may have lost metadata, the checksum among it
//	errors  as Decode, as far as header and schema show them
func ReadSchema(r io.ReaderAt, size int64, opt DecodeOptions) (*arrow.Schema, error) {
	p, err := open(r, size, opt)
	if err != nil {
		return nil, err
	}
	src := fileSource(r, p.base, size)
	if p.zstd {
		body, err := p.load(r, opt)
		if err != nil {
			return nil, err
		}
		defer body.Release()
		src = memSource(body.Bytes(), 0)
	}
	a := assembler{mem: opt.allocator()}
	defer a.close()
	w := &walk{src: src, tolerant: p.tolerant, visit: a.add}
	if _, err := w.step(); err != nil {
		return nil, err
	}
	if a.schema == nil {
		return nil, w.finish() // no batch was read, so this is an error
	}
	return a.schema, nil
}
