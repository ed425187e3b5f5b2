package lakecompactor

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// The compactor's mirror is held against that of the exporter whose log it drains.
func TestNotifyConfigSnapshot(t *testing.T) {
	t.Parallel()
	const exporter = "exporters: {siglake: {mirror: walmirror, wal: {directory: ./data/wal}}}\n"
	for _, tc := range []struct {
		name, bucket, prefix, conf, want, warns string
	}{
		{name: "the same", bucket: "s3://b/x/", prefix: "wal-mirror", conf: exporter + "extensions: {walmirror: {bucket_url: s3://b/x}}"},
		{name: "no mirror at all", conf: exporter + "extensions: {walmirror: {}}"},
		{name: "no walmirror named", bucket: "s3://b", prefix: "x", conf: "exporters: {siglake: {wal: {directory: ./data/wal}}}"},
		{name: "of another log", bucket: "s3://b", prefix: "x", conf: strings.Replace(exporter, "data/wal", "other/wal", 1) + "extensions: {walmirror: {bucket_url: s3://c}}"},
		{
			name: "another bucket", bucket: "s3://b", prefix: "wal-mirror", conf: exporter + "extensions: {walmirror: {bucket_url: s3://c}}",
			want: "extensions::lakecompactor::mirror: s3://b/wal-mirror is not the mirror of extensions::walmirror, s3://c/wal-mirror; give both the same",
		},
		{
			name: "R24 another prefix", bucket: "s3://b", prefix: "copies", conf: exporter + "extensions: {walmirror: {bucket_url: s3://b}}",
			want: "s3://b/copies is not the mirror of extensions::walmirror, s3://b/wal-mirror",
		},
		{
			name: "another endpoint", bucket: "s3://b", prefix: "wal-mirror", conf: exporter + "extensions: {walmirror: {bucket_url: s3://b, s3: {endpoint: 'http://h:9000'}}}",
			want: "is not the mirror of extensions::walmirror, s3://b/wal-mirror at http://h:9000",
		},
		{
			name: "nothing copied", bucket: "s3://b", prefix: "wal-mirror", conf: exporter + "extensions: {walmirror: {bucket_url: s3://b, prefix: ''}}",
			want: "it names a mirror and extensions::walmirror copies nothing",
		},
		{name: "nothing deleted", prefix: "wal-mirror", conf: exporter + "extensions: {walmirror: {bucket_url: s3://b}}", warns: "nothing deletes the copies"},
		{
			name: "R6 long sweep", bucket: "s3://b", prefix: "wal-mirror", conf: exporter + "extensions: {walmirror: {bucket_url: s3://b, sweep_interval: 24h}}",
			want: "extensions::lakecompactor::retention::mirror: 24h0m0s is not more than retention::wal (1m0s) and extensions::walmirror::sweep_interval (24h0m0s) together; give for example 48h2m0s, or 0 for never",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			core, logs := observer.New(zap.WarnLevel)
			cfg := defaults("data/wal", "sqlite://./data/catalog.db", "./data/warehouse")
			cfg.Mirror.BucketURL, cfg.Mirror.Prefix = tc.bucket, tc.prefix
			set := extensiontest.NewNopSettings(NewFactory().Type())
			set.ID = component.NewID(NewFactory().Type())
			set.Logger = zap.New(core)
			ext, err := NewFactory().Create(t.Context(), set, cfg)
			require.NoError(t, err)
			retrieved, err := confmap.NewRetrievedFromYAML([]byte(tc.conf))
			require.NoError(t, err)
			conf, err := retrieved.AsConf()
			require.NoError(t, err)
			watcher, ok := ext.(extensioncapabilities.ConfigSnapshotWatcher)
			require.True(t, ok)
			err = watcher.NotifyConfigSnapshot(t.Context(), extensioncapabilities.NewConfigSnapshot(conf, conf))
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			require.Equal(t, tc.warns != "", logs.FilterMessageSnippet("nothing deletes").Len() == 1)
		})
	}
}

// A run of the retention looks at the bucket, and records what it found in the root. What no table has stays.
func TestRetention_runs(t *testing.T) {
	t.Parallel()
	cfg := dirs(t)
	bucket := t.TempDir()
	cfg.Mirror.BucketURL, cfg.Retention.Mirror = "file://"+bucket, time.Nanosecond
	_, err := segment.Create(vfs.OS(), cfg.WALDirectory)
	require.NoError(t, err)
	fsys := vfs.OS()
	lane := filepath.Join(bucket, "wal-mirror", "default", "events")
	require.NoError(t, fsys.MkdirAll(lane))
	id, err := uuid.NewV7()
	require.NoError(t, err)
	object := filepath.Join(lane, fmt.Sprintf("%s-010203040506-1.arrow", id))
	require.NoError(t, vfs.WriteFile(fsys, object, []byte("not drained here")))
	for range 2 {
		ext := newExtension(t, cfg)
		require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
		record := filepath.Join(cfg.WALDirectory, "mirror-retention.json")
		require.Eventually(t, func() bool {
			b, err := vfs.ReadFile(fsys, record)
			return err == nil && strings.HasPrefix(string(b), `{"format":1,"committed":[]`)
		}, timeout, tick)
		require.NoError(t, ext.Shutdown(t.Context()))
		require.NoError(t, fsys.Remove(record))
	}
	_, err = fsys.Stat(object)
	require.NoError(t, err)
}
