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
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// Reader reads one data directory.
type Reader struct {
	Catalog string // path of the SQLite catalog

	dir  string
	node string
}

// Open prepares a reader for a data directory. It fails when node or the reader's packages are missing.
func Open(data string) (*Reader, error) {
	dir, err := testenv.Reader()
	if err != nil {
		return nil, err
	}
	node, err := testenv.Tool("node", "nodejs")
	if err != nil {
		return nil, err
	}
	return &Reader{Catalog: filepath.Join(data, "catalog.db"), dir: dir, node: node}, nil
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

func (r *Reader) run(ctx context.Context, each func(io.Reader) error, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.node, append([]string{filepath.Join(r.dir, "read.mjs"), "--catalog", r.Catalog}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start reader: %w", err)
	}
	failed := each(out)
	if failed != nil {
		cancel() // it would block on a pipe that nobody reads
	}
	if err := cmd.Wait(); err != nil && failed == nil {
		return fmt.Errorf("read tables: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return failed
}

func decode(into any) func(io.Reader) error {
	return func(in io.Reader) error {
		if err := json.NewDecoder(in).Decode(into); err != nil && !errors.Is(err, io.EOF) {
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
	return r.run(ctx, func(in io.Reader) error {
		return lines(in, func(line []byte) error {
			var row Row
			if err := json.Unmarshal(line, &row); err != nil {
				return fmt.Errorf("decode row: %w", err)
			}
			return each(row)
		})
	}, "rows", "--table", table, "--missing-ok")
}

// Query runs SQL over t, the live rows of a table, and calls each with every row of the answer.
func (r *Reader) Query(ctx context.Context, table, sql string, each func([]any) error) error {
	return r.run(ctx, func(in io.Reader) error {
		return lines(in, func(line []byte) error {
			var row []any
			if err := json.Unmarshal(line, &row); err != nil {
				return fmt.Errorf("decode row: %w", err)
			}
			return each(row)
		})
	}, "query", "--table", table, "--missing-ok", sql)
}

func lines(in io.Reader, each func([]byte) error) error {
	b := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := b.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read rows: %w", err)
		}
	}
}
