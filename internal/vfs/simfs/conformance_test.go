package simfs_test

import (
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// The simulated disk and the real one agree on everything the core relies on. A finding on one side only is a
// fault of simfs, and then of every crash test above it.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		body func(*testing.T, vfs.FS, string)
	}{
		{"create", conformCreate},
		{"read", conformRead},
		{"write", conformWrite},
		{"link", conformLink},
		{"rename", conformRename},
		{"remove", conformRemove},
		{"list", conformList},
		{"mkdir", conformMkdir},
		{"lock", conformLock},
		{"shared_lock", conformSharedLock},
		{"touch", conformTouch},
		{"closed", conformClosed},
		{"file_helpers", conformHelpers},
	} {
		t.Run("os/"+tc.name, func(t *testing.T) {
			t.Parallel()
			tc.body(t, vfs.OS(), t.TempDir())
		})
		t.Run("sim/"+tc.name, func(t *testing.T) {
			t.Parallel()
			s := simfs.New(nil)
			require.NoError(t, s.MkdirAll("/some/where"))
			tc.body(t, s, "/some/where")
		})
	}
}

func put(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	n, err := f.Writev([][]byte{[]byte(content)})
	require.NoError(t, err)
	require.EqualValues(t, len(content), n)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func get(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(b)
}

func inode(t *testing.T, fsys vfs.FS, name string) uint64 {
	t.Helper()
	in, err := fsys.Stat(name)
	require.NoError(t, err)
	return in.Inode
}

func conformCreate(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := filepath.Join(dir, "f")
	_, err := fsys.Open(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.OpenRW(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.Stat(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	put(t, fsys, name, "x")
	_, err = fsys.Create(name)
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = fsys.Create(filepath.Join(dir, "no/f"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.Create(filepath.Join(name, "f"))
	require.ErrorIs(t, err, syscall.ENOTDIR)
	_, err = fsys.Open(dir)
	require.ErrorIs(t, err, syscall.EISDIR)
	_, err = fsys.OpenRW(dir)
	require.ErrorIs(t, err, syscall.EISDIR)
}

func conformRead(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := filepath.Join(dir, "f")
	put(t, fsys, name, "hello")
	f, err := fsys.Open(name)
	require.NoError(t, err)
	for _, tc := range []struct {
		size int
		off  int64
		want string
		err  error
	}{
		{2, 1, "el", nil},
		{5, 0, "hello", nil},
		{9, 3, "lo", io.EOF},
		{1, 5, "", io.EOF},
		{1, 99, "", io.EOF},
		{0, 2, "", nil},
	} {
		p := make([]byte, tc.size)
		n, err := f.ReadAt(p, tc.off)
		require.ErrorIs(t, err, tc.err)
		require.Equal(t, tc.want, string(p[:n]))
	}
	_, err = f.ReadAt(make([]byte, 1), -1)
	require.Error(t, err)
	_, err = f.Writev([][]byte{[]byte("x")})
	require.ErrorIs(t, err, syscall.EBADF, "opened for reading")
	_, err = f.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, syscall.EBADF, "opened for reading")
	require.ErrorIs(t, f.Truncate(1), syscall.EINVAL, "opened for reading")
	require.NoError(t, f.Sync(), "recovery syncs what it opened for reading")
	in, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 5, in.Size)
	require.Equal(t, inode(t, fsys, name), in.Inode)
	require.NoError(t, f.Close())
}

func conformWrite(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := filepath.Join(dir, "f")
	f, err := fsys.Create(name)
	require.NoError(t, err)
	n, err := f.Writev([][]byte{[]byte("head"), nil, []byte("-body")})
	require.NoError(t, err)
	require.EqualValues(t, 9, n)
	m, err := f.WriteAt([]byte("HEAD"), 0)
	require.NoError(t, err)
	require.Equal(t, 4, m)
	_, err = f.Writev([][]byte{[]byte("!")})
	require.NoError(t, err)
	require.Equal(t, "HEAD-body!", get(t, fsys, name))
	require.NoError(t, f.Truncate(4))
	_, err = f.Writev([][]byte{[]byte("er")})
	require.NoError(t, err)
	require.Equal(t, "HEADer", get(t, fsys, name))
	require.NoError(t, f.Truncate(8))
	require.Equal(t, "HEADer\x00\x00", get(t, fsys, name))
	_, err = f.WriteAt([]byte("end"), 10)
	require.NoError(t, err)
	_, err = f.Writev([][]byte{[]byte(".")})
	require.NoError(t, err)
	n, err = f.Writev(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, "HEADer\x00\x00\x00\x00end.", get(t, fsys, name))
	p := make([]byte, 4)
	_, err = f.ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, "HEAD", string(p))
	require.NoError(t, f.Close())

	f, err = fsys.OpenRW(name)
	require.NoError(t, err)
	_, err = f.Writev([][]byte{[]byte("more")})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "HEADer\x00\x00\x00\x00end.more", get(t, fsys, name))
}

func conformLink(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	put(t, fsys, a, "one")
	require.NoError(t, fsys.Link(a, b))
	require.Equal(t, inode(t, fsys, a), inode(t, fsys, b))
	require.ErrorIs(t, fsys.Link(a, b), fs.ErrExist, "also for the same file")
	put(t, fsys, c, "two")
	require.NotEqual(t, inode(t, fsys, a), inode(t, fsys, c))
	require.ErrorIs(t, fsys.Link(a, c), fs.ErrExist)
	require.ErrorIs(t, fsys.Link(filepath.Join(dir, "none"), filepath.Join(dir, "d")), fs.ErrNotExist)
	require.ErrorIs(t, fsys.Link(a, filepath.Join(dir, "no/d")), fs.ErrNotExist)
	f, err := fsys.OpenRW(b)
	require.NoError(t, err)
	require.NoError(t, fsys.Remove(a))
	require.NoError(t, fsys.Remove(b))
	_, err = f.Writev([][]byte{[]byte("!")})
	require.NoError(t, err, "an open file outlives its last name")
	in, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 4, in.Size)
	require.NoError(t, f.Close())
}

func conformRename(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	a, b, sub := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "sub")
	require.NoError(t, fsys.MkdirAll(sub))
	put(t, fsys, a, "new")
	put(t, fsys, b, "old")
	want := inode(t, fsys, a)
	require.NoError(t, fsys.Rename(a, b))
	require.Equal(t, "new", get(t, fsys, b))
	require.Equal(t, want, inode(t, fsys, b))
	require.ErrorIs(t, fsys.Rename(a, b), fs.ErrNotExist)
	require.NoError(t, fsys.Rename(b, filepath.Join(sub, "c")))
	require.ErrorIs(t, fsys.Rename(filepath.Join(sub, "c"), filepath.Join(dir, "no/c")), fs.ErrNotExist)
	require.NoError(t, fsys.Link(filepath.Join(sub, "c"), a))
	require.NoError(t, fsys.Rename(filepath.Join(sub, "c"), a))
	require.Equal(t, want, inode(t, fsys, filepath.Join(sub, "c")), "two names of one file: rename leaves both")
}

func conformRemove(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	sub := filepath.Join(dir, "sub")
	require.NoError(t, fsys.MkdirAll(sub))
	put(t, fsys, filepath.Join(sub, "f"), "")
	require.ErrorIs(t, fsys.Remove(sub), syscall.ENOTEMPTY)
	require.NoError(t, fsys.Remove(filepath.Join(sub, "f")))
	require.ErrorIs(t, fsys.Remove(filepath.Join(sub, "f")), fs.ErrNotExist)
	require.NoError(t, fsys.Remove(sub))
	_, err := fsys.Stat(sub)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func conformList(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	_, err := fsys.List(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, name := range []string{"b", "a", "B", "a.b"} {
		put(t, fsys, filepath.Join(dir, name), "")
	}
	require.NoError(t, fsys.MkdirAll(filepath.Join(dir, "aa")))
	got, err := fsys.List(dir)
	require.NoError(t, err)
	require.Equal(t, []vfs.Entry{{Name: "B"}, {Name: "a"}, {Name: "a.b"}, {Name: "aa", IsDir: true}, {Name: "b"}}, got)
	_, err = fsys.List(filepath.Join(dir, "a"))
	require.ErrorIs(t, err, syscall.ENOTDIR)
}

func conformMkdir(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	deep := filepath.Join(dir, "a/b/c")
	require.NoError(t, fsys.MkdirAll(deep))
	require.NoError(t, fsys.MkdirAll(deep))
	in, err := fsys.Stat(deep)
	require.NoError(t, err)
	require.True(t, in.IsDir)
	require.NoError(t, fsys.SyncDir(deep))
	require.NoError(t, fsys.Mkdir(filepath.Join(deep, "d")))
	require.ErrorIs(t, fsys.Mkdir(filepath.Join(deep, "d")), fs.ErrExist)
	require.ErrorIs(t, fsys.Mkdir(filepath.Join(dir, "none/d")), fs.ErrNotExist)
	in, err = fsys.Stat(filepath.Join(deep, "d"))
	require.NoError(t, err)
	require.True(t, in.IsDir)
	put(t, fsys, filepath.Join(dir, "f"), "")
	require.ErrorIs(t, fsys.Mkdir(filepath.Join(dir, "f")), fs.ErrExist)
	require.ErrorIs(t, fsys.Mkdir(filepath.Join(dir, "f/d")), syscall.ENOTDIR)
	require.ErrorIs(t, fsys.MkdirAll(filepath.Join(dir, "f")), syscall.ENOTDIR)
	require.ErrorIs(t, fsys.MkdirAll(filepath.Join(dir, "f/x")), syscall.ENOTDIR)
	require.ErrorIs(t, fsys.SyncDir(filepath.Join(dir, "f")), syscall.ENOTDIR)
	require.ErrorIs(t, fsys.SyncDir(filepath.Join(dir, "none")), fs.ErrNotExist)
	require.ErrorIs(t, fsys.Link(deep, filepath.Join(dir, "l")), syscall.EPERM)
	sp, err := fsys.Space(deep)
	require.NoError(t, err)
	require.Positive(t, sp.Total)
	_, err = fsys.Space(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func conformLock(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := filepath.Join(dir, "LOCK")
	isHeld := func(want bool) {
		t.Helper()
		held, err := fsys.Held(name)
		require.NoError(t, err)
		require.Equal(t, want, held)
	}
	isHeld(false)
	held, err := fsys.Lock(name, "me, first")
	require.NoError(t, err)
	isHeld(true)
	_, err = fsys.Lock(name, "you")
	var refused *vfs.LockedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, &vfs.LockedError{Name: name, Holder: "me, first"}, refused)
	require.Equal(t, "me, first", get(t, fsys, name))
	other, err := fsys.Lock(filepath.Join(dir, "other.lock"), "x")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.NoError(t, held.Close())
	require.ErrorIs(t, held.Close(), fs.ErrClosed)
	isHeld(false)
	require.Equal(t, "me, first", get(t, fsys, name), "who asks leaves no name")
	held, err = fsys.LockShared(name, "many")
	require.NoError(t, err)
	isHeld(false)
	require.NoError(t, held.Close())
	held, err = fsys.Lock(name, "you")
	require.NoError(t, err)
	require.Equal(t, "you", get(t, fsys, name))
	require.NoError(t, held.Close())
	_, err = fsys.Lock(filepath.Join(dir, "no/LOCK"), "x")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.False(t, vfs.NoLocks(err))
}

func conformSharedLock(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := filepath.Join(dir, "LOCK")
	refusedBy := func(err error, holder string) {
		t.Helper()
		var refused *vfs.LockedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, &vfs.LockedError{Name: name, Holder: holder}, refused)
	}
	first, err := fsys.LockShared(name, "first")
	require.NoError(t, err)
	second, err := fsys.LockShared(name, "second")
	require.NoError(t, err)
	_, err = fsys.Lock(name, "alone")
	refusedBy(err, "second")
	require.NoError(t, second.Close())
	_, err = fsys.Lock(name, "alone")
	refusedBy(err, "second")
	require.NoError(t, first.Close())
	alone, err := fsys.Lock(name, "alone")
	require.NoError(t, err)
	_, err = fsys.LockShared(name, "third")
	refusedBy(err, "alone")
	// The lock is the file's: with the name gone, the next one locks another file.
	require.NoError(t, fsys.Remove(name))
	third, err := fsys.LockShared(name, "third")
	require.NoError(t, err)
	require.NoError(t, third.Close())
	require.NoError(t, alone.Close())
	require.ErrorIs(t, alone.Close(), fs.ErrClosed)
}

func conformTouch(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := filepath.Join(dir, "f")
	put(t, fsys, name, "x")
	f, err := fsys.OpenRW(name)
	require.NoError(t, err)
	want := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	require.NoError(t, f.Touch(want))
	require.NoError(t, f.Close())
	in, err := fsys.Stat(name)
	require.NoError(t, err)
	require.True(t, want.Equal(in.ModTime), in.ModTime)
}

func conformClosed(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	f, err := fsys.Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for name, call := range map[string]func() error{
		"close":    f.Close,
		"sync":     f.Sync,
		"truncate": func() error { return f.Truncate(0) },
		"touch":    func() error { return f.Touch(time.Now()) },
		"writev":   func() error { _, err := f.Writev([][]byte{[]byte("x")}); return err },
		"writeat":  func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
		"readat":   func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		"stat":     func() error { _, err := f.Stat(); return err },
	} {
		require.ErrorIs(t, call(), fs.ErrClosed, name)
	}
}

func conformHelpers(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := filepath.Join(dir, "owner")
	put(t, fsys, name+".tmp", "left by a crash")
	require.NoError(t, vfs.WriteFile(fsys, name, []byte("one")))
	require.NoError(t, vfs.WriteFile(fsys, name, []byte("two")))
	require.Equal(t, "two", get(t, fsys, name))
	require.Error(t, vfs.WriteFile(fsys, filepath.Join(dir, "no/owner"), nil))
	got, err := fsys.List(dir)
	require.NoError(t, err)
	require.Equal(t, []vfs.Entry{{Name: "owner"}}, got)
	_, err = vfs.ReadFile(fsys, filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
