package adversarial

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/accept"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
)

// asked are the cases of INDEX.tsv that the reports below are about.
var asked = []string{
	"time_zero_observed_set", "all_default_record", "utf8_invalid_", "raw_invalid_utf8", "attr_same_key_other_type", "body_kinds",
	"exp_histogram_odd", "json/ids_", "raw/traceid_len_", "raw/logs_sent_as_traces",
}

// late is a record at a time, told by its body.
func late(name string, at time.Time) accept.Request {
	return accept.Request{Name: name, Signal: "logs", Form: "json", Body: fmt.Appendf(nil,
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"%d","body":{"stringValue":"%s"}}]}]}]}`, at.UnixNano(), name)}
}

// TestTypes sends what the reports of group E are about and asks the tables by SQL, as a user would.
func TestTypes(t *testing.T) {
	b := newBench(t)
	cases, err := Cases(dir(t))
	require.NoError(t, err)
	records, refused := map[string]int{}, 0
	var problems []string
	for _, c := range cases {
		for _, part := range asked {
			if !strings.Contains(c.Name, part) {
				continue
			}
			if p := b.judge(c); p != "" {
				problems = append(problems, p)
			}
			if c.Accepted {
				records[part] += c.Records
			} else {
				refused++
			}
		}
	}
	threeDays := time.Now().AddDate(0, 0, -3)
	for name, at := range map[string]time.Time{"late": threeDays, "far past": time.Unix(1, 0), "far future": time.Date(2261, 1, 2, 3, 4, 5, 6, time.UTC)} {
		require.Equal(t, 200, b.send(late(name, at)).Code)
	}
	fail(t, append(problems, b.settle()...)) // also: no row of a refused request is stored
	r, err := tables.Open(b.Data)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	cell := func(t *testing.T, table, sql string) string {
		t.Helper()
		var out []string
		require.NoError(t, r.Query(t.Context(), "siglake."+table, sql, func(row []any) error {
			out = append(out, fmt.Sprint(row...))
			return nil
		}))
		return strings.Join(out, " ")
	}
	day := func(at time.Time) string { return fmt.Sprint(at.Unix() / 86400) }
	const partition = `regexp_extract(_file, 'timestamp_day=([0-9-]+)', 1)`

	t.Run("E3 no time is no 1970", func(t *testing.T) {
		require.Positive(t, records["time_zero_observed_set"])
		require.Equal(t, "0", cell(t, "events", `SELECT count(*) FROM t WHERE timestamp < TIMESTAMPTZ '1971-01-01 00:00:00+00' AND body <> 'far past'`))
		require.Equal(t, "0", cell(t, "events", `SELECT count(*) FROM t WHERE time_unix_nano IS NULL AND observed_time_unix_nano IS NOT NULL AND timestamp_ns <> observed_time_unix_nano`))
		require.NotEqual(t, "0", cell(t, "events", `SELECT count(*) FROM t WHERE time_unix_nano IS NULL AND observed_time_unix_nano IS NOT NULL`))
	})
	t.Run("E6 every file has its partition in the manifest", func(t *testing.T) {
		for _, table := range []string{"events", "spans", "metrics"} {
			s, err := r.Verify(t.Context(), "siglake."+table)
			require.NoError(t, err)
			require.Empty(t, s.Wrong, "also where the rows are of another day")
			require.NotEmpty(t, s.Files)
			for _, f := range s.Files {
				require.NotNil(t, f.Partition["timestamp_day"], f.Path)
			}
		}
	})
	t.Run("E7 late rows are in the day of their event", func(t *testing.T) {
		for name, want := range map[string]string{"late": day(threeDays), "far past": "0", "far future": day(time.Date(2261, 1, 2, 3, 4, 5, 6, time.UTC))} {
			require.Equal(t, want, cell(t, "events", `SELECT date_diff('day', DATE '1970-01-01', `+partition+`::DATE) FROM t WHERE body = '`+name+`'`))
		}
	})
	t.Run("E8 bad text takes no good row with it", func(t *testing.T) {
		require.Positive(t, records["utf8_invalid_"])
		require.Positive(t, records["raw_invalid_utf8"])
		for _, table := range []string{"events", "spans", "metrics"} {
			require.NotEqual(t, "0", cell(t, table, `SELECT count(*) FROM t WHERE contains(to_json(t)::VARCHAR, chr(65533))`), table)
		}
	})
	t.Run("E9 types and nesting by documented SQL", func(t *testing.T) {
		require.Equal(t, "8", cell(t, "events", `SELECT count(DISTINCT coalesce(attribute_types['status'], 'string')) FROM t WHERE list_contains(map_keys(attributes), 'status')`))
		require.Equal(t, "200", cell(t, "events", `SELECT DISTINCT TRY_CAST(attributes['status'] AS INTEGER) FROM t WHERE attribute_types['status'] = 'int'`))
		require.NotEqual(t, "0", cell(t, "events", `SELECT count(*) FROM t WHERE body_type = 'kvlist' AND json_type(body::JSON) = 'OBJECT'`))
		require.NotEqual(t, "0", cell(t, "events", `SELECT count(*) FROM t WHERE body_type = 'array' AND json_array_length(body::JSON) > 0`))
	})
	t.Run("E10 exponential histograms are stored", func(t *testing.T) {
		require.Equal(t, fmt.Sprint(records["exp_histogram_odd"]), cell(t, "metrics", `SELECT count(*) FROM t WHERE metric_type = 'exponential_histogram'`))
		require.Equal(t, "0", cell(t, "metrics", `SELECT count(*) FROM t WHERE "count" < 0 OR zero_count < 0 OR list_min(positive_bucket_counts) < 0 OR list_min(negative_bucket_counts) < 0`))
		require.NotEqual(t, "0", cell(t, "metrics", `SELECT count(*) FROM t WHERE "count" = 9223372036854775807`))
	})
	t.Run("E15 what is no OTLP is refused for good", func(t *testing.T) {
		require.Greater(t, refused, 5) // judge requires 4xx with a reason, and settle that no row is stored
		require.Positive(t, records["json/ids_"], "ids in upper case are ids")
	})
}
