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
		{`[0-9a-f]{8}-[0-9a-f-]+\.arrow`, "SEGMENT"}, {`writer [0-9a-f]{12}`, "WRITER"}, {`\d{4}-\d\d-\d\dT[0-9:.]+Z`, "TIME"}, {`[0-9][0-9,.]*`, "N"}, {`[KMG]iB`, "B"}, {` +`, " "}, {`(?m)^ | $`, ""},
	} {
		output = regexp.MustCompile(r.find).ReplaceAllString(output, r.put)
	}
	return strings.TrimSpace(output)
}

// disaster is docs/operations/disaster-recovery.md from a heading to the next of its kind.
func disaster(t *testing.T, heading string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "disaster-recovery.md"))
	require.NoError(t, err)
	_, text, ok := strings.Cut("\n"+string(raw), "\n"+heading+"\n")
	require.True(t, ok, heading)
	text, _, _ = strings.Cut(text, "\n"+strings.Repeat("#", strings.Count(heading, "#"))+" ")
	return text
}

// follow runs a command of the page against a mirror and a log of ours, and requires what the page shows.
func (s *site) follow(t *testing.T, url string, c printed) {
	t.Helper()
	bucket := strings.TrimSuffix(url, "/wal-mirror")
	ours := strings.NewReplacer("s3://telemetry", bucket, "/var/lib/siglakecol/wal", s.walDir())
	theirs := strings.NewReplacer(bucket, "s3://telemetry", s.walDir(), "/var/lib/siglakecol/wal")
	r := s.run(shellWords(ours.Replace(c.command))...)
	if c.output != "" {
		require.Equal(t, shape(c.output), shape(theirs.Replace(r.stdout+r.stderr)), c.command)
	}
}

// The commands of the page exist with their flags. Those of the procedure for a lost volume, one after the other, restore one,
// and print what the page shows.
func TestDisasterRecovery_procedure(t *testing.T) {
	t.Parallel()
	all := commandsOf(disaster(t, "# Disaster recovery"))
	require.Greater(t, len(all), 8)
	for _, c := range all {
		require.NotEmpty(t, newPlace(t).ok(append(shellWords(c.command), "--help")...), c.command)
	}

	// A table of one segment and no log; a mirror of that segment and one more.
	url, dir := bucketOf(t, map[string][]byte{"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3)})
	s := newPlace(t)
	s.ok("wal-recover", "--from", url, "--to", s.walDir())
	s.ok("drain", "--once")
	require.NoError(t, os.RemoveAll(s.walDir()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "default", "events", segmentID(2).FileName()), sealed(t, uuid.Nil, 4), 0o600))
	commands := commandsOf(disaster(t, "## The volume is lost"))
	require.Len(t, commands, 6)
	for i, c := range commands {
		s.follow(t, url, c)
		if i == 2 {
			require.Contains(t, s.ok("drain", "--once"), "2 segments committed", "in the place of a collector")
		}
	}
	require.Equal(t, "n,d\n7,7\n", s.ok("sql", "-o", "csv", "SELECT count(*) AS n, count(DISTINCT (segment_id, segment_row)) AS d FROM events"))
}

// What the page shows of a mirror that is not whole.
func TestDisasterRecovery_damaged_mirrors(t *testing.T) {
	t.Parallel()
	half := sealed(t, uuid.Nil, 4)
	url, dir := bucketOf(t, map[string][]byte{
		"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3),
		"default/events/" + segmentID(2).FileName(): half[:len(half)/2],
		"default/events/" + segmentID(4).FileName(): sealed(t, uuid.Nil, 3), // the third is missing
		"default/events/" + segmentID(5).FileName(): sealed(t, uuid.Nil, 3),
	})
	s := newPlace(t)
	for _, heading := range []string{"### An object of the mirror is deleted or overwritten", "### The marker of the mirror is gone"} {
		commands := commandsOf(disaster(t, heading))
		require.Len(t, commands, 1, heading)
		s.follow(t, url, commands[0])
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "siglake-mirror.json")))
	}
}
