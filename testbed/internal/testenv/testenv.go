// Package testenv finds what the testbed drives: the built binaries, the shipped configuration and the independent
// reader. A part that is missing is an error with the command that brings it; nothing is skipped.
package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Root is the testbed's own folder, found upwards from the working directory or given by SIGLAKE_TESTBED.
func Root() (string, error) {
	if dir := os.Getenv("SIGLAKE_TESTBED"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		for _, at := range []string{dir, filepath.Join(dir, "testbed")} {
			data, err := os.ReadFile(filepath.Join(at, "go.mod"))
			if err == nil && strings.HasPrefix(string(data), "module github.com/siglakecol/siglakecol/testbed\n") {
				return at, nil
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find the testbed: run inside the repository or set SIGLAKE_TESTBED to its testbed folder")
		}
		dir = up
	}
}

// Repo is the repository that holds the testbed.
func Repo() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return filepath.Dir(root), nil
}

// Collector is the path of the collector under test (SIGLAKECOL_BIN, else ../bin/siglakecol).
func Collector() (string, error) { return binary("SIGLAKECOL_BIN", "siglakecol") }

// CLI is the path of the operator's command line under test (SIGLAKE_BIN, else ../bin/siglake).
func CLI() (string, error) { return binary("SIGLAKE_BIN", "siglake") }

func binary(env, name string) (string, error) {
	path := os.Getenv(env)
	if path == "" {
		repo, err := Repo()
		if err != nil {
			return "", err
		}
		path = filepath.Join(repo, "bin", name)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("find %s at %s: build it with `make build`, or name it in %s", name, path, env)
	}
	return path, nil
}

// DefaultConfig is the configuration that the distribution ships; SIGLAKECOL_CONFIG names another one.
func DefaultConfig() (string, error) {
	if path := os.Getenv("SIGLAKECOL_CONFIG"); path != "" {
		return filepath.Abs(path)
	}
	repo, err := Repo()
	if err != nil {
		return "", err
	}
	path := filepath.Join(repo, "config", "default.yaml")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find the shipped configuration: %w", err)
	}
	return path, nil
}

// Reader is the folder of the independent reader, with its packages installed.
func Reader() (string, error) {
	if _, err := exec.LookPath("node"); err != nil {
		return "", errors.New("find node: the independent reader needs Node 20 or later: `apt-get install -y nodejs npm`")
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "reader")
	for _, pkg := range []string{"avsc", "node-sqlite3-wasm", "@duckdb/node-api"} {
		if _, err := os.Stat(filepath.Join(dir, "node_modules", pkg, "package.json")); err != nil {
			return "", fmt.Errorf("find %s: install the reader's packages with `npm --prefix testbed/reader ci`", pkg)
		}
	}
	return dir, nil
}

// Tool is the path of a program of the system, or an error with the package that brings it.
func Tool(name, debianPackage string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s: `apt-get install -y %s`", name, debianPackage)
	}
	return path, nil
}

// Must fails the test when a part is missing.
func Must(t testing.TB, f func() (string, error)) string {
	t.Helper()
	path, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Int reads a whole number from the environment: the knob that turns a quick run into a full one.
func Int(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("read %s=%q: say a whole number above 0", name, text)
	}
	return n
}

// Soak says whether tests run at their full sizes (SIGLAKE_SOAK set).
func Soak() bool { return os.Getenv("SIGLAKE_SOAK") != "" }
