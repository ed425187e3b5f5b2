package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// What a user index holds comes back with its segments. Those of another signal than their index has are named, with both.
func TestWALRecover_what_an_index_holds(t *testing.T) {
	t.Parallel()
	wrong := "default/spans/" + segmentID(2).FileName()
	url, dir := bucketOf(t, map[string][]byte{
		"default/aaa/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3),
		wrong:                                    sealed(t, uuid.Nil, 4),
	})
	s := newPlace(t)
	r := s.run("wal-recover", "--from", url, "--to", s.walDir())
	require.Equal(t, exitDamage, r.code)
	require.Contains(t, r.stdout, "default/spans holds traces, and 1 segment was restored to it with rows of logs, for one "+wrong+"; the drain does not commit it there")
	require.Contains(t, r.stderr, "1 segment was restored to an index that holds other rows; all others are restored")
	holds, err := os.ReadFile(filepath.Join(s.walDir(), "default", "aaa", "holds"))
	require.NoError(t, err)
	require.Regexp(t, `^logs [0-9a-f]{8}\n$`, string(holds))

	require.NoError(t, os.Remove(filepath.Join(dir, filepath.FromSlash(wrong))))
	require.NoError(t, os.Remove(filepath.Join(s.walDir(), "default", "aaa", "holds")))
	s.ok("wal-recover", "--from", url, "--to", s.walDir())
	require.FileExists(t, filepath.Join(s.walDir(), "default", "aaa", "holds"), "an earlier run restored the segment")
}
