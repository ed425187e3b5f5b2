package services_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a database has committed is there after a kill and a start, at the same address.
func TestPostgres_is_the_same_after_a_kill(t *testing.T) {
	t.Parallel()
	p, err := services.StartPostgres()
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	_, err = p.SQL(p.Database, "CREATE TABLE seen (n int); INSERT INTO seen VALUES (7), (8)")
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	_, err = p.SQL(p.Database, "SELECT 1")
	require.Error(t, err)
	require.NoError(t, p.Start())
	got, err := p.SQL(p.Database, "SELECT n FROM seen ORDER BY n")
	require.NoError(t, err)
	require.Equal(t, "7\n8", got)
	require.NoError(t, p.Stop())
	require.NoError(t, p.Stop())
	require.NoError(t, p.Start())
	fsync, err := p.SQL(p.Database, "SHOW fsync")
	require.NoError(t, err)
	require.Equal(t, "on", fsync)
}

// An object is a file below Root, and is served again after a kill. Who has the wrong secret is refused.
func TestS3_is_the_same_after_a_kill(t *testing.T) {
	t.Parallel()
	s, err := services.StartS3()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	curl, err := testenv.Tool("curl", "curl")
	require.NoError(t, err)
	ask := func(secret string, args ...string) (string, error) {
		out, err := exec.Command(curl, append([]string{
			"--silent", "--show-error", "--fail", "--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "--aws-sigv4", "aws:amz:" + s.Region + ":s3", "--user", s.AccessKey + ":" + secret,
		}, args...)...).Output()
		return string(out), err
	}
	object := s.Endpoint + "/" + s.Bucket + "/some/key"
	_, err = ask(s.SecretKey, "--request", "PUT", "--data", "hello", object)
	require.NoError(t, err)
	_, err = ask("wrong", object)
	require.Error(t, err)
	file, err := os.ReadFile(filepath.Join(s.Root, s.Bucket, "some", "key"))
	require.NoError(t, err)
	require.Equal(t, "hello", string(file))
	require.NoError(t, s.Kill())
	require.NoError(t, s.Start())
	got, err := ask(s.SecretKey, object)
	require.NoError(t, err)
	require.Equal(t, "hello", got)
}
