//go:build cgo

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// age makes every file of the warehouse older than any orphan has to be.
func (s *site) age(t *testing.T) (files []string) {
	t.Helper()
	at := testNow.Add(-48 * time.Hour)
	require.NoError(t, filepath.WalkDir(filepath.Join(s.dir, "warehouse"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files = append(files, name)
		return os.Chtimes(name, at, at)
	}))
	return files
}

// However a catalog went back, and however it was repaired: gc-orphans deletes nothing before, and what it deletes after holds no row
// that the table lacks or that is on its way to it, even when all files are old by then.
func TestGCOrphans_beside_a_repair(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		back func(s *site) (repair []string)
		rows string
		// abandon says that files of a table made meanwhile are at the place, and that none is deleted until that one is given up.
		abandon bool
		// later says that a later metadata file is left to which the table cannot be set.
		later bool
	}{
		"set_forward": {back: func(s *site) []string {
			_, committed := s.goBack(t, 3, 4, 2)
			lose(t, committed...)
			return nil
		}, rows: "9"},
		"by_one_commit": {back: func(s *site) []string {
			_, committed := s.goBack(t, 3, 4)
			lose(t, committed...)
			return nil
		}, rows: "7"},
		"data_files_added": {back: func(s *site) []string {
			_, committed := s.goBack(t, 3, 4, 2)
			lose(t, s.metadata()[:2]...)
			lose(t, committed...)
			return []string{"--accept-loss"}
		}, rows: "9"},
		"half_from_committed": {back: func(s *site) []string {
			s.goBack(t, 3, 4, 2)
			lose(t, s.dataFiles(t)[2])
			return nil
		}, rows: "9"},
		"all_from_the_mirror": {back: func(s *site) []string {
			url, committed := s.goBack(t, 3, 4, 2)
			lose(t, s.dataFiles(t)[1:]...)
			lose(t, committed...)
			return []string{"--mirror", url}
		}, rows: "9", later: true},
		"others_went_on": {back: func(s *site) []string {
			_, committed := s.goBack(t, 3, 4, 2)
			lose(t, committed...)
			s.byOthers(t, 1, 1, 1)
			return nil
		}, rows: "12"},
		"after_an_empty_catalog": {back: func(s *site) []string {
			_, committed := s.goBack(t, 3, 4, 2)
			lose(t, committed...)
			s.onEmptyCatalog(t, 5)
			return nil
		}, rows: "9", abandon: true},
		"made_anew": {back: func(s *site) []string {
			_, committed := s.goBack(t, 3, 4, 2)
			lose(t, committed...)
			lose(t, filepath.Join(s.dir, "catalog.db"))
			return nil
		}, rows: "9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			args := c.back(s)
			made := s.headTable(t)
			files := s.age(t)
			require.NotEqual(t, exitOK, s.run("gc-orphans", "--apply").code)
			require.Equal(t, files, s.age(t))

			s.run(append([]string{"catalog-repair", "--apply"}, args...)...)
			require.Contains(t, s.ok("catalog-repair"), "Nothing to do.")
			for range 2 { // before the drain, and after it
				files = s.age(t)
				r := s.run("gc-orphans", "--apply")
				if c.later {
					require.Equal(t, exitFailed, r.code)
					require.Contains(t, r.stdout, "when the table has changed as often again")
					require.Equal(t, files, s.age(t))
				} else if c.abandon {
					require.Equal(t, exitFailed, r.code)
					require.Contains(t, r.stdout, "files of another table, UUID "+made)
					require.Equal(t, files, s.age(t))
					s.ok("gc-orphans", "--apply", "--abandon", made)
				} else {
					require.Equal(t, exitOK, r.code, "%s%s", r.stdout, r.stderr)
				}
				c.abandon, c.later = false, false
				s.ok("drain", "--once")
				require.Equal(t, []string{c.rows, c.rows}, s.counts(t)[:2])
			}
			require.Contains(t, s.ok("catalog-repair"), "Nothing to do.")
		})
	}
}
