// Package tables reads the Iceberg tables of a data directory through the independent reader (../../reader): a Node
// program that shares no code with the product. Values arrive in exact form: integers and microseconds as decimal text.
package tables

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// Reader reads one data directory. Its methods must not be called at once by several goroutines.
type Reader struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// Place is where tables are.
type Place struct {
	Catalog string // path of a SQLite file, or a postgres:// URL
	S3Root  string // folder whose sub-folders are the buckets of s3:// locations
}

// Open starts a reader for a data directory; Close ends it. It fails when node or the reader's packages are missing.
func Open(data string) (*Reader, error) {
	return OpenAt(Place{Catalog: filepath.Join(data, "catalog.db")})
}

// OpenAt starts a reader for tables anywhere.
func OpenAt(p Place) (*Reader, error) {
	dir, err := testenv.Reader()
	if err != nil {
		return nil, err
	}
	node, err := testenv.Tool("node", "nodejs")
	if err != nil {
		return nil, err
	}
	r := &Reader{cmd: exec.Command(node, filepath.Join(dir, "read.mjs"), "serve")}
	// A URL may hold a password, and arguments are for all to see.
	r.cmd.Env = append(os.Environ(), "SIGLAKE_READ_CATALOG="+p.Catalog, "SIGLAKE_READ_S3_ROOT="+p.S3Root)
	r.cmd.Stderr = &r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReaderSize(out, 1<<20)
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start reader: %w", err)
	}
	return r, nil
}

// Close ends the reader.
func (r *Reader) Close() error {
	if err := r.in.Close(); err != nil {
		return fmt.Errorf("end reader: %w", err)
	}
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("end reader: %w: %s", err, bytes.TrimSpace(r.stderr.Bytes()))
	}
	return nil
}

// Row is one row: column name to exact value (nil, bool, string, []any, map[string]any).
type Row map[string]any

// Summary is what the metadata and the files of a table say.
type Summary struct {
	Missing      bool              `json:"missing"`
	UUID         string            `json:"uuid"`
	Format       int               `json:"format"`
	Snapshot     *string           `json:"snapshot"`
	Snapshots    int               `json:"snapshots"`
	ManifestRows string            `json:"manifest_rows"`
	ParquetRows  string            `json:"parquet_rows"`
	Properties   map[string]string `json:"properties"`
	Columns      []struct {
		ID       int    `json:"id"`
		Name     string `json:"name"`
		Required bool   `json:"required"`
	} `json:"columns"`
	Files []File   `json:"files"`
	Wrong []string `json:"wrong"` // by Verify: claims of the metadata that do not hold for the files
}

// File is a live data file.
type File struct {
	Path      string         `json:"path"`
	Rows      string         `json:"rows"`
	Bytes     string         `json:"bytes"`
	Partition map[string]any `json:"partition"`
	Lower     map[string]any `json:"lower"`
	Upper     map[string]any `json:"upper"`
}

// Count is the number of rows by the manifests; Verify proves that the files agree.
func (s Summary) Count() int {
	n, err := strconv.Atoi(s.ManifestRows)
	if err != nil {
		return -1
	}
	return n
}

// run gives the reader a command and calls each with every line of the answer. After an error of each, or when ctx
// ends, the reader is of no more use.
func (r *Reader) run(ctx context.Context, each func([]byte) error, args ...string) error {
	command, err := json.Marshal(args)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = r.cmd.Process.Kill() }) // Close reports how it ended
	defer stop()
	if _, err := r.in.Write(append(command, '\n')); err != nil {
		return fmt.Errorf("ask reader: %w", err)
	}
	for {
		line, err := r.out.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("read tables: %w: %s", errors.Join(err, ctx.Err()), bytes.TrimSpace(r.stderr.Bytes()))
		}
		var last struct {
			End   bool   `json:"end"`
			Error string `json:"error"`
		}
		if len(line) < 20 || bytes.HasPrefix(line, []byte(`{"error":`)) {
			if json.Unmarshal(line, &last) == nil && last.End {
				return nil
			}
			if last.Error != "" {
				return fmt.Errorf("read tables: %s", last.Error)
			}
		}
		if err := each(line); err != nil {
			return err
		}
	}
}

func decode(into any) func([]byte) error {
	return func(line []byte) error {
		if err := json.Unmarshal(line, into); err != nil {
			return fmt.Errorf("decode reader's answer: %w", err)
		}
		return nil
	}
}

// Summarise reads a table's metadata and counts; a table that does not exist yet is empty.
func (r *Reader) Summarise(ctx context.Context, table string) (Summary, error) {
	var s Summary
	err := r.run(ctx, decode(&s), "summary", "--table", table, "--missing-ok")
	return s, err
}

// Verify also checks each claim of the manifests against the files; what does not hold is in Wrong.
func (r *Reader) Verify(ctx context.Context, table string) (Summary, error) {
	var s Summary
	err := r.run(ctx, decode(&s), "verify", "--table", table, "--missing-ok")
	return s, err
}

// Rows calls each with every live row of a table.
func (r *Reader) Rows(ctx context.Context, table string, each func(Row) error) error {
	return r.run(ctx, func(line []byte) error {
		var row Row
		if err := json.Unmarshal(line, &row); err != nil {
			return fmt.Errorf("decode row: %w", err)
		}
		return each(row)
	}, "rows", "--table", table, "--missing-ok")
}

// Query runs SQL over t, the live rows of a table, and calls each with every row of the answer.
func (r *Reader) Query(ctx context.Context, table, sql string, each func([]any) error) error {
	return r.run(ctx, func(line []byte) error {
		var row []any
		if err := json.Unmarshal(line, &row); err != nil {
			return fmt.Errorf("decode row: %w", err)
		}
		return each(row)
	}, "query", "--table", table, "--missing-ok", sql)
}
