package frame

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// allocLimit bounds what decoding size bytes may allocate: the body once, again when compressed (our own fixture
// inflates sixfold, hence the fuzz target's MaxBody), and the Go objects of arrow-go, which are many times the
// bytes of a message whose columns are empty. The constant covers the zstd decoder's window.
func allocLimit(size int) uint64 { return uint64(64*size) + 40<<20 }

const fuzzMaxBody = 1 << 20

// FuzzDecode holds that no bytes make a reader panic, allocate beyond what is there, or hand out columns that
// panic when they are read; that Inspect and Decode agree; and that active/ loses no row that sealed/ would give.
func FuzzDecode(f *testing.F) {
	names, err := filepath.Glob("testdata/*.arrow")
	require.NoError(f, err)
	require.NotEmpty(f, names)
	for _, name := range names {
		file, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(file, false)
		f.Add(file, true)
	}
	f.Fuzz(func(t *testing.T, file []byte, resumed bool) {
		if resumed { // let the fuzzer past the checksums
			file = bytes.Clone(file)
			resumSafe(file)
		}
		for _, opt := range []DecodeOptions{{MaxBody: fuzzMaxBody}, {MaxBody: fuzzMaxBody, Open: true}} {
			checkDecode(t, file, opt)
		}
		checkSalvage(t, file)
	})
}

// checkSalvage holds that what is brought back of any bytes is a segment, and a beginning of what is there.
func checkSalvage(t *testing.T, file []byte) {
	t.Helper()
	s, err := Salvage(bytes.NewReader(file), int64(len(file)), DecodeOptions{MaxBody: fuzzMaxBody})
	if err != nil {
		if !errors.Is(err, ErrUnproved) {
			requireKnown(t, err)
		}
		return
	}
	got, err := decode(s.File, DecodeOptions{})
	if err != nil {
		t.Fatalf("what was brought back: %v", err)
	}
	defer got.Release()
	body := s.File[HeaderSize:]
	if got.Rows != s.Rows || got.TailDropped != 0 || len(got.Batches) != s.Batches || !bytes.Equal(body, file[s.End-int64(len(body)):s.End]) {
		t.Fatalf("%d rows in %d batches, said %+v", got.Rows, len(got.Batches), s)
	}
}

func resumSafe(file []byte) {
	if len(file) > HeaderSize {
		resum(file)
	}
}

func checkDecode(t *testing.T, file []byte, opt DecodeOptions) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := decode(file, opt)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > allocLimit(len(file)) {
		t.Fatalf("%d bytes made Decode allocate %d", len(file), used)
	}
	sum, ierr := Inspect(bytes.NewReader(file), int64(len(file)), opt)
	if err != nil {
		if s != nil {
			t.Fatal("a segment and an error")
		}
		requireKnown(t, err)
		if ierr != nil {
			requireKnown(t, ierr)
		}
		return
	}
	defer s.Release()
	if ierr != nil || sum.Rows != s.Rows || sum.Batches != len(s.Batches) || sum.TailDropped != s.TailDropped {
		t.Fatalf("Inspect: %+v %v, Decode: %d rows in %d batches, %d dropped", sum, ierr, s.Rows, len(s.Batches), s.TailDropped)
	}
	if s.TailDropped != 0 && !opt.Open && !s.Header.Partial {
		t.Fatal("a strict reader dropped a tail")
	}
	rows := int64(0)
	for _, b := range s.Batches {
		rows += b.NumRows()
		touch(t, b)
	}
	if rows != s.Rows || len(s.Batches) == 0 {
		t.Fatalf("%d rows in %d batches, %d counted", rows, len(s.Batches), s.Rows)
	}
}

// requireKnown fails on an error that is none of the package's own.
func requireKnown(t *testing.T, err error) {
	t.Helper()
	for _, known := range []error{ErrVersion, ErrHeaderCheck, ErrLength, ErrCRC, ErrFraming, ErrNoBatch, ErrEmpty, ErrTooBig} {
		if errors.Is(err, known) {
			return
		}
	}
	t.Fatalf("unknown error %v", err)
}

// touch reads every value of a batch.
func touch(t *testing.T, b arrow.RecordBatch) {
	t.Helper()
	for _, col := range b.Columns() {
		for i := range min(col.Len(), 1000) {
			_ = col.ValueStr(i)
		}
		if col.Len() > 0 {
			_ = col.ValueStr(col.Len() - 1)
		}
	}
}

// FuzzHeader holds that what parses as v2 with its check encodes to the same bytes, reserved flag bits apart.
func FuzzHeader(f *testing.F) {
	good := Header{MinTime: 1, MaxTime: 2, BodyLen: 3, CRC: 4, Table: testTable}.Encode()
	f.Add(good[:])
	partial := Header{Partial: true, Zstd: true}.Encode()
	f.Add(partial[:])
	f.Add(good[:36])
	f.Add([]byte("LWAL"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			for _, known := range []error{ErrNotFramed, ErrVersion, ErrHeaderCheck, ErrLength} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("unknown error %v", err)
		}
		if h.Version != 2 {
			return
		}
		again := h.Encode()
		if b[offFlags] > flagZstd|flagPartial {
			return
		}
		if b[offCheck] == 0 && b[offCheck+1] == 0 {
			again[offCheck], again[offCheck+1] = 0, 0
		}
		if !bytes.Equal(again[:], b[:HeaderSize]) {
			t.Fatalf("parsed %x, encoded %x", b[:HeaderSize], again)
		}
	})
}
