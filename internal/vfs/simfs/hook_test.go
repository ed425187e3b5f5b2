package simfs_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

func strs(ops []simfs.Op) []string {
	out := make([]string, len(ops))
	for i, op := range ops {
		out[i] = op.String()
	}
	return out
}

// The log tells every operation in order with what it returned.
func TestOps(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	require.NoError(t, s.MkdirAll("/a/b"))
	require.NoError(t, vfs.WriteFile(s, "/a/b/f", []byte("rows")))
	require.NoError(t, s.Link("/a/b/f", "/a/g"))
	_, err := s.Stat("/none")
	require.Error(t, err)
	require.Equal(t, []string{
		"0 syncdir /", "1 mkdir /a", "2 syncdir /", "3 mkdir /a/b", "4 syncdir /a",
		"5 create /a/b/f.tmp", "6 writev /a/b/f.tmp [0+4]", "7 sync /a/b/f.tmp", "8 close /a/b/f.tmp",
		"9 rename /a/b/f.tmp -> /a/b/f", "10 syncdir /a/b", "11 link /a/b/f -> /a/g",
		"12 stat /none: stat /none: no such file or directory",
	}, strs(s.Ops()))
}

// A machine that is off answers nothing, and the operation it went off before has not happened.
func TestHook_cut(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	f, err := s.Create("/f")
	require.NoError(t, err)
	hook, fired := simfs.CutAt(1) // the sync; reads do not count
	s.SetHook(hook)
	_, err = f.Writev([][]byte{[]byte("rows")})
	require.NoError(t, err)
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err)
	require.False(t, fired())
	require.ErrorIs(t, f.Sync(), simfs.ErrOff)
	require.True(t, fired())
	_, err = s.Stat("/f")
	require.ErrorIs(t, err, simfs.ErrOff)
	require.ErrorIs(t, s.MkdirAll("/d"), simfs.ErrOff)
	require.ErrorIs(t, f.Close(), simfs.ErrOff)
	require.Empty(t, names("/f")(s.Crash(simfs.KeepNone, seed(1))))
	after := s.Crash(simfs.KeepAll, seed(1))
	require.Equal(t, "rows", content("/f")(after), "the new machine is on")
}

// A fault has no effect but its error.
func TestHook_fault(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	require.NoError(t, s.MkdirAll("/a"))
	put(t, s, "/a/f", "rows")
	for kind, call := range map[simfs.Kind]func() error{
		simfs.Create: func() error { _, err := s.Create("/a/g"); return err },
		simfs.Link:   func() error { return s.Link("/a/f", "/a/g") },
		simfs.Rename: func() error { return s.Rename("/a/f", "/a/g") },
		simfs.Remove: func() error { return s.Remove("/a/f") },
		simfs.Mkdir:  func() error { return s.MkdirAll("/a/d") },
		simfs.Lock:   func() error { _, err := s.Lock("/a/l", "x"); return err },
		simfs.List:   func() error { _, err := s.List("/a"); return err },
	} {
		hook, fired := simfs.FailAt(0, kind.Is, syscall.EIO)
		s.SetHook(hook)
		require.ErrorIs(t, call(), syscall.EIO, kind)
		require.True(t, fired())
		require.Equal(t, "/a/f", names("/a/f", "/a/g", "/a/d", "/a/l")(s), kind)
	}
}

// A full disk: part of the write is in the file, and the error says why.
func TestHook_short_write(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	f, err := s.Create("/f")
	require.NoError(t, err)
	hook, _ := simfs.FailAt(1, simfs.Writev.Is, &simfs.ShortWrite{Bytes: 2, Err: syscall.ENOSPC})
	s.SetHook(hook)
	_, err = f.Writev([][]byte{[]byte("one")})
	require.NoError(t, err)
	n, err := f.Writev([][]byte{[]byte("two")})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.EqualValues(t, 2, n)
	require.Equal(t, "onetw", content("/f")(s))
	require.NoError(t, f.Truncate(3))
	_, err = f.Writev([][]byte{[]byte("three")})
	require.NoError(t, err)
	require.Equal(t, "onethree", content("/f")(s))
}

// A hook may use the disk: that is how a test puts one operation inside another.
func TestHook_may_use_the_disk(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	put(t, s, "/f", "")
	s.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Link {
			return s.Remove("/f")
		}
		return nil
	})
	require.ErrorIs(t, s.Link("/f", "/g"), fs.ErrNotExist)
}

func TestSetSpace(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	s.SetSpace(vfs.Space{Free: 5, Total: 10})
	sp, err := s.Space("/")
	require.NoError(t, err)
	require.Equal(t, vfs.Space{Free: 5, Total: 10}, sp)
}

// Locks die with the machine, their file stays.
func TestLock_dies_with_the_machine(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	_, err := s.Lock("/LOCK", "old")
	require.NoError(t, err)
	var held *vfs.LockedError
	_, err = s.Lock("/LOCK", "new")
	require.ErrorAs(t, err, &held)
	_, err = s.Crash(simfs.KeepAll, seed(1)).Lock("/LOCK", "new")
	require.NoError(t, err)
}

// A killed process frees its locks and the others on the machine go on; what it wrote is still there.
func TestProcess(t *testing.T) {
	t.Parallel()
	s := simfs.New(nil)
	p := s.Process()
	cut, fired := simfs.CutAt(2)
	p.SetHook(cut)
	_, err := p.Lock("/LOCK", "p")
	require.NoError(t, err)
	f, err := p.Create("/f")
	require.NoError(t, err)
	_, err = s.Lock("/LOCK", "s")
	require.ErrorAs(t, err, new(*vfs.LockedError))
	require.ErrorIs(t, f.Sync(), simfs.ErrOff)
	require.True(t, fired())
	_, err = p.Stat("/f")
	require.ErrorIs(t, err, simfs.ErrOff)
	held, err := s.Lock("/LOCK", "s")
	require.NoError(t, err)
	_, err = s.Stat("/f")
	require.NoError(t, err)
	s.Process().PowerOff()
	_, err = s.Process().Lock("/LOCK", "q")
	require.ErrorAs(t, err, new(*vfs.LockedError), "the lock of a living process")
	require.NoError(t, held.Close())
}
