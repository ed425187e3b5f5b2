package siglakeexporter

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/testdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/internal/wal"
)

func withTenant(ctx context.Context, named ...string) context.Context {
	return client.NewContext(ctx, client.Info{Metadata: client.NewMetadata(map[string][]string{keyTenant: named})})
}

// claims is what an authenticator knows of a client.
type claims map[string]any

func (c claims) GetAttribute(name string) any { return c[name] }
func (c claims) GetAttributeNames() []string  { return nil }

// T-22, C6: a tenant is taken as it is or refused, never repaired and never replaced by the default.
func TestTenancy_of(t *testing.T) {
	t.Parallel()
	off, on := TenancyConfig{}, TenancyConfig{Enabled: true}
	only := TenancyConfig{Enabled: true, Allowed: []string{"team-a", "default"}}
	auth := TenancyConfig{Enabled: true, AuthAttribute: "org"}
	authOnly := TenancyConfig{Enabled: true, AuthAttribute: "org", Allowed: []string{"team-a"}}
	const param = "request parameter x-siglake-tenant: "
	for _, tc := range []struct {
		name   string
		cfg    TenancyConfig
		named  []string
		auth   client.AuthData
		want   string
		reason string
		text   string
	}{
		{name: "off", cfg: off, want: "default"},
		{name: "off and authenticated", cfg: off, auth: claims{"org": "team-a"}, want: "default"},
		{name: "off and named", cfg: off, named: []string{"team-a"}, reason: tenantOff, text: param + "tenancy is off here; leave it out (rows go to the tenant default)"},
		{name: "off and named default", cfg: off, named: []string{"default"}, reason: tenantOff, text: param + "tenancy is off here; leave it out (rows go to the tenant default)"},
		{name: "off and named empty", cfg: off, named: []string{""}, reason: tenantOff, text: param + "tenancy is off here; leave it out (rows go to the tenant default)"},
		{name: "named", cfg: on, named: []string{"Team_a-1"}, want: "Team_a-1"},
		{name: "longest", cfg: on, named: []string{strings.Repeat("x", 128)}, want: strings.Repeat("x", 128)},
		{name: "default, named", cfg: on, named: []string{"default"}, want: "default"},
		{name: "missing", cfg: on, reason: tenantMissing, text: param + "missing; every request names its tenant here"},
		{name: "twice", cfg: on, named: []string{"a", "a"}, reason: tenantBadName, text: param + "given 2 times, want exactly one"},
		{name: "empty", cfg: on, named: []string{""}, reason: tenantBadName, text: param + `tenant "": segment: name not allowed: want [A-Za-z0-9_-]{1,128}`},
		{name: "padded", cfg: on, named: []string{" a"}, reason: tenantBadName, text: param + `tenant " a": segment: name not allowed: want [A-Za-z0-9_-]{1,128}`},
		{name: "too long", cfg: on, named: []string{strings.Repeat("x", 129)}, reason: tenantBadName, text: param + `tenant "` + strings.Repeat("x", 129) + `": segment: name not allowed: want [A-Za-z0-9_-]{1,128}`},
		{name: "path", cfg: on, named: []string{"../x"}, reason: tenantBadName, text: param + `tenant "../x": segment: name not allowed: want [A-Za-z0-9_-]{1,128}`},
		{name: "list", cfg: on, named: []string{"a, b"}, reason: tenantBadName, text: param + `tenant "a, b": segment: name not allowed: want [A-Za-z0-9_-]{1,128}`},
		{name: "reserved", cfg: on, named: []string{"Sealed"}, reason: tenantBadName, text: param + `tenant "Sealed": segment: name not allowed: reserved`},
		{name: "another default", cfg: on, named: []string{"DEFAULT"}, reason: tenantBadName, text: param + `tenant "DEFAULT": segment: name not allowed: differs only in letter case from one that exists: "default"`},
		{name: "allowed", cfg: only, named: []string{"team-a"}, want: "team-a"},
		{name: "not allowed", cfg: only, named: []string{"Team-a"}, reason: tenantNotAllowed, text: `tenant denied: "Team-a" is not allowed here`},
		{name: "missing where default is allowed", cfg: only, reason: tenantMissing, text: param + "missing; every request names its tenant here"},
		{name: "auth", cfg: auth, auth: claims{"org": "team-a"}, want: "team-a"},
		{name: "auth, list of one", cfg: auth, auth: claims{"org": []string{"team-a"}}, want: "team-a"},
		{name: "auth and the same named", cfg: auth, auth: claims{"org": "team-a"}, named: []string{"team-a"}, want: "team-a"},
		{name: "auth and another named", cfg: auth, auth: claims{"org": "team-a"}, named: []string{"team-b"}, reason: tenantMismatch, text: `tenant denied: the request names tenant "team-b" and the sender's authentication another`},
		{name: "no auth", cfg: auth, named: []string{"team-a"}, reason: tenantMissing, text: `tenant denied: the sender's authentication names no tenant in "org"`},
		{name: "auth without it", cfg: auth, auth: claims{"sub": "x"}, reason: tenantMissing, text: `tenant denied: the sender's authentication names no tenant in "org"`},
		{name: "auth, two", cfg: auth, auth: claims{"org": []string{"a", "b"}}, reason: tenantMissing, text: `tenant denied: the sender's authentication names no tenant in "org"`},
		{name: "auth, no text", cfg: auth, auth: claims{"org": 7}, reason: tenantMissing, text: `tenant denied: the sender's authentication names no tenant in "org"`},
		{name: "auth, bad name", cfg: auth, auth: claims{"org": "a/b"}, reason: tenantBadName, text: param + `tenant "a/b": segment: name not allowed: want [A-Za-z0-9_-]{1,128}`},
		{name: "auth, not allowed", cfg: authOnly, auth: claims{"org": "team-b"}, reason: tenantNotAllowed, text: `tenant denied: "team-b" is not allowed here`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			md := map[string][]string{}
			if tc.named != nil {
				md["X-Siglake-Tenant"] = tc.named
			}
			got, reason, err := tc.cfg.of(client.NewContext(t.Context(), client.Info{Auth: tc.auth, Metadata: client.NewMetadata(md)}))
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.reason, reason)
			if tc.text == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.text)
			wantCode := codes.InvalidArgument
			if strings.HasPrefix(tc.text, errDenied.Error()) {
				wantCode = codes.PermissionDenied
			}
			require.Equal(t, wantCode, status.Code(classify(err)))
			require.True(t, consumererror.IsPermanent(classify(err)))
		})
	}
}

// C6, T-22: all three signals of a tenant go to its lanes, a refusal is counted and writes nothing, also for an
// empty request.
func TestTenancy_decides_the_lane(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Tenancy.Enabled = true
	le := r.logs(t)
	te, err := r.factory.CreateTraces(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	me, err := r.factory.CreateMetrics(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, te.Start(t.Context(), r.host))
	require.NoError(t, me.Start(t.Context(), r.host))
	require.True(t, r.log.opened[0].FairShare)

	ctx := withTenant(t.Context(), "team-a")
	require.NoError(t, le.ConsumeLogs(ctx, testdata.GenerateLogs(1)))
	require.NoError(t, te.ConsumeTraces(ctx, testdata.GenerateTraces(1)))
	require.NoError(t, me.ConsumeMetrics(ctx, testdata.GenerateMetrics(1)))
	var lanes []string
	for _, req := range r.log.taken() {
		lanes = append(lanes, req.Tenant+"/"+req.Index)
	}
	require.Equal(t, []string{"team-a/events", "team-a/spans", "team-a/metrics"}, lanes)

	require.Error(t, le.ConsumeLogs(t.Context(), testdata.GenerateLogs(1)))
	require.Error(t, le.ConsumeLogs(t.Context(), plog.NewLogs()))
	require.Error(t, te.ConsumeTraces(withTenant(t.Context(), "a", "b"), testdata.GenerateTraces(1)))
	require.Error(t, me.ConsumeMetrics(withTenant(t.Context(), "leases"), testdata.GenerateMetrics(1)))
	require.Empty(t, r.log.taken())
	require.Equal(t, map[string]int64{tenantOff: 0, tenantMissing: 2, tenantBadName: 2, tenantNotAllowed: 0, tenantMismatch: 0},
		r.counts(t, "siglake_ingest_tenant_refused_total"))
	require.NoError(t, te.Shutdown(t.Context()))
	require.NoError(t, me.Shutdown(t.Context()))
}

// B4: a request that may not wait is told when to come back and is in nobody's way; one that was let in leaves,
// however it ends.
func TestExporter_waiting_requests_are_bounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Tenancy.Enabled = true
	e := r.logs(t)
	ctx := withTenant(t.Context(), "team-a")
	require.NoError(t, e.ConsumeLogs(ctx, testdata.GenerateLogs(1)))
	require.NoError(t, e.ConsumeLogs(ctx, testdata.GenerateLogs(2*mergedItems)))
	r.log.failWith(wal.ErrClosed)
	require.Error(t, e.ConsumeLogs(ctx, testdata.GenerateLogs(1)))
	require.Len(t, r.log.taken(), 3)
	require.Equal(t, map[string]int{"team-a": 0}, r.log.inside)

	r.log.full = &wal.LimitError{Limit: "max_waiting", Used: 5, Max: 5}
	err := e.ConsumeLogs(ctx, testdata.GenerateLogs(1))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Equal(t, retryInFlight, retryDelay(status.Convert(err)))
	require.Empty(t, r.log.taken())
	require.Equal(t, map[string]int{"team-a": 0}, r.log.inside)
}
