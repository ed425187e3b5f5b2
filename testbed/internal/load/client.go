package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Endpoint says where requests go and how.
type Endpoint struct {
	Protocol string // grpc or http
	Address  string // host:port
	Mode     string // commit mode to ask for; empty leaves it to the server
}

// Client sends encoded requests over one connection.
type Client interface {
	// Send returns nil only when the server took the whole request.
	Send(ctx context.Context, request []byte) error
	Close() error
}

// Dial makes a client. It does not connect yet.
func Dial(to Endpoint, signal string) (Client, error) {
	switch to.Protocol {
	case "grpc":
		return dialGRPC(to, signal)
	case "http":
		return dialHTTP(to, signal), nil
	}
	return nil, fmt.Errorf("dial: protocol %q is not one of grpc, http", to.Protocol)
}

// raw hands encoded messages through grpc as they are.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var methods = map[string]string{
	"logs":    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
	"traces":  "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	"metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}

type grpcClient struct {
	conn   *grpc.ClientConn
	method string
	signal string
	md     metadata.MD
}

func dialGRPC(to Endpoint, signal string) (Client, error) {
	// A collector under test comes back within seconds: the stock back-off would wait longer than the outage.
	quick := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second}
	conn, err := grpc.NewClient("passthrough:///"+to.Address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithConnectParams(quick),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", to.Address, err)
	}
	c := &grpcClient{conn: conn, method: methods[signal], signal: signal, md: metadata.MD{}}
	if to.Mode != "" {
		c.md.Set("x-siglake-commit", to.Mode)
	}
	return c, nil
}

func (c *grpcClient) Send(ctx context.Context, request []byte) error {
	if len(c.md) > 0 {
		ctx = metadata.NewOutgoingContext(ctx, c.md)
	}
	var answer []byte
	if err := c.conn.Invoke(ctx, c.method, &request, &answer); err != nil {
		return err
	}
	return partial(c.signal, answer)
}

func (c *grpcClient) Close() error { return c.conn.Close() }

type httpClient struct {
	client *http.Client
	url    string
	signal string
	mode   string
}

func dialHTTP(to Endpoint, signal string) Client {
	return &httpClient{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}},
		url:    "http://" + to.Address + "/v1/" + signal, signal: signal, mode: to.Mode,
	}
}

// StatusError is an HTTP answer other than 2xx.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("HTTP %d", int(e)) }

func (c *httpClient) Send(ctx context.Context, request []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(request))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if c.mode != "" {
		req.Header.Set("X-Siglake-Commit", c.mode)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	switch {
	case err != nil:
		return err
	case resp.StatusCode/100 != 2:
		return StatusError(resp.StatusCode)
	}
	return partial(c.signal, answer)
}

func (c *httpClient) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// ErrPartial is a success that names rejected records: part of the request was dropped.
var ErrPartial = errors.New("partial success with rejected records")

func partial(signal string, answer []byte) error {
	if len(answer) == 0 {
		return nil
	}
	var rejected int64
	var err error
	switch signal {
	case "logs":
		r := plogotlp.NewExportResponse()
		err = r.UnmarshalProto(answer)
		rejected = r.PartialSuccess().RejectedLogRecords()
	case "traces":
		r := ptraceotlp.NewExportResponse()
		err = r.UnmarshalProto(answer)
		rejected = r.PartialSuccess().RejectedSpans()
	case "metrics":
		r := pmetricotlp.NewExportResponse()
		err = r.UnmarshalProto(answer)
		rejected = r.PartialSuccess().RejectedDataPoints()
	}
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if rejected > 0 {
		return fmt.Errorf("%w: %d", ErrPartial, rejected)
	}
	return nil
}

// label names an error without what differs each time.
func label(err error) string {
	var code StatusError
	switch {
	case errors.As(err, &code):
		return code.Error()
	case errors.Is(err, ErrPartial):
		return "partial success"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return "transport"
}
