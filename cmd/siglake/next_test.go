package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// A command that is printed acts on what was looked at: --data and its like come along, and what the environment says
// needs none.
func TestNext_carries_the_places(t *testing.T) {
	t.Parallel()
	s := troubled(t)
	dir := filepath.Join(s.tb.TempDir(), "it's here")
	require.NoError(t, os.Rename(s.dir, dir))
	quoted := "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"

	printed := func(where ...string) (commands []string) {
		var rep statusReport
		require.NoError(t, json.Unmarshal([]byte(s.ok(append([]string{"status", "-o", "json"}, where...)...)), &rep))
		for _, n := range rep.Next {
			if n.Command != "" {
				commands = append(commands, n.Command)
			}
		}
		return commands
	}
	require.Equal(t, []string{
		"siglake wal-requeue --all --dry-run --lane default/events --data " + quoted,
		"siglake stale list --lane default/events --data " + quoted,
		"siglake orphans compare --all --lane default/events --data " + quoted,
		"siglake drain --once --data " + quoted,
	}, printed("--data", dir))
	plain := t.TempDir()
	require.NoError(t, os.Rename(filepath.Join(dir, "wal"), filepath.Join(plain, "log")))
	require.Contains(t, printed("--wal", plain+"/log", "--catalog", "sqlite://"+plain+"/c.db", "--warehouse", "s3://lake/house"),
		"siglake drain --once --wal "+plain+"/log --catalog sqlite://"+plain+"/c.db --warehouse s3://lake/house")
	require.NoError(t, os.MkdirAll(s.dir, 0o750))
	require.NoError(t, os.Rename(filepath.Join(plain, "log"), s.walDir()))
	require.Contains(t, printed(), "siglake drain --once")
}

// So does what the other commands print.
func TestNext_of_each_command(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 2)
	bad := sealed(t, uuid.Nil, 3)
	bad[2000] ^= 1
	s.put(s.lane("default", "events"), segment.Sealed, 1, bad, time.Minute)
	here := " --data " + s.dir + "\n"

	query := []string{"sql", "SELECT count(*) FROM events", "--with-wal", "--data", s.dir}
	require.Contains(t, s.run(query...).stderr, "siglake wal verify"+here)
	var drained result
	for range 5 { // a segment is set aside after several failed reads
		if drained = s.run("drain", "--once", "--data", s.dir); drained.code == exitDamage {
			break
		}
	}
	require.Contains(t, drained.stderr, "siglake wal-requeue --all --dry-run"+here)
	require.Contains(t, s.run(query...).stderr, "siglake wal ls --state poison --lane default/events"+here)
	require.Contains(t, s.run("wal-requeue", "--data", s.dir).stderr, "(siglake wal ls --state poison --data "+s.dir+")")
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/var/lib/siglakecol": "/var/lib/siglakecol", "": "''", "a b": "'a b'", "$HOME": "'$HOME'", "it's": `'it'\''s'`, "~/x": "'~/x'",
		"postgres://u@h/d?sslmode=disable&x=1": "'postgres://u@h/d?sslmode=disable&x=1'", "päth": "'päth'",
	} {
		require.Equal(t, want, shellWord(text))
	}
}
