package segment_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

const writer = "070000000000" // of ids

// A number is accounted for in whatever state its segment is; a removed one is a gap if a later one was sealed.
func TestGaps_in_every_state(t *testing.T) {
	t.Parallel()
	for _, st := range states {
		t.Run(string(st), func(t *testing.T) {
			t.Parallel()
			s, l := simLane(t)
			all := ids(5)
			if st == segment.Stale {
				require.NoError(t, s.MkdirAll(l.Path(st, newTable.String())))
				for _, id := range all {
					place(t, s, l.Path(st, newTable.String()+"/"+id.FileName()), "")
				}
			} else {
				placeAll(t, s, l, st, all)
			}
			requireGaps(t, l)
			entries, _, err := l.List(st)
			require.NoError(t, err)
			for _, i := range []int{0, 2, 3} {
				require.NoError(t, s.Remove(l.Path(st, entries[i].Name)))
			}
			if st == segment.Active {
				requireGaps(t, l) // an open segment proves nothing
				_, err := l.Seal(all[4].PartialName())
				require.NoError(t, err)
			}
			requireGaps(t, l, gap(1, 1), gap(3, 4))
			require.NoError(t, s.Remove(l.Path(st, entries[1].Name)))
			requireGaps(t, l, gap(1, 4))
			last := entries[4].Name
			if st == segment.Active {
				st, last = segment.Sealed, all[4].FileName()
			}
			require.NoError(t, s.Remove(l.Path(st, last)))
			requireGaps(t, l) // nothing is left that says there ever was one
		})
	}
}

func gap(first, last uint64) segment.Gap {
	return segment.Gap{Writer: writer, First: first, Last: last}
}

func requireGaps(t *testing.T, l segment.Lane, want ...segment.Gap) {
	t.Helper()
	got, err := l.Gaps()
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
}

// Retired and void numbers are no gaps, a lane that was drained without a record begins with what it has, and a
// gap in the record is shown as reported until it is acknowledged.
func TestGaps_and_the_record(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	all := ids(8)
	placeAll(t, s, l, segment.Committed, all[3:4])
	placeAll(t, s, l, segment.Sealed, all[7:])
	requireGaps(t, l, gap(1, 3), gap(5, 7))
	require.NoError(t, l.WriteHead(segment.Head{Table: newTable}))
	requireGaps(t, l)

	var n segment.Numbers
	n.Settle(all[:3])
	require.NoError(t, l.WriteNumbers(n))
	requireGaps(t, l, gap(5, 7))
	require.NoError(t, l.MarkVoid(all[5]))
	require.NoError(t, l.MarkVoid(all[5]), "twice is once")
	requireGaps(t, l, gap(5, 5), gap(7, 7))

	c, err := l.Census()
	require.NoError(t, err)
	require.True(t, n.Fold(c))
	require.False(t, n.Fold(c), "no news")
	require.NoError(t, l.WriteNumbers(n))
	require.NoError(t, l.RemoveVoids(c))
	five, seven := gap(5, 5), gap(7, 7)
	five.Reported, seven.Reported = true, true
	requireGaps(t, l, five, seven)

	place(t, s, l.Path("", writer+"-5-7.void"), "") // an operator acknowledges
	c, err = l.Census()
	require.NoError(t, err)
	require.True(t, n.Fold(c))
	require.NoError(t, l.WriteNumbers(n))
	require.NoError(t, l.RemoveVoids(c))
	requireGaps(t, l)
	require.Equal(t, []segment.WriterNumbers{{Writer: writer, Top: 3, Settled: segment.Spans{{1, 3}, {5, 7}}}}, n.Writers)

	require.NoError(t, s.Remove(l.Path(segment.Committed, all[3].FileName())))
	requireGaps(t, l, gap(4, 4)) // neither retired nor acknowledged
	n.Settle(all[7:])
	require.NoError(t, s.Remove(l.Path(segment.Sealed, all[7].FileName())))
	require.NoError(t, l.WriteNumbers(n))
	requireGaps(t, l, gap(4, 4)) // the record alone proves it
}

// mover moves segments on before a listing, as a writer, its recovery and a drain do.
type mover struct {
	t      *testing.T
	fs     *simfs.FS
	l      segment.Lane
	all    []segment.ID
	rng    *rand.Rand
	drain  bool // segments go beyond sealed/, too
	at     []segment.State
	record segment.Numbers
	busy   bool
	moves  int
}

func (m *mover) hook(op simfs.Op) error {
	if op.Kind != simfs.List || m.busy {
		return nil
	}
	m.busy = true
	defer func() { m.busy = false }()
	for range m.rng.IntN(12) {
		if i := m.rng.IntN(len(m.at) + 1); i < len(m.at) {
			m.move(i)
		} else if i < len(m.all) {
			placeAll(m.t, m.fs, m.l, segment.Active, m.all[i:i+1])
			m.at = append(m.at, segment.Active)
		}
		m.moves++
	}
	return nil
}

// move takes one segment one state further. A number is not sealed before the one below is dealt with.
func (m *mover) move(i int) {
	id, st := m.all[i], m.at[i]
	var err error
	next := map[segment.State]segment.State{segment.Sealed: segment.Processing, segment.Processing: segment.Committed}[st]
	switch {
	case st == segment.Active && i > 0 && m.at[i-1] == segment.Active:
		return
	case st == segment.Active && m.rng.IntN(4) == 0: // without a row
		m.at[i] = ""
		err = errors.Join(m.l.MarkVoid(id), m.fs.Remove(m.l.Path(st, id.PartialName())))
	case st == segment.Active && m.rng.IntN(4) == 0:
		m.at[i] = segment.Poison
		err = errors.Join(m.l.MarkVoid(id), m.l.Quarantine(st, id.PartialName(), note))
	case st == segment.Active:
		m.at[i] = segment.Sealed
		_, err = m.l.Seal(id.PartialName())
	case m.drain && next != "":
		m.at[i] = next
		_, err = m.l.Move(st, next, []string{id.FileName()})
	case m.drain && st == segment.Committed:
		m.at[i] = ""
		m.record.Settle([]segment.ID{id})
		err = errors.Join(m.l.WriteNumbers(m.record), m.l.Retire([]string{id.FileName()}))
	}
	require.NoError(m.t, err)
}

// Whoever lists a lane misses nothing that is there, whatever moves on between any two listings: the drain beside a
// writer and its recovery, Gaps beside a drain, too.
func TestGaps_beside_moves(t *testing.T) {
	t.Parallel()
	moves := 0
	for n := range uint64(400) {
		s, l := simLane(t)
		m := &mover{t: t, fs: s, l: l, all: ids(8), rng: rand.New(rand.NewPCG(n, 1)), drain: n%2 == 1}
		placeAll(t, s, l, segment.Active, m.all[:2])
		m.at = []segment.State{segment.Active, segment.Active}
		s.SetHook(m.hook)
		if m.drain {
			got, err := l.Gaps()
			require.NoError(t, err)
			require.Empty(t, got, fmt.Sprint("seed ", n))
		} else {
			c, err := l.Census()
			require.NoError(t, err)
			require.Empty(t, c.Gaps(segment.Numbers{}), fmt.Sprint("seed ", n))
		}
		moves += m.moves
	}
	require.Greater(t, moves, 400)
}
