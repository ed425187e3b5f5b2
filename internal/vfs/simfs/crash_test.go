package simfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

func seed(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 1)) }

// outcomes crashes a disk many times and counts what look says.
func outcomes(s *simfs.FS, p simfs.Policy, look func(*simfs.FS) string) map[string]bool {
	out := map[string]bool{}
	for n := range uint64(200) {
		out[look(s.Crash(p, seed(n)))] = true
	}
	return out
}

func set(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

func disk(t *testing.T, dirs ...string) *simfs.FS {
	t.Helper()
	s := simfs.New(nil)
	for _, d := range dirs {
		require.NoError(t, s.MkdirAll(d))
	}
	return s
}

func content(name string) func(*simfs.FS) string {
	return func(s *simfs.FS) string {
		b, err := vfs.ReadFile(s, name)
		if errors.Is(err, fs.ErrNotExist) {
			return "-"
		}
		return string(b)
	}
}

func names(list ...string) func(*simfs.FS) string {
	return func(s *simfs.FS) (out string) {
		for _, name := range list {
			if _, err := s.Stat(name); err == nil {
				out += name
			}
		}
		return out
	}
}

// Sync saves bytes and no name, SyncDir the name and no bytes.
func TestCrash_name_and_bytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                    string
		sync, syncDir           bool
		none, prefix, any, kill map[string]bool
	}{
		{"neither", false, false, set("-"), set("-", "", "rows"), set("-", "", "rows", "\x00\x00\x00\x00"), set("rows")},
		{"bytes", true, false, set("-"), set("-", "rows"), set("-", "rows"), set("rows")},
		{"name", false, true, set(""), set("", "rows"), set("", "rows", "\x00\x00\x00\x00"), set("rows")},
		{"both", true, true, set("rows"), set("rows"), set("rows"), set("rows")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := disk(t, "/d")
			f, err := s.Create("/d/f")
			require.NoError(t, err)
			_, err = f.Writev([][]byte{[]byte("rows")})
			require.NoError(t, err)
			if tc.sync {
				require.NoError(t, f.Sync())
			}
			if tc.syncDir {
				require.NoError(t, s.SyncDir("/d"))
			}
			require.Equal(t, tc.none, outcomes(s, simfs.KeepNone, content("/d/f")))
			require.Equal(t, tc.prefix, outcomes(s, simfs.KeepPrefix, content("/d/f")))
			require.Equal(t, tc.any, outcomes(s, simfs.KeepAny, content("/d/f")))
			require.Equal(t, tc.kill, outcomes(s, simfs.KeepAll, content("/d/f")))
			require.Equal(t, "rows", content("/d/f")(s), "the old disk goes on")
		})
	}
}

// kill -9 keeps what was not synced readable, and a power loss after it can still take it.
func TestCrash_kill_makes_nothing_durable(t *testing.T) {
	t.Parallel()
	s := disk(t, "/d")
	put(t, s, "/d/f", "rows") // synced, not its name
	killed := s.Crash(simfs.KeepAll, seed(1))
	require.Equal(t, "rows", content("/d/f")(killed))
	require.Equal(t, "-", content("/d/f")(killed.Crash(simfs.KeepNone, seed(1))))
	require.NoError(t, killed.SyncDir("/d"))
	require.Equal(t, "rows", content("/d/f")(killed.Crash(simfs.KeepNone, seed(1))))
	require.Equal(t, "-", content("/d/f")(s.Crash(simfs.KeepNone, seed(1))), "two disks")

	f, err := killed.OpenRW("/d/f")
	require.NoError(t, err)
	_, err = f.Writev([][]byte{[]byte(" and more")})
	require.NoError(t, err)
	again := killed.Crash(simfs.KeepAll, seed(1))
	require.Equal(t, "rows and more", content("/d/f")(again))
	require.Equal(t, "rows", content("/d/f")(again.Crash(simfs.KeepNone, seed(1))))
	f, err = again.Open("/d/f")
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.Equal(t, "rows and more", content("/d/f")(again.Crash(simfs.KeepNone, seed(1))))
}

// Hard links stay one inode; an unsynced remove may or may not have happened.
func TestCrash_links(t *testing.T) {
	t.Parallel()
	s := disk(t, "/a", "/b")
	put(t, s, "/a/x", "rows")
	require.NoError(t, s.SyncDir("/a"))
	require.NoError(t, s.Link("/a/x", "/b/x"))
	require.NoError(t, s.SyncDir("/b"))
	require.NoError(t, s.Remove("/a/x"))
	look := func(c *simfs.FS) string {
		if both := names("/a/x", "/b/x")(c); both != "/a/x/b/x" {
			return both
		}
		require.Equal(t, inode(t, c, "/a/x"), inode(t, c, "/b/x"))
		f, err := c.OpenRW("/a/x")
		require.NoError(t, err)
		_, err = f.Writev([][]byte{[]byte("+")})
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, "rows+", content("/b/x")(c))
		return "both"
	}
	require.Equal(t, set("/b/x", "both"), outcomes(s, simfs.KeepAny, look))
	require.Equal(t, set("both"), outcomes(s, simfs.KeepNone, look))
	require.Equal(t, set("/b/x"), outcomes(s, simfs.KeepAll, look))
}

// A rename in one directory is atomic. One between directories can lose both names on a disk without order, and
// only there: the reason for segment.Lane.Move.
func TestCrash_rename(t *testing.T) {
	t.Parallel()
	s := disk(t, "/a", "/b")
	put(t, s, "/a/x", "rows")
	require.NoError(t, s.SyncDir("/a"))
	require.NoError(t, s.Rename("/a/x", "/a/y"))
	require.Equal(t, set("/a/x", "/a/y"), outcomes(s, simfs.KeepAny, names("/a/x", "/a/y")))
	require.NoError(t, s.SyncDir("/a"))
	require.NoError(t, s.Rename("/a/y", "/b/y"))
	require.Equal(t, set("", "/a/y", "/b/y", "/a/y/b/y"), outcomes(s, simfs.KeepAny, names("/a/y", "/b/y")))
	require.Equal(t, set("/a/y", "/b/y"), outcomes(s, simfs.KeepPrefix, names("/a/y", "/b/y")))
	require.NoError(t, s.SyncDir("/a"))
	require.Equal(t, set(""), outcomes(s, simfs.KeepNone, names("/a/y", "/b/y")), "source synced before destination")
}

// A directory that nobody synced takes with it what was synced inside.
func TestCrash_directory(t *testing.T) {
	t.Parallel()
	s := disk(t, "/a")
	hook, fired := simfs.FailAt(1, simfs.SyncDir.Is, errors.New("EIO")) // the one after mkdir
	s.SetHook(hook)
	require.Error(t, s.MkdirAll("/a/b"))
	require.True(t, fired())
	s.SetHook(nil)
	put(t, s, "/a/b/x", "rows")
	require.NoError(t, s.SyncDir("/a/b"))
	require.Empty(t, names("/a/b", "/a/b/x")(s.Crash(simfs.KeepNone, seed(1))))
	// What an earlier process left unsynced, MkdirAll makes durable.
	require.NoError(t, s.MkdirAll("/a/b"))
	require.Equal(t, "rows", content("/a/b/x")(s.Crash(simfs.KeepNone, seed(1))))
}

// MkdirAll cut after any operation and tried again by the next process names every directory durably.
func TestCrash_mkdirall_after_kill(t *testing.T) {
	t.Parallel()
	for k := 0; ; k++ {
		s := disk(t, "/data")
		hook, fired := simfs.CutAt(k)
		s.SetHook(hook)
		err := s.MkdirAll("/data/a/b/c")
		if !fired() {
			require.NoError(t, err)
			require.Greater(t, k, 5)
			return
		}
		require.ErrorIs(t, err, simfs.ErrOff)
		killed := s.Crash(simfs.KeepAll, seed(1))
		require.NoError(t, killed.MkdirAll("/data/a/b/c"))
		require.Equal(t, "/data/a/b/c", names("/data/a/b/c")(killed.Crash(simfs.KeepNone, seed(1))), "k=%d", k)
	}
}

// After a failed Sync the bytes are readable and lost; a later Sync saves only what was written after it.
func TestCrash_failed_sync(t *testing.T) {
	t.Parallel()
	s := disk(t, "/d")
	f, err := s.Create("/d/f")
	require.NoError(t, err)
	require.NoError(t, s.SyncDir("/d"))
	_, err = f.Writev([][]byte{[]byte("one")})
	require.NoError(t, err)
	hook, _ := simfs.FailAt(0, simfs.Sync.Is, syscall.EIO)
	s.SetHook(hook)
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.NoError(t, f.Sync(), "the kernel forgot")
	_, err = f.Writev([][]byte{[]byte("two")})
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.Equal(t, "onetwo", content("/d/f")(s))
	for _, p := range []simfs.Policy{simfs.KeepNone, simfs.KeepPrefix, simfs.KeepAny} {
		require.Equal(t, set("\x00\x00\x00two"), outcomes(s, p, content("/d/f")), p)
	}
}

// Without order any sector of a write may be missing; in order only the end.
func TestCrash_torn_write(t *testing.T) {
	t.Parallel()
	s := disk(t, "/d")
	f, err := s.Create("/d/f")
	require.NoError(t, err)
	require.NoError(t, s.SyncDir("/d"))
	_, err = f.Writev([][]byte{bytes.Repeat([]byte{'a'}, 700)}) // sectors 0 and 1
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.Writev([][]byte{bytes.Repeat([]byte{'b'}, 1000)}) // sectors 1, 2, 3
	require.NoError(t, err)
	look := func(c *simfs.FS) string {
		b := []byte(content("/d/f")(c))
		require.Equal(t, bytes.Repeat([]byte{'a'}, 700), b[:700], "synced bytes stay, also in a sector written again")
		out := fmt.Sprint(len(b), " ")
		for _, off := range []int{700, 1024, 1536} {
			if off < len(b) {
				out += string(b[off])
			}
		}
		return out
	}
	require.Equal(t, set("700 ", "1024 b", "1536 bb", "1700 bbb"), outcomes(s, simfs.KeepPrefix, look))
	require.Equal(t, set("700 ", "1024 b", "1536 bb", "1700 bbb", "1536 \x00b", "1700 \x00\x00b", "1700 b\x00b", "1700 \x00bb",
		"1700 \x00\x00\x00", "1700 b\x00\x00", "1700 bb\x00", "1700 \x00b\x00"), outcomes(s, simfs.KeepAny, look))
}

// KeepPrefix is one order over all files and directories.
func TestCrash_prefix_is_one_journal(t *testing.T) {
	t.Parallel()
	s := disk(t, "/a", "/b")
	for i := range 6 {
		put(t, s, fmt.Sprintf("/%c/%d", "ab"[i%2], i), "")
	}
	got := outcomes(s, simfs.KeepPrefix, names("/a/0", "/b/1", "/a/2", "/b/3", "/a/4", "/b/5"))
	require.Equal(t, set("", "/a/0", "/a/0/b/1", "/a/0/b/1/a/2", "/a/0/b/1/a/2/b/3", "/a/0/b/1/a/2/b/3/a/4",
		"/a/0/b/1/a/2/b/3/a/4/b/5"), got)
}

func TestCrash_touch(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := simfs.New(func() time.Time { return start })
	put(t, s, "/f", "")
	require.NoError(t, s.SyncDir("/"))
	f, err := s.OpenRW("/f")
	require.NoError(t, err)
	require.NoError(t, f.Touch(start.Add(time.Hour)))
	require.NoError(t, f.Sync())
	look := func(c *simfs.FS) string {
		in, err := c.Stat("/f")
		require.NoError(t, err)
		return in.ModTime.Sub(start).String()
	}
	require.Equal(t, set("0s"), outcomes(s, simfs.KeepNone, look))
	require.Equal(t, set("0s", "1h0m0s"), outcomes(s, simfs.KeepAny, look))
	require.Equal(t, set("1h0m0s"), outcomes(s, simfs.KeepAll, look))
}

// The same seed gives the same disk, also with many names drawn.
func TestCrash_is_deterministic(t *testing.T) {
	t.Parallel()
	build := func() *simfs.FS {
		s := disk(t, "/a", "/b")
		for i := range 40 {
			put(t, s, fmt.Sprintf("/a/%d", i), "x")
			require.NoError(t, s.Rename(fmt.Sprintf("/a/%d", i), fmt.Sprintf("/b/%d", i)))
		}
		return s
	}
	look := func(s *simfs.FS) string {
		a, err := s.List("/a")
		require.NoError(t, err)
		b, err := s.List("/b")
		require.NoError(t, err)
		return fmt.Sprint(a, b)
	}
	for _, p := range simfs.Policies() {
		for n := range uint64(20) {
			require.Equal(t, look(build().Crash(p, seed(n))), look(build().Crash(p, seed(n))))
		}
	}
}
