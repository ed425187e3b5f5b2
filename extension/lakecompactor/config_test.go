package lakecompactor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func defaults(wal, catalog, warehouse string) *Config {
	c := createDefaultConfig().(*Config)
	c.WALDirectory, c.Catalog, c.Warehouse = wal, catalog, warehouse
	return c
}

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	for id, want := range map[string]*Config{
		"lakecompactor": defaults("./data/wal", "sqlite://./data/catalog.db", "./data/warehouse"),
		"lakecompactor/all": {
			WALDirectory:     "/var/lib/siglake/wal",
			Catalog:          "sqlite:///var/lib/siglake/catalog.db",
			Warehouse:        "file:///var/lib/siglake/warehouse",
			Gate:             GateConfig{Bytes: 1 << 20, Age: 2 * time.Second},
			PollInterval:     500 * time.Millisecond,
			Retention:        RetentionConfig{WAL: 10 * time.Minute},
			MaxBytesInFlight: 32 << 20,
			Promote: []PromoteConfig{
				{Attribute: "http.response.status_code", Type: "int", Signals: []string{"traces"}},
				{Attribute: "deployment.environment.name", From: "resource", Column: "environment"},
			},
		},
	} {
		sub, err := conf.Sub(id)
		require.NoError(t, err)
		cfg := createDefaultConfig()
		require.NoError(t, sub.Unmarshal(cfg))
		require.NoError(t, confmap.Validate(cfg), id)
		require.Equal(t, want, cfg)
	}
	require.ErrorContains(t, confmap.NewFromStringMap(map[string]any{"bogus": 1}).Unmarshal(createDefaultConfig()), "bogus")
}

// Every refusal names the key, the value and the way out.
func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		with func(*Config)
		want string
	}{
		{"no_wal", func(c *Config) { c.WALDirectory = "" }, `wal_directory: "" names no directory`},
		{"no_catalog", func(c *Config) { c.Catalog = "" }, `catalog: "" names no SQLite file; write sqlite:///absolute/path/catalog.db`},
		{"other_catalog", func(c *Config) { c.Catalog = "postgres://db/x" }, `catalog: "postgres://db/x" names no SQLite file`},
		{"catalog_is_a_directory", func(c *Config) { c.Catalog = "sqlite:///data/" }, `catalog: "sqlite:///data/" names no SQLite file`},
		{"no_warehouse", func(c *Config) { c.Warehouse = "" }, `warehouse: "" names no directory; write a directory`},
		{"other_warehouse", func(c *Config) { c.Warehouse = "s3://bucket/x" }, `warehouse: "s3://bucket/x" is a store that this version cannot write to`},
		{"remote_file", func(c *Config) { c.Warehouse = "file://host/x" }, `warehouse: "file://host/x" is not a local file URL`},
		{"warehouse_in_wal", func(c *Config) { c.Warehouse = "data/wal/../wal/warehouse" }, `is inside wal_directory "data/wal"`},
		{"warehouse_is_wal", func(c *Config) { c.Warehouse = "./data/wal" }, `is inside wal_directory "data/wal"`},
		{"catalog_in_wal", func(c *Config) { c.Catalog = "sqlite://./data/wal/catalog.db" }, `catalog: "sqlite://./data/wal/catalog.db" is inside wal_directory`},
		{"gate_bytes", func(c *Config) { c.Gate.Bytes = 0 }, `gate: bytes: 0 is not a size`},
		{"gate_age", func(c *Config) { c.Gate.Age = -time.Second }, `gate: age: -1s is not a duration`},
		{"poll", func(c *Config) { c.PollInterval = time.Nanosecond }, `poll_interval: 1ns is too short`},
		{"retention", func(c *Config) { c.Retention.WAL = 0 }, `retention: wal: 0s is not a duration`},
		{
			"promote_to_a_column_of_ours", func(c *Config) { c.Promote = []PromoteConfig{{Attribute: "x"}, {Attribute: "body"}} },
			`promote::1::column: "body" is a column of logs already (body); give another column, or the key signals without logs`,
		},
		{
			"promote_to_two_types", func(c *Config) {
				c.Promote = []PromoteConfig{{Attribute: "a", Type: "int"}, {Attribute: "b", Column: "a", Type: "long"}}
			},
			`promote::1::type: "long", but another promotion to column "a" has type "int"`,
		},
		{"memory", func(c *Config) { c.MaxBytesInFlight = -1 }, `max_bytes_in_flight: -1 is not a size`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := defaults("data/wal", "sqlite://./data/catalog.db", "data/warehouse")
			require.NoError(t, confmap.Validate(cfg))
			tc.with(cfg)
			require.ErrorContains(t, confmap.Validate(cfg), tc.want)
		})
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"sqlite:///var/c.db":    "/var/c.db",
		"sqlite://./data/c.db":  "data/c.db",
		"sqlite:///./data/c.db": "data/c.db",
		"sqlite://data/c.db":    "data/c.db",
	} {
		got, err := catalogFile(value)
		require.NoError(t, err)
		require.Equal(t, want, got, value)
	}
	for value, want := range map[string]string{
		"/var/w":                  "/var/w",
		"./data/w":                "data/w",
		"file:///var/w":           "/var/w",
		"file://localhost/var/w":  "/var/w",
		"file://./data/w":         "data/w",
		"file:///var/a%20b":       "/var/a b",
		"data/with:colon":         "data/with:colon",
		"/var/../var/lib//w/../w": "/var/lib/w",
	} {
		got, err := warehouseDir(value)
		require.NoError(t, err)
		require.Equal(t, want, got, value)
	}
}
