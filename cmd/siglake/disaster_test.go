//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// printed is a command of a page and what the page says that it prints; "" where it does not say.
type printed struct{ command, output string }

// commandsOf are the siglake commands in the blocks of a text, in order.
func commandsOf(text string) (out []printed) {
	for _, block := range regexp.MustCompile("(?s)```(?:sh)?\n(.*?)```").FindAllStringSubmatch(text, -1) {
		open := false
		for line := range strings.Lines(block[1]) {
			command, prompt := strings.CutPrefix(line, "$ ")
			switch {
			case strings.HasPrefix(command, "siglake ") && (prompt || strings.HasPrefix(block[0], "```sh")):
				out = append(out, printed{command: strings.TrimSpace(command)})
				open = prompt
			case prompt:
				open = false
			case open:
				out[len(out)-1].output += line
			}
		}
	}
	return out
}

// shellWords splits a command as a shell does that knows double quotes.
func shellWords(command string) (args []string) {
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(command, -1) {
		args = append(args, m[1]+m[2])
	}
	return args[1:]
}

// shape is an output without its figures: what a reader recognises it by.
func shape(output string) string {
	for _, r := range []struct{ find, put string }{
		{`\d{4}-\d\d-\d\dT[0-9:.]+Z`, "TIME"}, {`[0-9][0-9,.]*`, "N"}, {`[KMG]iB`, "B"}, {` +`, " "}, {`(?m)^ | $`, ""},
	} {
		output = regexp.MustCompile(r.find).ReplaceAllString(output, r.put)
	}
	return strings.TrimSpace(output)
}

// The commands of docs/operations/disaster-recovery.md exist with their flags. Those of the procedure for a lost volume, one
// after the other, restore one, and print what the page shows.
func TestDisasterRecovery_procedure(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "disaster-recovery.md"))
	require.NoError(t, err)
	for _, c := range commandsOf(string(raw)) {
		require.NotEmpty(t, newPlace(t).ok(append(shellWords(c.command), "--help")...), c.command)
	}

	_, procedure, ok := strings.Cut(string(raw), "\n## The volume is lost\n")
	require.True(t, ok)
	procedure, _, ok = strings.Cut(procedure, "\n## ")
	require.True(t, ok)
	s, url := lostVolume(t)
	place := strings.NewReplacer("s3://telemetry/wal-mirror", url, "s3://telemetry", strings.TrimSuffix(url, "/wal-mirror"), "/var/lib/siglakecol/wal", s.walDir())
	page := strings.NewReplacer(url, "s3://telemetry/wal-mirror", strings.TrimSuffix(url, "/wal-mirror"), "s3://telemetry", s.walDir(), "/var/lib/siglakecol/wal")
	commands := commandsOf(procedure)
	require.Len(t, commands, 6)
	for i, c := range commands {
		r := s.run(shellWords(place.Replace(c.command))...)
		if c.output != "" {
			require.Equal(t, shape(c.output), shape(page.Replace(r.stdout+r.stderr)), c.command)
		}
		if i == 2 {
			require.Contains(t, s.ok("drain", "--once"), "2 segments committed", "in the place of a collector")
		}
	}
	require.Equal(t, "n,d\n7,7\n", s.ok("sql", "-o", "csv", "SELECT count(*) AS n, count(DISTINCT (segment_id, segment_row)) AS d FROM events"))
}

// lostVolume is a data directory with a table of one segment and without a log, and the URL of a mirror that has that
// segment and one more.
func lostVolume(t *testing.T) (s *site, url string) {
	t.Helper()
	first := map[string][]byte{"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3)}
	url, dir := bucketOf(t, first)
	s = newPlace(t)
	s.ok("wal-recover", "--from", url, "--to", s.walDir())
	s.ok("drain", "--once")
	require.NoError(t, os.RemoveAll(s.walDir()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "default", "events", segmentID(2).FileName()), sealed(t, uuid.Nil, 4), 0o600))
	return s, url
}
