package ingestparams

import (
	"context"
	"encoding/json"
	"maps"
	"mime"
	"net/http"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.uber.org/zap"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

var (
	_ extensionmiddleware.HTTPServer              = (*params)(nil)
	_ extensionmiddleware.GRPCServer              = (*params)(nil)
	_ extensioncapabilities.ConfigSnapshotWatcher = (*params)(nil)
)

// params is the extension. It holds no resource: Start and Shutdown have nothing to do, in any order.
type params struct {
	component.StartFunc
	component.ShutdownFunc

	cfg     Config
	logger  *zap.Logger
	metrics *metrics
}

// GetHTTPHandler wraps a server's handler. The wrapper runs after confighttp has built client.Info and
// before the body is read.
func (p *params) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			chosen, bad := fromHTTP(r)
			if bad != nil {
				p.metrics.addRefused(r.Context(), bad.reason, 1)
				writeInvalid(w, r, bad.text)
				return
			}
			if len(chosen) > 0 {
				r = r.WithContext(with(r.Context(), chosen))
			}
			answer := &answerWriter{ResponseWriter: w, r: r}
			next.ServeHTTP(answer, r)
			answer.end()
		}), nil
	}, nil
}

// GetGRPCServerOptions returns the interceptors that do the same for gRPC, after configgrpc has built
// client.Info.
func (p *params) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	unary := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, err := p.grpcContext(ctx)
		if err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}
	stream := func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, err := p.grpcContext(ss.Context())
		if err != nil {
			return err
		}
		return handler(srv, &streamWithContext{ServerStream: ss, ctx: ctx})
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}, nil
}

func (p *params) grpcContext(ctx context.Context) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	chosen, bad := fromGRPC(md)
	if bad != nil {
		p.metrics.addRefused(ctx, bad.reason, 1)
		return nil, status.Error(codes.InvalidArgument, bad.text)
	}
	if len(chosen) == 0 {
		return ctx, nil
	}
	return with(ctx, chosen), nil
}

// streamWithContext is a stream whose calls see what the request chose.
type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context // what grpc.ServerStream hands out by its method
}

// Context returns the context with what the request chose.
func (s *streamWithContext) Context() context.Context { return s.ctx }

// with replaces client.Info by a copy that carries what the request chose; what the receiver put there stays.
func with(ctx context.Context, chosen choice) context.Context {
	info := client.FromContext(ctx)
	md := map[string][]string{}
	for key := range info.Metadata.Keys() {
		md[key] = info.Metadata.Get(key)
	}
	maps.Copy(md, chosen)
	info.Metadata = client.NewMetadata(md)
	return client.NewContext(ctx, info)
}

// writeInvalid answers 400 with a google.rpc.Status in the request's encoding; JSON when the request does
// not say protobuf, as the OTLP receiver does.
func writeInvalid(w http.ResponseWriter, r *http.Request, text string) {
	contentType, body := "application/json", invalidJSON(text)
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == "application/x-protobuf" {
		if pb, err := proto.Marshal(&spb.Status{Code: int32(codes.InvalidArgument), Message: text}); err == nil {
			contentType, body = media, pb
		}
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(body) // a client that hung up misses its answer; nothing was stored for it
}

func invalidJSON(text string) []byte {
	body, err := json.Marshal(struct {
		Code    codes.Code `json:"code"`
		Message string     `json:"message"`
	}{codes.InvalidArgument, text})
	if err != nil {
		return []byte(`{"code":3,"message":"bad request parameters"}`)
	}
	return body
}
