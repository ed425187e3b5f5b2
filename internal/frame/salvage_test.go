package frame

import (
	"bytes"
	"hash/crc32"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func salvage(file []byte) (*Salvaged, error) {
	return Salvage(bytes.NewReader(file), int64(len(file)), DecodeOptions{})
}

// requireBeginning checks that what was brought back is a PARTIAL segment of the first n batches.
func requireBeginning(tb testing.TB, want []arrow.RecordBatch, n int, s *Salvaged, msg ...any) {
	tb.Helper()
	got, err := decode(s.File, DecodeOptions{})
	require.NoError(tb, err, msg...)
	defer got.Release()
	require.Len(tb, got.Batches, n, msg...)
	requireBatches(tb, want[:n], got)
	require.Equal(tb, got.Rows, s.Rows, msg...)
	require.Equal(tb, n, s.Batches, msg...)
	require.True(tb, got.Header.Partial, msg...)
	require.Zero(tb, got.TailDropped, msg...)
}

// ACK-2, LOUD-1. A segment with one bit wrong, anywhere, gives the whole batches before it and none behind it, and the
// bytes and sound batches it does not give are counted.
func TestSalvage_every_flipped_bit(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	_, ends := partialFile(t, want...)
	clean := sealedFile(t, want...) // the same bytes behind the header
	for i := range clean {
		bit := 8*i + i%8
		s, err := salvage(flipped(clean, bit))
		switch {
		case i < 4: // the magic
			require.ErrorIs(t, err, ErrNoBatch, "bit %d", bit)
			continue
		case i == offVersion:
			require.ErrorIs(t, err, ErrVersion, "bit %d", bit)
			continue
		case i >= HeaderSize && i < ends[1] && (err != nil || i < ends[0]): // the schema or the first batch
			require.ErrorIs(t, err, ErrNoBatch, "bit %d", bit)
			continue
		}
		require.NoError(t, err, "bit %d", bit)
		whole := 0
		for whole < 3 && i >= ends[whole+1] {
			whole++
		}
		if i < HeaderSize || s.Batches == 3 && s.Cause == nil { // the digits of siglake.synced, which mean nothing here
			whole = 3
		}
		requireBeginning(t, want, whole, s, "bit %d", bit)
		require.EqualValues(t, ends[whole], s.End, "bit %d", bit)
		header, err := ParseHeader(s.File)
		require.NoError(t, err)
		if i < HeaderSize {
			require.True(t, s.BadHeader, "bit %d", bit)
			require.Equal(t, uuid.Nil, header.Table, "nobody vouches for it")
			continue
		}
		require.Equal(t, testTable, header.Table)
		if s.Cause == nil {
			require.Zero(t, s.Lost, "bit %d", bit)
			continue
		}
		require.EqualValues(t, len(clean)-ends[whole], s.Lost, "bit %d", bit)
		if whole < 3 {
			require.Equal(t, 2-whole, s.LostBatches, "bit %d", bit)
			rows := int64(0)
			for _, b := range want[whole+1:] {
				rows += b.NumRows()
			}
			require.Equal(t, rows, s.LostRows, "bit %d", bit)
		}
	}
}

// ACK-2. A segment cut anywhere gives the whole batches before the cut.
func TestSalvage_cut_at_every_byte(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	_, ends := partialFile(t, want...)
	file := sealedFile(t, want...)
	for cut := range len(file) {
		tc := wantTorn(cut, ends)
		s, err := salvage(file[:cut])
		if tc.batches == 0 {
			require.Error(t, err, "cut %d", cut)
			continue
		}
		require.NoError(t, err, "cut %d", cut)
		requireBeginning(t, want, tc.batches, s, "cut %d", cut)
		require.Equal(t, tc.tail, s.Lost, "cut %d", cut)
		require.Error(t, s.Cause, "cut %d", cut)
	}
}

// Rows are never taken for sound on the word of nobody.
func TestSalvage_without_checksums(t *testing.T) {
	t.Parallel()
	file, _ := partialFile(t, threeBatches()...)
	bare := bytes.ReplaceAll(file, []byte(crcKey), []byte("siglake.crc32x"))
	_, err := decode(bare, DecodeOptions{})
	require.NoError(t, err, "other writers' segments are read")
	_, err = salvage(append(bare, make([]byte, 8)...))
	require.ErrorIs(t, err, ErrUnproved)
}

// A column that lies under a true checksum ends the beginning as any damage does.
func TestSalvage_a_lie_under_a_true_checksum(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	_, ends := partialFile(t, want...)
	file := sealedFile(t, want...)
	found := false
	for at := ends[2]; at < ends[3] && !found; at++ {
		bad := bytes.Clone(file)
		bad[at] ^= 0x7F
		resum(bad)
		_, err := decode(bad, DecodeOptions{})
		_, ierr := Inspect(bytes.NewReader(bad), int64(len(bad)), DecodeOptions{})
		if found = err != nil && ierr == nil; !found {
			continue
		}
		s, err := salvage(bad)
		require.NoError(t, err)
		requireBeginning(t, want, 2, s)
		require.ErrorIs(t, s.Cause, ErrFraming)
	}
	require.True(t, found, "no byte shows it")
}

// badSector is a disk that cannot return what is behind from.
type badSector struct {
	*bytes.Reader

	from int64
}

func (b badSector) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.from {
		return 0, syscall.EIO
	}
	return b.Reader.ReadAt(p, off)
}

// What a disk does not return is lost, and what it returns before is not.
func TestSalvage_what_the_disk_returns(t *testing.T) {
	t.Parallel()
	var want []arrow.RecordBatch
	for i := range 40 {
		want = append(want, testBatch(500*i, 500, 10))
	}
	_, ends := partialFile(t, want...)
	file := sealedFile(t, want...)
	require.Greater(t, len(file), 4*windowSize)
	sector := (ends[21] + sectorSize - 1) / sectorSize * sectorSize // behind the batch; the next begins before it
	require.Less(t, sector, ends[22])
	for _, tc := range []struct{ bad, batches int }{{sector, 21}, {sector - sectorSize, 20}} {
		s, err := Salvage(badSector{bytes.NewReader(file), int64(tc.bad)}, int64(len(file)), DecodeOptions{})
		require.NoError(t, err)
		require.ErrorIs(t, s.Cause, syscall.EIO)
		requireBeginning(t, want, tc.batches, s)
		require.EqualValues(t, len(file), s.End+s.Lost)
	}
	_, err := Salvage(badSector{bytes.NewReader(file), HeaderSize}, int64(len(file)), DecodeOptions{})
	require.ErrorIs(t, err, syscall.EIO)
}

// What holds nothing, or is not ours to judge, is told from damage.
func TestSalvage_nothing(t *testing.T) {
	t.Parallel()
	head := Header{Partial: true}.Encode()
	compressed, err := os.ReadFile("testdata/v2_zstd_reference.arrow")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		file []byte
		want error
	}{
		"no_bytes":    {nil, ErrEmpty},
		"header_only": {head[:], ErrEmpty},
		"newer":       {append([]byte("LWAL\x03"), make([]byte, 100)...), ErrVersion},
		"noise":       {bytes.Repeat([]byte("noise and more "), 100), ErrNoBatch},
		"compressed":  {compressed, ErrNoBatch},
	} {
		_, err := salvage(tc.file)
		require.ErrorIs(t, err, tc.want, name)
	}
	file := sealedFile(t, threeBatches()...)
	_, err = Salvage(bytes.NewReader(file), int64(len(file)), DecodeOptions{MaxBody: 100})
	require.ErrorIs(t, err, ErrTooBig)
	_, err = Salvage(io.NewSectionReader(bytes.NewReader(file), 0, 10), int64(len(file)), DecodeOptions{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A segment of the first version becomes one of this version, without a table.
func TestSalvage_first_version(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	body, ends := bodyOf(t, true, want...)
	h := Header{BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body)}.Encode()
	h[offVersion], h[offCheck], h[offCheck+1] = 1, 0, 0
	file := append(h[:headerSizeV1:headerSizeV1], body...)
	s, err := salvage(flipped(file, 8*(headerSizeV1+ends[3]-50)))
	require.NoError(t, err)
	requireBeginning(t, want, 2, s)
	require.EqualValues(t, headerSizeV1+ends[2], s.End)
}
