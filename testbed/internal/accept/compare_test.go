package accept

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/expect"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is a request of n log records that was sent at a time and answered a millisecond later.
func request(name string, n int, at int64) Sent {
	records := make([]*logspb.LogRecord, n)
	for i := range records {
		records[i] = &logspb.LogRecord{TimeUnixNano: uint64(i + 1), SeverityText: fmt.Sprintf("%s %d", name, i)}
	}
	rows, _ := expect.Rows(&collogs.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{ScopeLogs: []*logspb.ScopeLogs{{LogRecords: records}}}}})
	return Sent{Request: Request{Name: name, Signal: "logs", Form: "pb"}, Code: 200, Rows: rows, Window: expect.Window{From: at, To: at + 1_000_000}}
}

// stored are the rows of a request as a table holds them, from a position on.
func stored(t *testing.T, s Sent, writer string, seq, from int) []got {
	t.Helper()
	var out []got
	for i, r := range s.Rows {
		row := tables.Row(r.Wanted())
		row["segment_id"] = fmt.Sprintf("01a22955-7549-75c7-9998-7d306165ef1c-%s-%d", writer, seq)
		row["segment_row"] = fmt.Sprint(from + i)
		row["ingested_at"] = fmt.Sprint(s.Window.From/1000 + 500)
		g, err := position(row)
		require.NoError(t, err)
		out = append(out, g)
	}
	return out
}

const writerA, writerB = "71abf5582d24", "00ddccbbaa99"

func problems(sent []Sent, rows []got) string {
	sortRows(rows)
	return fmt.Sprint(append(gaps("t", rows), matchRows("t", sent, rows)...))
}

func TestMatchRows(t *testing.T) {
	t.Parallel()
	a, b := request("a", 3, 1_000_000_000), request("b", 2, 2_000_000_000)
	sent := []Sent{a, b}
	good := func() []got { return append(stored(t, b, writerB, 1, 0), stored(t, a, writerA, 1, 0)...) }
	require.Equal(t, "[]", problems(sent, good()))
	for _, tc := range []struct {
		name, want string
		change     func([]got) []got
	}{
		{"a row is missing", "want 3 rows, the table has 2", func(r []got) []got { return r[:4] }},
		{"a row stands twice", "row 2 where 3 is due", func(r []got) []got { return append(r, r[4]) }},
		{"a row stands twice, at another place", "want 3 rows, the table has 4", func(r []got) []got {
			again := r[4]
			again.at++
			return append(r, again)
		}},
		{"a row changes", `a (pb) row 2 column severity_text: want "a 2", got "x"`, func(r []got) []got {
			r[4].row["severity_text"] = "x"
			return r
		}},
		{"two rows change places", "column timestamp_ns", func(r []got) []got {
			r[3].at, r[4].at = r[4].at, r[3].at
			return r
		}},
		{"a row that nobody sent", "when no request was under way", func(r []got) []got {
			r[4].arrival += 10_000
			return r
		}},
		{"rows of two requests interleave", "its rows stand after those of a later request", func(r []got) []got {
			r[0].writer, r[0].segment, r[0].at = r[2].writer, r[2].segment, 1
			r[3].at, r[4].at = 2, 3
			return r
		}},
	} {
		require.Contains(t, problems(sent, tc.change(good())), tc.want, tc.name)
	}
}

func TestARefusedRequestStoresNothing(t *testing.T) {
	t.Parallel()
	a := request("a", 2, 1_000_000_000)
	rows := stored(t, a, writerA, 1, 0)
	a.Code = 400
	require.Contains(t, problems([]Sent{a}, rows), "want 0 rows, the table has 2")
}

func TestAnswerProblem(t *testing.T) {
	t.Parallel()
	a := request("a", 1, 0)
	require.Empty(t, a.AnswerProblem())
	a.Code = 503
	require.Contains(t, a.AnswerProblem(), "pdata takes it, the answer is 503")
	a.Reject = os.ErrInvalid
	require.Contains(t, a.AnswerProblem(), "pdata refuses it (invalid argument), the answer is 503")
	a.Code = 400
	require.Empty(t, a.AnswerProblem())
}

func TestPositionRefusesForeignNames(t *testing.T) {
	t.Parallel()
	_, err := position(tables.Row{"segment_id": "x", "segment_row": "0", "ingested_at": "0"})
	require.ErrorContains(t, err, "is no segment's name")
}

func TestLoadFindsSignals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	put("MANIFEST.tsv", "file\tbytes\tsha\tsignal\nx.json\t2\tab\tmetrics 3\n")
	put("x.json", "{}")
	put("my_span.json", "{}")
	put("unclear.json", `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}`)
	put("lines_of_logs.jsonl", "{}\n\n{}\n")
	put("metric.pb", "")
	put("notes.txt", "")
	requests, err := Load(dir)
	require.NoError(t, err)
	var out []string
	for _, r := range requests {
		out = append(out, r.Name+" "+r.Signal+" "+r.Form)
	}
	require.Equal(t, []string{
		"lines_of_logs.jsonl:1 logs json", "lines_of_logs.jsonl:3 logs json", "metric.pb metrics pb", "metric.pb metrics grpc",
		"my_span.json traces json", "unclear.json metrics json", "x.json metrics json",
	}, out)
	_, err = Load(t.TempDir())
	require.ErrorContains(t, err, "no .json, .jsonl or .pb file below")
}

func TestSecondOpinionReadsHexIDs(t *testing.T) {
	t.Parallel()
	body := []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"0102030405060708090a0b0c0d0e0f10","timeUnixNano":"5"}]}]}]}`)
	d, err := expect.Decode("logs", body, true)
	require.NoError(t, err)
	m, err := expect.Message("logs", d.Proto)
	require.NoError(t, err)
	rows, _ := expect.Rows(m)
	require.Empty(t, secondOpinion("logs", body, true, rows, 0))
	other := []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"ff02030405060708090a0b0c0d0e0f10","timeUnixNano":"5"}]}]}]}`)
	require.Contains(t, secondOpinion("logs", other, true, rows, 0), "row 0 column trace_id differs")
}
