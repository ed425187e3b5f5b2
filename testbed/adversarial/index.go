// Package adversarial sends hostile and odd requests (../testdata/adversarial) and checks the answer that INDEX.tsv asks
// for, that the collector lives, and that exactly the rows of the accepted requests are stored, also after kill -9.
package adversarial

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/siglakecol/siglakecol/testbed/internal/accept"
)

// Case is one request and what INDEX.tsv says of it.
type Case struct {
	accept.Request

	Accepted bool
	Records  int
	Why      string // what it is and what must hold
}

// overruled are the lines of INDEX.tsv that do not speak of the door the collector uses: it decodes whole export
// requests, and those move the removed field 1000 to where spans belong.
var overruled = map[string]int{"raw/deprecated_instrumentation_library.traces.pb": 1}

// Cases reads the folder.
func Cases(dir string) ([]Case, error) {
	index, err := os.ReadFile(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	var out []Case
	for _, line := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("read index: %q has %d columns, want 4", line, len(f))
		}
		if strings.HasPrefix(f[0], "http/") {
			continue // not bodies of one form: they have cases of their own
		}
		for i, form := range []string{"pb", "json"} {
			if f[1+i] == "" {
				continue
			}
			c, err := newCase(dir, f[0], form, f[1+i], f[3])
			if err != nil {
				return nil, err
			}
			out = append(out, c)
			if form == "pb" && c.Accepted && len(c.Body) < 100<<10 {
				c.Form = "grpc"
				out = append(out, c)
			}
		}
	}
	return out, nil
}

func newCase(dir, name, form, verdict, why string) (Case, error) {
	signal, _, ok := strings.Cut(name, "/") // logs/x, traces/x, metrics/x: a .pb and a .json
	file := name + "." + form
	if signal == "raw" || signal == "json" {
		parts := strings.Split(name, ".") // x.SIGNAL.ext: one file
		signal, file = parts[len(parts)-2], name
	}
	if !ok {
		return Case{}, fmt.Errorf("read index: %q names no folder", name)
	}
	body, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) && form == "json" {
		body, err = asJSON(filepath.Join(dir, name+".pb"), signal)
	}
	if err != nil {
		return Case{}, fmt.Errorf("read case: %w", err)
	}
	c := Case{Request: accept.Request{Name: file, Signal: signal, Form: form, Body: body}, Why: why}
	if count, ok := strings.CutPrefix(verdict, "ok "); ok {
		c.Accepted = true
		if c.Records, err = strconv.Atoi(count); err != nil {
			return c, fmt.Errorf("read index: %q: %w", verdict, err)
		}
	}
	if n, ok := overruled[file]; ok {
		c.Records = n
	}
	return c, nil
}

// asJSON makes the JSON of a request whose JSON is too large to keep.
func asJSON(file, signal string) ([]byte, error) {
	wire, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r interface {
		UnmarshalProto([]byte) error
		MarshalJSON() ([]byte, error)
	}
	switch signal {
	case "logs":
		r = plogotlp.NewExportRequest()
	case "traces":
		r = ptraceotlp.NewExportRequest()
	default:
		r = pmetricotlp.NewExportRequest()
	}
	if err := r.UnmarshalProto(wire); err != nil {
		return nil, err
	}
	return r.MarshalJSON()
}

// httpCases are bodies with content encodings and types. Only the first two are good.
func httpCases(dir string) ([]Case, error) {
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, "http", name)) }
	plain, err := read("plain.json")
	if err != nil {
		return nil, err
	}
	var out []Case
	add := func(file, encoding, contentType string, accepted bool) error {
		body, err := read(file)
		if err != nil {
			return err
		}
		c := Case{Accepted: accepted, Why: fmt.Sprintf("encoding %q, type %q", encoding, contentType), Request: accept.Request{
			Name: "http/" + file + " as " + encoding + " " + contentType, Signal: "logs", Form: "json",
			Body: body, Encoding: encoding, Type: contentType, Plain: plain,
		}}
		if accepted {
			c.Records = 1
		}
		out = append(out, c)
		return nil
	}
	err = errors.Join(
		add("ok.json.gz", "gzip", "application/json", true),
		add("plain.json", "", "application/json", true),
		add("two_members.json.gz", "gzip", "application/json", true), // two documents: pdata reads the first
		add("truncated.json.gz", "gzip", "application/json", false),
		add("bad_crc.json.gz", "gzip", "application/json", false),
		add("gzip_of_gzip.json.gz", "gzip", "application/json", false),
		add("bomb_64mib.json.gz", "gzip", "application/json", false),
		add("plain.json", "gzip", "application/json", false),
		add("plain.json", "zstd", "application/json", false),
		add("plain.json", "br", "application/json", false),
		add("plain.json", "gzip, gzip", "application/json", false),
		add("ok.json.gz", "", "application/json", false),
		add("plain.json", "", "application/x-protobuf", false),
		add("plain.json", "", "text/plain", false),
		add("plain.json", "", "-", false),
	)
	return out, err
}
