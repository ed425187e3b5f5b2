package otelarrow_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// adversarialDir holds the payloads that the end-to-end tests send as well.
// SIGLAKE_ADVERSARIAL names another place.
func adversarialDir(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join("..", "..", "testbed", "testdata", "adversarial")
	if env := os.Getenv("SIGLAKE_ADVERSARIAL"); env != "" {
		dir = env
	}
	if _, err := os.Stat(filepath.Join(dir, "INDEX.tsv")); err != nil {
		tb.Skipf("no adversarial payloads: %v", err)
	}
	return dir
}

// decode reads a request with pdata, as the index was made.
func decode(sig otelarrow.Signal, file string, b []byte) (any, error) {
	isJSON := strings.HasSuffix(file, ".json")
	switch {
	case sig == otelarrow.Logs && isJSON:
		return (&plog.JSONUnmarshaler{}).UnmarshalLogs(b)
	case sig == otelarrow.Logs:
		return (&plog.ProtoUnmarshaler{}).UnmarshalLogs(b)
	case sig == otelarrow.Traces && isJSON:
		return (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(b)
	case sig == otelarrow.Traces:
		return (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
	case isJSON:
		return (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(b)
	default:
		return (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(b)
	}
}

// Every payload that pdata accepts becomes exactly the rows of the index, all text
// valid, whatever is in it.
func TestAdversarial_payloads(t *testing.T) {
	t.Parallel()
	dir := adversarialDir(t)
	index, err := os.Open(filepath.Join(dir, "INDEX.tsv"))
	require.NoError(t, err)
	defer func() { _ = index.Close() }()
	lines := bufio.NewScanner(index)
	tried := 0
	for lines.Scan() {
		cols := strings.Split(lines.Text(), "\t")
		if len(cols) < 3 {
			continue
		}
		for i, ext := range []string{".pb", ".json"} {
			rows, ok := strings.CutPrefix(cols[i+1], "ok ")
			if !ok {
				continue
			}
			want, err := strconv.Atoi(rows)
			require.NoError(t, err)
			name := strings.TrimSuffix(cols[0], ext) + ext
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); ext == ".json" && os.IsNotExist(err) {
				continue // large twins of a .pb are not kept
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkPayload(t, dir, name, want)
			})
			tried++
		}
	}
	require.NoError(t, lines.Err())
	require.Greater(t, tried, 100)
}

func checkPayload(t *testing.T, dir, name string, want int) {
	t.Helper()
	sig := otelarrow.Logs
	switch {
	case strings.HasPrefix(name, "traces/") || strings.Contains(name, ".traces."):
		sig = otelarrow.Traces
	case strings.HasPrefix(name, "metrics/") || strings.Contains(name, ".metrics."):
		sig = otelarrow.Metrics
	}
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	require.NoError(t, err)
	data, err := decode(sig, name, b)
	require.NoError(t, err)
	rows, batch := tableOf(t, data)
	require.Len(t, rows, want)
	if strings.Contains(name, "utf8_invalid") || strings.Contains(name, "raw_invalid_utf8") {
		require.Positive(t, batch.Adjusted.InvalidUTF8)
	}
	if strings.Contains(name, "duplicate_keys") {
		require.Positive(t, batch.Adjusted.DuplicateKeys)
	}
}

// FuzzEncodeLogs takes any bytes that pdata decodes all the way to table rows.
func FuzzEncodeLogs(f *testing.F) {
	seed := func(ld plog.Logs) {
		b, err := (&plog.ProtoMarshaler{}).MarshalLogs(ld)
		require.NoError(f, err)
		f.Add(b)
	}
	seed(plog.NewLogs())
	seed(realLogs(f, 5))
	seed(oneLog(func(lr plog.LogRecord) {
		for i, tc := range valueCases() {
			tc.set(lr.Attributes().PutEmpty(strconv.Itoa(i) + "\xff"))
		}
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		data, err := decode(otelarrow.Logs, ".pb", b)
		if err != nil {
			return
		}
		rows, _ := tableOf(t, data)
		require.Len(t, rows, data.(plog.Logs).LogRecordCount())
	})
}
