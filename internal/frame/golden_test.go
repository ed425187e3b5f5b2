package frame

import (
	"bytes"
	"encoding/json"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the fixtures under testdata")

// plainStream is what a writer that knows nothing of our metadata makes.
func plainStream(tb testing.TB, end bool, batches ...arrow.RecordBatch) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(testSchema()))
	for _, rec := range batches {
		require.NoError(tb, w.Write(rec))
	}
	if end {
		require.NoError(tb, w.Close())
	}
	return b.Bytes()
}

// framed puts a header without a check before body, as the reference implementation does.
func framed(version, flags byte, body []byte) []byte {
	h := Header{BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body), MinTime: 1, MaxTime: 2, Table: testTable}
	if flags&flagPartial != 0 {
		h = Header{Table: testTable}
	}
	b := h.Encode()
	b[offVersion], b[offFlags], b[offCheck], b[offCheck+1] = version, flags, 0, 0
	if version == 1 {
		return append(b[:headerSizeV1:headerSizeV1], body...)
	}
	return append(b[:], body...)
}

// fixture is one stored segment. Once committed its bytes never change: a newer version gets a file of its own.
type fixture struct {
	name    string
	bytes   func(tb testing.TB) []byte
	stable  bool // our own writer makes it, so its bytes are compared too
	batches int
	want    Summary
}

func fixtures() []fixture {
	v2 := Header{Version: 2, Table: testTable}
	return []fixture{
		{
			name: "v2_sealed.arrow", stable: true, batches: 3,
			bytes: func(tb testing.TB) []byte { tb.Helper(); return sealedFile(tb, threeBatches()...) },
			want:  Summary{Header: v2, Framed: true, Complete: true, Sealed: true},
		},
		{
			name: "v2_partial_torn.arrow", stable: true, batches: 2,
			bytes: func(tb testing.TB) []byte {
				tb.Helper()
				file, ends := partialFile(tb, threeBatches()...)
				require.NoError(tb, MarkSynced(file[ends[1]:], int64(ends[1])))
				return file[:ends[2]+1000]
			},
			want: Summary{Header: v2, Framed: true, TailDropped: 1000, Synced: 3572},
		},
		{
			name: "v2_zstd_reference.arrow", batches: 3,
			bytes: func(tb testing.TB) []byte {
				tb.Helper()
				enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
				require.NoError(tb, err)
				defer func() { require.NoError(tb, enc.Close()) }()
				return framed(2, flagZstd, enc.EncodeAll(plainStream(tb, true, threeBatches()...), nil))
			},
			want: Summary{Header: v2, Framed: true, Complete: true, Sealed: true},
		},
		{
			name: "v2_partial_reference.arrow", batches: 3,
			bytes: func(tb testing.TB) []byte {
				tb.Helper()
				return framed(2, flagPartial, plainStream(tb, false, threeBatches()...))
			},
			want: Summary{Header: v2, Framed: true},
		},
		{
			name: "v1.arrow", batches: 3,
			bytes: func(tb testing.TB) []byte { tb.Helper(); return framed(1, 0, plainStream(tb, true, threeBatches()...)) },
			want:  Summary{Header: Header{Version: 1}, Framed: true, Complete: true, Sealed: true},
		},
		{
			name: "unframed.arrow", batches: 3,
			bytes: func(tb testing.TB) []byte { tb.Helper(); return plainStream(tb, true, threeBatches()...) },
			want:  Summary{Complete: true},
		},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, fx := range fixtures() {
		t.Run(fx.name, func(t *testing.T) {
			if !*update { // the first fixture then also writes the rows of all
				t.Parallel()
			}
			path := filepath.Join("testdata", fx.name)
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o750))
				require.NoError(t, os.WriteFile(path, fx.bytes(t), 0o640))
			}
			file, err := os.ReadFile(path)
			require.NoError(t, err)
			if fx.stable {
				require.True(t, bytes.Equal(fx.bytes(t), file), "the writer's bytes changed: that needs a new version")
			}
			sum, err := Inspect(bytes.NewReader(file), int64(len(file)), DecodeOptions{})
			require.NoError(t, err)
			require.Equal(t, fx.batches, sum.Batches)
			want := fx.want
			want.Batches, want.Rows = sum.Batches, sum.Rows
			got := sum
			got.Header = Header{Version: sum.Header.Version, Table: sum.Header.Table}
			require.Equal(t, want, got)

			s, err := decode(file, DecodeOptions{})
			require.NoError(t, err)
			defer s.Release()
			require.Equal(t, sum.Rows, s.Rows)
			requireRows(t, s, *update && fx.name == "v2_sealed.arrow")
		})
	}
}

// requireRows compares the decoded batches with the stored rows, which all fixtures share.
func requireRows(t *testing.T, s *Segment, write bool) {
	t.Helper()
	const path = "testdata/rows.json"
	var got []json.RawMessage
	for _, b := range s.Batches {
		js, err := b.MarshalJSON()
		require.NoError(t, err)
		got = append(got, js)
	}
	if write {
		all, err := json.MarshalIndent(got, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(all, '\n'), 0o640))
	}
	stored, err := os.ReadFile(path)
	require.NoError(t, err)
	var want []json.RawMessage
	require.NoError(t, json.Unmarshal(stored, &want))
	for i, js := range got {
		require.JSONEq(t, string(want[i]), string(js), "batch %d", i)
	}
}
