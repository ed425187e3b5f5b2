package vfs

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is no regular file is refused at once, by name: to open a FIFO waits for a writer that may never come.
func TestOS_irregular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, socket := filepath.Join(dir, "fifo"), filepath.Join(dir, "s")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	for _, name := range []string{fifo, socket} {
		for what, open := range map[string]func() error{
			"read":   func() error { _, err := ReadFile(OS(), name); return err },
			"write":  func() error { _, err := OS().OpenRW(name); return err },
			"lock":   func() error { _, err := OS().Lock(name, "me"); return err },
			"shared": func() error { _, err := OS().LockShared(name, "me"); return err },
			"held":   func() error { _, err := OS().Held(name); return err },
		} {
			err := soon(t, what+" "+name, open)
			require.ErrorIs(t, err, ErrIrregular, what)
			require.ErrorContains(t, err, name+": it is no regular file", what)
		}
	}
}

// soon calls, and fails the test of a call that does not return.
func soon(t *testing.T, what string, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		require.FailNow(t, "waits", what)
		return errors.ErrUnsupported
	}
}
