package siglakeexporter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/testdata"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/siglakecol/siglakecol/internal/wal"
)

// door is a real otlp receiver on unix sockets in front of the exporter, over a fake log.
type door struct {
	rig  *rig
	http *http.Client
	conn *grpc.ClientConn
	grpc string // target of the gRPC side
}

func openDoor(t *testing.T) *door {
	t.Helper()
	dir, err := os.MkdirTemp("", "sl") // t.TempDir is too long for a socket name
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	d := &door{rig: newRig(t), grpc: "unix:" + filepath.Join(dir, "g")}

	rf := otlpreceiver.NewFactory()
	cfg := rf.CreateDefaultConfig()
	side := func(socket string) map[string]any {
		return map[string]any{"endpoint": filepath.Join(dir, socket), "transport": "unix", "include_metadata": true}
	}
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"grpc": side("g"), "http": side("h")}}).Unmarshal(cfg))
	rcv, err := rf.CreateLogs(t.Context(), receivertest.NewNopSettings(rf.Type()), cfg, d.rig.logs(t))
	require.NoError(t, err)
	require.NoError(t, rcv.Start(t.Context(), componenttest.NewNopHost()))

	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "h"))
	}}
	d.http = &http.Client{Transport: transport}
	d.conn, err = grpc.NewClient(d.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, d.conn.Close())
		require.NoError(t, rcv.Shutdown(context.WithoutCancel(t.Context())))
	})
	return d
}

// reply is what a client sees of an answer.
type reply struct {
	http       int
	code       codes.Code
	text       string
	retryAfter string        // HTTP header, seconds
	retry      time.Duration // RetryInfo
}

func (d *door) post(t *testing.T, contentType, mode string) reply {
	t.Helper()
	marshal := plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(2)).MarshalProto
	if contentType == "application/json" {
		marshal = plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(2)).MarshalJSON
	}
	body, err := marshal()
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://siglake/v1/logs", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	if mode != "" {
		req.Header.Set("X-Siglake-Commit", mode)
	}
	resp, err := d.http.Do(req)
	require.NoError(t, err)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, contentType, resp.Header.Get("Content-Type"), "answers come in the request's encoding")
	got := reply{http: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	if resp.StatusCode == http.StatusOK {
		return got
	}
	if contentType == "application/json" {
		var st struct {
			Code    codes.Code `json:"code"`
			Message string     `json:"message"`
			Details []struct {
				Type  string `json:"@type"`
				Delay string `json:"retryDelay"`
			} `json:"details"`
		}
		require.NoError(t, json.Unmarshal(raw, &st))
		got.code, got.text = st.Code, st.Message
		for _, detail := range st.Details {
			require.Equal(t, "type.googleapis.com/google.rpc.RetryInfo", detail.Type)
			got.retry, err = time.ParseDuration(detail.Delay)
			require.NoError(t, err)
		}
		return got
	}
	var st spb.Status
	require.NoError(t, proto.Unmarshal(raw, &st))
	s := status.FromProto(&st)
	got.code, got.text, got.retry = s.Code(), s.Message(), retryDelay(s)
	return got
}

func (d *door) call(t *testing.T, mode string) reply {
	t.Helper()
	ctx := t.Context()
	if mode != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, keyCommit, mode)
	}
	_, err := plogotlp.NewGRPCClient(d.conn).Export(ctx, plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(2)))
	s := status.Convert(err)
	return reply{code: s.Code(), text: s.Message(), retry: retryDelay(s)}
}

// ACK-1: each line of the error table, as a client of each transport and encoding sees it.
func TestDoor_answers_as_the_table_says(t *testing.T) {
	t.Parallel()
	d := openDoor(t)
	for _, contentType := range []string{"application/json", "application/x-protobuf"} {
		require.Equal(t, reply{http: 200}, d.post(t, contentType, ""))
		require.Equal(t, reply{http: 200}, d.post(t, contentType, "auto"))
	}
	require.Equal(t, reply{}, d.call(t, "wait_for"))
	require.Len(t, d.rig.log.taken(), 5)

	for _, tc := range answerCases() {
		want := reply{http: tc.http, code: tc.code, text: tc.text, retry: tc.retry}
		if tc.retry > 0 {
			require.GreaterOrEqual(t, tc.retry, time.Second)
			want.retryAfter = strconv.Itoa(int(tc.retry / time.Second))
		}
		for _, contentType := range []string{"application/json", "application/x-protobuf"} {
			d.rig.log.failWith(tc.cause)
			require.Equal(t, want, d.post(t, contentType, ""), "%s %s", tc.name, contentType)
		}
		d.rig.log.failWith(tc.cause)
		want.http, want.retryAfter = 0, ""
		require.Equal(t, want, d.call(t, ""), "%s gRPC", tc.name)
	}
	d.rig.log.taken()

	d.rig.log.noDrain = wal.ErrNoDrain
	want := reply{http: 400, code: codes.InvalidArgument, text: `request parameter commit: "force" ` + noDrainText}
	require.Equal(t, want, d.post(t, "application/json", "force"))
	require.Equal(t, want, d.post(t, "application/x-protobuf", "force"))
	want.http = 0
	require.Equal(t, want, d.call(t, "force"))
	require.Empty(t, d.rig.log.taken(), "refused before a byte is written")
}

// The whole error table in front of the Collector's own exporters: what it calls retryable is sent again, after the
// hinted time and not before, until it is stored once; what it calls permanent is sent once and given up. Nothing is
// dropped that could still be stored. C8: without a queue in between, the sender sees the failure.
func TestDoor_upstream_exporters_retry_what_they_should_C8(t *testing.T) {
	t.Parallel()
	for transport, upstream := range map[string]func(*testing.T, *door, *zap.Logger) exporter.Logs{"otlp_grpc": upstreamGRPC, "otlp_http": upstreamHTTP} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			d := openDoor(t)
			up := upstream(t, d, zap.NewNop())
			for _, tc := range answerCases() {
				if tc.retry > retryInFlight {
					continue // the same path with a longer wait: its hint is checked by TestDoor_answers_as_the_table_says
				}
				d.rig.log.failWith(tc.cause)
				began := time.Now()
				err := up.ConsumeLogs(t.Context(), testdata.GenerateLogs(2))
				if tc.retry > 0 {
					require.NoError(t, err, tc.name)
					require.Len(t, d.rig.log.taken(), 2, tc.name)
					require.GreaterOrEqual(t, time.Since(began), tc.retry, "%s: the hint is obeyed: the own back-off is 1 ms", tc.name)
					continue
				}
				require.True(t, consumererror.IsPermanent(err), "%s: %v", tc.name, err)
				require.Equal(t, tc.code, status.Code(err), tc.name)
				require.Len(t, d.rig.log.taken(), 1, tc.name)
				d.rig.log.failWith()
			}
		})
	}
}

// Rows of the table with a longer hint: the exporter in front says that it will send again after that time and not
// before, and when it is ended meanwhile it says that the rows are still good.
func TestDoor_upstream_exporters_wait_for_longer_hints(t *testing.T) {
	t.Parallel()
	for transport, upstream := range map[string]func(*testing.T, *door, *zap.Logger) exporter.Logs{"otlp_grpc": upstreamGRPC, "otlp_http": upstreamHTTP} {
		for _, tc := range answerCases() {
			if tc.retry <= retryInFlight {
				continue
			}
			t.Run(transport+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				d := openDoor(t)
				core, logs := observer.New(zap.InfoLevel)
				up := upstream(t, d, zap.New(core))
				d.rig.log.failWith(tc.cause)
				ctx, giveUp := context.WithCancel(t.Context())
				answer := make(chan error, 1)
				go func() { answer <- up.ConsumeLogs(ctx, testdata.GenerateLogs(2)) }()
				waits := func() *observer.ObservedLogs { return logs.FilterFieldKey("interval") }
				require.Eventually(t, func() bool { return waits().Len() == 1 }, time.Minute, time.Millisecond)
				interval, err := time.ParseDuration(fmt.Sprint(waits().All()[0].ContextMap()["interval"]))
				require.NoError(t, err)
				require.GreaterOrEqual(t, interval, tc.retry)
				giveUp()
				err = <-answer
				require.Error(t, err)
				require.False(t, consumererror.IsPermanent(err), "%v", err)
				require.Len(t, d.rig.log.taken(), 1)
			})
		}
	}
}

// upstreamGRPC is a real otlp_grpc exporter without a queue, with retries.
func upstreamGRPC(t *testing.T, d *door, logger *zap.Logger) exporter.Logs {
	t.Helper()
	return startUpstream(t, logger, otlpexporter.NewFactory(), map[string]any{"endpoint": d.grpc, "tls": map[string]any{"insecure": true}})
}

// upstreamHTTP is a real otlp_http exporter, which knows no unix sockets: a proxy stands between.
func upstreamHTTP(t *testing.T, d *door, logger *zap.Logger) exporter.Logs {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "siglake" },
		Transport: d.http.Transport,
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	return startUpstream(t, logger, otlphttpexporter.NewFactory(), map[string]any{"endpoint": srv.URL})
}

func startUpstream(t *testing.T, logger *zap.Logger, f exporter.Factory, conf map[string]any) exporter.Logs {
	t.Helper()
	cfg := f.CreateDefaultConfig()
	conf["sending_queue"] = map[string]any{"enabled": false}
	conf["retry_on_failure"] = map[string]any{"enabled": true, "initial_interval": "1ms", "max_interval": "1ms", "max_elapsed_time": "1m"}
	require.NoError(t, confmap.NewFromStringMap(conf).Unmarshal(cfg))
	set := exportertest.NewNopSettings(f.Type())
	set.Logger = logger
	e, err := f.CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, e.Shutdown(context.WithoutCancel(t.Context()))) })
	return e
}
