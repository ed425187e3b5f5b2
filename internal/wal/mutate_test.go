package wal

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// A9: 10,000 open segments with one byte changed. Recovery ends, takes memory in proportion to their bytes, and keeps
// all rows of a segment or says its name; what it keeps is a prefix of what was written. Not beside other tests: it
// counts what the process allocates. ACK-2, LOUD-1.
func TestA9_one_byte_changed(t *testing.T) {
	const perRoot = 500
	mutations := 10_000
	if testing.Short() { // under the race detector
		mutations = 1000
	}
	whole, _ := partial(t, uuid.Nil)
	ids := someIDs(mutations)
	rng := rand.New(rand.NewPCG(9, 1))
	for from := 0; from < mutations; from += perRoot {
		disk, lane := simLane(t)
		for _, id := range ids[from : from+perRoot] {
			b := slices.Clone(whole)
			b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
			f, err := disk.Create(lane.Path(segment.Active, id.PartialName()))
			require.NoError(t, err)
			_, err = f.Writev([][]byte{b})
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		core, logs := observer.New(zap.WarnLevel)
		opt := options(disk, "/wal")
		opt.Logger = zap.New(core)
		before := allocated()
		closeLog(t, open(t, opt))
		// Some 200 KB each as it is, the log lines and the simulated disk included; a length that is believed asks for more
		// than this for one of them alone.
		require.Less(t, allocated()-before, uint64(perRoot*512<<10), "segments of %d bytes", len(whole))
		said := map[string]bool{}
		for _, e := range logs.All() {
			name, _ := e.ContextMap()["segment"].(string)
			said[name] = true
		}
		kept := map[segment.ID][]int64{}
		sealed, _, err := lane.List(segment.Sealed) // in active/ is what seems to be of a newer version
		require.NoError(t, err)
		for _, e := range sealed {
			kept[e.ID] = readSegment(t, disk, lane.Path(segment.Sealed, e.Name), false).ids
		}
		for _, id := range ids[from : from+perRoot] {
			rows := kept[id]
			require.True(t, slices.Equal([]int64{1, 2, 3, 4, 5}[:len(rows)], rows), "%v", rows)
			require.True(t, len(rows) == 5 || said[id.PartialName()], "%s keeps %v and nothing is said", id, rows)
		}
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
