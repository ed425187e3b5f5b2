package waldir

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func put(t *testing.T, root, state, name, text string) string {
	t.Helper()
	dir := filepath.Join(root, "default", "events", state)
	require.NoError(t, os.MkdirAll(dir, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	return filepath.Join(dir, name)
}

func TestListTellsStatesAndSecondNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := put(t, root, "sealed", "a.arrow", "x")
	put(t, root, "sealed", "b.arrow", "x")
	put(t, root, "processing", "c.arrow", "x")
	require.NoError(t, os.Link(a, filepath.Join(root, "default", "events", "processing", "a.arrow")))
	entries, err := List(root)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"sealed": 2, "processing": 2}, Count(entries))
	twice := Twice(entries, "sealed", "processing")
	require.Len(t, twice, 1)
	require.Equal(t, [3]string{"default/events", "processing", "a"}, [3]string{twice[0].Lane, twice[0].State, twice[0].ID()})
}

func TestWaitDrained(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, "committed", "a.arrow", "x")
	require.NoError(t, WaitDrained(t.Context(), root))
	put(t, root, "sealed", "b.arrow", "x")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, WaitDrained(ctx, root), "sealed:1")
	put(t, root, "poison", "c.arrow", "x")
	require.ErrorContains(t, WaitDrained(t.Context(), root), "1 files in poison")
}

func TestReadFrame(t *testing.T) {
	t.Parallel()
	header := make([]byte, headerSize)
	copy(header, "LWAL\x02\x02")
	p := put(t, t.TempDir(), "active", "a.arrow.partial", string(header)+"abc")
	f, err := ReadFrame(p)
	require.NoError(t, err)
	require.Equal(t, Frame{Partial: true, Rest: 3}, f)
	header[5], header[24] = 0, 8
	p = put(t, t.TempDir(), "active", "a.arrow.partial", string(header)+string(endOfStream))
	f, err = ReadFrame(p)
	require.NoError(t, err)
	require.Equal(t, Frame{BodyLen: 8, EOS: true, Rest: 8}, f)
}

func TestWatchSeesNamesAndWrites(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := put(t, root, "sealed", "a", "x")
	seen := make(chan Event, 100)
	w, err := NewWatch(func(e Event) { seen <- e })
	require.NoError(t, err)
	require.NoError(t, w.AddAll(filepath.Join(root, "*", "*", "sealed")))
	require.NoError(t, os.Link(p, p+"2"))
	e := <-seen
	require.True(t, e.Created())
	require.Equal(t, "a2", e.Name)
	require.Equal(t, filepath.Dir(p), e.Dir)
	f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("y")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	e = <-seen
	require.True(t, e.Modified())
	require.NoError(t, w.Close())
}
