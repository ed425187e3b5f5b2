package segment_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// What is no file, or may not be read, in the place of a record is told by its name and with what to do, and waits for nobody.
func TestRecords_that_are_no_files(t *testing.T) {
	t.Parallel()
	root, err := segment.Create(vfs.OS(), t.TempDir())
	require.NoError(t, err)
	l, err := root.Lane("default", "events")
	require.NoError(t, err)
	require.NoError(t, l.Prepare())
	for name, read := range map[string]func() error{
		"owner":        func() error { _, err := l.Owner(); return err },
		"head":         func() error { _, _, err := l.Head(); return err },
		"numbers.json": func() error { _, _, err := l.Numbers(); return err },
	} {
		path := l.Path("", name)
		for _, tc := range []struct {
			put  func() error
			what string
		}{
			{func() error { return syscall.Mkfifo(path, 0o600) }, "it is no regular file"},
			{func() error { return os.Mkdir(path, 0o700) }, "is a directory"},
		} {
			require.NoError(t, tc.put())
			err := read()
			require.ErrorContains(t, err, "read "+name+" of lane default/events: ")
			require.ErrorContains(t, err, path+": "+tc.what)
			if name == "numbers.json" {
				require.ErrorIs(t, err, segment.ErrRecord)
				require.ErrorContains(t, err, "the next drain sets it aside and begins another")
				require.NoError(t, l.SetNumbersAside())
				require.NoFileExists(t, path)
				require.NoDirExists(t, path)
				continue
			}
			require.ErrorContains(t, err, "; restore it, or move it out of the log while the collector is stopped")
			require.NoError(t, os.Remove(path))
		}
	}
}
