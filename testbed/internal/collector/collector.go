// Package collector runs the built collector as a child process: start, wait for health, SIGTERM, SIGKILL, and the
// logs of every life. It never ends a process it did not start.
package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// Options say how to start a collector. The zero value starts the shipped configuration on free loopback ports.
type Options struct {
	Bin     string              // path of the binary
	Config  string              // path of the first configuration file
	Overlay []string            // YAML texts laid over it in order
	Data    string              // value of SIGLAKE_DATA
	Env     []string            // further NAME=value pairs
	Args    []string            // further arguments
	Wrap    []string            // a command that runs the binary, such as strace with its flags
	Ports   *Ports              // nil: free ones
	User    *syscall.Credential // nil: the caller
}

// Ports are the addresses that a collector listens on. A restarted collector gets the same ones.
type Ports struct{ GRPC, HTTP, Health, Metrics string }

// FreePorts picks four loopback addresses that nothing listens on.
func FreePorts() (*Ports, error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // only a port was wanted
		}
	}()
	var out [4]string
	for i := range out {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("pick a port: %w", err)
		}
		held = append(held, l)
		out[i] = l.Addr().String()
	}
	return &Ports{out[0], out[1], out[2], out[3]}, nil
}

// Process is one life of a collector.
type Process struct {
	Ports

	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once the process was reaped
	pid  int

	mu    sync.Mutex
	state *os.ProcessState
}

// Start starts a collector and returns at once. Its output goes to a new file log.
func Start(opt Options, log string) (*Process, error) {
	if opt.Ports == nil {
		ports, err := FreePorts()
		if err != nil {
			return nil, err
		}
		opt.Ports = ports
	}
	args := append([]string{}, opt.Wrap...)
	args = append(args, opt.Bin)
	if opt.Config != "" {
		args = append(args, "--config="+opt.Config)
	}
	for i, text := range opt.Overlay {
		file := fmt.Sprintf("%s.overlay%d.yaml", strings.TrimSuffix(log, ".log"), i)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("write overlay: %w", err)
		}
		args = append(args, "--config="+file)
	}
	args = append(args, opt.Args...)
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	_, metricsPort, err := net.SplitHostPort(opt.Ports.Metrics)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("split metrics address: %w", err), out.Close())
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(),
		"SIGLAKE_DATA="+opt.Data, "SIGLAKE_OTLP_GRPC="+opt.Ports.GRPC, "SIGLAKE_OTLP_HTTP="+opt.Ports.HTTP,
		"SIGLAKE_HEALTH="+opt.Ports.Health, "SIGLAKE_METRICS_PORT="+metricsPort)
	cmd.Env = append(cmd.Env, opt.Env...)
	// The child dies with the test, also when the test is ended by its time limit.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: opt.User}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", args[0], err), out.Close())
	}
	p := &Process{Ports: *opt.Ports, cmd: cmd, log: log, done: make(chan struct{}), pid: cmd.Process.Pid}
	go p.reap(out)
	return p, nil
}

func (p *Process) reap(out io.Closer) {
	_ = p.cmd.Wait() // the state says how it ended
	_ = out.Close()  // the child wrote through its own descriptor
	p.mu.Lock()
	p.state = p.cmd.ProcessState
	p.mu.Unlock()
	close(p.done)
}

// PID is the process id of the started command (of the wrapper, when there is one).
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Output is all that the process has written.
func (p *Process) Output() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Tail is the last n lines of the output.
func (p *Process) Tail(n int) string {
	lines := strings.Split(strings.TrimRight(p.Output(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// ExitCode is the code the process ended with: -1 while it runs and after a signal.
func (p *Process) ExitCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		return -1
	}
	return p.state.ExitCode()
}

// WaitHealthy waits until the health endpoint answers 200. It ends early when the process does.
func (p *Process) WaitHealthy(ctx context.Context) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok(ctx, client, "http://"+p.Health+"/") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for health on %s: %w; last lines:\n%s", p.Health, ctx.Err(), p.Tail(30))
		case <-p.done:
			return fmt.Errorf("wait for health: the collector ended with %s; last lines:\n%s", p.state, p.Tail(30))
		case <-tick.C:
		}
	}
}

func ok(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // only the status matters
	return resp.StatusCode == http.StatusOK
}

// Kill ends the process with SIGKILL and reaps it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means it has ended
	<-p.done
}

// Freeze stops every thread with SIGSTOP, and returns when none runs any more or when ctx ends. What is inside a system
// call ends that first.
func (p *Process) Freeze(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze collector: %w", err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		frozen, err := frozen(p.pid)
		if err != nil || frozen {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("freeze collector: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func frozen(pid int) (bool, error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread ended
		}
		if err != nil {
			return false, fmt.Errorf("freeze collector: %w", err)
		}
		// The name in brackets may hold anything; the state follows it.
		if _, rest, ok := strings.Cut(string(data[bytes.LastIndexByte(data, ')')+1:]), " "); !ok || rest[0] != 'T' {
			return false, nil
		}
	}
	return len(stats) > 0, nil
}

// Stop sends SIGTERM and waits for the end. It returns the exit code and how long the stop took.
func (p *Process) Stop(ctx context.Context) (int, time.Duration, error) {
	start := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return -1, 0, fmt.Errorf("signal collector: %w", err)
	}
	select {
	case <-p.done:
		return p.ExitCode(), time.Since(start), nil
	case <-ctx.Done():
		return -1, time.Since(start), fmt.Errorf("stop collector: still running after %s; last lines:\n%s", time.Since(start).Round(time.Millisecond), p.Tail(30))
	}
}

// Harness starts one collector after the other on the same data and ports, inside a test.
type Harness struct {
	Options
	Dir string // the test's folder: logs and, unless set, data
	// Catalog and S3Root say where the independent reader finds the tables; empty: below the data.
	Catalog, S3Root string

	t     testing.TB
	lives int
	last  *Process
}

// New prepares a collector with the shipped configuration for a test. Everything is kept and named when the test fails.
func New(t testing.TB, overlay ...string) *Harness {
	t.Helper()
	dir, err := os.MkdirTemp("", "siglake-"+strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())+"-")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := FreePorts()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o750); err != nil {
		t.Fatal(err)
	}
	h := &Harness{t: t, Dir: dir, Options: Options{
		Bin: testenv.Must(t, testenv.Collector), Config: testenv.Must(t, testenv.DefaultConfig),
		Overlay: overlay, Data: filepath.Join(dir, "data"), Ports: ports,
	}}
	t.Cleanup(h.cleanup)
	return h
}

func (h *Harness) cleanup() {
	if h.last != nil {
		h.last.Kill()
	}
	if h.t.Failed() || os.Getenv("SIGLAKE_KEEP") != "" {
		h.t.Logf("kept: %s (data, and one log per life)", h.Dir)
		if h.last != nil {
			h.t.Logf("last lines of the last life:\n%s", h.last.Tail(40))
		}
		return
	}
	if err := os.RemoveAll(h.Dir); err != nil {
		h.t.Errorf("remove %s: %v", h.Dir, err)
	}
}

// Launch starts the next life without waiting for it.
func (h *Harness) Launch() *Process {
	h.t.Helper()
	h.lives++
	p, err := Start(h.Options, filepath.Join(h.Dir, "life-"+strconv.Itoa(h.lives)+".log"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.last = p
	return p
}

// StartTimeout bounds the wait for a healthy collector. It is generous: the machine may be busy.
const StartTimeout = 60 * time.Second

// Start starts the next life and waits until it is healthy.
func (h *Harness) Start() *Process {
	h.t.Helper()
	p := h.Launch()
	ctx, cancel := context.WithTimeout(h.t.Context(), StartTimeout)
	defer cancel()
	if err := p.WaitHealthy(ctx); err != nil {
		h.t.Fatal(err)
	}
	// It is healthy before it has asked for signals: until then SIGTERM is the end of it, without a shutdown.
	for !strings.Contains(p.Output(), "Everything is ready") {
		select {
		case <-ctx.Done():
			h.t.Fatalf("never ready; last lines:\n%s", p.Tail(30))
		case <-time.After(10 * time.Millisecond):
		}
	}
	time.Sleep(signalsAsked)
	return p
}

// signalsAsked is what the collector takes, generously, from its last word to asking for signals.
const signalsAsked = 200 * time.Millisecond

// Stop ends the running life with SIGTERM and requires exit code 0.
func (h *Harness) Stop() time.Duration {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	code, took, err := h.last.Stop(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	if code != 0 {
		h.t.Fatalf("SIGTERM: exit code %d, want 0; last lines:\n%s", code, h.last.Tail(30))
	}
	return took
}

// Logs is the output of all lives.
func (h *Harness) Logs() string {
	var all strings.Builder
	for i := range h.lives {
		data, err := os.ReadFile(filepath.Join(h.Dir, "life-"+strconv.Itoa(i+1)+".log"))
		if err != nil {
			h.t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

// WAL is the root of the write-ahead log.
func (h *Harness) WAL() string { return filepath.Join(h.Data, "wal") }

// Warehouse is the folder of the tables.
func (h *Harness) Warehouse() string { return filepath.Join(h.Data, "warehouse") }
