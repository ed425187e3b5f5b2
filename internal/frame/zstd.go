package frame

import (
	"bytes"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds what a zstd frame header can make the decoder allocate. The reference writes level 1, whose
// window is 512 KiB; 8 MiB is what RFC 8878 asks every decoder to support.
const maxWindow = 8 << 20

// decompress inflates one zstd frame to at most limit bytes. Memory follows the bytes that come out, not the
// size that the frame announces.
func decompress(src []byte, limit int64, mem memory.Allocator) (*memory.Buffer, error) {
	dec, err := zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	var out bytes.Buffer
	n, err := out.ReadFrom(io.LimitReader(dec, limit+1))
	switch {
	case err != nil:
		return nil, corrupt(n, ErrFraming, "zstd: %v", err)
	case n > limit:
		return nil, fmt.Errorf("%w: over %d bytes decompressed", ErrTooBig, limit)
	case n == 0:
		return nil, fmt.Errorf("%w: nothing in the compressed body", ErrEmpty)
	}
	buf := memory.NewResizableBuffer(mem)
	buf.Resize(out.Len())
	copy(buf.Bytes(), out.Bytes())
	return buf, nil
}
