package drain

import (
	"context"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// C2: the table is away while 10,000 segments are sealed. When it is back each is in it once. The first commit that
// succeeds only shows that it is back; from then on the oldest come first, those that were tried in vain among them.
func TestC2_a_long_outage(t *testing.T) {
	t.Parallel()
	segments := 10_000
	if testing.Short() { // under the race detector
		segments = 1000
	}
	w := onDisk(t)
	w.opt.Poll = time.Millisecond
	var down atomic.Bool
	down.Store(true)
	var order []string
	table := w.tables.get("events")
	table.before = func(context.Context, []lake.Segment) error {
		if down.Load() {
			return errors.New("catalog away")
		}
		return nil
	}
	table.after = func(segs []lake.Segment) error {
		for _, s := range segs {
			order = append(order, s.ID)
		}
		return nil
	}
	_, l := w.laneOf("events")
	var sealed []string
	for n := range segments {
		id, _, err := segment.ParseName(w.seal(spec{rows: 1}))
		require.NoError(t, err)
		w.age(w.lane("events").Path(segment.Sealed, id.FileName()), time.Duration(segments-n)*time.Second)
		sealed = append(sealed, id.String())
		if n%(segments/20) == 0 {
			l.atOnce()
			l.pass(t.Context(), t.Context())
			require.Error(t, l.view().err)
		}
	}
	down.Store(false)
	for w.states("events")[segment.Committed] < segments {
		l.atOnce()
		w.pass(l)
	}
	w.accounted()
	require.Len(t, order, segments)
	rest := slices.DeleteFunc(slices.Clone(sealed), func(id string) bool { return id == order[0] })
	require.Equal(t, rest, order[1:])
}

// A3: files without a row among good segments. The good ones are drained, the others set aside once and not met again.
func TestA3_files_without_a_row(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	var empty []string
	for _, size := range []int{0, 1, 4, frame.HeaderSize} {
		empty = append(empty, w.seal(spec{mangle: func(b []byte) []byte { return b[:size] }}))
		w.seal(spec{})
	}
	w.forget(empty...)
	require.Equal(t, Report{Lanes: 1, Segments: 5, Rows: 15, Poisoned: 4}, w.once())
	w.accounted()
	require.ElementsMatch(t, empty, w.in("events", segment.Poison))
	w.logs.TakeAll()
	require.Equal(t, Report{Lanes: 1}, w.once())
	require.Empty(t, w.logs.All(), "said once")
}

// forget takes back the expectation of rows in the table.
func (w *world) forget(names ...string) {
	w.t.Helper()
	for _, name := range names {
		id, _, err := segment.ParseName(name)
		require.NoError(w.t, err)
		delete(w.want, id.String())
	}
}

// A11: every older form of a segment is drained beside the newest: version 1, unframed, and what the reference system
// writes, which has no header check and may be compressed. (A newer form: TestOnce_a_newer_format_stays_where_it_is_A11.)
func TestA11_older_formats_are_drained(t *testing.T) {
	t.Parallel()
	const size, sizeV1, offVersion, offCheck = frame.HeaderSize, 36, 4, 6
	w := onDisk(t)
	for _, older := range []func([]byte) []byte{
		func(b []byte) []byte { return b },
		func(b []byte) []byte {
			b[offVersion], b[offCheck], b[offCheck+1] = 1, 0, 0
			return slices.Delete(b, sizeV1, size)
		},
		func(b []byte) []byte { return b[size:] },
		func(b []byte) []byte {
			b[offCheck], b[offCheck+1] = 0, 0
			return b
		},
		func(b []byte) []byte {
			z, err := zstd.NewWriter(nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, z.Close()) }()
			body := z.EncodeAll(b[size:], nil)
			head := frame.Header{Zstd: true, BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body)}.Encode()
			return append(head[:], body...)
		},
	} {
		w.seal(spec{mangle: older})
	}
	w.seal(spec{partial: true})
	require.Equal(t, Report{Lanes: 1, Segments: 6, Rows: 18}, w.once())
	w.accounted()
}

// A9: 10,000 sealed segments with one byte changed. The drain ends, takes memory in proportion to their bytes, and
// commits all rows of a segment or none and says its name. LOUD-1. Not beside other tests: it counts what the
// process allocates.
func TestA9_one_byte_changed(t *testing.T) {
	const perRoot = 500
	mutations := 10_000
	if testing.Short() { // under the race detector
		mutations = 1000
	}
	size := len(encode(t, spec{}))
	rng := rand.New(rand.NewPCG(9, 2))
	bytes := make(encodings)
	for range mutations / perRoot {
		w := onDisk(t)
		w.bytes = bytes
		var names []string
		for range perRoot {
			names = append(names, w.seal(spec{mangle: func(b []byte) []byte {
				b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
				return b
			}}))
		}
		before := allocated()
		r := w.once()
		require.Less(t, allocated()-before, uint64(perRoot*512<<10), "three reads of %d bytes each, and what is logged", size)
		require.Empty(t, r.Failures)
		said := map[string]bool{}
		for _, e := range w.logs.All() {
			name, _ := e.ContextMap()["segment"].(string)
			said[name] = true
		}
		rows := w.tables.get("events").rows
		for _, name := range names {
			id := strings.TrimSuffix(name, ".arrow")
			if rows[id] == nil {
				require.True(t, said[name], "%s is not committed and nothing is said", name)
				w.forget(name)
			}
		}
		w.accounted()
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
