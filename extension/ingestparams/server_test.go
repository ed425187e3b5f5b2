package ingestparams

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/testdata"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// host is a component.Host with one extension.
type host struct {
	extensions map[component.ID]component.Component
}

func (h host) GetExtensions() map[component.ID]component.Component { return h.extensions }

// server is a real otlp receiver on unix sockets with the extension in both protocols' middlewares.
type server struct {
	http *http.Client
	grpc plogotlp.GRPCClient
	tel  *componenttest.Telemetry
	info chan client.Info // what each request brought to the exporter
}

func startServer(t *testing.T, includeMetadata bool) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "ip") // t.TempDir is too long for a socket name
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	s := &server{tel: componenttest.NewTelemetry(), info: make(chan client.Info, 16)}

	f := NewFactory()
	set := extensiontest.NewNopSettings(f.Type())
	set.TelemetrySettings = s.tel.NewTelemetrySettings()
	ext, err := f.Create(t.Context(), set, f.CreateDefaultConfig())
	require.NoError(t, err)

	rf := otlpreceiver.NewFactory()
	cfg := rf.CreateDefaultConfig()
	side := func(socket string) map[string]any {
		return map[string]any{
			"endpoint": filepath.Join(dir, socket), "transport": "unix", "include_metadata": includeMetadata,
			"middlewares": []any{map[string]any{"id": typeName}},
		}
	}
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"grpc": side("g"), "http": side("h")}}).Unmarshal(cfg))
	sink, err := consumer.NewLogs(func(ctx context.Context, _ plog.Logs) error {
		s.info <- client.FromContext(ctx)
		return nil
	})
	require.NoError(t, err)
	rcv, err := rf.CreateLogs(t.Context(), receivertest.NewNopSettings(rf.Type()), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, rcv.Start(t.Context(), host{map[component.ID]component.Component{component.NewID(f.Type()): ext}}))

	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "h"))
	}}
	s.http = &http.Client{Transport: transport}
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "g"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	s.grpc = plogotlp.NewGRPCClient(conn)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, conn.Close())
		require.NoError(t, rcv.Shutdown(context.WithoutCancel(t.Context())))
		require.NoError(t, s.tel.Shutdown(context.WithoutCancel(t.Context())))
	})
	return s
}

// post sends one log record and returns status, content type and body of the answer.
func (s *server) post(t *testing.T, target, contentType string, header http.Header) (code int, gotType string, body []byte) {
	t.Helper()
	payload, err := plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(1)).MarshalProto()
	require.NoError(t, err)
	if contentType == "application/json" {
		payload, err = plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(1)).MarshalJSON()
		require.NoError(t, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://siglake"+target, bytes.NewReader(payload))
	require.NoError(t, err)
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := s.http.Do(req)
	require.NoError(t, err)
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, resp.Header.Get("Content-Type"), body
}

// nothing checks that no request came through.
func (s *server) nothing(t *testing.T) {
	t.Helper()
	select {
	case info := <-s.info:
		require.Fail(t, "a refused request reached the consumer", "%v", info)
	default:
	}
}

// ACK-1: the mode reaches the exporter from query, header and metadata, whatever include_metadata says.
func TestServer_mode_reaches_the_consumer(t *testing.T) {
	t.Parallel()
	for _, includeMetadata := range []bool{false, true} {
		s := startServer(t, includeMetadata)
		header := http.Header{headerCommit: {"auto"}, "X-Other": {"kept"}}

		code, _, _ := s.post(t, "/v1/logs?commit=force", "application/json", header)
		require.Equal(t, http.StatusOK, code)
		info := <-s.info
		require.Equal(t, []string{"force"}, info.Metadata.Get(metadataCommit), "query wins")
		if includeMetadata {
			require.Equal(t, []string{"kept"}, info.Metadata.Get("x-other"))
		}

		code, _, _ = s.post(t, "/v1/logs", "application/x-protobuf", header)
		require.Equal(t, http.StatusOK, code)
		info = <-s.info
		require.Equal(t, []string{"auto"}, info.Metadata.Get(metadataCommit))

		code, _, _ = s.post(t, "/v1/logs?tenant=team-a", "application/json", nil)
		require.Equal(t, http.StatusOK, code)
		info = <-s.info
		require.Equal(t, []string{"team-a"}, info.Metadata.Get(metadataTenant))

		code, _, _ = s.post(t, "/v1/logs", "application/x-protobuf", nil)
		require.Equal(t, http.StatusOK, code)
		info = <-s.info
		require.Empty(t, info.Metadata.Get(metadataCommit))

		ctx := metadata.AppendToOutgoingContext(t.Context(), metadataCommit, "wait_for", metadataTenant, "team-b")
		_, err := s.grpc.Export(ctx, plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(1)))
		require.NoError(t, err)
		info = <-s.info
		require.Equal(t, []string{"wait_for"}, info.Metadata.Get(metadataCommit))
		require.Equal(t, []string{"team-b"}, info.Metadata.Get(metadataTenant))
	}
}

// identity is what an authenticator knows of a client.
type identity struct{}

func (identity) GetAttribute(string) any     { return nil }
func (identity) GetAttributeNames() []string { return nil }

func TestWith_keeps_what_the_receiver_knew(t *testing.T) {
	t.Parallel()
	in := client.Info{
		Addr:     &net.TCPAddr{Port: 1},
		Auth:     identity{},
		Metadata: client.NewMetadata(map[string][]string{"x-other": {"a", "b"}, metadataCommit: {"auto"}}),
	}
	got := client.FromContext(with(client.NewContext(t.Context(), in), choice{metadataCommit: {"force"}, metadataTenant: {"a"}}))
	require.Equal(t, in.Auth, got.Auth)
	require.Equal(t, []string{"a"}, got.Metadata.Get(metadataTenant))
	require.Equal(t, in.Addr, got.Addr)
	require.Equal(t, []string{"a", "b"}, got.Metadata.Get("x-other"))
	require.Equal(t, []string{"force"}, got.Metadata.Get(metadataCommit))
	require.Equal(t, []string{"auto"}, in.Metadata.Get(metadataCommit), "the receiver's copy is not touched")
}

// ACK-1: a bad parameter is answered in the request's encoding, on both transports, and nothing is consumed.
func TestServer_refuses_before_anything_is_stored(t *testing.T) {
	t.Parallel()
	s := startServer(t, false)
	const text = `query parameter commit: "bogus" is not one of auto, wait_for, mirrored, force`

	code, contentType, body := s.post(t, "/v1/logs?commit=bogus", "application/json", nil)
	require.Equal(t, http.StatusBadRequest, code)
	require.Equal(t, "application/json", contentType)
	require.Equal(t, `{"code":3,"message":"query parameter commit: \"bogus\" is not one of auto, wait_for, mirrored, force"}`, string(body))

	code, contentType, body = s.post(t, "/v1/logs?commit=bogus", "application/x-protobuf", nil)
	require.Equal(t, http.StatusBadRequest, code)
	require.Equal(t, "application/x-protobuf", contentType)
	var st spb.Status
	require.NoError(t, proto.Unmarshal(body, &st))
	require.Equal(t, int32(codes.InvalidArgument), st.GetCode())
	require.Equal(t, text, st.GetMessage())

	code, contentType, _ = s.post(t, "/v1/logs?commit=bogus", "text/plain", nil)
	require.Equal(t, http.StatusBadRequest, code)
	require.Equal(t, "application/json", contentType)

	code, _, _ = s.post(t, "/v1/logs?tenant=a&tenant=b", "application/json", nil)
	require.Equal(t, http.StatusBadRequest, code)

	ctx := metadata.AppendToOutgoingContext(t.Context(), metadataCommit, "bogus")
	_, err := s.grpc.Export(ctx, plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(1)))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.Equal(t, `metadata x-siglake-commit: "bogus" is not one of auto, wait_for, mirrored, force`, status.Convert(err).Message())
	s.nothing(t)

	got, err := s.tel.GetMetric("siglake_ingest_refused_total")
	require.NoError(t, err)
	point := func(r reason, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("reason", string(r))), Value: n}
	}
	metricdatatest.AssertEqual(t, metricdata.Metrics{
		Name:        "siglake_ingest_refused_total",
		Description: "Requests refused for their parameters before they were decoded.",
		Unit:        "{request}",
		Data: metricdata.Sum[int64]{
			Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
			DataPoints: []metricdata.DataPoint[int64]{point(reasonCommit, 4), point(reasonIndex, 0), point(reasonTenant, 1), point(reasonQuery, 0)},
		},
	}, got, metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
}
