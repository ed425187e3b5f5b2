package segment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// Spans behave as sets of numbers, in normal form.
func TestSpans(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() (Spans, map[uint64]bool) {
		set := map[uint64]bool{}
		var all []Span
		for range rng.IntN(6) {
			from := 1 + rng.Uint64N(20)
			to := from + rng.Uint64N(5)
			all = append(all, Span{from, to})
			for n := from; n <= to; n++ {
				set[n] = true
			}
		}
		return NewSpans(all...), set
	}
	check := func(s Spans, want func(n uint64) bool) {
		t.Helper()
		for i, sp := range s {
			require.LessOrEqual(t, sp[0], sp[1], s)
			require.True(t, i == 0 || sp[0] > s[i-1][1]+1, s)
		}
		for n := uint64(1); n < 30; n++ {
			require.Equal(t, !want(n), len(Spans{{n, n}}.Without(s)) > 0, "%d in %v", n, s)
		}
	}
	for range 2000 {
		a, inA := draw()
		b, inB := draw()
		check(a, func(n uint64) bool { return inA[n] })
		check(a.With(b), func(n uint64) bool { return inA[n] || inB[n] })
		check(a.Without(b), func(n uint64) bool { return inA[n] && !inB[n] })
	}
	last := uint64(math.MaxUint64)
	require.Equal(t, Spans{{1, last}}, upTo(last).With(Spans{{last, last}}))
	require.Equal(t, Spans{{1, last - 1}}, upTo(last).Without(Spans{{last, last}}))
	require.Empty(t, upTo(0))
	require.Equal(t, Spans{{1, 3}, {5, 5}}, SpansOf([]uint64{3, 5, 2, 1, 3}))
}

func simLaneOf(t *testing.T) (*simfs.FS, Lane) {
	t.Helper()
	s := simfs.New(nil)
	r, err := Create(s, "/wal")
	require.NoError(t, err)
	l, err := r.Lane("default", "events")
	require.NoError(t, err)
	require.NoError(t, l.Prepare())
	return s, l
}

func golden(t *testing.T) Numbers {
	t.Helper()
	return Numbers{Format: 1, Writers: []WriterNumbers{
		{Writer: "010000000000", Top: 9, Settled: Spans{{1, 4}, {6, 8}}, Missing: Spans{{5, 5}}},
		{Writer: "0200000000ff", Settled: Spans{{3, 3}}},
	}}
}

// The bytes of the record, and what is no record. LOUD-1.
func TestNumbers_record(t *testing.T) {
	t.Parallel()
	s, l := simLaneOf(t)
	_, ok, err := l.Numbers()
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, l.WriteNumbers(golden(t)))
	got, ok, err := l.Numbers()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, golden(t), got)
	want, err := os.ReadFile("testdata/numbers.json")
	require.NoError(t, err)
	b, err := vfs.ReadFile(s, "/wal/default/events/numbers.json")
	require.NoError(t, err)
	require.Equal(t, string(want), string(b))
	newer, err := EncodeRecord(map[string]any{"format": 2, "more": true})
	require.NoError(t, err)

	for text, is := range map[string]error{
		``:              ErrRecord,
		`{"format":0}`:  ErrRecord,
		`{"format":2}`:  ErrFormat,
		string(newer):   ErrFormat,
		`{"format":1}x`: ErrRecord,
		`{"format":1,"writers":[{"writer":"01"}]}`:                                           ErrRecord,
		`{"format":1,"writers":[{"writer":"0100000000FF"}]}`:                                 ErrRecord,
		`{"format":1,"writers":[{"writer":"010000000000"},{"writer":"010000000000"}]}`:       ErrRecord,
		`{"format":1,"writers":[{"writer":"010000000000","settled":[[0,4]]}]}`:               ErrRecord,
		`{"format":1,"writers":[{"writer":"010000000000","missing":[[4,3]]}]}`:               ErrRecord,
		`{"format":1,"writers":[{"writer":"010000000000","settled":[[-1,18446744073709]]}]}`: ErrRecord,
	} {
		require.NoError(t, vfs.WriteFile(s, "/wal/default/events/numbers.json", []byte(text)))
		_, _, err := l.Numbers()
		require.ErrorIs(t, err, is, text)
		require.ErrorContains(t, err, "read numbers.json of lane default/events")
		_, err = l.Gaps()
		require.ErrorIs(t, err, is, text)
	}
	require.NoError(t, l.SetNumbersAside())
	_, ok, err = l.Numbers()
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, l.SetNumbersAside(), "twice is once")
	_, err = s.Stat("/wal/default/events/numbers.json.damaged")
	require.NoError(t, err)
}

// The record does not grow with the writers there ever were, and keeps those that have files and those of late.
func TestNumbers_are_bounded(t *testing.T) {
	t.Parallel()
	_, l := simLaneOf(t)
	var n Numbers
	for i := range keptWriters + 10 {
		id := ID{Writer: [6]byte{1, byte(i >> 8), byte(i)}, Seq: 1}
		require.True(t, n.Settle([]ID{id}))
		require.False(t, n.Settle([]ID{id}), "no news")
	}
	c, err := l.Census()
	require.NoError(t, err)
	c.add(Sealed, ID{Writer: [6]byte{1, 0, 3}, Seq: 2})
	require.False(t, n.Fold(c))
	require.Len(t, n.Writers, keptWriters+1)
	require.Equal(t, "010003000000", n.Writers[0].Writer)
	require.Equal(t, "01000a000000", n.Writers[1].Writer)
	require.NoError(t, l.WriteNumbers(n))
	got, _, err := l.Numbers()
	require.NoError(t, err)
	require.Len(t, got.Writers, keptWriters+1, "and it is read back")
}

// A mark's name, and nothing else, is a mark.
func TestParseVoid(t *testing.T) {
	t.Parallel()
	writer, s, ok := parseVoid("010000000000-3-17.void")
	require.True(t, ok)
	require.Equal(t, "010000000000", writer)
	require.Equal(t, Span{3, 17}, s)
	for _, name := range []string{
		"", ".void", "010000000000-3.void", "010000000000-3-2.void", "010000000000-0-2.void", "010000000000-03-4.void",
		"010000000000-3-4", "01000000000-3-4.void", "01000000000G-3-4.void", "010000000000-3-4-5.void", "010000000000-+3-4.void",
		"010000000000-1-99999999999999999999.void",
	} {
		_, _, ok := parseVoid(name)
		require.False(t, ok, name)
	}
}

// A mark cut after every operation and made again by the next process is there, once. ORD-1.
func TestSweep_MarkVoid(t *testing.T) {
	t.Parallel()
	id := NewNamer([6]byte{1}).Next(time.UnixMilli(1_700_000_000_000))
	for k := 0; ; k++ {
		s, l := simLaneOf(t)
		hook, fired := simfs.CutAt(k)
		s.SetHook(hook)
		err := l.MarkVoid(id)
		for _, p := range simfs.Policies() {
			where := fmt.Sprintf("k=%d %s", k, p)
			after := s.Crash(p, rand.New(rand.NewPCG(uint64(k), uint64(p))))
			root, rerr := Open(after, "/wal")
			require.NoError(t, rerr)
			l, rerr := root.Lane("default", "events")
			require.NoError(t, rerr)
			c, rerr := l.Census()
			require.NoError(t, rerr)
			if err == nil {
				require.Len(t, c.marks, 1, where)
			}
			require.NoError(t, l.MarkVoid(id), where)
			final := after.Crash(simfs.KeepNone, rand.New(rand.NewPCG(1, 1)))
			_, rerr = final.Stat("/wal/default/events/010000000000-1-1.void")
			require.NoError(t, rerr, where)
		}
		if !fired() {
			require.NoError(t, err)
			require.Equal(t, 2, k)
			return
		}
	}
}
