package services

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a server may take to answer or to end. It ends a hopeless wait and measures nothing: a crash
// recovery of PostgreSQL on a busy machine takes seconds.
const patience = 2 * time.Minute

// process is a server that runs.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it was reaped
}

// launch starts a command whose output goes to a file.
func launch(log string, who *syscall.Credential, env []string, name string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Dir(log)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	// The server dies with the test, also when the test is ended by its time limit.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: who}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), out.Close())
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()  // whoever waits for done reads the log
		_ = out.Close() // the server wrote through its own descriptor
		close(p.done)
	}()
	return p, nil
}

// end sends a signal and waits for the end. A server that does not heed it is killed, which is an error.
func (p *process) end(sig syscall.Signal) error {
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.cmd.Path, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill() // an error means it has ended
		<-p.done
		return fmt.Errorf("end %s: it did not heed %s", p.cmd.Path, sig)
	}
}

// errEnded: the server ended while it was waited for.
var errEnded = errors.New("the server ended")

// await asks until answers returns nil. It ends early with errEnded when the process does.
func (p *process) await(answers func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for {
		err := answers()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%w:\n%s", errEnded, p.tail())
		case <-limit:
			return fmt.Errorf("wait for %s: %w; its last lines:\n%s", p.cmd.Path, err, p.tail())
		case <-tick.C:
		}
	}
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// freePort is a loopback port that nothing listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("pick a port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// children are the processes that a process has started.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is sound
	var out []int
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it ended
		}
		// pid (name) state ppid; the name may hold anything.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
			out = append(out, child)
		}
	}
	return out
}
