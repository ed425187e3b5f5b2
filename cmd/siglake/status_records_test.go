//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A FIFO in the place of a record or a lock keeps no command waiting, and is told with its name and what to do.
func TestStatus_records_that_are_no_files(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 2)
	s.ok("drain", "--once")
	for _, name := range []string{"default/events/owner", "default/events/head"} {
		path := filepath.Join(s.walDir(), name)
		require.NoError(t, os.Rename(path, path+".away"))
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		r := s.soon(t, "status")
		require.Equal(t, exitOK, r.code, name)
		require.Contains(t, r.stdout, path+": it is no regular file; restore it, or move it out of the log", name)
		require.NoError(t, os.Rename(path+".away", path))
	}
}

// soon is run, bounded.
func (s *site) soon(t *testing.T, args ...string) result {
	t.Helper()
	done := make(chan result, 1)
	go func() { done <- s.run(args...) }()
	select {
	case r := <-done:
		return r
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "waits", "%q", args)
		return result{}
	}
}
