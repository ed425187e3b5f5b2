package collector

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell starts a shell script in place of a collector.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Options{Bin: "/bin/sh", Args: []string{"-c", script}, Data: "/data", Env: []string{"MORE=1"}}, filepath.Join(t.TempDir(), "x.log"))
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func TestStopWaitsForTheExitCode(t *testing.T) {
	t.Parallel()
	p := shell(t, `trap 'echo bye; exit 3' TERM; echo $SIGLAKE_DATA $MORE; while :; do sleep 0.05; done`)
	require.Eventually(t, func() bool { return p.Output() == "/data 1\n" }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, -1, p.ExitCode(), "it runs")
	code, _, err := p.Stop(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Equal(t, "bye", p.Tail(1))
	code, _, err = p.Stop(t.Context())
	require.NoError(t, err, "a second stop finds it ended")
	require.Equal(t, 3, code)
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	p := shell(t, `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	require.Eventually(t, func() bool { return p.Output() == "up\n" }, 20*time.Second, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := p.Stop(ctx)
	require.ErrorContains(t, err, "still running")
	p.Kill()
	require.Equal(t, -1, p.ExitCode())
}

func TestWaitHealthy(t *testing.T) {
	t.Parallel()
	p := shell(t, `echo broken; exit 7`)
	require.ErrorContains(t, p.WaitHealthy(t.Context()), "exit status 7; last lines:\nbroken")

	p = shell(t, `sleep 60`)
	l, err := net.Listen("tcp", p.Health)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }()
	require.NoError(t, p.WaitHealthy(t.Context()))
	require.NoError(t, server.Close())
}

func TestOverlaysBecomeFiles(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "x.log")
	p, err := Start(Options{Bin: "/bin/echo", Config: "c.yaml", Overlay: []string{"a: 1"}, Wrap: []string{"/usr/bin/env"}}, log)
	require.NoError(t, err)
	<-p.Done()
	overlay := filepath.Join(filepath.Dir(log), "x.overlay0.yaml")
	require.Equal(t, "--config=c.yaml --config="+overlay+"\n", p.Output())
	text, err := os.ReadFile(overlay)
	require.NoError(t, err)
	require.Equal(t, "a: 1", string(text))
}
