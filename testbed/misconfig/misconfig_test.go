// Package misconfig starts the built binaries with configurations that must not run, and reads what they say: each must
// end at once, with a code other than 0 and a text that names the key, the value and the way out.
package misconfig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a refusal may take on a busy machine.
const patience = 40 * time.Second

// refused starts a collector and requires that it ends by itself with an error that holds all words.
func refused(t *testing.T, h *collector.Harness, words ...string) {
	t.Helper()
	p := h.Launch()
	select {
	case <-p.Done():
	case <-time.After(patience):
		p.Kill()
		require.Fail(t, "it runs", "want a refusal that says %q; last lines:\n%s", words, p.Tail(15))
	}
	require.NotZero(t, p.ExitCode())
	says(t, p.Output(), words...)
}

func says(t *testing.T, output string, words ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(output), "\n")
	message := strings.Join(lines[max(0, len(lines)-6):], "\n")
	for _, w := range words {
		require.Contains(t, message, w, "the error must name the key, the value and the way out")
	}
}

// scratch is a place for a test's own folders; {dir} in an overlay stands for it.
func scratch(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "notroot"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notroot", "letter.txt"), []byte("x"), 0o600))
	return dir
}

func TestConfigurationsThatMustNotRun(t *testing.T) {
	for _, tc := range []struct {
		name, overlay string
		words         []string
	}{
		{"unknown_key", "exporters: {siglake: {wal: {directry: /x}}}", []string{"siglake", "wal", "directry", "invalid keys"}},
		{"unknown_key_of_the_compactor", "extensions: {lakecompactor: {warehose: /x}}", []string{"lakecompactor", "warehose"}},
		{"no_directory", `exporters: {siglake: {wal: {directory: ""}}}`, []string{"exporters::siglake::wal", "directory", `""`, "set it to"}},
		{"a_file_in_the_way", "exporters: {siglake: {wal: {directory: '{dir}/file/wal'}}}", []string{"wal::directory", "{dir}/file/wal", "not a directory"}},
		{"a_directory_with_other_things", "exporters: {siglake: {wal: {directory: '{dir}/notroot'}}}", []string{"wal::directory", "{dir}/notroot", "letter.txt", "give an empty directory"}},
		{"compactor_on_no_wal_root", "extensions: {lakecompactor: {wal_directory: '{dir}/notroot'}}", []string{"wal_directory", "{dir}/notroot"}},
		{"no_catalog", `extensions: {lakecompactor: {catalog: ""}}`, []string{"lakecompactor", "catalog", `""`, "sqlite:///"}},
		{"catalog_of_another_kind", `extensions: {lakecompactor: {catalog: "mysql://db"}}`, []string{"lakecompactor", "catalog", "mysql://db", "sqlite:///"}},
		{"catalog_in_no_directory", `extensions: {lakecompactor: {catalog: "sqlite://{dir}/gone/c.db"}}`, []string{"lakecompactor::catalog", "{dir}/gone", "make it"}},
		{"unknown_mode", `exporters: {siglake: {commit: {default: sync}}}`, []string{"commit::default", `"sync"`, "auto, wait_for, mirrored, force"}},
		{"mirror_with_a_secret_in_its_url", `extensions: {walmirror: {bucket_url: "s3://bucket?key=not-to-be-seen"}}`, []string{"extensions::walmirror: bucket_url: ", "s3://bucket", "section s3"}},
		{"mirror_with_half_a_key", `extensions: {walmirror: {s3: {access_key_id: x}}}`, []string{"extensions::walmirror::s3: access_key_id: ", "give both"}},
		{"compactors_mirror_that_is_no_url", `extensions: {lakecompactor: {mirror: {bucket_url: "s3:///x"}}}`, []string{"extensions::lakecompactor::mirror: bucket_url: ", "names no bucket"}},
		{"mirror_that_nobody_names", `{extensions: {walmirror: {bucket_url: "file://{dir}/bucket"}}, exporters: {siglake: {mirror: null}}}`, []string{"walmirror", "no exporter names it", "exporters::siglake::mirror: walmirror"}},
		{"mirror_that_is_not_there", `{exporters: {siglake: {mirror: walmirror/2}}}`, []string{"mirror", "walmirror/2", "service::extensions"}},
		{"no_room_for_an_event", `exporters: {siglake: {wal: {segment: {max_events: -1}}}}`, []string{"segment", "max_events", "-1"}},
		{
			"batch_processor", "processors: {batch: {}}\nservice: {pipelines: {logs: {receivers: [otlp], processors: [memory_limiter, batch], exporters: [siglake]}}}",
			[]string{"pipeline", "logs", "batch", "take batch out", "allow_broken_ack"},
		},
		{"no_name_of_a_tenant", "exporters: {siglake: {tenancy: {enabled: true, allowed: [Sealed]}}}", []string{"exporters::siglake::tenancy", "allowed", `"Sealed"`, "reserved", "give a name"}},
		{"tenants_that_nobody_asks_for", "exporters: {siglake: {tenancy: {allowed: [team-a]}}}", []string{"exporters::siglake::tenancy", "enabled: false", "set enabled: true"}},
		{"a_queue_that_forgets_the_tenant_C6", "exporters: {siglake: {sending_queue: {storage: file_storage}}}", []string{"siglake", "sending_queue", "invalid keys"}},
		{
			"a_processor_that_forgets_the_tenant_C6", "processors: {batch: {}}\nexporters: {siglake: {tenancy: {enabled: true}}}\nextensions: {ingestparams: {allow_broken_ack: true}}\n" +
				"service: {pipelines: {logs: {receivers: [otlp], processors: [memory_limiter, batch], exporters: [siglake]}}}",
			[]string{"pipeline", "logs", "batch", "forgets the tenant", "take batch out"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := scratch(t)
			h := collector.New(t, strings.ReplaceAll(tc.overlay, "{dir}", dir))
			words := make([]string, len(tc.words))
			for i, w := range tc.words {
				words[i] = strings.ReplaceAll(w, "{dir}", dir)
			}
			refused(t, h, words...)
		})
	}
}

// TestBrokenAckIsAChoice: with the words of the refusal taken, the same pipeline runs.
func TestBrokenAckIsAChoice(t *testing.T) {
	h := collector.New(t, "processors: {batch: {}}\nextensions: {ingestparams: {allow_broken_ack: true}}\nservice: {pipelines: {logs: {receivers: [otlp], processors: [memory_limiter, batch], exporters: [siglake]}}}")
	h.Start()
	h.Stop()
}

// TestUnwritableDirectoryIsRefused runs the collector as a user who may not write where the log belongs.
func TestUnwritableDirectoryIsRefused(t *testing.T) {
	require.Zero(t, os.Getuid(), "run as root: the test starts the collector as another user")
	h := collector.New(t)
	require.NoError(t, os.Chmod(h.Dir, 0o755))  // the other user may read the overlay and enter
	require.NoError(t, os.Chmod(h.Data, 0o755)) // and look, but not write
	h.User = &syscall.Credential{Uid: 65534, Gid: 65534}
	refused(t, h, "permission denied", h.Data)
}

func TestSecondProcessOnOneRootIsRefused(t *testing.T) {
	h := collector.New(t)
	first := h.Start()
	for _, overlay := range []string{"", "exporters: {siglake: {wal: {shared: true}}}\n"} {
		ports, err := collector.FreePorts()
		require.NoError(t, err)
		opt := h.Options
		opt.Ports, opt.Overlay = ports, []string{overlay}
		second, err := collector.Start(opt, filepath.Join(t.TempDir(), "second.log"))
		require.NoError(t, err)
		t.Cleanup(second.Kill)
		select {
		case <-second.Done():
		case <-time.After(patience):
			require.Fail(t, "two collectors write one log", second.Tail(15))
		}
		require.NotZero(t, second.ExitCode())
		says(t, second.Output(), "wal::directory", h.WAL(), "LOCK", "exporter siglake, instance ", fmt.Sprintf("pid %d, since ", first.PID()), "wal.shared: true")
	}
	ctx, cancel := context.WithTimeout(t.Context(), collector.StartTimeout)
	defer cancel()
	require.NoError(t, first.WaitHealthy(ctx), "the first goes on")
	h.Stop()
}

// call runs a command to its end.
func call(t *testing.T, name string, args ...string) (code int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, ctx.Err(), "%s %v does not end: %s", name, args, out)
	if err != nil {
		exit := &exec.ExitError{}
		require.ErrorAs(t, err, &exit)
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

func TestCollectorCommands(t *testing.T) {
	bin := testenv.Must(t, testenv.Collector)
	config := testenv.Must(t, testenv.DefaultConfig)
	t.Setenv("SIGLAKE_DATA", t.TempDir())

	code, out := call(t, bin, "validate", "--config", config)
	require.Zero(t, code, out)

	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte(`exporters: {siglake: {commit: {default: now}}}`), 0o600))
	code, out = call(t, bin, "validate", "--config", config, "--config", bad)
	require.NotZero(t, code)
	says(t, out, "commit::default", `"now"`, "auto, wait_for")

	code, out = call(t, bin, "components")
	require.Zero(t, code, out)
	for _, name := range []string{"siglake", "ingestparams", "lakecompactor", "walmirror", "otlp", "memory_limiter", "file_log", "host_metrics"} {
		require.Contains(t, out, "name: "+name+"\n")
	}

	for _, args := range [][]string{{"--help"}, {"--version"}} {
		code, out = call(t, bin, args...)
		require.Zero(t, code, out)
		require.Contains(t, out, "siglakecol")
	}

	code, out = call(t, bin, "--config", filepath.Join(t.TempDir(), "none.yaml"))
	require.NotZero(t, code)
	says(t, out, "none.yaml", "no such file")
}

func TestOperatorCommandsOnTheWrongPlace(t *testing.T) {
	bin := testenv.Must(t, testenv.CLI)
	dir := scratch(t)
	for _, tc := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"status_of_nothing", []string{"status", "--data", filepath.Join(dir, "gone")}, []string{filepath.Join(dir, "gone")}},
		{"status_of_no_root", []string{"status", "--data", filepath.Join(dir, "notroot")}, []string{filepath.Join(dir, "notroot")}},
		{"wal_ls_of_no_root", []string{"wal", "ls", "--data", filepath.Join(dir, "notroot")}, []string{filepath.Join(dir, "notroot")}},
		{"drain_of_no_root", []string{"drain", "--once", "--data", filepath.Join(dir, "notroot")}, []string{filepath.Join(dir, "notroot")}},
		{"sql_without_a_catalog", []string{"sql", "--data", filepath.Join(dir, "notroot"), "SELECT 1"}, []string{"catalog.db"}},
		{"tables_without_a_catalog", []string{"tables", "--data", filepath.Join(dir, "notroot")}, []string{"catalog.db"}},
		{"unknown_command", []string{"statsu"}, []string{"statsu"}},
		{"unknown_flag", []string{"status", "--dta", dir}, []string{"--dta"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out := call(t, bin, tc.args...)
			require.NotZero(t, code, out)
			says(t, out, tc.words...)
			require.NoFileExists(t, filepath.Join(dir, "notroot", "catalog.db"), "a look must not make a catalog")
			require.NoDirExists(t, filepath.Join(dir, "gone"), "a look must not make a directory")
		})
	}
	code, out := call(t, bin, "--help")
	require.Zero(t, code, out)
	for _, c := range []string{"status", "wal", "tables", "drain", "sql"} {
		require.Contains(t, out, c)
	}
}
