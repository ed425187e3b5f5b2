package accept

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/testbed/internal/expect"
)

// Load reads every .json, .jsonl and .pb file below a folder as requests, in order of their names. The signal comes
// from MANIFEST.tsv (fourth column) where that lists the file, else from the file's name, else from trying all three.
func Load(dir string) ([]Request, error) {
	signals, err := manifest(filepath.Join(dir, "MANIFEST.tsv"))
	if err != nil {
		return nil, err
	}
	var out []Request
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		ext := filepath.Ext(path)
		if ext != ".json" && ext != ".jsonl" && ext != ".pb" {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out = append(out, requests(name, signals[filepath.ToSlash(name)], data)...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read payloads: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read payloads: no .json, .jsonl or .pb file below %s", dir)
	}
	return out, nil
}

func manifest(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	out := map[string]string{}
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Split(line, "\t")
		if len(f) < 4 {
			continue
		}
		if signal, _, _ := strings.Cut(f[3], " "); expect.Tables[signal] != "" {
			out[f[0]] = signal
		}
	}
	return out, nil
}

func requests(name, signal string, data []byte) []Request {
	switch filepath.Ext(name) {
	case ".pb":
		signal = guess(name, signal, data, false)
		return []Request{{Name: name, Signal: signal, Form: "pb", Body: data}, {Name: name, Signal: signal, Form: "grpc", Body: data}}
	case ".jsonl":
		var out []Request
		for i, line := range bytes.Split(data, []byte("\n")) {
			if len(bytes.TrimSpace(line)) > 0 {
				out = append(out, Request{Name: fmt.Sprintf("%s:%d", name, i+1), Signal: guess(name, signal, line, true), Form: "json", Body: line})
			}
		}
		return out
	}
	return []Request{{Name: name, Signal: guess(name, signal, data, true), Form: "json", Body: data}}
}

// guess finds the signal of a file that no manifest names.
func guess(name, signal string, data []byte, isJSON bool) string {
	if signal != "" {
		return signal
	}
	base := strings.ToLower(name)
	for _, g := range []struct{ part, signal string }{{"log", "logs"}, {"trace", "traces"}, {"span", "traces"}, {"metric", "metrics"}} {
		if strings.Contains(filepath.Base(base), g.part) {
			return g.signal
		}
	}
	best, most := "logs", -1
	for _, s := range []string{"logs", "traces", "metrics"} {
		if d, err := expect.Decode(s, data, isJSON); err == nil && d.Rejected == nil && d.Records > most {
			best, most = s, d.Records
		}
	}
	return best
}

// Names are the different files among requests, sorted.
func Names(sent []Sent) []string {
	seen := map[string]bool{}
	for _, s := range sent {
		name, _, _ := strings.Cut(s.Name, ":")
		seen[name] = true
	}
	out := make([]string, 0, len(seen))
	for n := range seen {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
