// Package servicetest runs PostgreSQL and an S3 server for tests of this module, through the launcher of the testbed
// (testbed/cmd/services). Only tests import it.
package servicetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Service is a server of a test. Its methods must not be called at once by several goroutines.
type Service struct {
	// Info is what a client needs. postgres: url, host, port, user, password, database. s3: endpoint, region, bucket,
	// access_key, secret_key, and root: below root/bucket each object is a plain file.
	Info map[string]string

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts "postgres" or "s3" and returns when it answers. The server ends with the process that started it at the
// latest. An error names the command that installs what is missing.
func Start(kind string) (*Service, error) {
	dir, err := testbed()
	if err != nil {
		return nil, err
	}
	// No context ends the server: the end of its input does, also when this process is killed.
	s := &Service{cmd: exec.CommandContext(context.Background(), "go", "run", "./cmd/services", kind)}
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // one build, also under the race detector
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the launcher of %s: %w", kind, err)
	}
	if s.Info, err = s.answer(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", kind, err), s.Close())
	}
	return s, nil
}

// testbed finds the testbed's folder upwards from the working directory.
func testbed() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		at := filepath.Join(dir, "testbed")
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find the testbed: run the test inside the repository")
		}
		dir = up
	}
}

// Do gives the server one of the orders start, stop and kill, and returns when it is carried out.
func (s *Service) Do(order string) error {
	if _, err := io.WriteString(s.in, order+"\n"); err != nil {
		return fmt.Errorf("%s the server: %w", order, err)
	}
	if _, err := s.answer(); err != nil {
		return fmt.Errorf("%s the server: %w", order, err)
	}
	return nil
}

func (s *Service) answer() (map[string]string, error) {
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var out map[string]string
	if err := json.Unmarshal(line, &out); err != nil {
		return nil, err
	}
	if text := out["error"]; text != "" {
		return nil, errors.New(text)
	}
	return out, nil
}

// Close stops the server and removes its data.
func (s *Service) Close() error {
	return errors.Join(s.in.Close(), s.cmd.Wait())
}
