package otlptest

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Payload is a request of the adversarial folder that pdata takes.
type Payload struct {
	Name string
	Data any // plog.Logs, ptrace.Traces or pmetric.Metrics
	Rows int // by the index
}

// Payloads reads all files that INDEX.tsv says are taken, as .pb and as .json. The index has four columns: name, verdict
// on the .pb, verdict on the .json, remark; a verdict is "ok" and the number of rows. Large .json twins are not kept.
func Payloads(dir fs.FS) ([]Payload, error) {
	index, err := fs.ReadFile(dir, "INDEX.tsv")
	if err != nil {
		return nil, err
	}
	var out []Payload
	for line := range strings.Lines(string(index)) {
		cols := strings.Split(line, "\t")
		if len(cols) < 3 {
			continue
		}
		for i, ext := range []string{".pb", ".json"} {
			count, ok := strings.CutPrefix(cols[i+1], "ok ")
			if !ok {
				continue
			}
			p := Payload{Name: strings.TrimSuffix(cols[0], ext) + ext}
			if p.Rows, err = strconv.Atoi(count); err != nil {
				return nil, fmt.Errorf("rows of %s: %w", p.Name, err)
			}
			wire, err := fs.ReadFile(dir, p.Name)
			if ext == ".json" && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if p.Data, err = Decode(signalOf(p.Name), wire, ext == ".json"); err != nil {
				return nil, fmt.Errorf("decode %s: %w", p.Name, err)
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// signalOf is logs, traces or metrics: the folder, or what stands before the extension.
func signalOf(name string) string {
	for _, s := range []string{"traces", "metrics"} {
		if strings.HasPrefix(name, s+"/") || strings.Contains(name, "."+s+".") {
			return s
		}
	}
	return "logs"
}

// Decode reads a request of logs, traces or metrics with pdata.
func Decode(signal string, wire []byte, isJSON bool) (any, error) {
	switch {
	case signal == "logs" && isJSON:
		return (&plog.JSONUnmarshaler{}).UnmarshalLogs(wire)
	case signal == "logs":
		return (&plog.ProtoUnmarshaler{}).UnmarshalLogs(wire)
	case signal == "traces" && isJSON:
		return (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(wire)
	case signal == "traces":
		return (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
	case signal == "metrics" && isJSON:
		return (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(wire)
	case signal == "metrics":
		return (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(wire)
	default:
		return nil, fmt.Errorf("no signal %q", signal)
	}
}
