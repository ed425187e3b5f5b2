//go:build cgo

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// overwritten makes a table of three commits, 9 rows, and puts the content of its second newest metadata file into the newest. It
// returns the metadata files, the newest first, and what that one had.
func overwritten(t *testing.T, s *site) (files []string, right []byte) {
	t.Helper()
	for _, n := range []int{3, 4, 2} {
		s.write("default", "events", n)
		s.ok("drain", "--once")
	}
	files = s.metadata()
	right, err := os.ReadFile(files[0])
	require.NoError(t, err)
	older, err := os.ReadFile(files[1])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], older, 0o600))
	return files, right
}

// A wrong file was put back under the name of the metadata file that the catalog shows. Nothing is committed on top of it, everybody
// says what is to be put back, catalog-repair changes nothing, and with the right content the table goes on with every row.
func TestCatalogRepair_older_content_under_the_name_of_the_metadata_file(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	files, right := overwritten(t, s)

	const says = `the content of its metadata file is older than the file's name: sequence 3 was committed as \S+00003-\S+, which has sequence 2 now; ` +
		`put the right content of that file back from a copy of the warehouse`
	s.write("default", "events", 1)
	for range 2 {
		r := s.run("drain", "--once")
		require.Equal(t, exitFailed, r.code)
		require.Regexp(t, says, r.stdout)
		require.Regexp(t, says+`; nothing is committed to it`, s.ok("status"))
		require.Regexp(t, `catalog-age +fail +table siglake.events: `+says, s.run("doctor").stdout)
		for _, args := range [][]string{nil, {"--apply"}, {"--apply", "--accept-loss"}} {
			rep := s.repair(t, exitDamage, args...)
			require.Regexp(t, says, rep.Tables[0].Error)
			require.False(t, rep.Tables[0].Resumed)
		}
		require.Equal(t, files, s.metadata(), "nothing was written beside it")
	}
	require.NoError(t, os.WriteFile(files[0], right, 0o600))
	s.exact(t, "10")
}

// Where there is no copy of the right content, the file is moved away, and the table comes back as one whose metadata file is gone.
func TestCatalogRepair_older_content_and_no_copy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	files, _ := overwritten(t, s)
	rep := s.repair(t, exitDamage, "--apply")
	require.Contains(t, rep.Tables[0].Error, "where there is none, move that file away and run this again")

	lose(t, files[0])
	rep = s.repair(t, exitDamage, "--apply")
	require.False(t, rep.Tables[0].Resumed)
	rep = s.repair(t, exitDamage, "--apply", "--accept-loss")
	require.True(t, rep.Tables[0].Resumed)
	s.exact(t, "9")
}
