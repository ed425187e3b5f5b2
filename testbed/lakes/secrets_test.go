package lakes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

const (
	canary = "canary-0123456789"
	debug  = "service: {telemetry: {logs: {level: debug}}}\n"
)

func contains(p *collector.Process, text string) bool { return strings.Contains(p.Output(), text) }

// No secret is in what the collector writes, however it fails: all of its output at debug level is searched.
func TestSecrets(t *testing.T) {
	t.Parallel()
	pg, s3 := servers(t)
	good := pg.URL(pg.Database)
	wrongPassword := strings.Replace(good, ":"+pg.Password+"@", ":"+canary+"@", 1)
	// A REST server that repeats what it was given.
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // what is no form has no values
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"NotAuthorizedException","code":401}}`,
			r.Header.Get("Authorization")+" "+r.Form.Get("client_secret"))
	}))
	t.Cleanup(echo.Close)
	rest := func(section string) string {
		return fmt.Sprintf("extensions: {lakecompactor: {catalog: \"rest+%s\", rest: %s}}\n", echo.URL, section)
	}
	for name, tc := range map[string]struct{ overlay, says string }{
		"wrong_password":   {overlay(wrongPassword, "s3://lake/x", s3.Endpoint, s3.AccessKey, s3.SecretKey), "password authentication failed"},
		"host_unreachable": {overlay("postgres://u:"+canary+"@127.0.0.1:1/db", "s3://lake/x", s3.Endpoint, s3.AccessKey, s3.SecretKey), "connection refused"},
		"no_database":      {overlay(strings.Replace(good, "/"+pg.Database+"?", "/nosuch?", 1), "s3://lake/x", s3.Endpoint, s3.AccessKey, s3.SecretKey), "CREATE DATABASE"},
		"wrong_secret":     {overlay(good, "s3://lake/x", s3.Endpoint, s3.AccessKey, canary), "SignatureDoesNotMatch"},
		"wrong_key":        {overlay(good, "s3://lake/x", s3.Endpoint, canary, canary), "access key"},
		"wrong_bucket":     {overlay(good, "s3://nosuch/x", s3.Endpoint, s3.AccessKey, s3.SecretKey), "NoSuchBucket"},
		"store_away":       {overlay(good, "s3://lake/x", "http://127.0.0.1:1", canary, canary), "connection refused"},
		"rest_token":       {rest("{token: " + canary + "}"), "[REDACTED]"},
		"rest_credential":  {rest("{credential: 'id:" + canary + "'}"), "correct the section rest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := collector.New(t, traffic.Busy, debug, tc.overlay)
			p := h.Launch()
			load := traffic.Plan(p, "x", "wait_for", 5)
			load.Records = 50
			traffic.Start(t, load).Wait(t)
			require.Eventually(t, func() bool { return contains(p, tc.says) }, time.Minute, 20*time.Millisecond, "%s: %s", tc.says, p.Tail(5))
			requireSecret(t, metricsOf(t, p), pg.Password, s3.SecretKey)
			h.Stop()
			requireSecret(t, h.Logs(), pg.Password, s3.SecretKey)
		})
	}
}

func metricsOf(t *testing.T, p *collector.Process) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.Must(t, func() (string, error) { return testenv.Tool("curl", "curl") }),
		"--silent", "--show-error", "http://"+p.Metrics+"/metrics").CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func requireSecret(t *testing.T, text string, more ...string) {
	t.Helper()
	for _, secret := range append(more, canary) {
		for line := range strings.Lines(text) {
			require.NotContains(t, line, secret)
		}
	}
}

// The command line does not show them either.
func TestSecrets_of_the_command_line(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"catalog":  {"SIGLAKE_CATALOG=postgres://u:" + canary + "@127.0.0.1:1/db"},
		"password": {"SIGLAKE_CATALOG=postgres://u@127.0.0.1:1/db", "PGPASSWORD=" + canary},
		"broken":   {"SIGLAKE_CATALOG=postgres://u:" + canary + "%@127.0.0.1:1/db"},
		"token":    {"SIGLAKE_CATALOG=rest+http://127.0.0.1:1/", "SIGLAKE_REST_TOKEN=" + canary},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, command := range []string{"tables", "status"} {
				cmd := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), command, "--data", t.TempDir())
				cmd.Env = append(cmd.Environ(), env...)
				out, err := cmd.CombinedOutput()
				require.Error(t, err)
				requireSecret(t, string(out))
			}
		})
	}
}
