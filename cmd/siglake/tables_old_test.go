package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What retention::table would delete is listed before it is set. (What is listed: package lake, TestRetention_*.)
func TestTables_older_than(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 3, 2)
	s.ok("drain", "--once")
	require.Equal(t, "No day ended more than 30d0h ago.\n", s.ok("tables", "--older-than", "720h"))
	require.Equal(t, "[]\n", s.ok("tables", "--older-than", "720h", "-o", "json"))
	require.Equal(t, exitUsage, s.run("tables", "--older-than", "23h").code)

	var b strings.Builder
	require.NoError(t, writeOldDays(&b, []oldDay{
		{Table: "siglake.events", Day: "2026-04-01", Files: 12, Rows: 3400, Bytes: 2048},
		{Table: "siglake.spans", Day: "2026-04-02", Files: 1, Rows: 1, Bytes: 1, Waits: true},
	}))
	require.Equal(t, `TABLE           DAY         FILES   ROWS     SIZE
siglake.events  2026-04-01     12  3,400  2.0 KiB
siglake.spans   2026-04-02      1      1      1 B  stays for now: a segment with rows of it is younger than 2d0h
`, b.String())
}
