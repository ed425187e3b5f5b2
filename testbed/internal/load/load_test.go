package load

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFillLogsPatchesEveryRecord(t *testing.T) {
	t.Parallel()
	shape := Shape{Signal: "logs", Batch: 50, Resources: 4, Run: "r1"}
	templates, err := NewTemplates(shape)
	require.NoError(t, err)
	now := time.Unix(1_700_000_000, 5)
	ld, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(templates[3].Fill(nil, 7, now))
	require.NoError(t, err)
	require.Equal(t, 4, ld.ResourceLogs().Len())
	n := uint64(7 * 50)
	traces := map[string]bool{}
	for _, rl := range ld.ResourceLogs().All() {
		for _, r := range rl.ScopeLogs().At(0).LogRecords().All() {
			id, ok := r.Attributes().Get(IDKey)
			require.True(t, ok)
			got, ok := ParseID("r1", id.Str())
			require.True(t, ok, id.Str())
			require.Equal(t, n, got)
			require.Equal(t, shape.ID(n), id.Str())
			require.Equal(t, now.UnixNano()+int64(n-350), int64(r.Timestamp()))
			traces[r.TraceID().String()+r.SpanID().String()] = true
			n++
		}
	}
	require.Equal(t, uint64(400), n)
	require.Len(t, traces, 50)
	require.InDelta(t, 500, float64(templates[3].Size())/50, 80)
}

func TestFillTracesAndMetricsPatchEveryRecord(t *testing.T) {
	t.Parallel()
	templates, err := NewTemplates(Shape{Signal: "traces", Batch: 10, Run: "r"})
	require.NoError(t, err)
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(templates[0].Fill(nil, 1, time.Unix(9, 0)))
	require.NoError(t, err)
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(9)
	id, _ := s.Attributes().Get(IDKey)
	require.Equal(t, "r-000000000019", id.Str())
	require.Equal(t, int64(9_000_000_009), int64(s.EndTimestamp()))
	require.Less(t, s.StartTimestamp(), s.EndTimestamp())

	templates, err = NewTemplates(Shape{Signal: "metrics", Batch: 9, Run: "r"})
	require.NoError(t, err)
	md, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(templates[0].Fill(nil, 1, time.Unix(9, 0)))
	require.NoError(t, err)
	require.Equal(t, 9, md.DataPointCount())
	h := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(8).Histogram().DataPoints().At(0)
	id, _ = h.Attributes().Get(IDKey)
	require.Equal(t, "r-000000000017", id.Str())
}

func TestJudgeTellsEveryBreach(t *testing.T) {
	t.Parallel()
	b := &Book{Shape: Shape{Batch: 2, Run: "r"}}
	b.Ack(0, 0)
	b.Ack(2, 0)
	b.Fail(1)
	b.Fail(3)
	good := map[uint64]int{0: 1, 1: 1, 4: 1, 5: 1, 6: 1, 7: 1}
	v := b.Judge(good)
	require.NoError(t, v.Err())
	require.Equal(t, [4]int{4, 2, 2, 0}, [4]int{v.Acked, v.UnackedFound, v.UnackedLost, v.TornRequests})
	for name, tc := range map[string]struct {
		found map[uint64]int
		want  string
	}{
		"missing":       {map[uint64]int{0: 1, 1: 1}, "2 acknowledged records are missing"},
		"doubled":       {map[uint64]int{0: 2, 1: 1, 4: 1, 5: 1}, "1 records are there more than once"},
		"unacked twice": {map[uint64]int{0: 1, 1: 1, 4: 1, 5: 1, 2: 2, 3: 2}, "2 records are there more than once"},
		"torn":          {map[uint64]int{0: 1, 1: 1, 4: 1, 5: 1, 6: 1}, "1 requests are there in part"},
		"unknown":       {map[uint64]int{0: 1, 1: 1, 4: 1, 5: 1, 99: 1}, "1 records were never sent"},
	} {
		require.ErrorContains(t, b.Judge(tc.found).Err(), tc.want, name)
	}
}

// What was lost comes in the order of its answers; what was never acknowledged is no loss.
func TestBook_lost(t *testing.T) {
	t.Parallel()
	b := &Book{Shape: Shape{Batch: 2, Run: "r"}}
	for _, n := range []uint64{5, 0, 3} {
		b.Ack(n, 0)
	}
	b.Fail(1)
	requests := func(acks []Ack) (out []uint64) {
		for _, a := range acks {
			require.WithinDuration(t, time.Now(), a.At, time.Hour)
			out = append(out, a.Request)
		}
		return out
	}
	require.Equal(t, []uint64{5, 0, 3}, requests(b.Acks()))
	require.Equal(t, []uint64{5, 3}, requests(b.Lost(map[uint64]int{0: 1, 1: 1, 10: 1, 7: 1})), "in part is lost, too")
	require.Empty(t, b.Lost(map[uint64]int{0: 1, 1: 1, 6: 1, 7: 2, 10: 1, 11: 1}))
}

// stub answers every second request with an error.
type stub struct {
	plogotlp.UnimplementedGRPCServer
	calls atomic.Int64
	taken atomic.Int64
}

func (s *stub) Export(_ context.Context, r plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	if s.calls.Add(1)%2 == 0 {
		return plogotlp.NewExportResponse(), status.Error(codes.Unavailable, "no")
	}
	s.taken.Add(int64(r.Logs().LogRecordCount()))
	return plogotlp.NewExportResponse(), nil
}

func TestRunNotesEveryAnswer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, s := grpc.NewServer(), &stub{}
	plogotlp.RegisterGRPCServer(server, s)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	book := &Book{}
	res, err := Run(t.Context(), Plan{
		Endpoint: Endpoint{Protocol: "grpc", Address: l.Addr().String()}, Shape: Shape{Signal: "logs", Batch: 5, Run: "r"},
		Connections: 3, Records: 100, Patient: true, Book: book,
	})
	require.NoError(t, err)
	acked, failed := book.Requests()
	require.GreaterOrEqual(t, book.Acked(), 100)
	require.Equal(t, s.taken.Load(), int64(book.Acked()))
	require.Equal(t, s.calls.Load(), int64(len(acked)+len(failed)))
	require.Equal(t, res.Failed, len(failed))
	require.Equal(t, res.Errors, map[string]int{"Unavailable": len(failed)})
	require.Error(t, res.Err())
	require.Equal(t, [][2]uint64{{1, 3}, {5, 5}}, Ranges([]uint64{1, 2, 3, 5}))
}

func TestRunKeepsARate(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, s := grpc.NewServer(), &stub{}
	plogotlp.RegisterGRPCServer(server, s)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	_, err = Run(t.Context(), Plan{
		Endpoint: Endpoint{Protocol: "grpc", Address: l.Addr().String()}, Shape: Shape{Signal: "logs", Batch: 1, Run: "r"},
		Connections: 2, Rate: 100, Duration: 300 * time.Millisecond,
	})
	require.NoError(t, err)
	require.LessOrEqual(t, s.calls.Load(), int64(32)) // never more than fell due
	require.Positive(t, s.calls.Load())
}

func BenchmarkFill(b *testing.B) {
	templates, err := NewTemplates(Shape{Signal: "logs", Batch: 500, Run: "r"})
	require.NoError(b, err)
	var buf []byte
	for i := 0; b.Loop(); i++ {
		buf = templates[0].Fill(buf, uint64(i), time.Unix(1, 0))
	}
}
