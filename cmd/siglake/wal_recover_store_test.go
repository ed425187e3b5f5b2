package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// awsEnvironment is keys and a store of ours for the SDK.
func awsEnvironment(t *testing.T, endpoint string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "not-to-be-seen", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": endpoint,
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
}

// said is what a process writes while it runs.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func recoverFromS3(ctx context.Context, t *testing.T, stderr *said, terminal bool) int {
	t.Helper()
	return run(ctx, environment{
		fs: vfs.OS(), now: time.Now, terminal: terminal, stdin: strings.NewReader(""), stdout: &said{}, stderr: stderr, getenv: os.Getenv, interrupt: context.WithCancel,
	}, []string{"wal-recover", "--from", "s3://telemetry/wal-mirror", "--to", filepath.Join(t.TempDir(), "wal")})
}

// What a store says of a wrong bucket, wrong keys or nothing at all comes with the URL and what to look at.
func TestWALRecover_store_troubles(t *testing.T) {
	code, name := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", name)
	}))
	awsEnvironment(t, server.URL)
	for _, tc := range []struct {
		status   int
		name     string
		exit     int
		contains []string
	}{
		{404, "NoSuchBucket", exitUsage, []string{"--from: s3://telemetry/wal-mirror: the store has no bucket telemetry", "AWS_ENDPOINT_URL_S3 says " + server.URL}},
		{403, "SignatureDoesNotMatch", exitFailed, []string{"s3://telemetry/wal-mirror: ", "SignatureDoesNotMatch", "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"}},
		{0, "", exitFailed, []string{"s3://telemetry/wal-mirror: ", "connection refused", "AWS_ENDPOINT_URL_S3 says " + server.URL}},
	} {
		code, name = tc.status, tc.name
		if tc.status == 0 {
			server.Close()
		}
		stderr := &said{}
		require.Equal(t, tc.exit, recoverFromS3(t.Context(), t, stderr, false), "%s", stderr)
		for _, want := range tc.contains {
			require.Contains(t, stderr.String(), want)
		}
		require.NotContains(t, stderr.String(), "not-to-be-seen")
	}
}

// While a store is silent a line says so, on a terminal and off.
func TestWALRecover_a_silent_store_is_told(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	awsEnvironment(t, server.URL)
	for _, terminal := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		stderr, code := &said{}, make(chan int, 1)
		go func() { code <- recoverFromS3(ctx, t, stderr, terminal) }()
		require.Eventually(t, func() bool {
			return strings.Contains(stderr.String(), "waiting for s3://telemetry/wal-mirror: listing, ")
		}, time.Minute, 50*time.Millisecond)
		cancel()
		require.Equal(t, exitFailed, <-code)
	}
}

// A FIFO in a directory of objects is named and does not stop the rest.
func TestWALRecover_a_fifo_in_the_bucket(t *testing.T) {
	t.Parallel()
	url, dir := bucketOf(t, map[string][]byte{"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3)})
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "default", "events", segmentID(2).FileName()), 0o600))
	s := newPlace(t)
	r := s.run("wal-recover", "--from", url, "--to", s.walDir())
	require.Equal(t, exitDamage, r.code, r.stderr)
	require.Regexp(t, `(?m)^unreadable: default/events/`+segmentID(2).FileName()+`: .*no regular file, but a FIFO`, r.stdout)
	require.Contains(t, r.stdout, "1 segment, 3 rows")
}

// A marker that says nothing to this version comes with what to do, and that helps.
func TestWALRecover_markers_that_are_not_understood(t *testing.T) {
	t.Parallel()
	url, dir := bucketOf(t, map[string][]byte{"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3)})
	s := newPlace(t)
	for content, want := range map[string]string{
		`{"format":2,"roots":[]}`: "format 2, this version knows 1; use the siglake of the version that wrote this mirror",
		`{"form`:                  `put an object siglake-mirror.json with the content {"format":1,"roots":[]} in its place`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "siglake-mirror.json"), []byte(content), 0o600))
		r := s.run("wal-recover", "--from", url, "--to", s.walDir())
		require.Equal(t, exitUsage, r.code, r.stderr)
		require.Contains(t, r.stderr, "--from: "+url+": ")
		require.Contains(t, r.stderr, want)
	}
}

// A place near a log is refused and the root is named: nothing would drain what is restored there.
func TestWALRecover_places_near_a_root(t *testing.T) {
	t.Parallel()
	url, _ := bucketOf(t, map[string][]byte{"default/events/" + segmentID(1).FileName(): sealed(t, uuid.Nil, 3)})
	s := newSite(t)
	for _, to := range []string{s.dir, filepath.Join(s.walDir(), "default"), filepath.Join(s.walDir(), "default", "events")} {
		for _, more := range [][]string{{"--dry-run"}, {}} {
			r := s.run(append([]string{"wal-recover", "--from", url, "--to", to}, more...)...)
			require.Equal(t, exitUsage, r.code, "%s: %s", to, r.stderr)
			require.Contains(t, r.stderr, "give its root, "+s.walDir()+"\n")
		}
	}
	require.Contains(t, s.ok("wal-recover", "--from", url, "--to", s.walDir()), "1 segment, 3 rows")
}
