package vfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A write that the kernel cuts short goes on where it stopped, and never passes more than IOV_MAX buffers.
func TestWritev(t *testing.T) {
	t.Parallel()
	many := make([][]byte, 3000)
	for i := range many {
		many[i] = bytes.Repeat([]byte{byte(i)}, i%5) // also empty ones
	}
	boom := errors.New("boom")
	for _, tc := range []struct {
		name     string
		atMost   int   // bytes per call
		failAt   int64 // offset from which calls fail; 0 = never
		progress int64 // bytes expected to be written; 0 = all
		err      error
	}{
		{name: "all at once", atMost: 1 << 30},
		{name: "short writes", atMost: 7},
		{name: "one byte a call", atMost: 1},
		{name: "error after progress", atMost: 7, failAt: 700, progress: 700, err: boom},
		{name: "no progress", atMost: 0, err: io.ErrShortWrite},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const base = 52
			got := []byte{}
			n, err := writevAll(many, base, func(iov [][]byte, off int64) (int, error) {
				require.LessOrEqual(t, len(iov), maxIov)
				require.EqualValues(t, base+len(got), off)
				if tc.failAt > 0 && int64(len(got)) >= tc.failAt {
					return 0, boom
				}
				p := bytes.Join(iov, nil)
				p = p[:min(len(p), tc.atMost)]
				got = append(got, p...)
				return len(p), nil
			})
			want := bytes.Join(many, nil)
			require.ErrorIs(t, err, tc.err)
			if tc.err != nil {
				want = want[:tc.progress]
			}
			require.Equal(t, want, got)
			require.EqualValues(t, len(want), n)
		})
	}
}

// Writev, WriteAt and Truncate agree on where the file ends: an append after a cut lands at the cut.
func TestOSFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS().Create(name)
	require.NoError(t, err)
	many := make([][]byte, 2500)
	for i := range many {
		many[i] = []byte{byte(i), byte(i >> 8)}
	}
	n, err := f.Writev(many)
	require.NoError(t, err)
	require.EqualValues(t, 5000, n)
	require.NoError(t, f.Truncate(10))
	_, err = f.Writev([][]byte{[]byte("abc")})
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("H"), 0)
	require.NoError(t, err)
	_, err = f.Writev([][]byte{[]byte("d")})
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	want := append([]byte("H"), bytes.Join(many, nil)[1:10]...)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, append(want, "abcd"...), got)
	st, err := os.Stat(name)
	require.NoError(t, err)
	require.Zero(t, st.Mode().Perm()&0o027, "no access for others, no write for the group")
}

// A full volume does not keep a lock from being taken: without it nothing would start that could make room. B1.
func TestOSLock_on_a_full_disk(t *testing.T) {
	t.Parallel()
	held, err := OS().Lock("/dev/full", "no byte of this can be written")
	require.NoError(t, err)
	_, err = OS().Lock("/dev/full", "x")
	var refused *LockedError
	require.ErrorAs(t, err, &refused)
	require.NoError(t, held.Close())
}

// A lock is refused with the text of its holder, and free again after Close.
func TestOSLock(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "LOCK")
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("an older and longer text ", 20)), 0o600))
	c, err := OS().Lock(name, "pid 1")
	require.NoError(t, err)
	_, err = OS().Lock(name, "pid 2")
	var held *LockedError
	require.ErrorAs(t, err, &held)
	require.Equal(t, &LockedError{Name: name, Holder: "pid 1"}, held)
	require.NoError(t, c.Close())
	c, err = OS().Lock(name, "pid 2")
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestOSMkdirAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, OS().MkdirAll(filepath.Join(dir, "a/b/c")))
	require.NoError(t, OS().MkdirAll(filepath.Join(dir, "a/b/c")))
	st, err := os.Stat(filepath.Join(dir, "a/b/c"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), st.Mode().Perm()|0o050&0o750)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a/file"), nil, 0o600))
	require.ErrorIs(t, OS().MkdirAll(filepath.Join(dir, "a/file/x")), syscall.ENOTDIR)
	require.NoError(t, os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "link")))
	require.NoError(t, OS().MkdirAll(filepath.Join(dir, "link/d")))
}

func TestOSSpace(t *testing.T) {
	t.Parallel()
	sp, err := OS().Space(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, sp.Free)
	require.GreaterOrEqual(t, sp.Total, sp.Free)
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "owner")
	require.NoError(t, os.WriteFile(name+tempSuffix, []byte("left by a crash"), 0o600))
	require.NoError(t, WriteFile(OS(), name, []byte("one")))
	require.NoError(t, WriteFile(OS(), name, []byte("two")))
	got, err := ReadFile(OS(), name)
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	entries, err := OS().List(filepath.Dir(name))
	require.NoError(t, err)
	require.Equal(t, []Entry{{Name: "owner"}}, entries)
	require.NoError(t, os.Truncate(name, maxReadFile+1))
	_, err = ReadFile(OS(), name)
	require.ErrorContains(t, err, "more than the")
	_, err = ReadFile(OS(), name+"x")
	require.ErrorIs(t, err, os.ErrNotExist)
}
