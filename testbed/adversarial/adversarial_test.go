package adversarial

import (
	"context"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/accept"
	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const quick = `
exporters: {siglake: {wal: {segment: {max_age: 500ms}}}}
extensions: {lakecompactor: {gate: {age: 200ms}}}
`

// bench is a running collector, a sender, and all that was sent.
type bench struct {
	*collector.Harness
	t      *testing.T
	p      *collector.Process
	sender *accept.Sender
	sent   []accept.Sent
	probes int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Harness: collector.New(t, quick), t: t}
	b.p = b.Start()
	var err error
	b.sender, err = accept.NewSender(b.p.HTTP, b.p.GRPC)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.sender.Close()) })
	return b
}

func (b *bench) send(r accept.Request) accept.Sent {
	b.t.Helper()
	s, err := b.sender.Send(b.t.Context(), r)
	require.NoError(b.t, err, "the collector must answer; its last lines:\n%s", b.p.Tail(20))
	b.sent = append(b.sent, s)
	return s
}

// probe sends a request that is beyond reproach.
func (b *bench) probe(after string) {
	b.t.Helper()
	b.probes++
	s := b.send(accept.Request{Name: "probe after " + after, Signal: "logs", Form: "json", Body: fmt.Appendf(nil,
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1700000000000000000","body":{"stringValue":"probe %d"}}]}]}]}`, b.probes)})
	require.Equal(b.t, 200, s.Code, "a good request after %s: %s", after, s.Answer)
}

// judge sends a case and a probe, and checks the answer.
func (b *bench) judge(c Case) (problem string) {
	b.t.Helper()
	s := b.send(c.Request)
	switch {
	case s.Code >= 500 || s.Code == 429:
		problem = fmt.Sprintf("answered %d %q: a client would send it again for ever", s.Code, s.Answer)
	case c.Accepted && s.Code != 200:
		problem = fmt.Sprintf("answered %d %q, want 200 (%s)", s.Code, s.Answer, c.Why)
	case !c.Accepted && s.Code/100 != 4:
		problem = fmt.Sprintf("answered %d %q, want 4xx (%s)", s.Code, s.Answer, c.Why)
	case c.Accepted && len(s.Rows) != c.Records:
		problem = fmt.Sprintf("%d records, INDEX.tsv says %d", len(s.Rows), c.Records)
	case !c.Accepted && strings.TrimSpace(s.Answer) == "":
		problem = fmt.Sprintf("answered %d without a word", s.Code)
	}
	if problem != "" {
		problem = c.Name + " (" + c.Form + "): " + problem
	}
	if !c.Accepted {
		b.probe(c.Name)
	}
	return problem
}

// settle kills the collector, starts it again, and compares the tables with all that was sent.
func (b *bench) settle() []string {
	b.t.Helper()
	b.p.Kill()
	b.p = b.Start()
	b.probe("kill -9")
	ctx, cancel := context.WithTimeout(b.t.Context(), 50*time.Second)
	defer cancel()
	require.NoError(b.t, waldir.WaitDrained(ctx, b.WAL()), "last lines:\n%s", b.p.Tail(20))
	reader, err := tables.Open(b.Data)
	require.NoError(b.t, err)
	differences, err := accept.Compare(b.t.Context(), reader, b.sent)
	require.NoError(b.t, err)
	require.NoError(b.t, reader.Close())
	var out []string
	for _, d := range differences {
		out = append(out, d.String())
	}
	b.Stop()
	return out
}

func dir(t *testing.T) string {
	t.Helper()
	return filepath.Join(testenv.Must(t, testenv.Root), "testdata", "adversarial")
}

func fail(t *testing.T, problems []string) {
	t.Helper()
	if len(problems) > 40 {
		problems = append(problems[:40], fmt.Sprintf("... and %d more", len(problems)-40))
	}
	require.Empty(t, problems, "\n%s", strings.Join(problems, "\n"))
}

// TestHostileRequests_C5 holds ACK-2, LOUD-1 and LAKE-1 for requests that nobody should send and somebody does.
func TestHostileRequests_C5(t *testing.T) {
	cases, err := Cases(dir(t))
	require.NoError(t, err)
	groups := map[string][]Case{}
	for _, c := range cases {
		g, _, _ := strings.Cut(c.Name, "/")
		groups[g] = append(groups[g], c)
	}
	names := make([]string, 0, len(groups))
	for g := range groups {
		names = append(names, g)
	}
	sort.Strings(names)
	for _, g := range names {
		t.Run(g, func(t *testing.T) {
			b := newBench(t)
			var problems []string
			for _, c := range groups[g] {
				if p := b.judge(c); p != "" {
					problems = append(problems, p)
				}
			}
			t.Logf("%d requests, %d probes", len(groups[g]), b.probes)
			fail(t, append(problems, b.settle()...))
		})
	}
}

// TestHostileEncodings sends bodies whose encoding or type is not what the header says.
func TestHostileEncodings(t *testing.T) {
	cases, err := httpCases(dir(t))
	require.NoError(t, err)
	b := newBench(t)
	require.NoError(t, load.ResetPeakRSS(b.p.PID()))
	var problems []string
	for _, c := range cases {
		if p := b.judge(c); p != "" {
			problems = append(problems, p)
		}
	}
	peak, err := load.PeakRSS(b.p.PID())
	require.NoError(t, err)
	t.Logf("peak memory %d MiB", peak>>20)
	require.Less(t, peak>>20, int64(512), "a 64 MiB bomb of 64 KiB must not be unpacked whole, and several times")
	fail(t, append(problems, b.settle()...))
	require.NotContains(t, b.Logs(), strings.Repeat("A", 64), "the log must not hold payloads")
}
