package ingestparams

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
)

// ACK-1: the mode a request names is the mode it gets, or it is refused.
func TestFromHTTP(t *testing.T) {
	t.Parallel()
	const four = "auto, wait_for, mirrored, force"
	header := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Add(kv[i], kv[i+1])
		}
		return h
	}
	for _, tc := range []struct {
		name   string
		query  string
		header http.Header
		want   string
		tenant string
		index  string
		reason reason
		text   string
	}{
		{name: "none"},
		{name: "unrelated query", query: "a=1&b=2"},
		{name: "auto", query: "commit=auto", want: "auto"},
		{name: "wait_for", query: "commit=wait_for", want: "wait_for"},
		{name: "mirrored", query: "commit=mirrored", want: "mirrored"},
		{name: "force", query: "commit=force", want: "force"},
		{name: "header", header: header("x-siglake-commit", "auto"), want: "auto"},
		{name: "query wins", query: "commit=wait_for", header: header(headerCommit, "auto"), want: "wait_for"},
		{name: "query wins over a bad header", query: "commit=wait_for", header: header(headerCommit, "bogus"), want: "wait_for"},
		{name: "bad query does not fall back to the header", query: "commit=bogus", header: header(headerCommit, "auto"), reason: reasonCommit, text: `query parameter commit: "bogus" is not one of ` + four},
		{name: "empty query", query: "commit=", header: header(headerCommit, "auto"), reason: reasonCommit, text: `query parameter commit: "" is not one of ` + four},
		{name: "bare query", query: "commit", reason: reasonCommit, text: `query parameter commit: "" is not one of ` + four},
		{name: "repeated query", query: "commit=auto&commit=auto", reason: reasonCommit, text: "query parameter commit: given 2 times, want exactly one of " + four},
		{name: "upper case value", query: "commit=FORCE", reason: reasonCommit, text: `query parameter commit: "FORCE" is not one of ` + four},
		{name: "padded value", query: "commit=%20force", reason: reasonCommit, text: `query parameter commit: " force" is not one of ` + four},
		{name: "non-ASCII value", query: "commit=f%C3%B6rce", reason: reasonCommit, text: `query parameter commit: "f\u00f6rce" is not one of ` + four},
		{name: "invalid UTF-8 value", query: "commit=%ff", reason: reasonCommit, text: `query parameter commit: "\xff" is not one of ` + four},
		{name: "control characters", query: "commit=a%0d%0ab", reason: reasonCommit, text: `query parameter commit: "a\r\nb" is not one of ` + four},
		{name: "long value is cut", query: "commit=" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", reason: reasonCommit, text: `query parameter commit: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"... is not one of ` + four},
		{name: "upper case key", query: "Commit=force", reason: reasonQuery, text: `query parameter "Commit": names are lower-case, write commit`},
		{name: "broken escape", query: "commit=%zz", reason: reasonQuery, text: `query: "commit=%zz" cannot be parsed: invalid URL escape "%zz"; write name=value, joined by &, with all but letters and digits as %XX`},
		{name: "broken escape of an index", query: "index=%zz", reason: reasonQuery, text: `query: "index=%zz" cannot be parsed: invalid URL escape "%zz"; write name=value, joined by &, with all but letters and digits as %XX`},
		{name: "semicolon", query: "commit=auto;x=1", reason: reasonQuery, text: `query: "commit=auto;x=1" cannot be parsed: invalid semicolon separator in query; write name=value, joined by &, with all but letters and digits as %XX`},
		{name: "repeated header", header: header(headerCommit, "auto", headerCommit, "force"), reason: reasonCommit, text: "header X-Siglake-Commit: given 2 times, want exactly one of " + four},
		{name: "empty header", header: header(headerCommit, ""), reason: reasonCommit, text: `header X-Siglake-Commit: "" is not one of ` + four},
		{name: "list in header", header: header(headerCommit, "auto, force"), reason: reasonCommit, text: `header X-Siglake-Commit: "auto, force" is not one of ` + four},
		{name: "index header", header: header("X-Siglake-Index", "audit"), index: "audit"},
		{name: "index query", query: "index=audit", index: "audit"},
		{name: "empty index is for the exporter to refuse", query: "index=", index: "<empty>"},
		{name: "index twice the same", query: "index=audit", header: header(headerIndex, "audit"), index: "audit"},
		{name: "query does not overrule the header's index", query: "index=b", header: header(headerIndex, "a"), reason: reasonIndex, text: `query parameter index: "b" is not what header X-Siglake-Index says; name the index in one of them`},
		{name: "repeated index header", header: header(headerIndex, "a", headerIndex, "b"), reason: reasonIndex, text: "header X-Siglake-Index: given 2 times, want exactly one"},
		{name: "repeated index query", query: "index=a&index=b", reason: reasonIndex, text: "query parameter index: given 2 times, want exactly one"},
		{name: "upper case index query", query: "Index=a", reason: reasonQuery, text: `query parameter "Index": names are lower-case, write index`},
		{name: "all three", query: "index=a&commit=auto&tenant=t", want: "auto", tenant: "t", index: "a"},
		{name: "tenant header", query: "commit=auto", header: header("x-siglake-tenant", "a"), want: "auto", tenant: "a"},
		{name: "tenant query", query: "tenant=team-a", tenant: "team-a"},
		{name: "empty tenant is for the exporter to refuse", query: "tenant=", tenant: "<empty>"},
		{name: "tenant twice the same", query: "tenant=a", header: header(headerTenant, "a"), tenant: "a"},
		{name: "query does not overrule the header's tenant", query: "tenant=b", header: header(headerTenant, "a"), reason: reasonTenant, text: `query parameter tenant: "b" is not what header X-Siglake-Tenant says; name the tenant in one of them`},
		{name: "header given twice behind a query", query: "tenant=a", header: header(headerTenant, "a", headerTenant, "b"), reason: reasonTenant, text: `query parameter tenant: "a" is not what header X-Siglake-Tenant says; name the tenant in one of them`},
		{name: "repeated tenant query", query: "tenant=a&tenant=a", reason: reasonTenant, text: "query parameter tenant: given 2 times, want exactly one"},
		{name: "repeated tenant header", header: header(headerTenant, "a", headerTenant, "a"), reason: reasonTenant, text: "header X-Siglake-Tenant: given 2 times, want exactly one"},
		{name: "upper case tenant query", query: "TENANT=a", reason: reasonQuery, text: `query parameter "TENANT": names are lower-case, write tenant`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/logs", http.NoBody)
			r.URL.RawQuery = tc.query
			if tc.header != nil {
				r.Header = tc.header
			}
			got, bad := fromHTTP(r)
			require.Equal(t, tc.want, first(got[metadataCommit]))
			require.Equal(t, tc.tenant, first(got[metadataTenant]))
			require.Equal(t, tc.index, first(got[metadataIndex]))
			if tc.text == "" {
				require.Nil(t, bad)
				return
			}
			require.Equal(t, &problem{tc.reason, tc.text}, bad)
		})
	}
}

// ACK-1, for gRPC metadata.
func TestFromGRPC(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		md     metadata.MD
		want   string
		tenant string
		index  string
		text   string
	}{
		{name: "nil"},
		{name: "none", md: metadata.Pairs("user-agent", "x")},
		{name: "mode", md: metadata.Pairs("X-Siglake-Commit", "auto"), want: "auto"},
		{name: "unknown", md: metadata.Pairs("x-siglake-commit", "Auto"), text: `metadata x-siglake-commit: "Auto" is not one of auto, wait_for, mirrored, force`},
		{name: "repeated", md: metadata.Pairs("x-siglake-commit", "auto", "x-siglake-commit", "auto"), text: "metadata x-siglake-commit: given 2 times, want exactly one of auto, wait_for, mirrored, force"},
		{name: "index", md: metadata.Pairs("x-siglake-index", "a"), index: "a"},
		{name: "repeated index", md: metadata.Pairs("x-siglake-index", "a", "x-siglake-index", "a"), text: "metadata x-siglake-index: given 2 times, want exactly one"},
		{name: "tenant", md: metadata.Pairs("x-siglake-tenant", "a"), tenant: "a"},
		{name: "repeated tenant", md: metadata.Pairs("x-siglake-tenant", "a", "x-siglake-tenant", "b"), text: "metadata x-siglake-tenant: given 2 times, want exactly one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, bad := fromGRPC(tc.md)
			require.Equal(t, tc.want, first(got[metadataCommit]))
			require.Equal(t, tc.tenant, first(got[metadataTenant]))
			require.Equal(t, tc.index, first(got[metadataIndex]))
			if tc.text == "" {
				require.Nil(t, bad)
				return
			}
			require.NotNil(t, bad)
			require.Equal(t, tc.text, bad.text)
		})
	}
}

// first shows an empty value, which is not none.
func first(values []string) string {
	switch {
	case len(values) == 0:
		return ""
	case values[0] == "":
		return "<empty>"
	default:
		return values[0]
	}
}
