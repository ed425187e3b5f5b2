package segment_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// The first decides what a lane holds, the others hear it.
func TestHold(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	have, err := l.Holds()
	require.NoError(t, err)
	require.Empty(t, have)
	for _, kind := range []string{"logs", "logs", "traces"} {
		have, err = l.Hold(kind)
		require.NoError(t, err)
		require.Equal(t, "logs", have)
	}
	require.Equal(t, "logs\n", contentOf(t, s, "/wal/default/events/holds"))
	for _, bad := range []string{"", "Logs", "a b", "../x", strings.Repeat("x", 33)} {
		_, err = l.Hold(bad)
		require.ErrorContains(t, err, "want ^[a-z]{1,32}$")
	}
	entries, err := s.List("/wal/default/events")
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.HasPrefix(e.Name, "holds."), e.Name)
	}
}

// LOUD-1: a file that says nothing is never read as no file.
func TestHold_a_damaged_file_is_an_error(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "logs", "logs\nlogs\n", "\x00\n"} {
		s, l := simLane(t)
		place(t, s, "/wal/default/events/holds", content)
		_, err := l.Hold("logs")
		require.ErrorContains(t, err, "says nothing about the rows of the lane", "%q", content)
	}
}

// Two writers of a shared root, one put inside the other at every operation: both hear the same.
func TestHold_two_at_once(t *testing.T) {
	t.Parallel()
	for k := 0; ; k++ {
		s, l := simLane(t)
		n, inside, other := 0, false, ""
		s.SetHook(func(simfs.Op) error {
			if inside {
				return nil
			}
			if n++; n-1 == k {
				inside = true
				var err error
				other, err = l.Hold("traces")
				require.NoError(t, err)
				inside = false
			}
			return nil
		})
		mine, err := l.Hold("logs")
		require.NoError(t, err)
		if other == "" {
			require.Greater(t, k, 5)
			return
		}
		require.Equal(t, mine, other, "at %d", k)
	}
}

// Cut after every operation: the next process finds what was answered, or decides anew, and a drain leaves no draft.
func TestSweep_Hold(t *testing.T) {
	t.Parallel()
	for k := 0; ; k++ {
		s, l := simLane(t)
		hook, fired := simfs.CutAt(k)
		s.SetHook(hook)
		_, err := l.Hold("logs")
		for _, p := range simfs.Policies() {
			where := fmt.Sprintf("k=%d %s", k, p)
			after := s.Crash(p, rand.New(rand.NewPCG(uint64(k), uint64(p))))
			l, rerr := reopen(after)
			require.NoError(t, rerr)
			have, rerr := l.Holds()
			require.NoError(t, rerr, where)
			if err == nil {
				require.Equal(t, "logs", have, where)
			}
			_, rerr = l.Resolve(segment.ByDrain)
			require.NoError(t, rerr)
			entries, rerr := after.List("/wal/default/events")
			require.NoError(t, rerr)
			for _, e := range entries {
				require.False(t, strings.HasPrefix(e.Name, "holds."), "%s: %s", where, e.Name)
			}
			again, rerr := l.Hold("traces")
			require.NoError(t, rerr, where)
			if have == "" {
				have = "traces"
			}
			require.Equal(t, have, again, where)
			final, rerr := reopen(after.Crash(simfs.KeepNone, rand.New(rand.NewPCG(1, 1))))
			require.NoError(t, rerr)
			kept, rerr := final.Holds()
			require.NoError(t, rerr)
			require.Equal(t, have, kept, where)
		}
		if !fired() {
			require.NoError(t, err)
			return
		}
	}
}

// A volume without links, a drain that removes the draft, and a disk that refuses.
func TestHold_links(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	s.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Link {
			return syscall.EPERM
		}
		return nil
	})
	have, err := l.Hold("logs")
	require.NoError(t, err)
	require.Equal(t, "logs", have)

	s, l = simLane(t)
	hook, _ := simfs.FailAt(0, simfs.Link.Is, fs.ErrNotExist)
	s.SetHook(hook)
	have, err = l.Hold("logs")
	require.NoError(t, err)
	require.Equal(t, "logs", have)

	s, l = simLane(t)
	hook, _ = simfs.FailAt(0, simfs.Link.Is, syscall.EIO)
	s.SetHook(hook)
	_, err = l.Hold("logs")
	require.ErrorIs(t, err, syscall.EIO)
	have, err = l.Hold("logs")
	require.NoError(t, err)
	require.Equal(t, "logs", have)
}
