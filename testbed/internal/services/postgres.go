package services

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Postgres is a PostgreSQL server with one superuser, who must give a password. Its settings are PostgreSQL's own, fsync
// included; only the cluster is made without.
type Postgres struct {
	Host, Port, User, Password, Database string

	dir  string // holds data and log
	bin  string
	who  *syscall.Credential // nil: the caller
	proc *process
}

const installPostgres = "`apt-get install -y postgresql`"

// StartPostgres makes a cluster in a temporary folder and starts it. As root it runs as the user postgres, because
// PostgreSQL refuses to run as root.
func StartPostgres() (_ *Postgres, err error) {
	p := &Postgres{Host: "127.0.0.1", User: "siglake", Password: "local-test", Database: "siglake"}
	if p.bin, err = postgresBin(); err != nil {
		return nil, err
	}
	if p.Port, err = freePort(); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "siglake-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.becomePostgres(); err != nil {
		return nil, err
	}
	if err := p.initialise(); err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	_, err = p.SQL("postgres", "CREATE DATABASE "+p.Database)
	return p, err
}

// postgresBin finds the folder of the server's programs, which Debian keeps off the PATH.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("find initdb: PostgreSQL is not installed: " + installPostgres)
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func (p *Postgres) becomePostgres() error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("find the user postgres: %w: %s", err, installPostgres)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return fmt.Errorf("read the id of the user postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return fmt.Errorf("read the group of the user postgres: %w", err)
	}
	p.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(p.dir, int(uid), int(gid))
}

func (p *Postgres) initialise() error {
	secret := filepath.Join(p.dir, "password")
	if err := os.WriteFile(secret, []byte(p.Password), 0o644); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(p.bin, "initdb"), "--no-sync", "--no-instructions", "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--username="+p.User, "--pwfile="+secret, "--pgdata="+filepath.Join(p.dir, "data"))
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.who}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a PostgreSQL cluster: %w:\n%s", err, out)
	}
	return nil
}

// Start starts the server on its port and data. What a killed server left is recovered first.
func (p *Postgres) Start() error {
	for {
		proc, err := launch(filepath.Join(p.dir, "log"), p.who, nil, filepath.Join(p.bin, "postgres"), "-D", filepath.Join(p.dir, "data"),
			"-c", "listen_addresses="+p.Host, "-c", "port="+p.Port, "-c", "unix_socket_directories=")
		if err != nil {
			return err
		}
		p.proc = proc
		err = proc.await(func() error {
			_, err := p.SQL("postgres", "SELECT 1")
			return err
		})
		// A child of a killed server may live a moment longer; until it is gone the data folder is refused.
		if errors.Is(err, errEnded) && bytes.Contains([]byte(err.Error()), []byte("shared memory block")) {
			continue
		}
		return err
	}
}

// SQL runs statements in a database as its superuser and returns the rows, one a line, columns with | between them.
func (p *Postgres) SQL(database, statements string) (string, error) {
	psql, err := exec.LookPath("psql")
	if err != nil {
		return "", errors.New("find psql: " + installPostgres)
	}
	cmd := exec.Command(psql, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1",
		"--host="+p.Host, "--port="+p.Port, "--username="+p.User, "--dbname="+database, "--command="+statements)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+p.Password, "PGCONNECT_TIMEOUT=10")
	var out, say bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &say
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, bytes.TrimSpace(say.Bytes()))
	}
	return string(bytes.TrimSpace(out.Bytes())), nil
}

// URL is the address of a database, with user and password.
func (p *Postgres) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(p.User, p.Password), Host: p.Host + ":" + p.Port, Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Info names url, host, port, user, password and database.
func (p *Postgres) Info() map[string]string {
	return map[string]string{
		"url": p.URL(p.Database), "host": p.Host, "port": p.Port, "user": p.User, "password": p.Password, "database": p.Database,
	}
}

// Stop ends the server and breaks off what clients are doing.
func (p *Postgres) Stop() error {
	err := p.proc.end(syscall.SIGINT)
	p.proc = nil
	return err
}

// Kill ends the server and its children at once, as the death of its machine would but for the disk's cache.
func (p *Postgres) Kill() error {
	if p.proc == nil {
		return nil
	}
	own := children(p.proc.cmd.Process.Pid)
	err := p.proc.end(syscall.SIGKILL)
	p.proc = nil
	for _, pid := range own {
		_ = syscall.Kill(pid, syscall.SIGKILL) // an error means it has ended with its parent
	}
	return err
}

// Pause stops the server and its children where they are, as a machine that hangs: connections stay and nothing answers. Only
// Resume and Kill end that.
func (p *Postgres) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (p *Postgres) Resume() error { return p.signal(syscall.SIGCONT) }

// signal sends a signal to the server and then to its children: one that is stopped makes no more.
func (p *Postgres) signal(sig syscall.Signal) error {
	pid := p.proc.cmd.Process.Pid
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("signal PostgreSQL: %w", err)
	}
	for _, child := range children(pid) {
		_ = syscall.Kill(child, sig) // an error means it has ended
	}
	return nil
}

// Close stops the server and removes its data.
func (p *Postgres) Close() error {
	return errors.Join(p.Stop(), os.RemoveAll(p.dir))
}
