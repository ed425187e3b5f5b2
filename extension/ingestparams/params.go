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

// Where a request may name its commit mode, its tenant and its index, strongest first.
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

// parameter is a name that a request may give: where, and the label that a refusal is counted under.
type parameter struct {
	query, header, metadata string
	reason                  reason
}

var names = [...]parameter{
	{queryTenant, headerTenant, metadataTenant, reasonTenant},
	{queryIndex, headerIndex, metadataIndex, reasonIndex},
}

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
// at then. For tenant and index both have to agree: a proxy may vouch for the header, and what it says is not overruled
// by who writes the address.
func fromHTTP(r *http.Request) (choice, *problem) {
	query, p := parseQuery(r.URL.RawQuery)
	if p != nil {
		return nil, p
	}
	source, modes := "query parameter "+queryCommit, query[queryCommit]
	if !query.Has(queryCommit) {
		source, modes = "header "+headerCommit, r.Header.Values(headerCommit)
	}
	c := choice{}
	if p := c.takeMode(source, modes); p != nil {
		return nil, p
	}
	for _, name := range names {
		asked, given := query[name.query], r.Header.Values(name.header)
		source, values := "query parameter "+name.query, asked
		switch {
		case len(asked) == 0:
			source, values = "header "+name.header, given
		case len(given) > 0 && !slices.Equal(asked, given):
			return nil, &problem{name.reason, fmt.Sprintf("query parameter %s: %s is not what header %s says; name the %s in one of them",
				name.query, quote(asked[0]), name.header, name.query)}
		}
		if p := c.takeName(name, source, values); p != nil {
			return nil, p
		}
	}
	return c, nil
}

// fromGRPC is fromHTTP for the metadata of a gRPC call.
func fromGRPC(md metadata.MD) (choice, *problem) {
	c := choice{}
	if p := c.takeMode("metadata "+metadataCommit, md.Get(metadataCommit)); p != nil {
		return nil, p
	}
	for _, name := range names {
		if p := c.takeName(name, "metadata "+name.metadata, md.Get(name.metadata)); p != nil {
			return nil, p
		}
	}
	return c, nil
}

// takeMode takes the commit mode, if one is given.
func (c choice) takeMode(source string, modes []string) *problem {
	p := checkMode(source, modes)
	if p == nil && len(modes) > 0 {
		c[metadataCommit] = modes
	}
	return p
}

// takeName takes a tenant or an index, if one is given. Whether it may be one is for the exporter to say.
func (c choice) takeName(name parameter, source string, values []string) *problem {
	switch len(values) {
	case 0:
		return nil
	case 1:
		c[name.metadata] = values
		return nil
	default:
		return &problem{name.reason, fmt.Sprintf("%s: given %d times, want exactly one", source, len(values))}
	}
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
		return nil, &problem{reasonQuery, "query: " + quote(raw) + " cannot be parsed: " + err.Error() + "; write name=value, joined by &, with all but letters and digits as %XX"}
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

// quote makes a client's text safe to repeat: printable ASCII, bounded.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
