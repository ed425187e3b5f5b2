package services

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// versitygw is the S3 server, installed by the Makefile.
const versitygw = "versitygw-v1.8.0"

// S3 is an S3 server with one bucket. Root/Bucket/KEY is the object KEY as a plain file, for whoever wants to look at it
// without S3.
type S3 struct {
	Endpoint, Region, Bucket, AccessKey, SecretKey string
	Root                                           string

	dir, port, bin string
	proc           *process
}

// StartS3 starts a server in a temporary folder.
func StartS3() (_ *S3, err error) {
	s := &S3{Region: "us-east-1", Bucket: "lake", AccessKey: "local-test", SecretKey: "local-test-secret"}
	repo, err := testenv.Repo()
	if err != nil {
		return nil, err
	}
	s.bin = filepath.Join(repo, ".tools", versitygw)
	if _, err := os.Stat(s.bin); err != nil {
		return nil, fmt.Errorf("find the S3 server at %s: `make tools`", s.bin)
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	s.Endpoint = "http://127.0.0.1:" + s.port
	if s.dir, err = os.MkdirTemp("", "siglake-s3-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.Root = filepath.Join(s.dir, "root")
	// A folder of the root is a bucket that belongs to the root account.
	if err := os.MkdirAll(filepath.Join(s.Root, s.Bucket), 0o755); err != nil {
		return nil, err
	}
	return s, s.Start()
}

// Start starts the server on its port and data.
func (s *S3) Start() (err error) {
	s.proc, err = launch(filepath.Join(s.dir, "log"), nil, []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey},
		s.bin, "--port", "127.0.0.1:"+s.port, "--region", s.Region, "--quiet", "--keep-alive", "posix", s.Root)
	if err != nil {
		return err
	}
	return s.proc.await(func() error {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.port, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// Info names endpoint, region, bucket, access_key, secret_key and root.
func (s *S3) Info() map[string]string {
	return map[string]string{
		"endpoint": s.Endpoint, "region": s.Region, "bucket": s.Bucket, "access_key": s.AccessKey, "secret_key": s.SecretKey, "root": s.Root,
	}
}

// Env tells a client of the AWS SDK where the server is and who it is.
func (s *S3) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL_S3=" + s.Endpoint, "AWS_REGION=" + s.Region,
		"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey,
	}
}

// PID is the process id of the running server.
func (s *S3) PID() int { return s.proc.cmd.Process.Pid }

// Stop ends the server after the requests in hand.
func (s *S3) Stop() error { return s.halt(syscall.SIGTERM) }

// Kill ends the server at once.
func (s *S3) Kill() error { return s.halt(syscall.SIGKILL) }

func (s *S3) halt(sig syscall.Signal) error {
	err := s.proc.end(sig)
	s.proc = nil
	return err
}

// Close stops the server and removes its data.
func (s *S3) Close() error {
	return errors.Join(s.Stop(), os.RemoveAll(s.dir))
}
