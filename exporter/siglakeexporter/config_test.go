package siglakeexporter

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	mirrorID := component.MustNewID("walmirror")
	defaults := Config{
		WAL: WALConfig{
			Directory:   "./data/wal",
			Segment:     SegmentConfig{MaxEvents: 4096, MaxAge: 5 * time.Second, MaxBytes: 32 << 20},
			MaxInFlight: 64 << 20, MaxWaiting: 8192, MaxLanes: 4096, MaxTenants: 1000,
		},
		Commit: CommitConfig{Default: "wait_for", MirroredTimeout: 30 * time.Second, MirroredSealAfter: 100 * time.Millisecond, ForceTimeout: 30 * time.Second},
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
				MaxBytes:  10 << 30, MinFree: 1 << 30, MaxInFlight: 32 << 20, MaxWaiting: 100, MaxLanes: 30, MaxTenants: 10,
			},
			Commit:  CommitConfig{Default: "force", MirroredTimeout: 10 * time.Second, MirroredSealAfter: 50 * time.Millisecond, ForceTimeout: 20 * time.Second},
			Mirror:  &mirrorID,
			Tenancy: TenancyConfig{Enabled: true, AuthAttribute: "tenant", Allowed: []string{"default", "team-a", "team_B"}},
		}},
		{id: "siglake/bad", errs: []string{
			`wal: directory: "" names no directory; set it to where the write-ahead log lives, on a disk of its own if you can (an unset ${env:NAME} is empty: write ${env:NAME:-/path})`,
			`max_bytes: -1 is below 0; give bytes, 0 for 75 % of the volume`,
			`min_free: -1 is below 0; give bytes, 0 for the larger of 5 % of the volume and 512 MiB`,
			`max_in_flight: 0 is below 1; give bytes, for example 67108864`,
			`max_waiting: 0 is below 1; give requests, for example 8192`,
			`max_lanes: 2 is below 3; give lanes, three for each tenant, for example 4096`,
			`max_tenants: 0 is below 1; give tenants, for example 1000`,
			`tenancy: allowed: tenant "a/b": segment: name not allowed: want [A-Za-z0-9_-]{1,128}; give a name that can be a tenant`,
			`allowed: tenant "Sealed": segment: name not allowed: reserved; give a name that can be a tenant`,
			`allowed: tenant "Default": segment: name not allowed: differs only in letter case from one that exists: "default"; give a name that can be a tenant`,
			`allowed: "team" and "Team" differ in letter case only, or not at all; keep one`,
			`wal::segment: max_age: 0s is below 10ms; give a duration with its unit, for example 5s (a bare 5 is 5 nanoseconds)`,
			`max_events: 0 is below 1; give rows, for example 4096`,
			`max_bytes: -1 is below 1; give bytes, for example 33554432`,
			`commit: mirrored_timeout: 30ns is below 1s; give a duration with its unit, for example 30s`,
			`force_timeout: 20ms is below 1s; give a duration with its unit, for example 30s`,
			`mirrored_seal_after: 0s is below 10ms; give a duration with its unit, for example 100ms`,
			`commit::default: "sync" is not one of auto, wait_for, mirrored, force`,
		}},
		{id: "siglake/off", errs: []string{
			`tenancy: enabled: false, but auth_attribute or allowed is set; set enabled: true, or remove them`,
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

// A number without a unit is nanoseconds, and confmap takes it.
func TestConfig_max_age_without_a_unit(t *testing.T) {
	t.Parallel()
	for in, want := range map[any]string{
		5: "max_age: 5ns is below 10ms; give a duration with its unit, for example 5s", "9999us": "max_age: 9.999ms is below", "-1s": "max_age: -1s is below", "10ms": "",
	} {
		cfg := createDefaultConfig().(*Config)
		cfg.WAL.Directory = "wal"
		require.NoError(t, confmap.NewFromStringMap(map[string]any{"wal": map[string]any{"segment": map[string]any{"max_age": in}}}).Unmarshal(cfg))
		if err := confmap.Validate(cfg); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "wal::segment: "+want)
		}
	}
}

// 0 is off; less than a commit takes is a unit that was forgotten.
func TestConfig_pace_after(t *testing.T) {
	t.Parallel()
	for in, want := range map[any]string{
		0: "", "0s": "", "1s": "", 10: "pace_after: 10ns is below 1s, less than a commit takes; give a duration with its unit, for example 10s, or 0 for never",
		"-10s": "pace_after: -10s is below 1s", "999ms": "pace_after: 999ms is below 1s",
	} {
		cfg := createDefaultConfig().(*Config)
		require.Zero(t, cfg.WAL.PaceAfter)
		cfg.WAL.Directory = "wal"
		require.NoError(t, confmap.NewFromStringMap(map[string]any{"wal": map[string]any{"pace_after": in}}).Unmarshal(cfg))
		if err := confmap.Validate(cfg); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "wal: "+want)
		}
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

// E13: a segment that no reader takes would be poison, with all its rows.
func TestConfig_refuses_segments_that_no_reader_takes_E13(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		512 << 20:     "",
		512<<20 + 1:   "wal::segment: max_bytes: 536870913 is above 536870912; give bytes, for example 33554432: a segment is read as a whole",
		math.MaxInt64: "max_bytes: 9223372036854775807 is above 536870912",
	} {
		cfg := createDefaultConfig().(*Config)
		cfg.WAL.Directory = "wal"
		cfg.WAL.Segment.MaxBytes = bytes
		if err := confmap.Validate(cfg); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
