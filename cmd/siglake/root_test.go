package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestRoot_wrong_usage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, args := range [][]string{
		{"stauts"},
		{"status", "extra"},
		{"status", "--nope"},
		{"status", "--output", "yaml"},
		{"wal", "lst"},
		{"wal", "inspect"},
		{"sql", "SELECT 1", "SELECT 2"},
		{"sql", "-o", "text", "SELECT 1"},
	} {
		t.Run(strings.Join(args, "_"), func(t *testing.T) {
			t.Parallel()
			r := s.run(args...)
			require.Equal(t, exitUsage, r.code, "%s", r.stderr)
			require.True(t, strings.HasPrefix(r.stderr, "siglake: "), r.stderr)
			require.Empty(t, r.stdout)
		})
	}
}

// Every command explains itself, with examples, and the root with all exit codes.
func TestRoot_help(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	root := newRoot(&app{environment: environment{getenv: func(string) string { return "" }}})
	var visit func(cmd *cobra.Command, path []string)
	visit = func(cmd *cobra.Command, path []string) {
		help := s.ok(append(path, "--help")...)
		require.Contains(t, help, "Usage:", path)
		require.Contains(t, help, "Examples:", path)
		require.NotEmpty(t, cmd.Short, path)
		require.NotEmpty(t, cmd.Long, path)
		for _, sub := range cmd.Commands() {
			visit(sub, append(path, sub.Name()))
		}
	}
	for _, cmd := range root.Commands() {
		visit(cmd, []string{cmd.Name()})
	}
	help := s.ok("--help")
	for _, want := range []string{"0  done", "1  failed", "2  wrong usage", "3  damage found", "4  a check of doctor failed", "SIGLAKE_DATA", "--warehouse"} {
		require.Contains(t, help, want)
	}
	require.Contains(t, s.ok("--version"), "siglake version "+releaseVersion)
	require.Contains(t, s.ok("completion", "bash"), "__start_siglake")
}

// Both binaries are of one version.
func TestRoot_version_is_the_distributions(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "builder-config.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(b), "\n  version: "+releaseVersion+"\n")
}

func TestRoot_defaults(t *testing.T) {
	t.Parallel()
	a := &app{environment: environment{getenv: func(string) string { return "" }}}
	require.Equal(t, "data", a.dataDefault())
	a.data = "/srv/x"
	uri, err := a.catalogURI()
	require.NoError(t, err)
	require.Equal(t, []string{"/srv/x/wal", "sqlite:///srv/x/catalog.db", "/srv/x/warehouse"}, []string{a.walDir(), uri, a.warehouseOf("sqlite:///x")})
	a.wal, a.catalog, a.warehouse = "/w", "sqlite:///c.db", "/h"
	uri, err = a.catalogURI()
	require.NoError(t, err)
	require.Equal(t, []string{"/w", "sqlite:///c.db", "/h"}, []string{a.walDir(), uri, a.warehouseOf("sqlite:///x")})
	a = &app{environment: environment{getenv: func(name string) string {
		return map[string]string{"SIGLAKE_CATALOG": "postgres://u:secret@h/d", "SIGLAKE_WAREHOUSE": "s3://b/p"}[name]
	}}}
	uri, err = a.catalogURI()
	require.NoError(t, err)
	require.Equal(t, []string{"postgres://u:secret@h/d", "s3://b/p"}, []string{uri, a.warehouseOf(uri)})
	a = &app{environment: environment{getenv: func(string) string { return "" }}}
	require.Empty(t, a.warehouseOf("rest+https://h"), "no directory of this machine goes without saying")
}

// A password in a flag would be seen in the list of processes: it is refused, and not repeated.
func TestRoot_no_secret_in_flags(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{"postgres://u:canary@h/d", "postgres://h/d?password=canary", "postgres://u:canary%@h/d"} {
		r := newSite(t).run("tables", "--catalog", uri)
		require.Equal(t, exitUsage, r.code, uri)
		require.Contains(t, r.stderr, "--catalog: ")
		require.NotContains(t, r.stdout+r.stderr, "canary")
	}
}
