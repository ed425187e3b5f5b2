package lakecompactor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/siglakecol/siglakecol/extension/internal/stores"
)

func defaults(wal, catalog, warehouse string) *Config {
	c := createDefaultConfig().(*Config)
	c.WALDirectory, c.Catalog, c.Warehouse = wal, configopaque.String(catalog), warehouse
	return c
}

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	for id, want := range map[string]*Config{
		"lakecompactor": defaults("./data/wal", "sqlite://./data/catalog.db", "./data/warehouse"),
		"lakecompactor/postgres": {
			WALDirectory: "/var/lib/siglake/wal",
			Catalog:      "postgres://siglake:secret@db.example.net:5432/lake?sslmode=verify-full",
			Warehouse:    "s3://bucket/prefix",
			S3: stores.S3Config{
				Endpoint: "https://s3.example.net", Region: "eu-central-1", AccessKeyID: "id", SecretAccessKey: "secret",
				SessionToken: "token", PathStyle: new(bool), Checksum: "when_supported",
			},
			Gate: GateConfig{Bytes: 32 << 20, Age: 10 * time.Second}, PollInterval: time.Second, Maintenance: "auto",
			Retention: RetentionConfig{WAL: time.Minute, Mirror: 24 * time.Hour}, Mirror: stores.DefaultMirror(),
			Snapshots: SnapshotsConfig{RetainLast: 100, Interval: time.Minute}, MaxBytesInFlight: 64 << 20,
		},
		"lakecompactor/rest": {
			WALDirectory: "/var/lib/siglake/wal",
			Catalog:      "rest+https://catalog.example.net/api",
			S3:           stores.Default(),
			REST: RESTConfig{
				Credential: "id:secret", OAuth2ServerURI: "https://login.example.net/token", Scope: "PRINCIPAL_ROLE:ALL",
				Warehouse: "lake", Prefix: "p", TLS: configtls.ClientConfig{Config: configtls.Config{CAFile: "/etc/ca.pem"}},
			},
			Gate: GateConfig{Bytes: 32 << 20, Age: 10 * time.Second}, PollInterval: time.Second, Maintenance: "auto",
			Retention: RetentionConfig{WAL: time.Minute, Mirror: 24 * time.Hour}, Mirror: stores.DefaultMirror(),
			Snapshots: SnapshotsConfig{RetainLast: 100, Interval: time.Minute}, MaxBytesInFlight: 64 << 20,
		},
		"lakecompactor/all": {
			S3:           stores.Default(),
			WALDirectory: "/var/lib/siglake/wal",
			Catalog:      "sqlite:///var/lib/siglake/catalog.db",
			Warehouse:    "file:///var/lib/siglake/warehouse",
			Gate:         GateConfig{Bytes: 1 << 20, Age: 2 * time.Second},
			PollInterval: 500 * time.Millisecond,
			Maintenance:  "off",
			Retention:    RetentionConfig{WAL: 10 * time.Minute, Mirror: 48 * time.Hour, Table: 720 * time.Hour},
			Mirror: stores.MirrorConfig{BucketURL: "s3://telemetry", Prefix: "copies", S3: stores.S3Config{
				Endpoint: "https://s3.example.net", Checksum: "when_required",
			}},
			Snapshots:        SnapshotsConfig{RetainLast: 30, Interval: 5 * time.Minute},
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
		{"no_catalog", func(c *Config) { c.Catalog = "" }, `catalog: "" is none of sqlite:///absolute/path/catalog.db, postgres://`},
		{"other_catalog", func(c *Config) { c.Catalog = "mysql://u:canary@db/x" }, `catalog: "mysql://db/x" is none of sqlite:`},
		{"catalog_is_a_directory", func(c *Config) { c.Catalog = "sqlite:///data/" }, `catalog: "sqlite:///data/" is not sqlite:///absolute/path/catalog.db`},
		{"no_database", func(c *Config) { c.Catalog = "postgres://u:canary@db" }, `catalog: "postgres://db" names no database; write postgres://`},
		{"bad_escape", func(c *Config) { c.Catalog = "postgres://u:canary%@db/x" }, `catalog: "postgres://db/x" is no URL; special characters of a password`},
		{"rest_with_user", func(c *Config) { c.Catalog = "rest+https://u:canary@db/x" }, `catalog: "rest+https://db/x" has more than a host and a path`},
		{"no_warehouse", func(c *Config) { c.Warehouse = "" }, `warehouse: "" is neither a directory nor one of file:///path, s3://`},
		{"other_warehouse", func(c *Config) { c.Warehouse = "hdfs://u:canary@bucket/x" }, `warehouse: "hdfs://bucket/x" is neither a directory nor one of`},
		{"warehouse_with_key", func(c *Config) { c.Warehouse = "s3://k:canary@bucket/x" }, `warehouse: "s3://bucket/x" is not s3://bucket/prefix; credentials go into the section s3`},
		{"remote_file", func(c *Config) { c.Warehouse = "file://host/x" }, `warehouse: "file://host/x" names the host "host"`},
		{"half_a_key", func(c *Config) { c.S3.AccessKeyID = "x" }, `s3: access_key_id: given without secret_access_key`},
		{"endpoint", func(c *Config) { c.S3.Endpoint = "http://u:canary@host" }, `s3: endpoint: it is no http or https URL`},
		{"checksum", func(c *Config) { c.S3.Checksum = "md5" }, `s3: checksum: "md5" is not one of when_required, when_supported`},
		{"rest_for_nothing", func(c *Config) { c.REST.Token = "canary" }, `rest: the section is for catalogs that begin with rest+https://`},
		{
			"two_tokens", func(c *Config) { c.Catalog, c.REST.Token, c.REST.Credential = "rest+https://h/", "canary", "canary" },
			`rest: token: given together with credential`,
		},
		{"warehouse_in_wal", func(c *Config) { c.Warehouse = "data/wal/../wal/warehouse" }, `is inside wal_directory "data/wal"`},
		{"warehouse_is_wal", func(c *Config) { c.Warehouse = "./data/wal" }, `is inside wal_directory "data/wal"`},
		{"catalog_in_wal", func(c *Config) { c.Catalog = "sqlite://./data/wal/catalog.db" }, `catalog: "sqlite://./data/wal/catalog.db" is inside wal_directory`},
		{"R6_mirror_soon", func(c *Config) { c.Retention.Mirror = time.Minute }, `retention: mirror: 1m0s is below 15m1s, within which an upload may still be on its way; give for example 24h, or 0 for never`},
		{"mirror_url", func(c *Config) { c.Mirror.BucketURL = "s3://u:canary@b" }, `mirror: bucket_url: "s3://b" has more than a bucket and a path`},
		{"mirror_path", func(c *Config) { c.Mirror.BucketURL = "/tmp/foo" }, `mirror: bucket_url: "/tmp/foo" is a path and no URL; write file:///tmp/foo`},
		{"mirror_prefix", func(c *Config) { c.Mirror.Prefix = "../up" }, `mirror: prefix: "../up" is no path of plain names`},
		{"mirror_in_warehouse", func(c *Config) { c.Mirror.BucketURL = "file://./data/warehouse" }, `are inside one another; give the mirror a directory beside it`},
		{"mirror_in_wal", func(c *Config) { c.Mirror.BucketURL = "file://./data/wal" }, `are inside one another; give the mirror a directory beside it`},
		{"gate_bytes", func(c *Config) { c.Gate.Bytes = 0 }, `gate: bytes: 0 is not a size`},
		{"gate_age", func(c *Config) { c.Gate.Age = -time.Second }, `gate: age: -1s is not a duration`},
		{"poll", func(c *Config) { c.PollInterval = time.Nanosecond }, `poll_interval: 1ns is too short`},
		{"maintenance", func(c *Config) { c.Maintenance = "on" }, `maintenance: "on" is neither auto nor off`},
		{"snapshots", func(c *Config) { c.Snapshots.RetainLast = -1 }, `snapshots: retain_last: -1 is not a number of snapshots`},
		{"snapshots_interval", func(c *Config) { c.Snapshots.Interval = 0 }, `snapshots: interval: 0s is too short`},
		{"table", func(c *Config) { c.Retention.Table = 23 * time.Hour }, `retention: table: 23h0m0s is below 24h0m0s, the size of a day partition; give for example 720h for 30 days, or 0 for never`},
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
			err := confmap.Validate(cfg)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "canary")
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
		got, ok := catalogFile(value)
		require.True(t, ok)
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
		got, ok := warehouseDir(value)
		require.True(t, ok)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"postgres://h/d", "rest+https://h"} {
		_, ok := catalogFile(value)
		require.False(t, ok, value)
	}
	for _, value := range []string{"s3://b/p", "gs://b", "azblob://c/p", ""} {
		_, ok := warehouseDir(value)
		require.False(t, ok, value)
	}
}
