package segment_test

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// What a schema says, and what the name of an index says, is what otelarrow means by it.
func TestKind_is_the_signal(t *testing.T) {
	t.Parallel()
	for s := otelarrow.Logs; s <= otelarrow.Metrics; s++ {
		require.Equal(t, s.String(), segment.KindOf(otelarrow.WALSchema(s)))
		require.Equal(t, s.String(), segment.KindOfIndex(s.Table()))
	}
	require.Empty(t, segment.KindOfIndex("audit"))
	require.Empty(t, segment.KindOf(arrow.NewSchema(nil, nil)))
	odd := arrow.MetadataFrom(map[string]string{"siglake.signal": "profiles"})
	require.Empty(t, segment.KindOf(arrow.NewSchema(nil, &odd)))
}

// placeKind puts a segment of a signal into a state.
func placeKind(t *testing.T, fsys vfs.FS, l segment.Lane, st segment.State, id segment.ID, s otelarrow.Signal) string {
	t.Helper()
	schema, err := frame.EncodeSchema(id.Name(otelarrow.WALSchema(s)))
	require.NoError(t, err)
	h := frame.Header{Partial: true}.Encode()
	name := id.FileName()
	switch st {
	case segment.Active:
		name = id.PartialName()
	case segment.Stale:
		require.NoError(t, fsys.MkdirAll(l.Path(st, oldTable.String())))
		name = oldTable.String() + "/" + name
	default:
	}
	place(t, fsys, l.Path(st, name), string(h[:])+string(schema))
	return string(st) + "/" + name
}

// Where holds is missing or damaged the segments decide, in whatever state, and not the request that comes first.
func TestHold_the_segments_decide(t *testing.T) {
	t.Parallel()
	for _, st := range states {
		for _, damage := range []string{"", "lofs\n"} {
			s, l := simLane(t)
			if damage != "" {
				place(t, s, holdsFile, damage)
			}
			from := placeKind(t, s, l, st, ids(1)[0], otelarrow.Logs)
			held, err := l.Hold("traces")
			require.NoError(t, err, st)
			require.Equal(t, segment.Held{Kind: "logs", From: from, Mended: held.Mended}, held)
			require.Equal(t, damage != "", held.Mended != nil)
			if damage != "" {
				require.ErrorContains(t, held.Mended, `"lofs\n"`)
			}
			l, err = reopen(s.Crash(simfs.KeepNone, rand.New(rand.NewPCG(1, 1))))
			require.NoError(t, err)
			require.Equal(t, "logs", kindOf(t, l, "traces"), "after a crash")
		}
	}
}

// What is in a table counts for more than what waits, and one segment of each state is read.
func TestHold_segments_that_contradict(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	all := ids(5)
	placeKind(t, s, l, segment.Committed, all[0], otelarrow.Logs)
	placeKind(t, s, l, segment.Sealed, all[1], otelarrow.Traces)
	placeKind(t, s, l, segment.Sealed, all[2], otelarrow.Traces)
	place(t, s, l.Path(segment.Poison, all[3].FileName()), "no segment")
	before := len(s.Ops())
	require.Equal(t, "logs", kindOf(t, l, "traces"))
	opened := 0
	for _, op := range s.Ops()[before:] {
		if op.Kind == simfs.Open && strings.Contains(op.Name, ".arrow") {
			opened++
		}
	}
	require.Equal(t, 3, opened)
}

// A segment that is damaged, another's or of no signal says nothing; a disk that does not give it is no answer either.
func TestHold_segments_that_say_nothing(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	all := ids(2)
	place(t, s, l.Path(segment.Sealed, all[0].FileName()), body(all[0]))
	placeKind(t, s, l, segment.Committed, all[1], otelarrow.Logs)
	require.NoError(t, s.Rename(l.Path(segment.Committed, all[1].FileName()), l.Path(segment.Committed, all[0].FileName())))
	s.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Open && strings.Contains(op.Name, ".arrow") {
			return syscall.EACCES
		}
		return nil
	})
	_, err := l.Hold("traces")
	require.ErrorIs(t, err, syscall.EACCES, "nothing is decided where a segment could not be asked")
	s.SetHook(nil)
	require.Equal(t, "traces", kindOf(t, l, "traces"))
}

// A file is mended in one step: cut after every operation, it is damaged as before or right.
func TestSweep_Hold_mends(t *testing.T) {
	t.Parallel()
	for k := 0; ; k++ {
		s, l := simLane(t)
		place(t, s, holdsFile, "lofs\n")
		placeKind(t, s, l, segment.Sealed, ids(1)[0], otelarrow.Logs)
		hook, fired := simfs.CutAt(k)
		s.SetHook(hook)
		_, err := l.Hold("traces")
		for _, p := range simfs.Policies() {
			after, rerr := reopen(s.Crash(p, rand.New(rand.NewPCG(uint64(k), uint64(p)))))
			require.NoError(t, rerr)
			have, rerr := after.Holds()
			if rerr != nil {
				require.ErrorIs(t, rerr, segment.ErrRecord, "k=%d %s", k, p)
				require.Error(t, err, "k=%d %s: it was answered", k, p)
			} else {
				require.Equal(t, "logs", have, "k=%d %s", k, p)
			}
			require.Equal(t, "logs", kindOf(t, after, "traces"), "k=%d %s", k, p)
		}
		if !fired() {
			require.NoError(t, err)
			return
		}
	}
}
