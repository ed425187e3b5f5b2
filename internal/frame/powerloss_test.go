package frame

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// powerLoss returns what a disk without any order keeps of writes that end at ends, the first of which starts at
// synced: any subset of the sectors that each write touches, zeros between, and perhaps a size without bytes.
func powerLoss(file []byte, synced int, ends []int, rng *rand.Rand) []byte {
	out := bytes.Clone(file[:synced])
	from := synced
	for _, end := range ends {
		for off := from; off < end; {
			next := min((off/sectorSize+1)*sectorSize, end)
			if rng.IntN(2) == 0 {
				out = append(out, make([]byte, max(0, next-len(out)))...)
				copy(out[off:next], file[off:next])
			}
			off = next
		}
		if rng.IntN(2) == 0 {
			out = append(out, make([]byte, max(0, end-len(out)))...)
		}
		from = end
	}
	return out
}

// ACK-1, ACK-2, ORD-1. Whatever a power loss keeps of the groups behind the last sync, the batches before it come
// back, and what follows them is a prefix of what was written.
func TestDecode_power_loss_behind_the_last_sync(t *testing.T) {
	t.Parallel()
	const seeds = 100
	want := []arrow.RecordBatch{testBatch(0, 3, 2), testBatch(3, 2, 1), testBatch(5, 4, 4), testBatch(9, 12, 3), testBatch(21, 1, 1)}
	for _, marked := range []bool{false, true} {
		file, ends := partialFile(t, want...)
		if marked { // batches 0 and 1 were synced when each of the others was written
			mark(t, file[:ends[2]], ends[1], int64(ends[1]))
			mark(t, file, ends[2], int64(ends[2]))
		}
		file = append(file, EOS()...)
		for name, writes := range map[string][]int{
			"one_group":     {ends[5]},
			"three_groups":  {ends[3], ends[4], ends[5]},
			"end_of_stream": {ends[4], ends[5], len(file)},
		} {
			for seed := range uint64(seeds) {
				disk := powerLoss(file, ends[2], writes, rand.New(rand.NewPCG(seed, 1)))
				s, err := decode(disk, DecodeOptions{Open: true})
				require.NoError(t, err, "%s, seed %d", name, seed)
				require.GreaterOrEqual(t, len(s.Batches), 2, "%s, seed %d", name, seed)
				requireBatches(t, want[:len(s.Batches)], s)
				s.Release()
			}
		}
	}
}
