package siglakeexporter

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	defaults := Config{
		WAL: WALConfig{
			Directory:   "./data/wal",
			Segment:     SegmentConfig{MaxEvents: 4096, MaxAge: 5 * time.Second, MaxBytes: 32 << 20},
			MaxInFlight: 64 << 20,
		},
		Commit: CommitConfig{Default: "wait_for"},
	}
	for _, tc := range []struct {
		id   string
		want *Config
		errs []string
	}{
		{id: "siglake", want: &defaults},
		{id: "siglake/all", want: &Config{
			WAL: WALConfig{
				Directory: "/var/lib/siglake/wal",
				Segment:   SegmentConfig{MaxEvents: 1000, MaxAge: 2 * time.Second, MaxBytes: 1 << 20},
				MaxBytes:  10 << 30, MinFree: 1 << 30, MaxInFlight: 32 << 20,
			},
			Commit: CommitConfig{Default: "auto"},
		}},
		{id: "siglake/bad", errs: []string{
			`wal: directory: "" names no directory; set it to where the write-ahead log lives, on a disk of its own if you can (an unset ${env:NAME} is empty: write ${env:NAME:-/path})`,
			`max_bytes: -1 is below 0; give bytes, 0 for 75 % of the volume`,
			`min_free: -1 is below 0; give bytes, 0 for the larger of 5 % of the volume and 512 MiB`,
			`max_in_flight: 0 is below 1; give bytes, for example 67108864`,
			`wal::segment: max_age: 0s is not above 0; give a duration, for example 5s`,
			`max_events: 0 is below 1; give rows, for example 4096`,
			`max_bytes: -1 is below 1; give bytes, for example 33554432`,
			`commit::default: "sync" is not one of auto, wait_for, mirrored, force`,
		}},
		{id: "siglake/force", errs: []string{
			`commit::default: "force" is not built in this version; use auto or wait_for (legal values: auto, wait_for, mirrored, force)`,
		}},
	} {
		t.Run(tc.id, func(t *testing.T) {
			t.Parallel()
			conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
			require.NoError(t, err)
			sub, err := conf.Sub(tc.id)
			require.NoError(t, err)
			cfg := createDefaultConfig()
			require.NoError(t, sub.Unmarshal(cfg))
			err = confmap.Validate(cfg)
			if tc.want != nil {
				require.NoError(t, err)
				require.Equal(t, tc.want, cfg)
				return
			}
			require.Error(t, err)
			require.ElementsMatch(t, tc.errs, strings.Split(err.Error(), "\n"))
		})
	}
}

// A misspelt key is refused with its name; a queue is one, because this exporter has none.
func TestConfig_refuses_unknown_keys(t *testing.T) {
	t.Parallel()
	for _, in := range []map[string]any{
		{"sending_queue": map[string]any{"enabled": true}},
		{"wal": map[string]any{"sending_queue": 1}},
	} {
		require.ErrorContains(t, confmap.NewFromStringMap(in).Unmarshal(createDefaultConfig()), "sending_queue")
	}
}
