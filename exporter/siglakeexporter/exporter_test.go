package siglakeexporter

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/testdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// rig is one factory and one configuration over a fake log.
type rig struct {
	log     *fakeLog
	factory exporter.Factory
	cfg     *Config
	set     exporter.Settings
	host    *testHost
	warned  *observer.ObservedLogs
	tel     *componenttest.Telemetry
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{log: &fakeLog{}, host: &testHost{}, tel: componenttest.NewTelemetry()}
	r.factory = newFactory(r.log.open)
	cfg, ok := r.factory.CreateDefaultConfig().(*Config)
	require.True(t, ok)
	cfg.WAL.Directory = "wal"
	r.cfg = cfg
	core, logs := observer.New(zapcore.WarnLevel)
	r.warned = logs
	r.set = exportertest.NewNopSettings(r.factory.Type())
	r.set.ID = component.NewID(r.factory.Type())
	r.set.TelemetrySettings = r.tel.NewTelemetrySettings()
	r.set.Logger = zap.New(core)
	t.Cleanup(func() { require.NoError(t, r.tel.Shutdown(context.WithoutCancel(t.Context()))) })
	return r
}

// logs starts an exporter of logs and ends it with the test.
func (r *rig) logs(t *testing.T) exporter.Logs {
	t.Helper()
	e, err := r.factory.CreateLogs(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), r.host))
	t.Cleanup(func() { require.NoError(t, e.Shutdown(context.WithoutCancel(t.Context()))) })
	return e
}

func withMode(ctx context.Context, mode string) context.Context {
	return client.NewContext(ctx, client.Info{Metadata: client.NewMetadata(map[string][]string{keyCommit: {mode}})})
}

// ACK-2: what is appended is whole batches of the signal's schema, decodable from a segment, with its rows.
func TestExporter_appends_whole_batches_of_each_signal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ld, td, md := testdata.GenerateLogs(3), testdata.GenerateTraces(4), testdata.GenerateMetrics(5)
	ld.MarkReadOnly()
	td.MarkReadOnly()
	md.MarkReadOnly()
	le, err := r.factory.CreateLogs(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	te, err := r.factory.CreateTraces(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	me, err := r.factory.CreateMetrics(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	for _, e := range []component.Component{le, te, me} {
		require.NoError(t, e.Start(t.Context(), r.host))
	}
	require.False(t, le.Capabilities().MutatesData)

	for range 2 { // twice, so that pooled encoders and buffers are used again
		require.NoError(t, le.ConsumeLogs(withMode(t.Context(), "auto"), ld))
		require.NoError(t, te.ConsumeTraces(withMode(t.Context(), "wait_for"), td))
		require.NoError(t, me.ConsumeMetrics(t.Context(), md))
	}
	got := r.log.taken()
	require.Len(t, got, 6)
	for i, want := range []struct {
		signal otelarrow.Signal
		index  string
		rows   int
		mode   wal.Mode
	}{
		{otelarrow.Logs, "events", ld.LogRecordCount(), wal.Auto},
		{otelarrow.Traces, "spans", td.SpanCount(), wal.WaitFor},
		{otelarrow.Metrics, "metrics", md.DataPointCount(), wal.WaitFor},
	} {
		for _, req := range []wal.Request{got[i], got[i+3]} {
			require.Equal(t, "default", req.Tenant)
			require.Equal(t, want.index, req.Index)
			require.Equal(t, want.rows, req.Rows)
			require.Equal(t, want.mode, req.Mode)
			require.NotZero(t, req.MinTime)
			require.LessOrEqual(t, req.MinTime, req.MaxTime)
			rows := decode(t, req)
			require.Equal(t, int64(want.rows), rows)
		}
	}
	for _, e := range []component.Component{le, te, me} {
		require.NoError(t, e.Shutdown(t.Context()))
	}
	require.Len(t, r.log.opened, 1, "three signals, one log")
	require.Equal(t, 1, r.log.closes)
}

// decode reads a request's body as the body of a segment and returns its rows.
func decode(t *testing.T, req wal.Request) int64 {
	t.Helper()
	schema, err := frame.EncodeSchema(req.Schema)
	require.NoError(t, err)
	raw := append(append(schema, req.Body...), frame.EOS()...)
	seg, err := frame.Decode(bytes.NewReader(raw), int64(len(raw)), frame.DecodeOptions{})
	require.NoError(t, err)
	defer seg.Release()
	require.True(t, seg.Schema.Equal(req.Schema))
	return seg.Rows
}

func TestExporter_options_reach_the_log(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.WAL.MaxBytes, r.cfg.WAL.MinFree, r.cfg.WAL.PaceAfter = 9, 8, 7
	r.set.BuildInfo.Command = "siglakecol"
	r.logs(t)
	require.Len(t, r.log.opened, 1)
	opt := r.log.opened[0]
	require.NotNil(t, opt.Logger)
	require.NotNil(t, opt.Meter)
	require.NotNil(t, opt.Health)
	opt.Logger, opt.Meter, opt.Health = nil, nil, nil
	require.Equal(t, wal.Options{
		Dir: "wal", MaxEvents: 4096, MaxAge: r.cfg.WAL.Segment.MaxAge, SegmentMaxBytes: 32 << 20,
		MaxBytes: 9, MinFree: 8, PaceAfter: 7, MaxInFlight: 64 << 20, MaxWaiting: 8192, MaxLanes: 4096, MaxTenants: 1000, Holder: "siglakecol, exporter siglake",
	}, opt)
}

// ACK-1: nothing to store is a success and no write, whatever shape nothing has.
func TestExporter_empty_requests_write_nothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.logs(t)
	ld := plog.NewLogs()
	ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	require.NoError(t, e.ConsumeLogs(t.Context(), plog.NewLogs()))
	require.NoError(t, e.ConsumeLogs(t.Context(), ld))

	te, err := r.factory.CreateTraces(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, te.Start(t.Context(), r.host))
	require.NoError(t, te.ConsumeTraces(t.Context(), ptrace.NewTraces()))
	require.NoError(t, te.Shutdown(t.Context()))

	me, err := r.factory.CreateMetrics(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, me.Start(t.Context(), r.host))
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	ms.AppendEmpty().SetName("typeless")
	ms.AppendEmpty().SetEmptyGauge()
	require.NoError(t, me.ConsumeMetrics(t.Context(), md))
	require.NoError(t, me.Shutdown(t.Context()))

	require.Empty(t, r.log.taken())
	require.Equal(t, map[string]int64{"no_points": 1, "no_type": 1}, r.counts(t, "siglake_metrics_rowless_total"))
}

// counts returns a counter's values by reason.
func (r *rig) counts(t *testing.T, name string) map[string]int64 {
	t.Helper()
	m, err := r.tel.GetMetric(name)
	require.NoError(t, err)
	sum, ok := m.Data.(metricdata.Sum[int64])
	require.True(t, ok)
	got := map[string]int64{}
	for _, dp := range sum.DataPoints {
		only, _ := dp.Attributes.Get(0)
		got[only.Value.AsString()] = dp.Value
	}
	return got
}

// A value stored other than as sent is counted once, when its row is acknowledged.
func TestExporter_counts_adjusted_values_of_acknowledged_rows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.logs(t)
	ld := testdata.GenerateLogs(1)
	lr := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	lr.Body().SetStr("bad \xff byte")
	lr.SetTimestamp(1 << 63)
	r.log.failWith(errors.New("boom"))
	require.Error(t, e.ConsumeLogs(t.Context(), ld))
	require.Equal(t, map[string]int64{"duplicate_key": 0, "invalid_utf8": 0, "time_clamped": 0, "count_clamped": 0}, r.counts(t, "siglake_values_adjusted_total"))
	require.NoError(t, e.ConsumeLogs(t.Context(), ld))
	require.Equal(t, map[string]int64{"duplicate_key": 0, "invalid_utf8": 1, "time_clamped": 1, "count_clamped": 0}, r.counts(t, "siglake_values_adjusted_total"))
}

// ACK-1: a mode that cannot be honoured is refused before a byte is written, also for an empty request.
func TestExporter_refuses_modes_it_cannot_honour_T01(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.log.noDrain = wal.ErrNoDrain
	e := r.logs(t)
	for _, mode := range []string{"force", "mirrored", "bogus", ""} {
		for _, ld := range []plog.Logs{testdata.GenerateLogs(1), plog.NewLogs()} {
			err := e.ConsumeLogs(withMode(t.Context(), mode), ld)
			require.Equal(t, codes.InvalidArgument, status.Code(err), mode)
			require.True(t, consumererror.IsPermanent(err))
			require.ErrorContains(t, err, "auto, wait_for, mirrored, force")
		}
	}
	require.Empty(t, r.log.taken())
	require.Empty(t, r.host.statuses(), "a client's mistake is no trouble of ours")
}

// A few bytes that very many rows share must not become a table of terabytes: refused for good, nothing written.
func TestExporter_refuses_what_expands_too_far(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.logs(t)
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("big", strings.Repeat("x", 1<<20))
	records := rl.ScopeLogs().AppendEmpty().LogRecords()
	for range 4200 {
		records.AppendEmpty()
	}
	err := e.ConsumeLogs(t.Context(), ld)
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.True(t, consumererror.IsPermanent(err))
	require.ErrorContains(t, err, "4200 rows repeat")
	require.Empty(t, r.log.taken())

	rl.Resource().Attributes().PutStr("big", strings.Repeat("x", 1<<19))
	require.NoError(t, e.ConsumeLogs(t.Context(), ld), "half of it is large and honest")
	require.Len(t, r.log.taken(), 1)
}

// ACK-1: once admitted, a request's fate is the write's: neither a caller that goes away nor the helper's
// timeout cuts it short.
func TestExporter_ignores_cancellation_once_admitted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.log.block = make(chan struct{})
	e := r.logs(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.ConsumeLogs(ctx, testdata.GenerateLogs(1)) }()
	r.log.block <- struct{}{} // the request is inside Append
	cancel()
	require.NoError(t, <-done)
	require.Len(t, r.log.taken(), 1)
	require.Zero(t, r.log.limited, "the helper's default timeout is off")

	// Gone before: nothing is written.
	err := e.ConsumeLogs(ctx, testdata.GenerateLogs(1))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Empty(t, r.log.taken())
}

func TestExporter_reports_trouble_and_recovery(t *testing.T) {
	t.Parallel()
	for _, tc := range answerCases() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			e := r.logs(t)
			r.log.failWith(tc.cause, tc.cause)
			require.Error(t, e.ConsumeLogs(t.Context(), testdata.GenerateLogs(1)))
			require.Error(t, e.ConsumeLogs(t.Context(), testdata.GenerateLogs(1)))
			require.NoError(t, e.ConsumeLogs(t.Context(), testdata.GenerateLogs(1)))
			var want []componentstatus.Status
			if tc.full {
				require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, r.host.statuses(), "others may be too large")
				r.log.opened[0].Health(nil)
			}
			if tc.trouble || tc.full {
				want = []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}
			}
			require.Equal(t, want, r.host.statuses())
		})
	}
}
