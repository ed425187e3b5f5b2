package ingestparams

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
)

// Where a request may name its commit mode, strongest first.
const (
	queryCommit    = "commit"
	headerCommit   = "X-Siglake-Commit"
	metadataCommit = "x-siglake-commit" // also the key in client.Info that the exporter reads
)

const legalModes = "auto, wait_for, mirrored, force"

// maxQuoted bounds how much of a client's value an answer repeats, in bytes. Longer than any legal value,
// short enough for a log line.
const maxQuoted = 40

// unbuilt are the parameters that name where rows go. This version writes each signal to its own index of
// the default tenant; ignoring the choice would store rows where nobody looks for them.
var unbuilt = [...]struct {
	query, header string
	reason        reason
	instead       string
}{
	{"index", "X-Siglake-Index", reasonIndex, "rows go to the index of their signal"},
	{"tenant", "X-Siglake-Tenant", reasonTenant, "rows go to the tenant default"},
}

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

// fromHTTP returns the commit mode that r asks for, "" when it names none. The query wins whenever it names
// a mode; the header is not looked at then.
func fromHTTP(r *http.Request) (string, *problem) {
	query, p := parseQuery(r.URL.RawQuery)
	if p != nil {
		return "", p
	}
	for _, u := range unbuilt {
		if query.Has(u.query) {
			return "", notBuilt("query parameter "+u.query, u.reason, u.instead)
		}
		if len(r.Header.Values(u.header)) > 0 {
			return "", notBuilt("header "+u.header, u.reason, u.instead)
		}
	}
	if values, ok := query[queryCommit]; ok {
		return mode("query parameter "+queryCommit, values)
	}
	return mode("header "+headerCommit, r.Header.Values(headerCommit))
}

// fromGRPC is fromHTTP for the metadata of a gRPC call.
func fromGRPC(md metadata.MD) (string, *problem) {
	for _, u := range unbuilt {
		if len(md.Get(u.header)) > 0 {
			return "", notBuilt("metadata "+strings.ToLower(u.header), u.reason, u.instead)
		}
	}
	return mode("metadata "+metadataCommit, md.Get(metadataCommit))
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
		for _, ours := range []string{queryCommit, unbuilt[0].query, unbuilt[1].query} {
			if key != ours && strings.EqualFold(key, ours) {
				return nil, &problem{reasonQuery, "query parameter " + quote(key) + ": names are lower-case, write " + ours}
			}
		}
	}
	return query, nil
}

// mode checks the values given under one name. No value is no opinion; an empty value is not.
func mode(source string, values []string) (string, *problem) {
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", &problem{reasonCommit, fmt.Sprintf("%s: given %d times, want exactly one of %s", source, len(values), legalModes)}
	case !legalMode(values[0]):
		return "", &problem{reasonCommit, fmt.Sprintf("%s: %s is not one of %s", source, quote(values[0]), legalModes)}
	default:
		return values[0], nil
	}
}

func notBuilt(source string, r reason, instead string) *problem {
	return &problem{r, fmt.Sprintf("%s: choosing the %s is not built in this version; leave it out (%s)", source, r, instead)}
}

// quote makes a client's text safe to repeat: printable ASCII, bounded.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
