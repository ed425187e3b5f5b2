//go:build !cgo

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A build without cgo has every other command, and says which build has this one.
func TestSQL_not_in_this_build(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ok("drain", "--once")
	s.write("default", "events", 1)
	s.ok("drain", "--once")
	r := s.run("sql", "SELECT 1")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "sql is not in this build")
	require.Contains(t, r.stderr, "CGO_ENABLED=1")
}
