package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/servicetest"
)

// On real servers everything passes and nothing stays: an S3 server for mirror and warehouse, PostgreSQL for the catalog.
// Not beside other tests: who starts a process holds their locks for a moment.
func TestDoctor_services(t *testing.T) {
	pg, err := servicetest.Start("postgres")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	s3, err := servicetest.Start("s3")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s3.Close()) })
	t.Setenv("PGPASSWORD", pg.Info["password"])
	for name, key := range map[string]string{
		"AWS_ENDPOINT_URL_S3": "endpoint", "AWS_REGION": "region", "AWS_ACCESS_KEY_ID": "access_key", "AWS_SECRET_ACCESS_KEY": "secret_key",
	} {
		t.Setenv(name, s3.Info[key])
	}
	home := "s3://" + s3.Info["bucket"]
	catalog := "postgres://" + pg.Info["user"] + "@" + pg.Info["host"] + ":" + pg.Info["port"] + "/" + pg.Info["database"] + "?sslmode=disable"
	args := []string{"--catalog", catalog, "--warehouse", home + "/warehouse", "--mirror", home + "/wal-mirror"}

	s := newSite(t)
	s.fs = roomy{s.fs}
	require.Equal(t, unknown, doctorJSON(t, s, args...)["catalog-reach"].Result, "the database has no catalog yet")
	s.write("default", "events", 3)
	s.ok("drain", "--once", "--catalog", catalog, "--warehouse", home+"/warehouse")
	before := objects(t, s3)
	rep := doctorJSON(t, s, append(args, "--write")...)
	for _, name := range []string{
		"mirror-reach", "mirror-put", "mirror-conditional-put", "mirror-get", "mirror-list", "mirror-digest", "mirror-clock", "mirror-delete",
		"catalog-reach", "catalog-tables", "catalog-clock", "catalog-write", "catalog-compare-and-set", "warehouse-write",
	} {
		require.Equal(t, passed, rep[name].Result, "%s: %s", name, rep[name].Seen)
	}
	require.Equal(t, "the store shows the CRC-32", rep["mirror-digest"].Seen)
	require.NotContains(t, rep, "catalog-file-system")
	require.NotContains(t, rep, "catalog-clean-up")
	require.Equal(t, before, objects(t, s3))
	require.NotContains(t, s.ok("tables", "--catalog", catalog), "doctor")

	require.NoError(t, pg.Do("stop"))
	require.NoError(t, s3.Do("stop"))
	rep = doctorJSON(t, s, args...)
	require.Equal(t, failed, rep["catalog-reach"].Result)
	require.Equal(t, failed, rep["mirror-reach"].Result)
	require.Equal(t, skipped, rep["catalog-tables"].Result)
	require.Equal(t, passed, rep["wal-locks"].Result)
}

// objects are the files of the server's bucket.
func objects(t *testing.T, s3 *servicetest.Service) []string {
	t.Helper()
	var out []string
	for _, name := range tree(t, s3.Info["root"]+"/"+s3.Info["bucket"]) {
		if !isDirectory(t, name) {
			out = append(out, name)
		}
	}
	require.NotEmpty(t, out)
	return out
}
