//go:build cgo

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs/killfs"
)

// repairWalk cuts each operation of a repair that changes the disk of the log by kill -9, and another one of the next try.
type repairWalk struct {
	// prepare makes what is to be repaired, and returns the arguments of the command beside catalog-repair --apply.
	prepare func(s *site) (args []string)
	// collector says that every second time one is started on what is left, as somebody may who was interrupted.
	collector bool
	// judge ends the work and looks at it.
	judge func(s *site, k int, args []string)
}

// run requires that whatever was cut, the log is the same at the end: each file in the same state.
func (w repairWalk) run(t *testing.T) {
	t.Helper()
	stride := 4
	if os.Getenv("SIGLAKE_SOAK") != "" {
		stride = 1
	}
	var s *site
	var kept string
	var args, end []string
	steps := 0
	killfs.Walk{
		Work: func(dir string, fsys *killfs.FS, _ func(int)) error {
			args, err := os.ReadFile(filepath.Join(dir, "args"))
			if err != nil {
				return err
			}
			return commandOn(fsys, append([]string{"catalog-repair", "--apply", "--data", dir}, strings.Fields(string(args))...)...)
		},
		Stride: stride, Spread: 23,
		Fresh: func() string {
			if s == nil {
				s = newSite(t)
				args = w.prepare(s)
				require.NoError(t, os.WriteFile(filepath.Join(s.dir, "args"), []byte(strings.Join(args, " ")), 0o600))
				kept = filepath.Join(t.TempDir(), "kept")
				require.NoError(t, os.CopyFS(kept, os.DirFS(s.dir)))
			}
			require.NoError(t, os.RemoveAll(s.dir))
			require.NoError(t, os.CopyFS(s.dir, os.DirFS(kept)))
			return s.dir
		},
		Judge: func(k int, _ string, _ ...killfs.Life) {
			if steps++; w.collector && steps%2 == 0 {
				s.run("drain", "--once")
			}
			w.judge(s, k, args)
			require.Contains(t, s.ok("catalog-repair"), "Nothing to do.", "k=%d", k)
			if end == nil {
				end = s.logFiles()
			}
			require.Equal(t, end, s.logFiles(), "k=%d", k)
		},
	}.Run(t)
}

// logFiles are the names of all files in the log, below its root.
func (s *site) logFiles() (names []string) {
	s.tb.Helper()
	require.NoError(s.tb, fs.WalkDir(os.DirFS(s.walDir()), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	slices.Sort(names)
	return names
}

// The catalog is set, a segment comes from committed/ and three from the mirror: every row is in the table once. LAKE-1, ONE-1.
func TestCatalogRepair_kill_exact(t *testing.T) {
	repairWalk{
		collector: true,
		prepare: func(s *site) []string {
			url, committed := s.goBack(t, 3, 4, 2, 5, 1, 6)
			lose(t, s.dataFiles(t)[2:]...)
			lose(t, committed[2:]...)
			return []string{"--mirror", url}
		},
		judge: func(s *site, k int, args []string) {
			rep := s.repair(t, exitOK, append([]string{"--apply"}, args...)...)
			require.LessOrEqual(t, len(rep.Tables), 1, "k=%d", k)
			s.ok("drain", "--once")
			require.Equal(t, []string{"21", "21"}, s.counts(t)[:2], "k=%d", k)
		},
	}.run(t)
}

// A collector had started on an empty catalog, and the old one is restored: the head of either table is kept whatever is cut, the
// segments of the one that was made by mistake are set aside, and each row comes into the old one once. LAKE-1, ONE-1.
func TestCatalogRepair_kill_after_an_empty_catalog(t *testing.T) {
	var old, made string // tables
	repairWalk{
		collector: true,
		prepare: func(s *site) []string {
			_, committed := s.goBack(t, 3, 4, 2)
			lose(t, committed[0]) // retired
			old = s.headTable(t)
			s.onEmptyCatalog(t, 2, 5, 1)
			made = s.headTable(t)
			return nil
		},
		judge: func(s *site, k int, _ []string) {
			rep := s.repair(t, exitOK, "--apply")
			require.LessOrEqual(t, len(rep.Tables), 1, "k=%d", k)
			require.Equal(t, old, s.headTable(t), "k=%d", k)
			require.FileExists(t, filepath.Join(s.walDir(), "default", "events", "stale", made, "head"), "k=%d", k)
			s.ok("stale", "requeue", "--all", "--into-table", old)
			s.ok("drain", "--once")
			require.Equal(t, []string{"17", "17"}, s.counts(t)[:2], "k=%d", k)
		},
	}.run(t)
}

// There is no catalog: it is made, and the tables of three lanes are registered, of which two lack files. LAKE-1, ONE-1.
func TestCatalogRepair_kill_makes_the_catalog(t *testing.T) {
	repairWalk{
		prepare: func(s *site) []string {
			for _, rows := range []int{2, 5} {
				s.write("default", "audit", rows)
				s.write("acme", "events", rows)
				s.ok("drain", "--once")
			}
			url, committed := s.goBack(t, 3, 4, 2, 1)
			lose(t, committed[0]) // retired
			lose(t, s.dataFiles(t)[3])
			files, err := filepath.Glob(filepath.Join(s.dir, "warehouse", "tenant_acme.db", "events", "data", "*", "*.parquet"))
			require.NoError(t, err)
			lose(t, files[1], filepath.Join(s.dir, "catalog.db"))
			return []string{"--mirror", url}
		},
		judge: func(s *site, k int, args []string) {
			rep := s.repair(t, exitOK, append([]string{"--apply"}, args...)...)
			require.LessOrEqual(t, len(rep.Tables), 3, "k=%d", k)
			s.ok("drain", "--once")
			for table, rows := range map[string]string{"siglake.events": "10", "siglake.audit": "7", "tenant_acme.events": "7"} {
				require.Equal(t, "n,d\n"+rows+","+rows+"\n",
					s.ok("sql", "-o", "csv", "SELECT count(*) AS n, count(DISTINCT (segment_id, segment_row)) AS d FROM "+table), "k=%d", k)
			}
		},
	}.run(t)
}

// onEmptyCatalog lets a collector run with the catalog away: it makes a table, which gets segments of so many rows. Then the catalog is
// there again.
func (s *site) onEmptyCatalog(t *testing.T, rows ...int) {
	t.Helper()
	catalog := filepath.Join(s.dir, "catalog.db")
	require.NoError(t, os.Rename(catalog, catalog+".backup"))
	for _, n := range rows {
		s.write("default", "events", n)
		require.Equal(t, exitOK, s.run("drain", "--once", "--catalog", "sqlite://"+catalog).code) // makes a table, and says so
	}
	require.NoError(t, os.Rename(catalog+".backup", catalog))
	for _, f := range []string{"-wal", "-shm"} {
		require.NoError(t, os.RemoveAll(catalog+f))
	}
}

// headTable is the table that the log of the lane was last committed to.
func (s *site) headTable(t *testing.T) string {
	t.Helper()
	head, ok, err := s.lane("default", "events").Head()
	require.NoError(t, err)
	require.True(t, ok)
	return head.Table.String()
}
