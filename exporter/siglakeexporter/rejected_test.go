package siglakeexporter

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/pdata/testdata"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/internal/wal"
)

var (
	digits = regexp.MustCompile(`\b[0-9]+\b`)
	quoted = regexp.MustCompile("`([^`]+)`")
)

// rejected is docs/operations/rejected-ingest.md.
func rejected(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/operations/rejected-ingest.md")
	require.NoError(t, err)
	return string(raw)
}

// rows are the cells of the table whose head begins so.
func rows(t *testing.T, doc, head string) [][]string {
	t.Helper()
	_, table, ok := strings.Cut(doc, head)
	require.True(t, ok, head)
	table, _, _ = strings.Cut(table, "\n\n")
	var out [][]string
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

// The page that leads from an answer to its setting says what the code says: each limit there is, its text, its
// hint, metrics that exist, keys that exist, and their defaults.
func TestRejectedIngest_limits(t *testing.T) {
	t.Parallel()
	doc := rejected(t)
	_, table, _ := strings.Cut(doc, "## Limits")
	metrics, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	line := regexp.MustCompile("`siglake_wal_refused_total` .* `limit`: ([a-z_, ]+) ").FindSubmatch(metrics)
	require.NotNil(t, line)
	want := strings.Split(string(line[1]), ", ")
	var got []string
	for _, cells := range rows(t, table, "| `limit` |") {
		limit := strings.Trim(cells[0], "`")
		got = append(got, limit)
		full := &wal.LimitError{Limit: limit, Used: 7, Max: 5}
		if limit == "tenant_share" {
			full.Of = "max_in_flight"
		}
		st := status.Convert(classify(full))
		require.Equal(t, "`refused, nothing was written: "+strings.Trim(cells[1], "`")+"`", "`"+digits.ReplaceAllString(st.Message(), "N")+"`")
		require.Equal(t, cells[2], fmt.Sprintf("%d s", int(retryDelay(st)/time.Second)))
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			require.Contains(t, string(metrics), "| `"+m[1]+"` | gauge |")
		}
		require.Equal(t, strings.Trim(cells[5], "`"), defaultOf(t, strings.Trim(cells[4], "`")))
	}
	require.ElementsMatch(t, want, got)
}

// defaultOf is the default of a key of the exporter, as a user would write it.
func defaultOf(t *testing.T, key string) string {
	t.Helper()
	conf := confmap.New()
	require.NoError(t, conf.Marshal(createDefaultConfig()))
	require.True(t, conf.IsSet(key), key)
	return fmt.Sprint(conf.Get(key))
}

func TestRejectedIngest_other_refusals(t *testing.T) {
	t.Parallel()
	doc := rejected(t)
	metrics, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	tenancy := TenancyConfig{Enabled: true, Allowed: []string{"team-a"}}
	ofErr := func(c *TenancyConfig, named ...string) error {
		_, _, err := c.of(withTenant(context.Background(), named...))
		return err
	}
	want := map[string]string{}
	for _, cause := range []error{
		ofErr(&TenancyConfig{}, "a"), ofErr(&tenancy), ofErr(&tenancy, "team-c"),
		syscall.ENOSPC, syscall.EIO, wal.ErrLockLost, wal.ErrClosed,
	} {
		require.Error(t, cause)
		st := status.Convert(classify(cause))
		want["`"+st.Message()+"`"] = map[string]string{"InvalidArgument": "400", "PermissionDenied": "403", "Unavailable": "503"}[st.Code().String()]
	}
	got := map[string]string{}
	for _, cells := range rows(t, doc, "| the client reads | answer |") {
		got[cells[0]] = cells[1]
		require.Contains(t, string(metrics), "| "+cells[2]+" | counter |")
	}
	require.Equal(t, want, got)
}

// Every metric and every key named anywhere on the page exists.
func TestRejectedIngest_names(t *testing.T) {
	t.Parallel()
	doc := rejected(t)
	metrics, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	for _, name := range regexp.MustCompile(`siglake_[a-z_]+`).FindAllString(doc, -1) {
		require.Contains(t, string(metrics), "| `"+name+"` |")
	}
	keys := regexp.MustCompile("`((wal|tenancy)::[a-z_:]+)`").FindAllStringSubmatch(doc, -1)
	require.NotEmpty(t, keys)
	for _, m := range keys {
		defaultOf(t, m[1])
	}
	// What the log says at start and stop.
	source, err := os.ReadFile("../../internal/wal/refuse.go")
	require.NoError(t, err)
	for _, line := range []string{"a limit refuses requests; clients are told when to send again", "a limit refuses no more"} {
		require.Contains(t, doc, "`"+line+"`")
		require.Contains(t, string(source), `"`+line+`"`)
	}
	require.Contains(t, doc, "30 s)")
	require.Equal(t, 30*time.Second, quietAfter)
}

// The helper's line about a refused request is written ten times and not for each of them.
func TestRefused_lines_are_few(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	exp, err := r.factory.CreateLogs(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, exp.Start(t.Context(), r.host))
	const requests = 60
	for range requests {
		require.Error(t, exp.ConsumeLogs(withTenant(t.Context(), "nobody"), testdata.GenerateLogs(1)))
	}
	require.NoError(t, exp.Shutdown(t.Context()))
	lines := r.warned.FilterMessage("Exporting failed. Rejecting data.").Len()
	require.Positive(t, lines)
	require.Less(t, lines, requests/2, "a new ten seconds may begin meanwhile")
}
