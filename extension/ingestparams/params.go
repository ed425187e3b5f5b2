package ingestparams

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
)

// Where a request may name its commit mode and its tenant, strongest first.
const (
	queryCommit    = "commit"
	headerCommit   = "X-Siglake-Commit"
	metadataCommit = "x-siglake-commit" // also the key in client.Info that the exporter reads

	queryTenant    = "tenant"
	headerTenant   = "X-Siglake-Tenant"
	metadataTenant = "x-siglake-tenant"

	queryIndex    = "index"
	headerIndex   = "X-Siglake-Index"
	metadataIndex = "x-siglake-index"
)

const legalModes = "auto, wait_for, mirrored, force"

// maxQuoted bounds how much of a client's value an answer repeats, in bytes. Longer than any legal value,
// short enough for a log line.
const maxQuoted = 40

// choice is what a request says for itself: metadata for the exporter, which decides whether it may.
type choice map[string][]string

// problem is why a request is refused: the label it is counted under and the text its sender reads.
type problem struct {
	reason reason
	text   string
}

func legalMode(mode string) bool {
	switch mode {
	case "auto", "wait_for", "mirrored", "force":
		return true
	default:
		return false
	}
}

// fromHTTP returns what r chooses. The query wins over the header for the commit mode, and the header is not looked
// at then. For the tenant both have to agree: a proxy may vouch for the header, and what it says is not overruled by
// who writes the address.
func fromHTTP(r *http.Request) (choice, *problem) {
	query, p := parseQuery(r.URL.RawQuery)
	if p != nil {
		return nil, p
	}
	if query.Has(queryIndex) {
		return nil, noIndex("query parameter " + queryIndex)
	}
	if len(r.Header.Values(headerIndex)) > 0 {
		return nil, noIndex("header " + headerIndex)
	}
	source, modes := "query parameter "+queryCommit, query[queryCommit]
	if !query.Has(queryCommit) {
		source, modes = "header "+headerCommit, r.Header.Values(headerCommit)
	}
	asked, named := query[queryTenant], r.Header.Values(headerTenant)
	switch {
	case len(asked) == 0:
		return choose(source, modes, "header "+headerTenant, named)
	case len(named) > 0 && !slices.Equal(asked, named):
		return nil, &problem{reasonTenant, fmt.Sprintf("query parameter %s: %s is not what header %s says; name the tenant in one of them",
			queryTenant, quote(asked[0]), headerTenant)}
	default:
		return choose(source, modes, "query parameter "+queryTenant, asked)
	}
}

// fromGRPC is fromHTTP for the metadata of a gRPC call.
func fromGRPC(md metadata.MD) (choice, *problem) {
	if len(md.Get(metadataIndex)) > 0 {
		return nil, noIndex("metadata " + metadataIndex)
	}
	return choose("metadata "+metadataCommit, md.Get(metadataCommit), "metadata "+metadataTenant, md.Get(metadataTenant))
}

// choose checks what is given for each parameter; what is not given is not chosen.
func choose(modeSource string, modes []string, tenantSource string, tenants []string) (choice, *problem) {
	if p := checkMode(modeSource, modes); p != nil {
		return nil, p
	}
	if len(tenants) > 1 {
		return nil, &problem{reasonTenant, fmt.Sprintf("%s: given %d times, want exactly one", tenantSource, len(tenants))}
	}
	c := choice{}
	if len(modes) > 0 {
		c[metadataCommit] = modes
	}
	if len(tenants) > 0 {
		c[metadataTenant] = tenants
	}
	return c, nil
}

// parseQuery refuses what url.URL.Query drops without a word: dropping half of a query would turn
// ?commit=force into the default mode. Keys that differ from ours only in letter case are refused for the
// same reason.
func parseQuery(raw string) (url.Values, *problem) {
	if raw == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &problem{reasonQuery, "query: " + quote(raw) + " cannot be parsed; write commit=MODE with MODE one of " + legalModes}
	}
	for key := range query {
		for _, ours := range []string{queryCommit, queryIndex, queryTenant} {
			if key != ours && strings.EqualFold(key, ours) {
				return nil, &problem{reasonQuery, "query parameter " + quote(key) + ": names are lower-case, write " + ours}
			}
		}
	}
	return query, nil
}

// checkMode checks the values given under one name. No value is no opinion; an empty value is not.
func checkMode(source string, values []string) *problem {
	switch {
	case len(values) == 0:
		return nil
	case len(values) > 1:
		return &problem{reasonCommit, fmt.Sprintf("%s: given %d times, want exactly one of %s", source, len(values), legalModes)}
	case !legalMode(values[0]):
		return &problem{reasonCommit, fmt.Sprintf("%s: %s is not one of %s", source, quote(values[0]), legalModes)}
	default:
		return nil
	}
}

// noIndex refuses what this version does not have: ignored, rows would be where nobody looks for them.
func noIndex(source string) *problem {
	return &problem{reasonIndex, source + ": choosing the index is not built in this version; leave it out (rows go to the index of their signal)"}
}

// quote makes a client's text safe to repeat: printable ASCII, bounded.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
