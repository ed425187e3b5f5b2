package siglakeexporter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/pdata/testdata"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// guard is an authenticator that knows senders by a token that is their organisation.
type guard struct {
	component.StartFunc
	component.ShutdownFunc
}

func (guard) Authenticate(ctx context.Context, sources map[string][]string) (context.Context, error) {
	for _, key := range []string{"authorization", "Authorization"} {
		if token := sources[key]; len(token) == 1 {
			info := client.FromContext(ctx)
			info.Auth = claims{"org": token[0]}
			return client.NewContext(ctx, info), nil
		}
	}
	return ctx, errors.New("no token")
}

// openDoors puts real otlp receivers of all signals in front of r's exporters and returns how to send a signal with
// headers over each transport; each returns a gRPC code and an HTTP status, 0 for gRPC.
func openDoors(t *testing.T, r *rig, auth bool) map[string]func(path string, kv ...string) (codes.Code, int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sl") // t.TempDir is too long for a socket name
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	rf := otlpreceiver.NewFactory()
	cfg := rf.CreateDefaultConfig()
	side := func(socket string) map[string]any {
		s := map[string]any{"endpoint": filepath.Join(dir, socket), "transport": "unix", "include_metadata": true}
		if auth {
			s["auth"] = map[string]any{"authenticator": "guard"}
		}
		return s
	}
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"grpc": side("g"), "http": side("h")}}).Unmarshal(cfg))
	le := r.logs(t)
	te, err := r.factory.CreateTraces(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	me, err := r.factory.CreateMetrics(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	set := receivertest.NewNopSettings(rf.Type())
	lr, err := rf.CreateLogs(t.Context(), set, cfg, le)
	require.NoError(t, err)
	tr, err := rf.CreateTraces(t.Context(), set, cfg, te)
	require.NoError(t, err)
	mr, err := rf.CreateMetrics(t.Context(), set, cfg, me)
	require.NoError(t, err)
	host := &testHost{extensions: map[component.ID]component.Component{component.MustNewID("guard"): guard{}}}
	for _, c := range []component.Component{te, me, lr, tr, mr} {
		require.NoError(t, c.Start(t.Context(), host))
		t.Cleanup(func() { require.NoError(t, c.Shutdown(context.WithoutCancel(t.Context()))) })
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "g"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "h"))
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, conn.Close())
	})
	return map[string]func(string, ...string) (codes.Code, int){
		"grpc": func(path string, kv ...string) (codes.Code, int) {
			ctx := metadata.AppendToOutgoingContext(t.Context(), kv...)
			var err error
			switch path {
			case "/v1/logs":
				_, err = plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(1)))
			case "/v1/traces":
				_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequestFromTraces(testdata.GenerateTraces(1)))
			case "/v1/metrics":
				_, err = pmetricotlp.NewGRPCClient(conn).Export(ctx, pmetricotlp.NewExportRequestFromMetrics(testdata.GenerateMetrics(1)))
			}
			return status.Code(err), 0
		},
		"http": func(path string, kv ...string) (codes.Code, int) {
			return postSignal(t, &http.Client{Transport: transport}, path, kv...)
		},
	}
}

func postSignal(t *testing.T, c *http.Client, path string, kv ...string) (codes.Code, int) {
	t.Helper()
	marshal := map[string]func() ([]byte, error){
		"/v1/logs":    plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(1)).MarshalProto,
		"/v1/traces":  ptraceotlp.NewExportRequestFromTraces(testdata.GenerateTraces(1)).MarshalProto,
		"/v1/metrics": pmetricotlp.NewExportRequestFromMetrics(testdata.GenerateMetrics(1)).MarshalProto,
	}[path]
	body, err := marshal()
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://siglake"+path, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	for i := 0; i < len(kv); i += 2 {
		req.Header.Add(kv[i], kv[i+1])
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return map[int]codes.Code{200: codes.OK, 400: codes.InvalidArgument, 401: codes.Unauthenticated, 403: codes.PermissionDenied}[resp.StatusCode], resp.StatusCode
}

// C6, T-22: on both transports and for all signals a tenant's rows go to its lanes, and what is refused is refused
// the same way; nothing goes round a check by taking the other transport.
func TestDoors_tenants(t *testing.T) {
	t.Parallel()
	type sent struct {
		name string
		kv   []string
		want codes.Code
		to   string
	}
	for _, tc := range []struct {
		name  string
		cfg   TenancyConfig
		sends []sent
	}{
		{"by header", TenancyConfig{Enabled: true, Allowed: []string{"team-a", "default"}}, []sent{
			{"named", []string{"x-siglake-tenant", "team-a"}, codes.OK, "team-a"},
			{"default, named", []string{"x-siglake-tenant", "default"}, codes.OK, "default"},
			{"missing", nil, codes.InvalidArgument, ""},
			{"twice", []string{"x-siglake-tenant", "team-a", "x-siglake-tenant", "team-a"}, codes.InvalidArgument, ""},
			{"bad name", []string{"x-siglake-tenant", "team/a"}, codes.InvalidArgument, ""},
			{"another spelling", []string{"x-siglake-tenant", "Team-A"}, codes.PermissionDenied, ""},
			{"not allowed", []string{"x-siglake-tenant", "team-b"}, codes.PermissionDenied, ""},
		}},
		{"off", TenancyConfig{}, []sent{
			{"not named", nil, codes.OK, "default"},
			{"named", []string{"x-siglake-tenant", "team-a"}, codes.InvalidArgument, ""},
		}},
		{"by authenticator", TenancyConfig{Enabled: true, AuthAttribute: "org", Allowed: []string{"team-a"}}, []sent{
			{"known", []string{"authorization", "team-a"}, codes.OK, "team-a"},
			{"known, and says so", []string{"authorization", "team-a", "x-siglake-tenant", "team-a"}, codes.OK, "team-a"},
			{"claims to be another", []string{"authorization", "team-a", "x-siglake-tenant", "team-b"}, codes.PermissionDenied, ""},
			{"not allowed", []string{"authorization", "team-b"}, codes.PermissionDenied, ""},
			{"nobody", []string{"x-siglake-tenant", "team-a"}, codes.Unauthenticated, ""},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.cfg.Tenancy = tc.cfg
			doors := openDoors(t, r, tc.cfg.AuthAttribute != "")
			for transport, send := range doors {
				for path, index := range map[string]string{"/v1/logs": "events", "/v1/traces": "spans", "/v1/metrics": "metrics"} {
					for _, s := range tc.sends {
						code, httpStatus := send(path, s.kv...)
						require.Equal(t, s.want, code, "%s %s %s: %d", transport, path, s.name, httpStatus)
						var lanes, want []string
						for _, a := range r.log.taken() {
							lanes = append(lanes, a.Tenant+"/"+a.Index)
						}
						if s.to != "" {
							want = []string{s.to + "/" + index}
						}
						require.Equal(t, want, lanes, "%s %s %s", transport, path, s.name)
					}
				}
			}
			require.Empty(t, r.host.statuses(), "clients' mistakes are no trouble of ours")
		})
	}
}
