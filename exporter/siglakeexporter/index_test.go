package siglakeexporter

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/testdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/wal"
)

func withIndex(ctx context.Context, named ...string) context.Context {
	return client.NewContext(ctx, client.Info{Metadata: client.NewMetadata(map[string][]string{keyIndex: named})})
}

// An index is taken as it is or refused, never repaired and never replaced by the default.
func TestIndexes_named(t *testing.T) {
	t.Parallel()
	const param = "request parameter x-siglake-index: "
	for _, tc := range []struct {
		name   string
		named  []string
		want   string
		reason string
		text   string
	}{
		{name: "none"},
		{name: "named", named: []string{"audit-2_b"}, want: "audit-2_b"},
		{name: "its own, named", named: []string{"events"}, want: "events"},
		{name: "longest", named: []string{strings.Repeat("x", 128)}, want: strings.Repeat("x", 128)},
		{name: "twice", named: []string{"a", "a"}, reason: indexBadName, text: param + "given 2 times, want exactly one"},
		{name: "empty", named: []string{""}, reason: indexBadName, text: param + `index "": segment: name not allowed: want [a-z0-9][a-z0-9_-]{0,127}`},
		{name: "capitals", named: []string{"Audit"}, reason: indexBadName, text: param + `index "Audit": segment: name not allowed: want [a-z0-9][a-z0-9_-]{0,127}`},
		{name: "path", named: []string{"../x"}, reason: indexBadName, text: param + `index "../x": segment: name not allowed: want [a-z0-9][a-z0-9_-]{0,127}`},
		{name: "reserved", named: []string{"sealed"}, reason: indexBadName, text: param + `index "sealed": segment: name not allowed: reserved`},
		{name: "of another signal", named: []string{"spans"}, reason: indexOtherSignal, text: param + `"spans" is the index of traces, and these are logs: leave it out, or choose another`},
	} {
		got, reason, err := indexes{signal: otelarrow.Logs}.named(withIndex(t.Context(), tc.named...))
		require.Equal(t, tc.want, got, tc.name)
		require.Equal(t, tc.reason, reason, tc.name)
		if tc.text == "" {
			require.NoError(t, err, tc.name)
			continue
		}
		require.EqualError(t, err, tc.text)
		require.Equal(t, codes.InvalidArgument, status.Code(classify(err)))
		require.True(t, consumererror.IsPermanent(classify(err)))
	}
}

// lanes are what was appended: index, what its lane holds, rows.
type laneRows struct {
	index, holds string
	rows         int
}

func lanesOf(requests []wal.Request) []laneRows {
	var out []laneRows
	for _, r := range requests {
		out = append(out, laneRows{r.Index, r.Holds, r.Rows})
	}
	slices.SortFunc(out, func(a, b laneRows) int { return strings.Compare(a.index, b.index) })
	return out
}

// All signals go where their requests say; a refusal is counted and writes nothing.
func TestExporter_index_of_the_request(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	le := r.logs(t)
	te, err := r.factory.CreateTraces(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, te.Start(t.Context(), r.host))
	require.NoError(t, le.ConsumeLogs(withIndex(t.Context(), "audit"), testdata.GenerateLogs(3)))
	require.NoError(t, le.ConsumeLogs(withIndex(t.Context(), "events"), testdata.GenerateLogs(2)))
	require.NoError(t, te.ConsumeTraces(withIndex(t.Context(), "slow"), testdata.GenerateTraces(1)))
	require.Equal(t, []laneRows{{"audit", "logs", 3}, {"events", "", 2}, {"slow", "traces", 1}}, lanesOf(r.log.taken()))

	require.Error(t, le.ConsumeLogs(withIndex(t.Context(), "metrics"), testdata.GenerateLogs(1)))
	require.Error(t, le.ConsumeLogs(withIndex(t.Context(), "A"), plog.NewLogs()))
	r.log.failWith(&wal.HoldsError{Index: "audit", Have: "logs", Want: "traces"})
	err = te.ConsumeTraces(withIndex(t.Context(), "audit"), testdata.GenerateTraces(1))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.Equal(t, `index "audit" holds logs, not traces: choose another index`, status.Convert(err).Message())
	require.True(t, consumererror.IsPermanent(err))
	require.Len(t, r.log.taken(), 1, "the one that the log refused")
	require.Equal(t, map[string]int64{indexBadName: 1, indexOtherSignal: 2}, r.counts(t, "siglake_ingest_index_refused_total"))
	require.NoError(t, te.Shutdown(t.Context()))
}

// ofApps is a request with a resource for each name; "-" has no attribute.
func ofApps(names ...string) plog.Logs {
	ld := plog.NewLogs()
	for i, name := range names {
		rl := ld.ResourceLogs().AppendEmpty()
		if name != "-" {
			rl.Resource().Attributes().PutStr("siglake.index", name)
		}
		for range i + 1 {
			rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr(name)
		}
	}
	return ld
}

// Resources go to the index they name. What the request itself names comes first; the attribute stays where it is.
func TestExporter_index_of_the_resource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.IndexAttribute = "siglake.index"
	le := r.logs(t)
	sent := ofApps("a", "-", "b", "a")
	require.NoError(t, le.ConsumeLogs(t.Context(), sent))
	require.Equal(t, []laneRows{{"a", "logs", 5}, {"b", "logs", 3}, {"events", "", 2}}, lanesOf(r.log.taken()))
	require.Equal(t, []string{"default/a=logs", "default/events=", "default/b=logs"}, r.log.held)
	require.Equal(t, 4, sent.ResourceLogs().Len(), "what was sent is another component's too")
	require.NoError(t, le.ConsumeLogs(t.Context(), ofApps("a", "a")))
	require.NoError(t, le.ConsumeLogs(withIndex(t.Context(), "c"), sent))
	require.Equal(t, []laneRows{{"a", "logs", 3}, {"c", "logs", 10}}, lanesOf(r.log.taken()))

	number := ofApps("a", "-")
	number.ResourceLogs().At(1).Resource().Attributes().PutInt("siglake.index", 7)
	for text, bad := range map[string]plog.Logs{
		`request parameter: resource attribute "siglake.index": index "B": segment: name not allowed: want [a-z0-9][a-z0-9_-]{0,127}`:                ofApps("a", "B"),
		`request parameter: resource attribute "siglake.index": "spans" is the index of traces, and these are logs: leave it out, or choose another`: ofApps("a", "spans"),
		`request parameter: resource attribute "siglake.index" is no string but Int`:                                                                 number,
	} {
		err := le.ConsumeLogs(t.Context(), bad)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.Equal(t, text, status.Convert(err).Message())
	}
	require.Empty(t, r.log.taken(), "no part of it is written")
	require.Equal(t, map[string]int64{indexBadName: 2, indexOtherSignal: 1}, r.counts(t, "siglake_ingest_index_refused_total"))
}

func TestSplit_spans_and_points(t *testing.T) {
	t.Parallel()
	td := ptrace.NewTraces()
	md := pmetric.NewMetrics()
	for _, name := range []string{"a", "b"} {
		td.ResourceSpans().AppendEmpty().Resource().Attributes().PutStr("i", name)
		md.ResourceMetrics().AppendEmpty().Resource().Attributes().PutStr("i", name)
	}
	traces, _, err := splitTraces().split(t.Context(), indexes{otelarrow.Traces, "i"}, td)
	require.NoError(t, err)
	require.Len(t, traces, 2)
	require.Equal(t, "b", traces[1].index)
	require.Equal(t, td.ResourceSpans().At(1).Resource().Attributes().AsRaw(), traces[1].data.ResourceSpans().At(0).Resource().Attributes().AsRaw())
	metrics, _, err := splitMetrics().split(t.Context(), indexes{otelarrow.Metrics, "i"}, md)
	require.NoError(t, err)
	require.Len(t, metrics, 2)
	require.Equal(t, "a", metrics[0].index)
	require.Equal(t, 1, metrics[0].data.ResourceMetrics().Len())
}

// ACK-1: a request for several indexes is answered with success only when all its rows are stored. What can be known
// before is known before anything is written; after that the answer says that a part of it was.
func TestExporter_all_parts_or_an_error(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.IndexAttribute = "siglake.index"
	le := r.logs(t)
	full := &wal.LimitError{Limit: limitLanes, Used: 4, Max: 4}
	for _, refused := range []error{full, &wal.HoldsError{Index: "b", Have: "traces", Want: "logs"}} {
		r.log.reserve = []error{nil, refused}
		err := le.ConsumeLogs(t.Context(), ofApps("a", "b"))
		require.ErrorIs(t, err, refused)
		require.NotErrorIs(t, err, errPartly)
		require.Empty(t, r.log.taken())
	}
	for _, tc := range []struct {
		fail []error
		code codes.Code
		text string
	}{
		{[]error{full}, codes.ResourceExhausted, "refused, rows for other indexes were written: " + full.Error()},
		{[]error{wal.ErrClosed}, codes.Unavailable, "shutting down, rows for other indexes were written"},
		{[]error{full, full}, codes.ResourceExhausted, "refused, nothing was written: " + full.Error()},
		{[]error{errors.New("disk")}, codes.Unavailable, "storage trouble, the rows are not acknowledged"},
	} {
		r.log.failWith(tc.fail...)
		err := le.ConsumeLogs(t.Context(), ofApps("a", "b"))
		require.Equal(t, tc.code, status.Code(err))
		require.Equal(t, tc.text, status.Convert(err).Message())
		require.False(t, consumererror.IsPermanent(err), "the client sends it again")
		require.Len(t, r.log.taken(), 2)
	}
	require.Zero(t, r.log.inside["default"])
}

// Requests for different indexes never share a batch.
func TestMerger_keeps_indexes_apart(t *testing.T) {
	t.Parallel()
	h := newHeld(1)
	first := h.send(t.Context(), t, &request[int]{data: 0, items: 1, tenant: "t", index: "a"})
	require.Equal(t, []int{0}, numbers(<-h.commits))
	answers := []<-chan error{first}
	for i, index := range []string{"a", "b", "a"} {
		answers = append(answers, h.send(t.Context(), t, &request[int]{data: i + 1, items: 1, tenant: "t", index: index}))
	}
	h.release <- struct{}{}
	require.Equal(t, []int{1, 3}, numbers(<-h.commits))
	h.release <- struct{}{}
	require.Equal(t, []int{2}, numbers(<-h.commits))
	h.finish(t, answers)
}

// A real log: the first signal of an index has it, also after a restart, and the other is told so.
func TestExporter_an_index_is_of_one_signal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "wal")
	s := startSignals(t, NewFactory(), dir)
	ctx := withIndex(t.Context(), "audit")
	require.NoError(t, s.logs.ConsumeLogs(ctx, testdata.GenerateLogs(2)))
	refused := func(s signals) {
		for _, err := range []error{s.traces.ConsumeTraces(ctx, testdata.GenerateTraces(1)), s.metrics.ConsumeMetrics(ctx, testdata.GenerateMetrics(1))} {
			require.Equal(t, codes.InvalidArgument, status.Code(err))
			require.ErrorContains(t, err, `index "audit" holds logs, not`)
		}
	}
	refused(s)
	s.stop(t)
	s = startSignals(t, NewFactory(), dir)
	refused(s)
	require.NoError(t, s.logs.ConsumeLogs(ctx, testdata.GenerateLogs(3)))
	s.stop(t)
	require.EqualValues(t, 5, sealedRows(t, dir, "audit"))
}
