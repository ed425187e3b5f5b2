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

const holdsFile = "/wal/default/events/holds"

// kindOf asks the lane what it holds, with kind for the case that nothing says it.
func kindOf(t *testing.T, l segment.Lane, kind string) string {
	t.Helper()
	held, err := l.Hold(kind)
	require.NoError(t, err)
	return held.Kind
}

// The first decides what a lane holds, the others hear it.
func TestHold(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	have, err := l.Holds()
	require.NoError(t, err)
	require.Empty(t, have)
	require.Empty(t, kindOf(t, l, ""), "nothing says it, nothing is decided")
	for _, kind := range []string{"logs", "logs", "traces", ""} {
		require.Equal(t, "logs", kindOf(t, l, kind))
	}
	require.Regexp(t, `^logs [0-9a-f]{8}\n$`, contentOf(t, s, holdsFile))
	for _, bad := range []string{"Logs", "lofs", "../x", "logs\n"} {
		_, l := simLane(t)
		_, err = l.Hold(bad)
		require.ErrorContains(t, err, `want one of ["logs" "traces" "metrics"]`)
	}
	entries, err := s.List("/wal/default/events")
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.HasPrefix(e.Name, "holds."), e.Name)
	}
}

// Files of before have no check.
func TestHold_a_file_of_before(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	place(t, s, holdsFile, "traces\n")
	require.Equal(t, "traces", kindOf(t, l, "logs"))
	require.Equal(t, "traces\n", contentOf(t, s, holdsFile))
}

// LOUD-1: a file that says nothing is never read as no file. The error names it, what is in it and what to do.
func TestHold_a_damaged_file_is_an_error(t *testing.T) {
	t.Parallel()
	other, l := simLane(t)
	events := kindOf(t, l, "logs")
	root, err := segment.Open(other, "/wal")
	require.NoError(t, err)
	require.Equal(t, events, kindOf(t, newLane(t, root, "default", "aaa"), "logs"))
	for _, content := range []string{
		"", "logs", "logs\nlogs\n", "\x00\n", "lofs\n", "audit\n", "logs 00000000\n", "logs \n",
		contentOf(t, other, "/wal/default/aaa/holds"), strings.Replace(contentOf(t, other, holdsFile), "logs", "traces", 1),
	} {
		s, l := simLane(t)
		place(t, s, holdsFile, content)
		_, err := l.Hold("logs")
		require.ErrorIs(t, err, segment.ErrRecord, "%q", content)
		require.ErrorContains(t, err, fmt.Sprintf("%s: %v: it is %q; write logs, traces or metrics", holdsFile, segment.ErrRecord, content))
		require.ErrorContains(t, err, "no segment of the lane says what its rows are")
		require.Equal(t, content, contentOf(t, s, holdsFile))
	}
	s, l := simLane(t)
	require.NoError(t, s.Mkdir(holdsFile))
	_, err = l.Hold("logs")
	require.ErrorContains(t, err, "write logs, traces or metrics")
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
				other = kindOf(t, l, "traces")
				inside = false
			}
			return nil
		})
		mine := kindOf(t, l, "logs")
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
			again := kindOf(t, l, "traces")
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
	require.Equal(t, "logs", kindOf(t, l, "logs"))

	s, l = simLane(t)
	hook, _ := simfs.FailAt(0, simfs.Link.Is, fs.ErrNotExist)
	s.SetHook(hook)
	require.Equal(t, "logs", kindOf(t, l, "logs"))

	s, l = simLane(t)
	hook, _ = simfs.FailAt(0, simfs.Link.Is, syscall.EIO)
	s.SetHook(hook)
	_, err := l.Hold("logs")
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, "logs", kindOf(t, l, "logs"))
}
