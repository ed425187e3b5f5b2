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

// A directory in the place of the lock of the drain: nobody can drain, and it is said where and what to do.
func TestStatus_lock_that_is_no_file(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 2)
	lock := filepath.Join(s.walDir(), "drain.lock")
	require.NoError(t, os.Mkdir(lock, 0o700))
	const help = "is a directory; move it out of the log, the next drain makes another"
	require.Contains(t, s.ok("status"), "nothing is drained, rows wait in the log: open "+lock+": "+help)
	r := s.run("drain", "--once")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, lock+": "+help)
	require.NoError(t, os.Remove(lock))
	s.ok("drain", "--once")
	require.NotContains(t, s.ok("status"), "nothing is drained")
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
