//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// committedTwice is a site of one table with 3 and 4 rows and a segment of 1 row that waits; its metadata files, the newest first.
func committedTwice(t *testing.T) (s *site, metadata []string) {
	t.Helper()
	s = newSite(t)
	for _, n := range []int{3, 4, 2} {
		s.write("default", "events", n)
		s.ok("drain", "--once")
	}
	s.write("default", "events", 1)
	return s, s.metadata()
}

// breaks are the ways in which a metadata file is no more.
var breaks = map[string]func(t *testing.T, file string){
	"gone":    func(t *testing.T, file string) { t.Helper(); lose(t, file) },
	"damaged": cutInHalf,
}

func cutInHalf(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, info.Size()/2))
}

// The metadata file that both the catalog and the log name is gone or cut, and there is no later one: the table goes back to the state
// before, and the data file of the last commit becomes part of it again. Nobody tells whether that is all, so it goes on only when told
// to. LAKE-1.
func TestCatalogRepair_the_newest_metadata_is_broken(t *testing.T) {
	t.Parallel()
	for how, harm := range breaks {
		s, metadata := committedTwice(t)
		harm(t, metadata[0])
		r := s.run("drain", "--once")
		require.Equal(t, exitFailed, r.code, how)
		require.Contains(t, r.stdout, "siglake catalog-repair", how)
		status := s.ok("status")
		require.Contains(t, status, metadata[0], how)
		require.Regexp(t, `(?s)Next:.*restore (it|the file) from a copy of the warehouse.*siglake catalog-repair`, status, how)
		r = s.run("catalog-repair")
		require.Equal(t, exitDamage, r.code, r.stdout)
		require.Regexp(t, `(?m)^default/events, table siglake.events: went back$`, r.stdout)
		require.Regexp(t, `(?m)^  catalog shows +\S+/00003-\S+, which is `+how+`$`, r.stdout)
		rep := s.repair(t, exitDamage)
		require.Equal(t, how, rep.Tables[0].Broken)
		require.Contains(t, rep.Tables[0].SetTo.Metadata, "00002-", how)
		require.EqualValues(t, 7, *rep.Tables[0].SetTo.Rows)
		require.EqualValues(t, 2, rep.Tables[0].Files[0].Rows)
		require.NotEmpty(t, rep.Tables[0].Doubt, how)
		for range 2 {
			rep = s.repair(t, exitDamage, "--apply")
			require.False(t, rep.Tables[0].Resumed, how)
			require.Equal(t, exitFailed, s.run("drain", "--once").code, how)
			require.Equal(t, []string{"9", "9"}, s.counts(t)[:2], how)
		}
		rep = s.repair(t, exitDamage, "--apply", "--accept-loss")
		require.True(t, rep.Tables[0].Resumed, how)
		s.exact(t, "10")
	}
}

// The data file of the last commit is gone, too: its segment comes back from committed/.
func TestCatalogRepair_the_newest_metadata_and_its_file_are_gone(t *testing.T) {
	t.Parallel()
	s, metadata := committedTwice(t)
	lose(t, metadata[0], s.dataFiles(t)[2])
	rep := s.repair(t, exitDamage, "--apply", "--accept-loss")
	require.Len(t, rep.Tables[0].Requeued, 1)
	require.True(t, rep.Tables[0].Resumed)
	s.exact(t, "10")
}

// The log had not seen the commit that the broken file was of: nothing stops the table then, and that is said. What may be missing is
// told all the same.
func TestCatalogRepair_the_broken_metadata_was_not_seen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 3)
	s.ok("drain", "--once")
	head := filepath.Join(s.walDir(), "default", "events", "head")
	seen, err := os.ReadFile(head)
	require.NoError(t, err)
	for _, n := range []int{4, 2} {
		s.write("default", "events", n)
		s.ok("drain", "--once")
	}
	require.NoError(t, os.WriteFile(head, seen, 0o600))
	lose(t, s.metadata()[0])
	rep := s.repair(t, exitDamage, "--apply")
	require.Contains(t, rep.Tables[0].SetTo.Metadata, "00002-")
	require.NotEmpty(t, rep.Tables[0].Doubt)
	require.True(t, rep.Tables[0].Resumed)
	s.write("default", "events", 1)
	s.exact(t, "10")
}

// Nothing is left to go back to: said with the table's name and what to do, and not to run this again.
func TestCatalogRepair_no_metadata_is_left(t *testing.T) {
	t.Parallel()
	s, metadata := committedTwice(t)
	lose(t, metadata...)
	r := s.run("catalog-repair", "--apply")
	require.Equal(t, exitDamage, r.code)
	require.Regexp(t, `(?m)^default/events, table siglake.events: went back$`, r.stdout)
	require.Regexp(t, `left as it is: .*the metadata file that the catalog shows is gone, \S+/00003-\S+, and no other one is whole; restore it from a copy of the warehouse`, r.stdout)
	require.NotContains(t, r.stdout, "catalog-repair")
	require.Len(t, s.names(segment.Sealed), 1)
}

// A file that may only be out of reach, or of another version, is nothing to go back from: the catalog stays as it is, and the table is
// whole once the file can be read again.
func TestCatalogRepair_metadata_that_may_come_back(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(t *testing.T, file string){
		"not readable": func(t *testing.T, file string) { t.Helper(); require.NoError(t, os.Mkdir(file, 0o700)) },
		"of another version": func(t *testing.T, file string) {
			t.Helper()
			require.NoError(t, os.WriteFile(file, []byte(`{"format-version": 9}`), 0o600))
		},
	} {
		s, metadata := committedTwice(t)
		require.NoError(t, os.Rename(metadata[0], metadata[0]+".away"))
		hide(t, metadata[0])
		rep := s.repair(t, exitFailed, "--apply", "--accept-loss")
		require.Nil(t, rep.Tables[0].SetTo, name)
		require.NotContains(t, rep.Tables[0].Error, "catalog-repair", name)
		require.Contains(t, rep.Tables[0].Error, metadata[0], name)
		lose(t, metadata[0])
		require.NoError(t, os.Rename(metadata[0]+".away", metadata[0]))
		s.exact(t, "10")
	}
}
