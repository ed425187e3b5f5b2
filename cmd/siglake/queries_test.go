//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answers are what the queries of docs/tables.md must return over the example data (queries_fixture_test.go), as CSV and
// by the first line of the query. They were worked out by hand from that data.
var answers = map[string]string{
	"Errors of the last hour by service.": "service_name,errors\ncart,1\nshop,1\n",
	"The newest records that speak of a timeout.": "timestamp,service_name,severity_text,body\n" +
		"2026-05-17T11:30:00Z,cart,ERROR,Timeout in store\n2026-05-17T11:10:00Z,shop,ERROR,timeout calling cart\n",
	"Paths that answer with 5xx: a number out of an attribute.": "path,failed\n/cart,1\n/pay,1\n",
	"All that was logged within one trace, in order.": "timestamp_ns,service_name,span_id,body\n" +
		"1779016200000000000,shop,a100000000000000,timeout calling cart\n1779016260000000000,shop,a100000000000000,paid\n",
	"Structured bodies: a field of the JSON text.": "user,records\nu1,2\nu2,1\n",
	"What a service logged within half a minute of its newest error.": "timestamp,service_name,severity_text,body\n" +
		"2026-05-17T11:29:50Z,cart,INFO,checking\n2026-05-17T11:30:00Z,cart,ERROR,Timeout in store\n",
	"Which attributes there are, the most frequent first.": "key,records\nhttp.response.status_code,3\nurl.path,3\n",
	"Volume by service and hour.": "service_name,hour,records\n" +
		"cart,2026-05-17T11:00:00Z,2\nshop,2026-05-17T11:00:00Z,4\nshop,2026-05-17T10:00:00Z,1\n",
	"Late arrivals: records that came more than an hour after their time.": "service_name,late,latest\nshop,1,1h30m0s\n",
	"Is a row there twice? Never: the answer has no rows.":                 "segment_id,segment_row,times\n",
	"How fresh is each table?": "name,newest,arrived\nevents,2026-05-17T11:41:00Z,2026-05-17T12:00:00Z\n" +
		"metrics,2026-05-17T11:59:00Z,2026-05-17T12:00:00Z\nspans,2026-05-17T11:50:00Z,2026-05-17T12:00:00Z\n",
	// GET /cart took 50 and 10 ms: the median is 30, 95 % of the way from 10 to 50 is 48, 99 % is 49.6.
	"Slowest operations.": "service_name,name,calls,p50_ms,p95_ms,p99_ms\n" +
		"shop,POST /pay,1,100.0,100.0,100.0\ncart,GET /cart,2,30.0,48.0,49.6\n",
	"Share of failed requests by service.":      "service_name,failed\nshop,1.0\ncart,0.0\n",
	"One trace as a tree.":                      "span,service_name,ms\nPOST /pay,shop,100.0\n\"  call cart\",shop,80.0\n\"    GET /cart\",cart,50.0\n",
	"Exceptions that spans recorded as events.": "service_name,exception,times\ncart,TimeoutError,1\n",
	"Who calls whom.":                           "caller,called,calls\nshop,cart,1\n",
	"Slow endpoints, by route.":                 "service_name,route,calls,p95_ms\nshop,/pay,1,100.0\ncart,/cart,2,48.0\n",
	"Last value of a gauge by service.":         "service_name,last_value\nshop,0.7\ncart,0.3\n",
	// 60 in a minute, then a reset and 12 since, then 60 again.
	"Rate of a cumulative counter; after a reset it counts from zero.": "service_name,timestamp,per_second\n" +
		"shop,2026-05-17T11:56:00Z,1.0\nshop,2026-05-17T11:57:00Z,0.2\nshop,2026-05-17T11:58:00Z,1.0\n",
	"Buckets of a histogram with their upper bounds; the last one has none.":         "up_to,points\n0.1,10\n0.5,20\n1.0,50\n2.0,20\n,0\n",
	"Buckets of an exponential histogram: bucket k reaches up to base^(offset+k+1).": "up_to,points\n2.0,10\n4.0,30\n8.0,60\n",
	"From a slow point to its trace, through exemplars.": "trace_id,seconds,name,service_name\n" +
		"5b8efff798038103d269b633813fc60c,1.5,POST /pay,shop\n",
	// 80 of 100 are at most 1; the 95th is the 15th of the 20 between 1 and 2.
	"A quantile of a histogram, p95, even within a bucket. Of delta points; of cumulative ones take one of each series.": "service_name,p95\nshop,1.75\n",
	// 40 of 100 are at most 4; the 95th is the 55th of the 60 up to 8: 4 times 2^(55/60).
	"A quantile of an exponential histogram, p95, of values that are not negative.": "service_name,p95\ncart,7.55\n",
	"Cardinality: how many series each metric has.": "metric_name,series,points\nsystem.memory.utilization,2,3\ngc.pause,1,1\n" +
		"http.server.request.duration,1,1\nhttp.server.requests,1,4\nrpc.server.duration,1,1\n",

	"CREATE OR REPLACE TEMP VIEW gauges AS":                 "n\n3\n",
	"CREATE OR REPLACE TEMP VIEW sums AS":                   "n\n4\n",
	"CREATE OR REPLACE TEMP VIEW histograms AS":             "n\n1\n",
	"CREATE OR REPLACE TEMP VIEW exponential_histograms AS": "n\n1\n",
	"CREATE OR REPLACE TEMP VIEW summaries AS":              "n\n1\n",
}

// unordered are the queries whose order the text leaves open.
var unordered = regexp.MustCompile(`^(Errors of the last hour|Paths that answer|Last value of a gauge)`)

// Every query of docs/tables.md is run by siglake sql and answers what it says.
func TestDocs_queries(t *testing.T) {
	t.Parallel()
	s := exampleTables(t)
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "tables.md"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, block := range strings.Split(string(b), "```sql\n")[1:] {
		query, _, ok := strings.Cut(block, "```")
		require.True(t, ok)
		title, rest, _ := strings.Cut(query, "\n")
		title = strings.TrimPrefix(title, "-- ")
		want, ok := answers[title]
		require.True(t, ok, "no expected answer for %q", title)
		require.False(t, seen[title], "%q is there twice", title)
		seen[title] = true
		if strings.HasPrefix(title, "CREATE ") {
			query = "SELECT count(*) AS n FROM (" + strings.TrimSuffix(strings.TrimSpace(rest), ";") + ")"
		}
		query = strings.ReplaceAll(query, "now()", "TIMESTAMPTZ '2026-05-17 12:00:00+00'")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			other := *s
			other.tb = t
			got := other.ok("sql", "--format", "csv", query)
			if unordered.MatchString(title) {
				require.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(got, "\n"))
				return
			}
			if strings.Contains(title, "exponential histogram, p95") {
				got = regexp.MustCompile(`(\d\.\d\d)\d*`).ReplaceAllString(got, "$1")
			}
			require.Equal(t, want, got)
		})
	}
	require.Len(t, seen, len(answers), "an answer has no query")
}
