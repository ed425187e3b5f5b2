package wal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// pinCut is a log with pinned segments near a limit of the disk, that is cut off while it gives pins up.
type pinCut struct {
	disk      *simfs.FS
	size      int64 // of a segment
	committed []string
	waiting   []string // in sealed/
}

// newPinCut seals six segments, of which three are marked, all pinned and durable.
func newPinCut(t *testing.T) *pinCut {
	t.Helper()
	disk := simfs.New(nil)
	disk.NoLog()
	opt := options(disk, "/wal")
	opt.MaxEvents, opt.Mirror = 1, away{}
	l := open(t, opt)
	for id := range int64(6) {
		_, err := l.Append(t.Context(), request(t, WaitFor, id+1))
		require.NoError(t, err)
		time.Sleep(hotFor / 2) // not hotFor: whether there is a segment ahead would be chance
	}
	synctest.Wait()
	closeLog(t, l)
	all := names(t, disk, "/wal", segment.Sealed)
	p := &pinCut{disk: disk, committed: all[:3], waiting: all[3:]}
	_, err := p.lane(t).Move(segment.Sealed, segment.Committed, p.committed)
	require.NoError(t, err)
	// The segment made ahead was removed without a sync: a cut would bring it back, without a byte.
	require.NoError(t, disk.SyncDir(p.lane(t).Dir(segment.Active)))
	info, err := disk.Stat(p.lane(t).Path(segment.Committed, all[0]))
	require.NoError(t, err)
	p.size = info.Size
	return p
}

func (p *pinCut) lane(t *testing.T) segment.Lane {
	t.Helper()
	root, err := segment.Open(p.disk, "/wal")
	require.NoError(t, err)
	lane, err := root.Lane("t", "events")
	require.NoError(t, err)
	return lane
}

// live is a life of the log that measures the disk once: near its limit by two segments of six, or with room.
func (p *pinCut) live(t *testing.T, short bool, begun func()) {
	t.Helper()
	opt := options(p.disk, "/wal")
	opt.Mirror = away{}
	if short {
		opt.MaxBytes = (6*p.size - 3*p.size/2) * 100 / softShare * 100 / earlyShare
	}
	l, err := Open(t.Context(), opt)
	if err != nil {
		return
	}
	begun()
	look()
	_ = l.Close(t.Context())
}

// check holds what is there against what may be gone: the pins of committed segments alone, and no segment. PIN-1, RET-1.
func (p *pinCut) check(t *testing.T) (pins []string) {
	t.Helper()
	require.Equal(t, p.committed, names(t, p.disk, "/wal", segment.Committed))
	require.Equal(t, p.waiting, names(t, p.disk, "/wal", segment.Sealed))
	require.Len(t, scan(t, p.disk, "/wal"), len(p.committed)+len(p.waiting), "each reads")
	pins = names(t, p.disk, "/wal", segment.MirrorPending)
	require.Subset(t, pins, p.waiting, "of what is not committed every pin stays")
	for _, name := range pins {
		readSegment(t, p.disk, p.lane(t).Path(segment.MirrorPending, name), false)
	}
	return pins
}

// retire does what the drain does with a segment in committed/ that has no pin.
func (p *pinCut) retire(t *testing.T) {
	t.Helper()
	pins := names(t, p.disk, "/wal", segment.MirrorPending)
	pinned := func(name string) bool { return slices.Contains(pins, name) }
	require.NoError(t, p.lane(t).Retire(slices.DeleteFunc(slices.Clone(p.committed), pinned)))
	p.committed = slices.DeleteFunc(p.committed, func(name string) bool { return !pinned(name) })
}

// PIN-1: the log is cut off before each operation of a life in which it gives pins up, under each policy. What it keeps is
// whole; the next life near the limit gives up what it takes, and one with room leaves the rest for the mirror's sweep.
func TestSweep_pins(t *testing.T) {
	t.Parallel()
	for _, policy := range simfs.Policies() {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			given, back := 0, 0
			for k := 0; ; k++ {
				fired := false
				synctest.Test(t, func(t *testing.T) {
					p := newPinCut(t)
					hook, isFired := simfs.CutAt(k)
					p.live(t, true, func() { p.disk.SetHook(hook) })
					fired = isFired()
					left := len(names(t, p.disk.Crash(simfs.KeepAll, rand.New(rand.NewPCG(1, 1))), "/wal", segment.MirrorPending))
					p.disk = p.disk.Crash(policy, rand.New(rand.NewPCG(uint64(k), uint64(policy))))
					pins := p.check(t)
					if left < 6 {
						given++
						if len(pins) > left {
							back++
						}
					}
					p.live(t, false, func() {})
					require.Equal(t, pins, p.check(t), "with room no pin goes")
					p.retire(t)
					p.live(t, true, func() {})
					p.check(t)
					p.retire(t)
					require.Len(t, p.committed, 1, "as many as it takes")
					require.Len(t, p.check(t), 4)
				})
				if !fired {
					break
				}
			}
			require.Greater(t, given, 2)
			if policy == simfs.KeepNone {
				require.Positive(t, back, "the cut before the sync brings pins back")
			}
		})
	}
}
