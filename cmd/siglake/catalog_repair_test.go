//go:build cgo

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// went is a site whose catalog was restored from a backup: 3 rows were committed before it, 4 and 2 after, of which copies
// are in a mirror. committed are the files of the last two.
func went(t *testing.T) (s *site, url string, committed []string) {
	t.Helper()
	s = newSite(t)
	url, committed = s.goBack(t, 3, 4, 2)
	return s, url, committed
}

// goBack commits segments of so many rows, of which the catalog knows the first one only.
func (s *site) goBack(t *testing.T, rows ...int) (url string, committed []string) {
	t.Helper()
	var backup []byte
	objects := map[string][]byte{}
	for _, n := range rows {
		s.write("default", "events", n)
		s.ok("drain", "--once")
		for _, name := range s.names(segment.Committed) {
			path, key := s.lane("default", "events").Path(segment.Committed, name), "default/events/"+name
			if _, ok := objects[key]; ok {
				continue
			}
			body, err := os.ReadFile(path)
			require.NoError(t, err)
			objects[key] = body
			committed = append(committed, path)
		}
		if backup == nil {
			var err error
			backup, err = os.ReadFile(filepath.Join(s.dir, "catalog.db"))
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "catalog.db"), backup, 0o600))
	require.Len(t, committed, len(rows))
	url, _ = bucketOf(t, objects)
	return url, committed[1:]
}

func (s *site) names(st segment.State) (names []string) {
	s.tb.Helper()
	entries, _, err := s.lane("default", "events").List(st)
	require.NoError(s.tb, err)
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// metadata are the metadata files of the table, the newest first.
func (s *site) metadata() []string {
	s.tb.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "warehouse", "siglake.db", "events", "metadata", "0*.metadata.json"))
	require.NoError(s.tb, err)
	require.Len(s.tb, files, 4)
	return []string{files[3], files[2], files[1], files[0]}
}

// lose removes files.
func lose(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		require.NoError(t, os.Remove(f))
	}
}

func (s *site) repair(t *testing.T, code int, args ...string) repairReport {
	t.Helper()
	r := s.run(append([]string{"catalog-repair", "-o", "json"}, args...)...)
	require.Equal(t, code, r.code, "%s%s", r.stdout, r.stderr)
	var rep repairReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &rep))
	return rep
}

// stopped checks that the drain commits nothing to the table, and that everybody says why and what to do.
func (s *site) stopped(t *testing.T, rows string) {
	t.Helper()
	s.write("default", "events", 1)
	r := s.run("drain", "--once")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `table default/events went back: seen before: sequence 3 \(.*00003-.*\), now: sequence 1 \(.*00001-.*\); siglake catalog-repair`, r.stdout)
	require.Equal(t, rows, s.counts(t)[0])
	out := s.ok("status")
	require.Regexp(t, `table siglake.events: committed from here was sequence 3 \(.*00003-.*\), the catalog shows sequence 1 \(.*00001-`, out)
	require.Contains(t, out, "siglake catalog-repair")
	r = s.run("doctor")
	require.Regexp(t, `catalog-age +fail +table siglake.events: committed from here`, r.stdout)
	require.Contains(t, r.stdout, "run siglake catalog-repair")
}

// exact checks that the table has each row once, drains what waits, and that there is nothing to repair any more.
func (s *site) exact(t *testing.T, rows string) {
	t.Helper()
	s.ok("drain", "--once")
	require.Equal(t, []string{rows, rows}, s.counts(t)[:2])
	require.Contains(t, s.ok("catalog-repair"), "Nothing to do.")
	require.NotContains(t, s.ok("status"), "catalog-repair")
	s.write("default", "events", 1)
	s.ok("drain", "--once")
	require.Empty(t, s.names(segment.Sealed))
}

// The newer metadata is there: the catalog is set to it, and every row is in the table once.
func TestCatalogRepair_sets_the_catalog_forward(t *testing.T) {
	t.Parallel()
	s, _, committed := went(t)
	s.stopped(t, "3")
	lose(t, committed...) // retired
	for range 2 {
		rep := s.repair(t, exitOK)
		require.False(t, rep.Tables[0].Resumed)
		require.Contains(t, rep.Tables[0].SetTo.Metadata, "00003-")
		require.EqualValues(t, 9, *rep.Tables[0].SetTo.Rows)
		require.Equal(t, "3", s.counts(t)[0], "a plan changes nothing")
	}
	rep := s.repair(t, exitOK, "--apply")
	require.True(t, rep.Tables[0].Resumed)
	require.Equal(t, "9", s.counts(t)[0])
	s.exact(t, "10")
}

// The newer metadata is lost and its data files are there: they become part of the table again, once. That nothing else is missing
// no file says, so the table goes on only when told to.
func TestCatalogRepair_without_the_metadata(t *testing.T) {
	t.Parallel()
	s, _, committed := went(t)
	s.stopped(t, "3")
	lose(t, s.metadata()[:2]...)
	lose(t, committed...)
	rep := s.repair(t, exitDamage)
	require.Len(t, rep.Tables[0].Files, 2)
	require.EqualValues(t, 6, rep.Tables[0].Files[0].Rows+rep.Tables[0].Files[1].Rows)
	require.NotEmpty(t, rep.Tables[0].Doubt)
	require.Equal(t, "3", s.counts(t)[0], "a plan changes nothing")
	for range 2 {
		rep = s.repair(t, exitDamage, "--apply")
		require.False(t, rep.Tables[0].Resumed)
		require.Equal(t, exitFailed, s.run("drain", "--once").code)
		require.Equal(t, []string{"9", "9"}, s.counts(t)[:2])
	}
	rep = s.repair(t, exitDamage, "--apply", "--accept-loss")
	require.True(t, rep.Tables[0].Resumed)
	s.exact(t, "10")
}

// Newer metadata and data files are lost: the segments come from committed/ and from the mirror.
func TestCatalogRepair_from_the_log_and_the_mirror(t *testing.T) {
	t.Parallel()
	s, url, committed := went(t)
	s.stopped(t, "3")
	lose(t, s.metadata()[:2]...)
	lose(t, s.dataFiles(t)[1:]...)
	lose(t, committed[0]) // retired
	rep := s.repair(t, exitDamage)
	require.Len(t, rep.Tables[0].Requeued, 1)
	require.Empty(t, rep.Tables[0].Restored)
	require.NotEmpty(t, rep.Tables[0].Doubt)
	rep = s.repair(t, exitDamage, "--mirror", url)
	require.Len(t, rep.Tables[0].Restored, 1)
	for range 2 {
		rep = s.repair(t, exitDamage, "--apply", "--mirror", url)
		require.False(t, rep.Tables[0].Resumed)
		require.Equal(t, exitFailed, s.run("drain", "--once").code)
	}
	rep = s.repair(t, exitDamage, "--apply", "--accept-loss")
	require.True(t, rep.Tables[0].Resumed)
	s.exact(t, "10")
}

// Data files are lost and the metadata names the segments: those of the mirror come back, what is nowhere is named with its rows.
func TestCatalogRepair_without_the_data_files(t *testing.T) {
	t.Parallel()
	s, url, committed := went(t)
	s.stopped(t, "3")
	lose(t, s.dataFiles(t)[1:]...)
	lose(t, committed...)
	rep := s.repair(t, exitDamage)
	require.Len(t, rep.Tables[0].Unfit, 2)
	require.Contains(t, rep.Tables[0].Unfit[0].Why, "2 of the files of its current snapshot are gone or damaged")
	require.Empty(t, rep.Tables[0].Doubt)
	require.EqualValues(t, 6, rep.Tables[0].LostRows)
	require.Len(t, rep.Tables[0].Lost, 2)
	r := s.run("catalog-repair", "--apply")
	require.Equal(t, exitDamage, r.code)
	require.Contains(t, r.stdout, "LOST "+rep.Tables[0].Lost[0].Segment+": ")
	require.Contains(t, r.stdout, "stays stopped")
	require.Contains(t, r.stderr, "6 rows of 1 table known to be lost")

	rep = s.repair(t, exitOK, "--apply", "--mirror", url)
	require.Len(t, rep.Tables[0].Restored, 2)
	require.True(t, rep.Tables[0].Resumed)
	s.exact(t, "10")
}

// One of two data files is lost: the state before it is whole and is taken, the rest comes from committed/.
func TestCatalogRepair_takes_what_is_whole(t *testing.T) {
	t.Parallel()
	s, _, _ := went(t)
	lose(t, s.dataFiles(t)[2])
	rep := s.repair(t, exitOK, "--apply")
	require.Contains(t, rep.Tables[0].SetTo.Metadata, "00002-")
	require.Len(t, rep.Tables[0].Requeued, 1)
	require.EqualValues(t, 2, rep.Tables[0].Requeued[0].Rows)
	s.exact(t, "9")
}

// Nothing is left of the commits: named as lost, and the table goes on without when that is accepted.
func TestCatalogRepair_nothing_is_there(t *testing.T) {
	t.Parallel()
	s, _, committed := went(t)
	lose(t, s.dataFiles(t)[1:]...)
	lose(t, committed...)
	rep := s.repair(t, exitDamage, "--apply", "--accept-loss")
	require.EqualValues(t, 6, rep.Tables[0].LostRows)
	require.True(t, rep.Tables[0].Resumed)
	s.exact(t, "3")
}

// dataFiles are the data files in the order of their commits.
func (s *site) dataFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "warehouse", "siglake.db", "events", "data", "*", "*.parquet"))
	require.NoError(t, err)
	return files
}

func TestCatalogRepair_usage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.Equal(t, exitUsage, s.run("catalog-repair").code, "no catalog")
	require.Equal(t, exitUsage, s.run("catalog-repair", "--apply").code, "no catalog, and none is made")
	require.NoFileExists(t, filepath.Join(s.dir, "catalog.db"))
	require.Equal(t, exitUsage, s.run("catalog-repair", "--plan", "--apply").code)
	require.Equal(t, exitUsage, s.run("catalog-repair", "--accept-loss").code)
	s.write("default", "events", 1)
	s.ok("drain", "--once")
	require.Equal(t, exitUsage, s.run("catalog-repair", "--lane", "no/such").code)
	require.Contains(t, s.ok("catalog-repair", "--apply"), "Nothing to do.")
	none := t.TempDir()
	for name, why := range map[string]string{
		"nonsense": "it is no URL", "file://" + none: none + " is not the root of a mirror", "file://" + none + "/away": none + "/away is not the root of a mirror",
	} {
		r := s.run("catalog-repair", "--mirror", name)
		require.Equal(t, exitUsage, r.code, r.stderr)
		require.Contains(t, r.stderr, "--mirror: ")
		require.Contains(t, r.stderr, why)
	}
	lock, err := s.fs.Lock(filepath.Join(s.walDir(), segment.DrainLockName), "somebody")
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Close()) }()
	s.ok("catalog-repair")
	require.Contains(t, s.run("catalog-repair", "--apply").stderr, "a drain runs")
}

// What the page of disaster recovery shows is what is printed.
func TestDisasterRecovery_catalog_gone_back(t *testing.T) {
	t.Parallel()
	s, _, _ := went(t)
	here := strings.NewReplacer("file://"+s.dir+"/warehouse", "s3://telemetry/warehouse")
	commands := commandsOf(disaster(t, "### The catalog is lost, or was restored to an earlier state"))
	require.Len(t, commands, 2)
	for _, c := range commands {
		plain := regexp.MustCompile(`-[0-9a-f]{8}-[0-9a-f-]{27}\.`).ReplaceAllString
		require.Equal(t, shape(plain(c.output, "-ID.")), shape(plain(here.Replace(s.ok(shellWords(c.command)...)), "-ID.")), c.command)
	}
	s.exact(t, "9")
}
