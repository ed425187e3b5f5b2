package walmirror

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/extension/internal/stores"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// load reads one section of testdata/config.yaml over the defaults.
func load(t *testing.T, id string) *Config {
	t.Helper()
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub(id)
	require.NoError(t, err)
	cfg, ok := createDefaultConfig().(*Config)
	require.True(t, ok)
	require.NoError(t, sub.Unmarshal(cfg))
	return cfg
}

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	defaults := Config{
		Prefix: "wal-mirror", S3: stores.S3Config{Checksum: "when_required"},
		SweepInterval: 5 * time.Minute, Concurrency: 4, AttemptTimeout: 30 * time.Second, ShutdownTimeout: 10 * time.Second,
	}
	require.Equal(t, &defaults, load(t, "walmirror"))
	yes := true
	require.Equal(t, &Config{
		BucketURL: "s3://telemetry/dir", Prefix: "a/b", S3: stores.S3Config{
			Endpoint: "https://minio.example.net:9000", Region: "eu-central-1", AccessKeyID: "id", SecretAccessKey: "not-to-be-seen",
			SessionToken: "nor-this", PathStyle: &yes, Checksum: "when_supported",
		},
		SweepInterval: time.Minute, ActiveInterval: 10 * time.Second, Concurrency: 8, AttemptTimeout: time.Minute, ShutdownTimeout: 20 * time.Second,
	}, load(t, "walmirror/all"))
	for _, id := range []string{"walmirror", "walmirror/all", "walmirror/off"} {
		require.NoError(t, confmap.Validate(load(t, id)), id)
	}
	err := confmap.Validate(load(t, "walmirror/bad"))
	for _, want := range []string{
		`bucket_url: "s3://telemetry/dir" has more than a bucket and a path; credentials and options go into the section s3 or the environment`,
		`prefix: "../up" is no path of plain names; write for example wal-mirror, or "" for no mirror`,
		`sweep_interval: 5ns is below 1s; give a duration with its unit, for example 30s, or 0 for never`,
		`active_interval: 10ns is below 1s; give a duration with its unit, for example 30s, or 0 for never`,
		`attempt_timeout: 0s is below 1s; give a duration with its unit, for example 30s`,
		`shutdown_timeout: 1ms is below 1s; give a duration with its unit, for example 30s, or 0 to leave everything to the next start`,
		`concurrency: 0 is not from 1 to 64; give for example 4`,
		`s3: endpoint: it is no http or https URL of a host; write for example https://minio.example.net:9000, without credentials`,
		`access_key_id: given without secret_access_key, or the reverse`,
		`checksum: "never" is not one of when_required, when_supported`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "not-to-be-seen")
	// As the Collector says it, below extensions::walmirror: each line begins with a key that a user can write.
	for line := range strings.Lines(err.Error()) {
		require.Regexp(t, `^(bucket_url|prefix|(sweep|active)_interval|(attempt|shutdown)_timeout|concurrency|s3: (endpoint|access_key_id|session_token|checksum)|(access_key_id|session_token|checksum)): `, line)
	}
	err = confmap.Validate(load(t, "walmirror/nourl"))
	require.ErrorContains(t, err, `bucket_url: it is no URL and is not repeated here, as it may hold credentials; write s3://bucket/path, gs://bucket/path, azblob://container/path or file:///absolute/path`)
	require.NotContains(t, err.Error(), "not-to-be-seen")
}

// build returns the extension and what it logs.
func build(t *testing.T, cfg *Config) (*walmirror, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.WarnLevel)
	set := extensiontest.NewNopSettings(NewFactory().Type())
	set.ID = component.NewID(NewFactory().Type())
	set.Logger = zap.New(core)
	ext, err := NewFactory().Create(t.Context(), set, cfg)
	require.NoError(t, err)
	w, ok := ext.(*walmirror)
	require.True(t, ok)
	return w, logs
}

// Without a bucket, or with an empty prefix, the extension runs idle and says once what is exposed.
func TestLifecycle_idle(t *testing.T) {
	t.Parallel()
	for key, cfg := range map[string]*Config{"bucket_url": load(t, "walmirror"), "prefix": load(t, "walmirror/off")} {
		if key == "prefix" {
			cfg.BucketURL = "file://" + t.TempDir()
		}
		w, logs := build(t, cfg)
		require.NoError(t, w.Shutdown(t.Context()), "shutdown without start")
		require.NoError(t, w.Start(t.Context(), componenttest.NewNopHost()))
		m, err := w.Attach(t.TempDir())
		require.NoError(t, err)
		require.Nil(t, m)
		require.NoError(t, w.NotifyConfigSnapshot(t.Context(), snapshot(t, "exporters: {siglake: {}}")), "an idle mirror needs no exporter")
		require.NoError(t, w.Shutdown(t.Context()))
		require.NoError(t, w.Shutdown(t.Context()), "shutdown twice")
		require.Equal(t, 1, logs.Len())
		require.Contains(t, logs.All()[0].Message, "exist on the volume of the WAL only")
		require.Equal(t, "extensions::walmirror::"+key, logs.All()[0].ContextMap()["empty"])
	}
}

func snapshot(t *testing.T, text string) extensioncapabilities.ConfigSnapshot {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(text))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	return extensioncapabilities.NewConfigSnapshot(conf, conf)
}

// The whole way with a directory as the store: what the log seals is copied, the last seal too, and read by nobody before.
func TestLifecycle_copies(t *testing.T) {
	t.Parallel()
	bucket, root := t.TempDir(), filepath.Join(t.TempDir(), "wal")
	cfg := load(t, "walmirror")
	cfg.BucketURL = "file://" + bucket
	w, _ := build(t, cfg)
	require.NoError(t, w.Start(t.Context(), componenttest.NewNopHost()))
	m, err := w.Attach(root)
	require.NoError(t, err)
	_, err = w.Attach(root)
	require.ErrorContains(t, err, "give each WAL root a mirror of its own")
	log, err := wal.Open(t.Context(), wal.Options{Dir: root, Mirror: m})
	require.NoError(t, err)
	require.NoError(t, log.Close(t.Context()))
	require.Eventually(t, func() bool {
		_, err := vfs.OS().Stat(filepath.Join(bucket, "wal-mirror", "siglake-mirror.json"))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, w.Shutdown(t.Context()))
	require.NoError(t, w.Shutdown(t.Context()), "twice")
}

// A directory of copies in the directory that they are copies of, or the reverse, is refused.
func TestAttach_one_inside_the_other(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for bucket, root := range map[string]string{
		dir + "/wal/copies": dir + "/wal",
		dir + "/copies":     dir + "/copies/wal-mirror/wal",
	} {
		cfg := load(t, "walmirror")
		cfg.BucketURL = "file://" + bucket
		w, _ := build(t, cfg)
		require.NoError(t, w.Start(t.Context(), componenttest.NewNopHost()))
		_, err := w.Attach(root)
		require.ErrorContains(t, err, "are inside one another")
		require.NoError(t, w.Shutdown(t.Context()))
	}
}

// Start refuses a mirror that no exporter names, and one that is in a warehouse or around one.
func TestNotifyConfigSnapshot(t *testing.T) {
	t.Parallel()
	named := "exporters: {siglake: {mirror: walmirror}}\n"
	for _, tc := range []struct {
		name, bucket, conf, want string
	}{
		{"named", "s3://b", named, ""},
		{"another exporter too", "s3://b", "exporters: {siglake: {mirror: walmirror}, siglake/2: {}}", ""},
		{"not named", "s3://b", "exporters: {siglake: {}}", "extensions::walmirror: no exporter names it, so nothing would be copied; set exporters::siglake::mirror: walmirror"},
		{"names another", "s3://b", "exporters: {siglake: {mirror: walmirror/2}}", "no exporter names it"},
		{"no exporter", "s3://b", "exporters: {nop: {}}", "no siglake exporter is there"},
		{"beside", "s3://b/x", named + compactorAt("s3://b/x/warehouse"), ""},
		{"another bucket", "s3://b", named + compactorAt("s3://c/wal-mirror"), ""},
		{"inside", "s3://b/warehouse", named + compactorAt("s3://b/warehouse"), "give the mirror a directory beside the warehouse"},
		{"around", "s3://b", named + compactorAt("s3://b/wal-mirror/warehouse"), "are inside one another"},
		{"bucket as warehouse", "s3://b", named + compactorAt("s3://b"), "are inside one another"},
		{"directory inside", "file:///data", named + compactorAt("/data"), "are inside one another"},
		{"directories beside", "file:///data", named + compactorAt("file:///data/warehouse"), ""},
		{"compactor not in service", "s3://b/warehouse", named + strings.Replace(compactorAt("s3://b/warehouse"), "[lakecompactor]", "[]", 1), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t, "walmirror")
			cfg.BucketURL = tc.bucket
			w, _ := build(t, cfg)
			err := w.NotifyConfigSnapshot(t.Context(), snapshot(t, tc.conf))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func compactorAt(warehouse string) string {
	return "extensions: {lakecompactor: {warehouse: '" + warehouse + "'}}\nservice: {extensions: [lakecompactor]}\n"
}
