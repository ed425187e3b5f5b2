package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// torn says what a reader must make of a partial of three batches that ends at cut.
type torn struct {
	batches int
	tail    int64
	err     error
}

func wantTorn(cut int, ends []int) torn {
	switch {
	case cut <= HeaderSize, cut == ends[0]:
		return torn{err: ErrEmpty}
	case cut < ends[0]:
		return torn{err: ErrNoBatch}
	case cut < ends[1]:
		return torn{err: ErrCut}
	case cut < ends[2]:
		return torn{batches: 1, tail: int64(cut - ends[1])}
	case cut < ends[3]:
		return torn{batches: 2, tail: int64(cut - ends[2])}
	default:
		return torn{batches: 3, tail: int64(cut - ends[3])}
	}
}

// ACK-2, SEE-1. A partial cut anywhere gives the whole batches before the cut, and says how much it dropped.
func TestDecode_partial_cut_at_every_byte_R20(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	file, ends := partialFile(t, want...)
	file = append(file, EOS()...) // a seal that got as far as the end of stream
	for cut := range len(file) + 1 {
		for _, opt := range []DecodeOptions{{}, {Open: true}} {
			tc := wantTorn(cut, ends)
			switch {
			case cut == len(file):
				tc.tail = 0
			case cut < HeaderSize && !opt.Open && cut > 0:
				tc.err = nil // any damage will do: outside active/ a header is never torn
			}
			s, err := decode(file[:cut], opt)
			if cut%5 == 0 || cut > len(file)-10 {
				requireAgree(t, file[:cut], opt, s, err)
			}
			if tc.batches == 0 {
				require.Error(t, err, "cut %d", cut)
				if tc.err != nil {
					require.ErrorIs(t, err, tc.err, "cut %d, open %v", cut, opt.Open)
				}
				continue
			}
			require.NoError(t, err, "cut %d", cut)
			requireBatches(t, want[:tc.batches], s)
			require.Equal(t, tc.tail, s.TailDropped, "cut %d", cut)
			require.Equal(t, cut == len(file), s.Complete)
			s.Release()
		}
	}
}

// LOUD-1. What is removed as a first write that was cut is no whole batch with one wrong bit, though the bit may make a
// length say that the file ends too early.
func TestDecode_no_flipped_bit_makes_a_whole_batch_a_cut_one(t *testing.T) {
	t.Parallel()
	file, ends := partialFile(t, threeBatches()[0])
	early := 0
	for bit := 8 * HeaderSize; bit < 8*ends[1]; bit++ {
		bad := bytes.Clone(file)
		bad[bit/8] ^= 1 << (bit % 8)
		_, err := decode(bad, DecodeOptions{Open: true})
		require.NotErrorIs(t, err, ErrCut, "bit %d", bit)
		if errors.Is(err, ErrNoBatch) {
			early++
		}
	}
	require.Positive(t, early, "there are such bits")
}

// requireAgree checks that Inspect and Count say of a file what Decode has said.
func requireAgree(tb testing.TB, file []byte, opt DecodeOptions, s *Segment, err error) {
	tb.Helper()
	sum, ierr := Inspect(bytes.NewReader(file), int64(len(file)), opt)
	require.Equal(tb, err, ierr)
	counted, cerr := Count(bytes.NewReader(file), int64(len(file)), opt)
	require.Equal(tb, err, cerr)
	if err != nil {
		return
	}
	require.Equal(tb, Summary{
		Header: s.Header, Framed: s.Framed, Batches: len(s.Batches), Rows: s.Rows, TailDropped: s.TailDropped, Complete: s.Complete,
	}, sum)
	require.Equal(tb, sum, counted)
}

// LOUD-1. Outside active/ a header that is not PARTIAL promises the whole file.
func TestDecode_sealed_cut_at_every_byte(t *testing.T) {
	t.Parallel()
	file := sealedFile(t, threeBatches()...)
	for cut := range len(file) {
		_, err := decode(file[:cut], DecodeOptions{})
		require.Error(t, err, "cut %d", cut)
		if cut > HeaderSize {
			require.ErrorIs(t, err, ErrLength)
		}
	}
	_, err := decode(append(file, 0), DecodeOptions{})
	require.ErrorIs(t, err, ErrLength)
}

// The crash of a seal: the header's sector reached the disk, the tail of the body did not. Under active/ that
// is a torn segment; its acknowledged rows are in front.
func TestDecode_open_ignores_what_a_sealed_header_claims(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	sealed := sealedFile(t, want...)
	_, ends := partialFile(t, want...)
	cut := ends[2] + 100
	for name, file := range map[string][]byte{
		"cut":          sealed[:cut],
		"zeroed":       append(bytes.Clone(sealed[:cut]), make([]byte, len(sealed)-cut)...),
		"check_damage": append(append(bytes.Clone(sealed[:5]), sealed[5]^flagZstd), sealed[6:cut]...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := decode(file, DecodeOptions{Open: true})
			require.NoError(t, err)
			defer s.Release()
			requireBatches(t, want[:2], s)
			require.Equal(t, int64(len(file)-ends[2]), s.TailDropped)
			require.Equal(t, testTable, s.Header.Table)
			sum, err := Inspect(bytes.NewReader(file), int64(len(file)), DecodeOptions{Open: true})
			require.NoError(t, err)
			require.False(t, sum.Sealed)
			_, err = decode(file, DecodeOptions{})
			require.Error(t, err, "strict outside active/")
		})
	}
	sum, err := Inspect(bytes.NewReader(sealed), int64(len(sealed)), DecodeOptions{Open: true})
	require.NoError(t, err)
	require.True(t, sum.Sealed)
	require.True(t, sum.Complete)
}

// A zero tail is a tear, neither data nor an end of stream: the file system had given the space and not yet
// written it. Zeros may begin at any record, and inside one at any sector.
func TestDecode_zero_tail_T13(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	file, ends := partialFile(t, want...)
	starts := []int{ends[1], ends[2], ends[3]}
	for at := (ends[1]/512 + 1) * 512; at < ends[3]; at += 512 {
		starts = append(starts, at)
	}
	require.Greater(t, len(starts), 5)
	for _, at := range starts {
		for _, extra := range []int{0, 1, 7, 8, 511, 4096} {
			size := len(file) + extra
			zeroed := append(bytes.Clone(file[:at]), make([]byte, size-at)...)
			if at == ends[3] && extra == 0 {
				continue
			}
			s, err := decode(zeroed, DecodeOptions{})
			require.NoError(t, err, "zeros from %d of %d", at, size)
			tc := wantTorn(at, ends)
			requireBatches(t, want[:tc.batches], s)
			require.Equal(t, int64(size-ends[tc.batches]), s.TailDropped)
			require.False(t, s.Complete)
			s.Release()
			sum, err := Inspect(bytes.NewReader(zeroed), int64(size), DecodeOptions{})
			require.NoError(t, err)
			require.Equal(t, tc.batches, sum.Batches)
			require.Equal(t, int64(size-ends[tc.batches]), sum.TailDropped)
		}
	}
}

// A sector boundary between the two halves of a message's prefix leaves the marker and zeros: the very bytes of
// an end of stream.
func TestDecode_zero_tail_that_looks_like_an_end_of_stream(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	file, ends := partialFile(t, want...)
	zeroed := append(bytes.Clone(file[:ends[2]+4]), make([]byte, len(file)-ends[2]-4)...)
	s, err := decode(zeroed, DecodeOptions{})
	require.NoError(t, err)
	defer s.Release()
	requireBatches(t, want[:2], s)
	require.False(t, s.Complete)
	require.Equal(t, int64(len(file)-ends[2]), s.TailDropped)
}

// LOUD-1. Bytes that are there and are no message are damage, not a tear.
func TestDecode_garbage_tail_is_refused(t *testing.T) {
	t.Parallel()
	file, ends := partialFile(t, threeBatches()...)
	body := bytes.Repeat([]byte("garbage!"), 40)
	length := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(EOS()[:4:4], n) }
	for name, tail := range map[string][]byte{
		"text":                          body,
		"one_byte":                      {'x'},
		"seven_bytes":                   []byte("garbage"),
		"zeros_then_text":               append(make([]byte, 8), body...),
		"bytes_behind_the_end":          append(EOS(), body...),
		"a_second_end":                  append(EOS(), EOS()...),
		"negative_length":               append(length(0x8000_0000), body...),
		"length_over_the_limit":         append(length(maxMetadata+8), body...),
		"length_not_padded":             append(length(9), body...),
		"metadata_that_is_none":         append(length(64), body...),
		"nine_ascii_bytes_as_a_length":  []byte("id=123456"),
		"a_second_schema":               file[HeaderSize:ends[0]],
		"marker_of_the_old_ipc_format":  append(binary.LittleEndian.AppendUint32(nil, 64), body...),
		"a_flipped_bit_in_a_last_batch": flipped(file[ends[0]:ends[1]], 8*(ends[1]-ends[0])-700),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			damaged := append(bytes.Clone(file), tail...)
			for _, opt := range []DecodeOptions{{}, {Open: true}} {
				_, err := decode(damaged, opt)
				require.Error(t, err)
				var ce *CorruptError
				require.ErrorAs(t, err, &ce)
				require.GreaterOrEqual(t, ce.Offset, int64(len(file)))
				_, ierr := Inspect(bytes.NewReader(damaged), int64(len(damaged)), opt)
				require.Equal(t, err, ierr)
			}
		})
	}
}

// loseSector zeroes one whole sector of the file between from and to.
func loseSector(tb testing.TB, file []byte, from, to int) {
	tb.Helper()
	at := (from/sectorSize + 2) * sectorSize
	require.LessOrEqual(tb, at+sectorSize, to)
	clear(file[at : at+sectorSize])
}

func flipped(b []byte, bit int) []byte {
	c := bytes.Clone(b)
	c[bit/8] ^= 1 << (bit % 8)
	return c
}

// The last group before a power loss: its sectors reached the disk in any order. Whole batches may stand behind
// a lost one, and none of them was acknowledged. MarkSynced tells them from batches behind rotten ones.
func TestDecode_hole_in_the_last_group(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	t.Run("not_synced_is_a_tear", func(t *testing.T) {
		t.Parallel()
		file, ends := partialFile(t, want...)
		mark(t, file, ends[1], int64(ends[1])) // batches 1 and 2 are one group behind batch 0
		loseSector(t, file, ends[1], ends[2])
		s, err := decode(file, DecodeOptions{})
		require.NoError(t, err)
		defer s.Release()
		requireBatches(t, want[:1], s)
		require.Equal(t, int64(len(file)-ends[1]), s.TailDropped)
	})
	t.Run("synced_is_damage", func(t *testing.T) {
		t.Parallel()
		file, ends := partialFile(t, want...)
		mark(t, file, ends[2], int64(ends[2])) // batch 2 was written when batch 1 was durable
		loseSector(t, file, ends[1], ends[2])
		_, err := decode(file, DecodeOptions{})
		require.ErrorContains(t, err, fmt.Sprintf("synced before %d was written", ends[2]))
	})
	t.Run("a_length_that_lies_about_a_synced_batch_is_damage", func(t *testing.T) {
		t.Parallel()
		file, ends := partialFile(t, want...)
		mark(t, file, ends[2], int64(ends[2]))
		file[ends[1]+6] ^= 0x40 // metadata of 4 MiB
		_, err := decode(file, DecodeOptions{})
		require.ErrorIs(t, err, ErrFraming)
		require.ErrorContains(t, err, fmt.Sprintf("a whole message follows at %d", ends[2]))
	})
}

// mark notes in the batches from off that synced bytes of the file were durable.
func mark(tb testing.TB, file []byte, off int, synced int64) {
	tb.Helper()
	require.NoError(tb, MarkSynced(file[off:], synced))
}

// A torn batch may be full of what looks like starts of messages, by chance or because somebody sent them. The
// search for whole messages in it must end, and soon.
func TestDecode_tail_full_of_starts(t *testing.T) {
	t.Parallel()
	file, ends := partialFile(t, threeBatches()...)
	start := func(metaLen uint32) []byte { return binary.LittleEndian.AppendUint32(EOS()[:4:4], metaLen) }
	for name, tail := range map[string][]byte{
		"empty_metadata":   bytes.Repeat(start(8), 1<<20),
		"long_metadata":    bytes.Repeat(start(1<<20), 1<<20),
		"minus_ones":       bytes.Repeat(start(0xFFFF_FFFF), 1<<20),
		"heads_of_batches": bytes.Repeat(file[ends[0]:ends[0]+1800], 4<<10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			torn := append(bytes.Clone(file[:ends[2]]), start(maxMetadata)...)
			torn = append(torn, tail...)
			require.Less(t, len(torn)-ends[2], maxMetadata)
			s, err := decode(torn, DecodeOptions{})
			sum, ierr := Inspect(bytes.NewReader(torn), int64(len(torn)), DecodeOptions{})
			require.Equal(t, err, ierr)
			if err != nil { // too many starts to look at: refused, which loses nothing
				require.ErrorIs(t, err, ErrFraming)
				return
			}
			require.Len(t, s.Batches, 2)
			require.Equal(t, int64(len(torn)-ends[2]), s.TailDropped)
			require.Equal(t, s.TailDropped, sum.TailDropped)
			s.Release()
		})
	}
}

func TestMarkSynced(t *testing.T) {
	t.Parallel()
	file, ends := partialFile(t, threeBatches()...)
	require.NoError(t, MarkSynced(file[ends[0]:], 1<<40+5))
	s, err := decode(file, DecodeOptions{})
	require.NoError(t, err, "the mark is outside the checksum")
	defer s.Release()
	metaLen := int(binary.LittleEndian.Uint32(file[ends[1]+4:]))
	meta := file[ends[1]+8 : ends[1]+8+metaLen]
	m, err := parseMessage(meta)
	require.NoError(t, err)
	require.Equal(t, int64(1<<40+5), m.synced(meta))
	meta[m.syncAt+3] ^= 1
	require.Zero(t, m.synced(meta), "digits that do not check say nothing")
	require.Error(t, MarkSynced(file[ends[0]:len(file)-1], 1))
	require.Error(t, MarkSynced([]byte("abc"), 1))
}
