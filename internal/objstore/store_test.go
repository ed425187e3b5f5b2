package objstore_test

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // as the stores
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conformance holds the real stores and the fake one to the same promises.
func conformance(t *testing.T, s objstore.Store) {
	t.Helper()
	ctx := t.Context()
	body := bytes.Repeat([]byte("0123456789abcdef"), 100_000) // more than one chunk
	put := func(key string, b []byte) error { return s.Put(ctx, key, content(b)) }
	get := func(key string) []byte {
		r, err := s.Get(ctx, key)
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		return b
	}
	_, err := s.Stat(ctx, "a/b/one.arrow")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	_, err = s.Get(ctx, "a/b/one.arrow")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	require.NoError(t, s.Delete(ctx, "a/b/one.arrow"))
	require.NoError(t, s.List(ctx, "", func(objstore.Info) error { return errors.New("nothing is there") }))

	require.NoError(t, put("a/b/one.arrow", body))
	require.Equal(t, body, get("a/b/one.arrow"))
	require.ErrorIs(t, put("a/b/one.arrow", []byte("another")), objstore.ErrExists, "create-only")
	require.Equal(t, body, get("a/b/one.arrow"))
	require.NoError(t, put("a/empty", nil))
	require.Empty(t, get("a/empty"))

	info, err := s.Stat(ctx, "a/b/one.arrow")
	require.NoError(t, err)
	require.Equal(t, "a/b/one.arrow", info.Key)
	require.EqualValues(t, len(body), info.Size)
	same, err := objstore.Holds(ctx, s, info, content(body))
	require.NoError(t, err)
	require.True(t, same)
	other := bytes.Clone(body)
	other[len(other)-1]++
	for _, b := range [][]byte{other, body[:5]} {
		same, err = objstore.Holds(ctx, s, info, content(b))
		require.NoError(t, err)
		require.False(t, same)
	}

	require.NoError(t, s.Replace(ctx, "a/b/one.arrow", content([]byte("new"))))
	require.Equal(t, []byte("new"), get("a/b/one.arrow"))

	require.NoError(t, put("a/b.arrow", []byte("x")))
	require.NoError(t, put("a-b/z", []byte("x")))
	keys := func(prefix string) (out []string) {
		require.NoError(t, s.List(ctx, prefix, func(i objstore.Info) error {
			out = append(out, i.Key)
			return nil
		}))
		return out
	}
	require.Equal(t, []string{"a-b/z", "a/b.arrow", "a/b/one.arrow", "a/empty"}, keys(""))
	require.Equal(t, []string{"a/b.arrow", "a/b/one.arrow"}, keys("a/b"))
	require.Equal(t, []string{"a/b/one.arrow"}, keys("a/b/"))
	require.Empty(t, keys("b"))
	stop := errors.New("enough")
	require.ErrorIs(t, s.List(ctx, "", func(objstore.Info) error { return stop }), stop)

	require.NoError(t, s.Delete(ctx, "a/b/one.arrow"))
	require.NoError(t, s.Delete(ctx, "a/b/one.arrow"), "twice")
	_, err = s.Stat(ctx, "a/b/one.arrow")
	require.ErrorIs(t, err, objstore.ErrNotFound)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Put(ended, "late", content(body)), context.Canceled)
	require.NotContains(t, keys(""), "late")
	require.NoError(t, s.Close())
}

func content(b []byte) *objstore.Content {
	return objstore.NewContent(bytes.NewReader(b), int64(len(b)))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		conformance(t, &storetest.Store{})
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		s, err := objstore.Open(t.Context(), "file://"+t.TempDir()+"/new", objstore.Options{})
		require.NoError(t, err)
		conformance(t, s)
	})
	t.Run("file on a simulated disk", func(t *testing.T) {
		t.Parallel()
		s, err := objstore.Open(t.Context(), "file:///bucket", objstore.Options{FS: simfs.New(nil)})
		require.NoError(t, err)
		conformance(t, s)
	})
}

// The digest that the store shows decides; where it shows another, as an ETag that is no MD5, or none, the bytes do.
func TestHolds(t *testing.T) {
	t.Parallel()
	body, other := []byte("rows"), []byte("worm")
	sum := func(b []byte) []byte {
		s := md5.Sum(b) //nolint:gosec // as the stores
		return s[:]
	}
	crc := func(b []byte) *uint32 {
		n := crc32.ChecksumIEEE(b)
		return &n
	}
	for name, c := range map[string]struct {
		info  objstore.Info
		there []byte
		same  bool
		read  bool
	}{
		"CRC":             {objstore.Info{CRC32: crc(body)}, nil, true, false},
		"another CRC":     {objstore.Info{CRC32: crc(other)}, other, false, true},
		"wrong CRC":       {objstore.Info{CRC32: crc(other), MD5: sum(body)}, body, true, true},
		"MD5":             {objstore.Info{MD5: sum(body)}, nil, true, false},
		"no MD5":          {objstore.Info{MD5: sum(other), Claimed: sum(body)}, other, false, true},
		"claim":           {objstore.Info{Claimed: sum(body)}, nil, true, false},
		"another claim":   {objstore.Info{Claimed: sum(other)}, other, false, true},
		"nothing":         {objstore.Info{}, body, true, true},
		"nothing, others": {objstore.Info{}, other, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &storetest.Store{}
			s.Set("x", c.there)
			c.info.Key, c.info.Size = "x", int64(len(body))
			same, err := objstore.Holds(t.Context(), s, c.info, content(body))
			require.NoError(t, err)
			require.Equal(t, c.same, same)
			require.Equal(t, c.read, len(s.Ops()) > 0)
		})
	}
	s := &storetest.Store{}
	s.Set("x", body[:2])
	_, err := objstore.Holds(t.Context(), s, objstore.Info{Key: "x", Size: 4}, content(body))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a read that ends early says nothing")
}

// An object of a directory is durable, bytes and name, when Put returns; a power cut at each operation before leaves all of
// it or nothing.
func TestFile_power_cut(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789abcdef"), 200)
	for k := 0; ; k++ {
		disk := simfs.New(nil)
		hook, fired := simfs.FailAt(k, simfs.Kind.Changes, io.ErrUnexpectedEOF)
		disk.SetHook(func(op simfs.Op) error {
			if fired() {
				return io.ErrUnexpectedEOF
			}
			return hook(op)
		})
		s, err := objstore.Open(t.Context(), "file:///bucket", objstore.Options{FS: disk})
		require.NoError(t, err)
		err = s.Put(t.Context(), "t/events/x.arrow", content(body))
		if !fired() {
			require.NoError(t, err)
			require.Greater(t, k, 5)
			require.Equal(t, body, objectOf(t, disk.Crash(simfs.KeepNone, rand.New(rand.NewPCG(1, 1)))), "durable")
			return
		}
		require.Error(t, err)
		if got := objectOf(t, disk.Crash(simfs.KeepAll, rand.New(rand.NewPCG(1, 1)))); got != nil {
			require.Equal(t, body, got, "cut at %d", k)
		}
	}
}

// objectOf is the object on a disk, nil without one.
func objectOf(t *testing.T, fsys vfs.FS) []byte {
	t.Helper()
	s, err := objstore.Open(t.Context(), "file:///bucket", objstore.Options{FS: fsys})
	require.NoError(t, err)
	r, err := s.Get(t.Context(), "t/events/x.arrow")
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	require.NoError(t, err)
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return b
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]objstore.Location{
		"s3://b":            {Scheme: "s3", Bucket: "b"},
		"s3://b/":           {Scheme: "s3", Bucket: "b"},
		"s3://b/x//y/":      {Scheme: "s3", Bucket: "b", Path: "x/y"},
		"gs://b/x":          {Scheme: "gs", Bucket: "b", Path: "x"},
		"azblob://c/x":      {Scheme: "azblob", Bucket: "c", Path: "x"},
		"file:///var/m":     {Scheme: "file", Path: "/var/m"},
		"file://./relative": {Scheme: "file", Path: "relative"},
	} {
		got, err := objstore.ParseURL(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, got)
	}
	for _, raw := range []string{
		"", "b", "mem://x", "https://b/x", "s3:///x", "file://", "file://host/x", "s3://user:secret@b", "s3://b?secret=1", "s3://b#secret", "s3://b/%zzsecret",
	} {
		_, err := objstore.ParseURL(raw)
		require.Error(t, err, raw)
		require.NotContains(t, err.Error(), "secret")
	}
	for raw, want := range map[string]string{
		"/tmp/foo":     `"/tmp/foo" is a path and no URL; write file:///tmp/foo`,
		"/tmp/a b":     `"/tmp/a b" is a path and no URL; write file:///tmp/a b`,
		"/tmp/a%zz":    `it is no URL and is not repeated here`,
		"./copies":     `"./copies" is a path and no URL; write file://./copies`,
		"../copies":    `"../copies" is a path and no URL; write file://../copies`,
		"copies":       `it is no URL and is not repeated here, as it may hold credentials; write s3://bucket/path`,
		"//u:secret@b": `it is no URL and is not repeated here`,
		"/b?k=secret":  `it is no URL and is not repeated here`,
		"/b#secret":    `it is no URL and is not repeated here`,
		"http://x/y":   `"http://x/y" is no object store; write s3://bucket/path`,
	} {
		_, err := objstore.ParseURL(raw)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	l := objstore.Location{Scheme: "s3", Bucket: "b", Path: "x"}
	require.Equal(t, "s3://b/x/y", l.Join("y").String())
	require.Equal(t, "s3://b", l.Join("..").String())
	require.True(t, l.Contains(l.Join("y")))
	require.False(t, l.Contains(objstore.Location{Scheme: "s3", Bucket: "b", Path: "xy"}))
	require.False(t, l.Join("y").Contains(l))
	require.True(t, l.Join("y").Overlaps(l))
	require.True(t, l.Overlaps(l.Join("y")))
	require.False(t, l.Join("y").Overlaps(l.Join("z")))
}

// BND-1: what a writer that died left in a directory goes with the first Put of another life; what is being written stays.
func TestFile_a_dead_writers_file_goes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dead, above := filepath.Join(root, "t", "events", "x.arrow.0011223344556677.tmp"), filepath.Join(root, "m.json.0011223344556677.tmp")
	alive := filepath.Join(root, "t", "events", "y.arrow.0011223344556677.tmp")
	require.NoError(t, os.MkdirAll(filepath.Dir(dead), 0o750))
	for _, name := range []string{dead, above, alive} {
		require.NoError(t, os.WriteFile(name, []byte("half"), 0o600))
	}
	long := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(dead, long, long))
	require.NoError(t, os.Chtimes(above, long, long))
	s, err := objstore.Open(t.Context(), "file://"+root, objstore.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Put(t.Context(), "t/events/z.arrow", content([]byte("rows"))))
	require.NoFileExists(t, dead)
	require.NoFileExists(t, above)
	require.FileExists(t, alive)
	require.NoError(t, os.Chtimes(alive, long, long))
	require.NoError(t, s.Put(t.Context(), "t/events/w.arrow", content([]byte("rows"))))
	require.FileExists(t, alive, "one look in a life")
	require.NoError(t, s.Close())
}
