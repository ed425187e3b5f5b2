package fsyncorder

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// still keeps the segment open and leaves the drain out, so that a trace shows the way of the requests alone.
const still = `
exporters: {siglake: {wal: {segment: {max_age: 1h}}}}
service: {extensions: [ingestparams, walmirror, healthcheckv2]}
`

// traced is a collector under strace.
type traced struct {
	*collector.Harness
	t    *testing.T
	p    *collector.Process
	file string
}

func newTraced(t *testing.T) *traced {
	t.Helper()
	strace, err := testenv.Tool("strace", "strace")
	require.NoError(t, err)
	h := collector.New(t, still)
	file := filepath.Join(h.Dir, "trace.txt")
	h.Wrap = []string{strace, "-f", "-yy", "-s", "64", "-e", "trace=" + Calls, "-o", file}
	p := h.Start()
	return &traced{h, t, p, file}
}

// post sends one log record.
func (x *traced) post(mode string) {
	x.t.Helper()
	body := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1700000000000000000","body":{"stringValue":"` + strings.Repeat("x", 300) + `"}}]}]}]}`
	req, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, "http://"+x.p.HTTP+"/v1/logs?commit="+mode, strings.NewReader(body))
	require.NoError(x.t, err)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(x.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(x.t, err)
	require.NoError(x.t, resp.Body.Close())
	require.Equal(x.t, http.StatusOK, resp.StatusCode, "%s", text)
}

// end stops the collector, which is the child of strace, and reads the trace.
func (x *traced) end() (calls []Call, segment string) {
	x.t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", x.p.PID(), x.p.PID()))
	require.NoError(x.t, err)
	for _, c := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(c)
		require.NoError(x.t, err)
		require.NoError(x.t, syscall.Kill(pid, syscall.SIGTERM))
	}
	ctx, cancel := context.WithTimeout(x.t.Context(), 60*time.Second)
	defer cancel()
	select {
	case <-x.p.Done():
	case <-ctx.Done():
		require.NoError(x.t, ctx.Err(), "the traced collector must stop")
	}
	require.Zero(x.t, x.p.ExitCode())
	f, err := os.Open(x.file)
	require.NoError(x.t, err)
	calls, err = Parse(f)
	require.NoError(x.t, err)
	require.NoError(x.t, f.Close())
	for _, c := range calls {
		if c.IsWrite() && filepath.Base(filepath.Dir(c.Path)) == "active" && strings.HasSuffix(c.Path, ".partial") {
			return calls, c.Path
		}
	}
	require.Fail(x.t, "no write to an open segment in the trace")
	return nil, ""
}

// TestWaitForSyncsSegmentAndNamesBeforeTheAnswer_A17 holds ACK-1 on the real binary and the real kernel.
func TestWaitForSyncsSegmentAndNamesBeforeTheAnswer_A17(t *testing.T) {
	x := newTraced(t)
	x.post("wait_for") // makes tenant, index, segment
	x.post("wait_for") // goes on in the same segment
	calls, segment := x.end()
	after := 0
	for i := range 2 {
		answer, ok := Answer(calls, x.p.HTTP, after)
		require.True(t, ok, "answer %d is in the trace", i)
		require.Empty(t, Missing(calls, answer, segment, x.Data), "answer %d", i)
		syncs := Syncs(calls, x.WAL(), after, answer.Start)
		t.Logf("before answer %d: %s", i, paths(syncs, x.Data))
		after = answer.End
	}
}

// TestAutoSyncsNothingBeforeTheAnswer: between the write of a request and its answer, nothing waits for the disk.
func TestAutoSyncsNothingBeforeTheAnswer(t *testing.T) {
	x := newTraced(t)
	x.post("auto") // makes tenant, index, segment
	x.post("auto")
	calls, segment := x.end()
	first, ok := Answer(calls, x.p.HTTP, 0)
	require.True(t, ok)
	second, ok := Answer(calls, x.p.HTTP, first.End)
	require.True(t, ok)
	written := 0
	for _, c := range calls {
		if c.Path == segment && c.IsWrite() && c.Start > first.End && c.End < second.Start {
			written = c.Start
		}
	}
	require.NotZero(t, written, "the second request is written before its answer")
	require.Empty(t, paths(Syncs(calls, x.WAL(), written, second.Start), x.Data))
	require.Empty(t, paths(Syncs(calls, x.WAL(), first.End, second.Start), x.Data), "and none before the write either: the segment is open")
}

func paths(calls []Call, root string) []string {
	var out []string
	for _, c := range calls {
		out = append(out, c.Name+" "+strings.TrimPrefix(c.Path, root))
	}
	return out
}

const sample = `10 openat(AT_FDCWD, "/d/wal/t/active/a.partial", O_RDWR|O_CREAT|O_EXCL, 0640) = 7</d/wal/t/active/a.partial>
11 fsync(8</d/wal/t/active> <unfinished ...>
10 write(7</d/wal/t/active/a.partial>, "abc", 3) = 3
11 <... fsync resumed>)                 = 0
10 fdatasync(7</d/wal/t/active/a.partial>) = 0
10 write(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, "HTTP/1.1 200 OK\r\nContent", 80) = 80
`

func TestMissingTellsWhatWasNotSynced(t *testing.T) {
	for _, tc := range []struct {
		name, trace string
		want        string
	}{
		{"all synced", sample, ""},
		{"no sync of the file", strings.Replace(sample, "10 fdatasync", "10 nothing", 1), "was written and not synced"},
		{"a sync that failed", strings.Replace(sample, "a.partial>) = 0", "a.partial>) = -1 EIO (Input/output error)", 1), "was written and not synced"},
		{"no sync of the directory", strings.ReplaceAll(sample, "fsync(8</d/wal/t/active>", "fsync(8</d/wal/t/sealed>"), "was not synced after a.partial"},
		{"an answer before the sync", swapLast(sample), "was written and not synced"},
		{"a directory synced too early", strings.Replace(sample, "10 openat", "11 fsync(8</d/wal/t/active>) = 0\n10 openat", 1), ""},
	} {
		calls, err := Parse(strings.NewReader(tc.trace))
		require.NoError(t, err)
		answer, ok := Answer(calls, "127.0.0.1:1", 0)
		require.True(t, ok, tc.name)
		got := strings.Join(Missing(calls, answer, "/d/wal/t/active/a.partial", "/d"), "; ")
		if tc.want == "" {
			require.Empty(t, got, tc.name)
			continue
		}
		require.Contains(t, got, tc.want, tc.name)
	}
	require.Len(t, Syncs(must(t, sample), "/d/wal", 0, 99), 2)
}

func must(t *testing.T, trace string) []Call {
	t.Helper()
	calls, err := Parse(strings.NewReader(trace))
	require.NoError(t, err)
	return calls
}

// swapLast puts the answer before the sync of the file.
func swapLast(trace string) string {
	l := strings.Split(strings.TrimSpace(trace), "\n")
	l[4], l[5] = l[5], l[4]
	return strings.Join(l, "\n")
}
