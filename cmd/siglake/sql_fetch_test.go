package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// bucket is an object store of a few files that counts what is opened.
type bucket struct {
	files  map[string]string
	opened int
}

type object struct{ *bytes.Reader }

func (o object) Size() int64 { return o.Reader.Size() }
func (object) Close() error  { return nil }

func (b *bucket) OpenFile(path string) (lake.DataFile, error) {
	text, ok := b.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	b.opened++
	return object{bytes.NewReader([]byte(text))}, nil
}

// newClock is a clock on which a second passes with each look.
func newClock() func() time.Time {
	now := testNow
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func TestFetch(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	store := &bucket{files: map[string]string{"s3://b/1.parquet": "one", "s3://b/2.parquet": "three"}}
	plan := func() *dataTable {
		return &dataTable{space: "siglake", name: "events", plan: lake.Plan{Files: []lake.PlanFile{
			{Path: "s3://b/1.parquet", Bytes: 3}, {Path: "/local.parquet", Bytes: 1 << 40}, {Path: "s3://b/2.parquet", Bytes: 5},
		}}}
	}
	temp := &scratch{fs: vfs.OS()}
	f := fetcher{scratch: temp, most: 8, local: map[string]string{}}
	var shown bytes.Buffer
	bar := func() *progress { return &progress{w: &shown, on: true, now: newClock()} }
	for range 2 { // the second time they are there
		d := plan()
		require.NoError(t, f.fetch(t.Context(), store, d, bar()))
		require.Equal(t, "/local.parquet", d.plan.Files[1].Path)
		for i, want := range map[int]string{0: "one", 2: "three"} {
			b, err := os.ReadFile(d.plan.Files[i].Path)
			require.NoError(t, err)
			require.Equal(t, want, string(b))
		}
		require.Equal(t, 2, store.opened)
	}
	require.Contains(t, shown.String(), "fetched 2 of 2 files, 8 B")
	info, err := os.Stat(temp.dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	small := fetcher{scratch: temp, most: 7, local: map[string]string{}}
	err = small.fetch(t.Context(), store, plan(), bar())
	require.ErrorContains(t, err, "table siglake.events has 8 B in 2 files of an object store to fetch")
	require.ErrorContains(t, err, "more than --max-fetch 7 B; narrow the query with --since and --until")
	require.Equal(t, 2, store.opened, "nothing was fetched")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	none := fetcher{scratch: temp, most: 8, local: map[string]string{}}
	require.ErrorIs(t, none.fetch(ctx, store, plan(), bar()), context.Canceled)
	require.ErrorIs(t, none.fetch(t.Context(), &bucket{}, plan(), bar()), fs.ErrNotExist)

	require.NoError(t, temp.close())
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "17": 17, "5B": 5, "500MB": 500e6, "4GiB": 4 << 30, "1TiB": 1 << 40, "2KB": 2000, "2KiB": 2048, "3TB": 3e12, "1GB": 1e9, "1MiB": 1 << 20} {
		got, err := parseSize("--max-fetch", text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "GiB", "-1", "4 GiB", "4G", "1.5GiB", "9999999TiB"} {
		_, err := parseSize("--max-fetch", text)
		require.Error(t, err, text)
	}
}

// A reader that is told to stop reads no more.
func TestInterruptible(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := &interruptible{ctx, bytes.NewReader([]byte("text"))}
	_, err := io.ReadFull(r, make([]byte, 2))
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(r)
	require.ErrorIs(t, err, context.Canceled)
}
