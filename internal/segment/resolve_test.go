package segment_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

func seed(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 1)) }

// file builders for one id: state and content.
type file struct {
	st      segment.State
	content string
	linkTo  segment.State // a second name of the file there
}

var eos = string(frame.EOS())

// framed is a segment with this header and body.
func framed(h frame.Header, body string) string {
	head := h.Encode()
	return string(head[:]) + body
}

// ONE-1, LOUD-1: what becomes of two names of one id.
func TestResolve(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 10_000) // over several compare buffers
	for _, tc := range []struct {
		name  string
		by    segment.Scope
		given []file
		want  []string // state/name of what is there afterwards
	}{
		{"nothing", segment.ByDrain, nil, nil},
		{"one name", segment.ByDrain, []file{{st: segment.Sealed}}, []string{"sealed/0.arrow"}},
		{"claim cut", segment.ByDrain, []file{{st: segment.Sealed}, {st: segment.Processing, linkTo: segment.Sealed}}, []string{"processing/0.arrow"}},
		{"mark cut", segment.ByDrain, []file{{st: segment.Processing}, {st: segment.Committed, linkTo: segment.Processing}}, []string{"committed/0.arrow"}},
		{"release cut", segment.ByDrain, []file{{st: segment.Processing}, {st: segment.Sealed, linkTo: segment.Processing}}, []string{"processing/0.arrow"}},
		{"orphan cut", segment.ByDrain, []file{{st: segment.Processing}, {st: segment.Orphans, linkTo: segment.Processing}}, []string{"orphans/0.arrow"}},
		{"requeue cut", segment.ByDrain, []file{{st: segment.Orphans}, {st: segment.Sealed, linkTo: segment.Orphans}}, []string{"orphans/0.arrow"}},
		{"quarantine cut", segment.ByDrain, []file{{st: segment.Processing}, {st: segment.Poison, linkTo: segment.Processing}}, []string{"poison/0.arrow"}},
		{"stale cut", segment.ByDrain, []file{{st: segment.Processing}, {st: segment.Stale, linkTo: segment.Processing}}, []string{"stale/" + staleDir + "/0.arrow"}},
		{"three names", segment.ByDrain, []file{{st: segment.Sealed}, {st: segment.Processing, linkTo: segment.Sealed}, {st: segment.Committed, linkTo: segment.Sealed}}, []string{"committed/0.arrow"}},
		{"equal copies", segment.ByDrain, []file{{st: segment.Sealed, content: long}, {st: segment.Committed, content: long}}, []string{"committed/0.arrow"}},
		{"longer copy lower", segment.ByDrain, []file{{st: segment.Sealed, content: long + "tail"}, {st: segment.Committed, content: long}}, []string{"sealed/0.arrow"}},
		{"longer copy higher", segment.ByDrain, []file{{st: segment.Sealed, content: long}, {st: segment.Committed, content: long + "tail"}}, []string{"committed/0.arrow"}},
		{"an empty copy", segment.ByDrain, []file{{st: segment.Sealed, content: long}, {st: segment.Committed, content: ""}}, []string{"sealed/0.arrow"}},
		{"header and end of stream are no body", segment.ByDrain, []file{
			{st: segment.Sealed, content: framed(frame.Header{MinTime: 5, Table: newTable}, long+"tail"+eos)}, {st: segment.Processing, content: framed(frame.Header{Partial: true}, long+eos)},
		}, []string{"sealed/0.arrow"}},
		{"same body, other header", segment.ByDrain, []file{
			{st: segment.Sealed, content: framed(frame.Header{MinTime: 5, Table: newTable}, long+eos)}, {st: segment.Processing, content: framed(frame.Header{Partial: true}, long)},
		}, []string{"processing/0.arrow"}},
		{"contradiction", segment.ByDrain, []file{{st: segment.Sealed, content: long + "a"}, {st: segment.Committed, content: long + "b"}}, []string{"poison/0.arrow", "poison/0.arrow.2"}},
		{"compressed, other header", segment.ByDrain, []file{
			{st: segment.Sealed, content: framed(frame.Header{Zstd: true, Table: newTable}, "zzz")}, {st: segment.Stale, content: framed(frame.Header{Zstd: true}, "zzz")},
		}, []string{"stale/" + staleDir + "/0.arrow"}},
		{"the same bytes, compressed and not", segment.ByDrain, []file{
			{st: segment.Sealed, content: framed(frame.Header{Zstd: true}, "zzz")}, {st: segment.Committed, content: framed(frame.Header{}, "zzz")},
		}, []string{"poison/0.arrow", "poison/0.arrow.2"}},
		{"a header that lost its check", segment.ByDrain, []file{
			{st: segment.Sealed, content: framed(frame.Header{MinTime: 5}, long+"tail")}, {st: segment.Processing, content: "LWAL\x02\x02??" + strings.Repeat("\x00", 44) + long},
		}, []string{"sealed/0.arrow"}},
		{"a torn header", segment.ByDrain, []file{
			{st: segment.Sealed, content: framed(frame.Header{}, long)}, {st: segment.Processing, content: "LWAL\x02\x02"},
		}, []string{"sealed/0.arrow"}},
		{"contradiction with a poisoned one", segment.ByDrain, []file{{st: segment.Sealed, content: "a"}, {st: segment.Poison, content: "b"}}, []string{"poison/0.arrow", "poison/0.arrow.2"}},
		{
			"three contradict", segment.ByDrain,
			[]file{{st: segment.Sealed, content: "a"}, {st: segment.Orphans, content: "b"}, {st: segment.Committed, content: "c"}},
			[]string{"poison/0.arrow", "poison/0.arrow.2", "poison/0.arrow.3"},
		},
		{"the longest of three", segment.ByDrain, []file{{st: segment.Sealed, content: "ab"}, {st: segment.Orphans, content: "abc"}, {st: segment.Committed, content: "a"}}, []string{"orphans/0.arrow"}},
		{"active is the writer's", segment.ByDrain, []file{{st: segment.Active}, {st: segment.Sealed, linkTo: segment.Active}}, []string{"active/0.arrow.partial", "sealed/0.arrow"}},

		{"seal cut", segment.ByWriter, []file{{st: segment.Active}, {st: segment.Sealed, linkTo: segment.Active}}, []string{"sealed/0.arrow"}},
		{"seal cut, drained meanwhile", segment.ByWriter, []file{{st: segment.Active}, {st: segment.Committed, linkTo: segment.Active}}, []string{"committed/0.arrow"}},
		{"quarantine cut at the writer", segment.ByWriter, []file{{st: segment.Active}, {st: segment.Poison, linkTo: segment.Active}}, []string{"poison/0.arrow.partial"}},
		{"open copy is shorter", segment.ByWriter, []file{{st: segment.Active, content: "a"}, {st: segment.Sealed, content: "ab"}}, []string{"sealed/0.arrow"}},
		{"open copy is longer than what is drained", segment.ByWriter, []file{{st: segment.Active, content: "ab"}, {st: segment.Committed, content: "a"}}, []string{"active/0.arrow.partial", "committed/0.arrow"}},
		{"open copy is longer than the sealed", segment.ByWriter, []file{{st: segment.Active, content: "ab"}, {st: segment.Sealed, content: "a"}}, []string{"sealed/0.arrow", "poison/0.arrow.partial"}},
		{"open copy contradicts", segment.ByWriter, []file{{st: segment.Active, content: "x"}, {st: segment.Sealed, content: "y"}}, []string{"sealed/0.arrow", "poison/0.arrow.partial"}},
		{"the rest is the drain's", segment.ByWriter, []file{{st: segment.Sealed}, {st: segment.Processing, linkTo: segment.Sealed}}, []string{"sealed/0.arrow", "processing/0.arrow"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, l := simLane(t)
			all := ids(2)
			given(t, s, l, all[0], tc.given)
			before := where(t, l, all)
			res, err := l.Resolve(tc.by)
			require.NoError(t, err)
			require.Equal(t, tc.want, where(t, l, all))
			require.Len(t, res.Dropped, max(len(before)-len(tc.want), 0))
			for _, w := range tc.want {
				if name, ok := strings.CutPrefix(w, "poison/"); ok && len(res.Poisoned) > 0 {
					note, err := l.ReadNote(strings.Replace(name, "0", all[0].String(), 1))
					if err == nil { // one that was there already keeps what it had
						require.NotEmpty(t, note.Reason)
					}
				}
			}
			decided := len(res.Dropped)+len(res.Poisoned) > 0
			for n := uint64(0); n < 20 && decided; n++ { // durable, also where the names found were not
				after, err := reopen(s.Crash(simfs.KeepAny, seed(n)))
				require.NoError(t, err)
				require.Equal(t, tc.want, where(t, after, all))
			}
			res, err = l.Resolve(tc.by)
			require.NoError(t, err)
			require.Equal(t, segment.Resolved{}, res, "a second time there is nothing to do")
		})
	}
}

// Copies in poison/ are left as they are: somebody will look at them.
func TestResolve_leaves_poison_alone(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	all := ids(1)
	for suffix, content := range map[string]string{"": "ab", ".2": "a", ".partial": "ab"} {
		place(t, s, l.Path(segment.Poison, all[0].FileName()+suffix), content)
	}
	res, err := l.Resolve(segment.ByDrain)
	require.NoError(t, err)
	require.Equal(t, segment.Resolved{}, res)
	require.Equal(t, []string{"poison/0.arrow", "poison/0.arrow.2", "poison/0.arrow.partial"}, where(t, l, all))
}

const staleDir = "11111111-2222-4333-8444-555555555555"

func given(t *testing.T, s *simfs.FS, l segment.Lane, id segment.ID, files []file) {
	t.Helper()
	at := func(st segment.State) string {
		switch st {
		case segment.Active:
			return l.Path(st, id.PartialName())
		case segment.Stale:
			require.NoError(t, s.MkdirAll(l.Path(st, staleDir)))
			return l.Path(st, staleDir+"/"+id.FileName())
		case segment.Poison:
			for _, f := range files {
				if f.st == st && f.linkTo == segment.Active {
					return l.Path(st, id.PartialName())
				}
			}
		}
		return l.Path(st, id.FileName())
	}
	for _, f := range files {
		if f.linkTo == "" {
			place(t, s, at(f.st), f.content)
		}
	}
	for _, f := range files {
		if f.linkTo != "" {
			require.NoError(t, s.Link(at(f.linkTo), at(f.st)))
		}
	}
}

// ONE-1: no temporary file is left, no note without its segment; what a running writer may be at is left alone.
func TestResolve_cleans(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	all := ids(3)
	placeAll(t, s, l, segment.Poison, all[:1])
	placeAll(t, s, l, segment.Active, all[1:2])
	for _, name := range []string{
		"owner.tmp", "head.tmp",
		"poison/" + all[0].FileName() + ".json",
		"poison/" + all[0].FileName() + ".json.tmp",
		"poison/" + all[1].PartialName() + ".json",
		"poison/" + all[2].FileName() + ".json",
		"poison/" + all[2].FileName() + ".json.tmp",
	} {
		place(t, s, "/wal/default/events/"+name, "")
	}
	for _, tc := range []struct {
		by   segment.Scope
		want []string
	}{
		{segment.ByDrain, []string{"owner.tmp", "head.tmp", "poison/0.arrow.json.tmp", "poison/2.arrow.json", "poison/2.arrow.json.tmp"}},
		{segment.ByWriter, []string{"poison/1.arrow.partial.json"}},
	} {
		res, err := l.Resolve(tc.by)
		require.NoError(t, err)
		for i, name := range res.Temps {
			res.Temps[i] = strings.TrimPrefix(short(name, all), "/wal/default/events/")
		}
		require.Equal(t, segment.Resolved{Temps: tc.want}, res)
	}
}

// A name that a running drain carries on, or back, while the writer resolves is followed.
func TestResolve_beside_a_running_drain(t *testing.T) {
	t.Parallel()
	type hop struct{ from, to segment.State }
	for name, hops := range map[string][]hop{
		"commit":  {{segment.Sealed, segment.Processing}, {segment.Processing, segment.Committed}},
		"release": {{segment.Processing, segment.Sealed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k := 0; ; k++ {
				s, l := simLane(t)
				all := ids(1)
				active := placeAll(t, s, l, segment.Active, all)
				file := all[0].FileName()
				require.NoError(t, s.Link(l.Path(segment.Active, active[0]), l.Path(hops[0].from, file)))
				count, inside := 0, false
				s.SetHook(func(simfs.Op) error {
					if inside {
						return nil
					}
					if count++; count == k+1 {
						inside = true
						for _, h := range hops {
							_, err := l.Move(h.from, h.to, []string{file})
							require.NoError(t, err)
						}
						inside = false
					}
					return nil
				})
				_, err := l.Resolve(segment.ByWriter)
				require.NoError(t, err, "k=%d", k)
				if count <= k {
					require.Positive(t, k)
					return
				}
				require.Equal(t, []string{string(hops[len(hops)-1].to) + "/0.arrow"}, where(t, l, all), "k=%d", k)
			}
		})
	}
}
