package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// A sealed segment whose rows its table does not take is named at once, and not the table as what is wrong.
func TestStatus_tells_of_segments_in_the_wrong_index(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "aaa", 3)
	s.put(s.lane("default", "aaa"), segment.Sealed, 1, sealed(t, uuid.Nil, 2), time.Second)
	require.NotContains(t, s.ok("status"), "rows of", "no table yet")
	s.ok("drain", "--once")
	s.put(s.lane("default", "aaa"), segment.Sealed, 2, sealed(t, uuid.Nil, 2), time.Second)
	require.NotContains(t, s.ok("status"), "rows of")
	holds := filepath.Join(s.walDir(), "default", "aaa", "holds")
	require.NoError(t, os.WriteFile(holds, []byte("logs\n"), 0o640))
	require.NotContains(t, s.ok("status"), "Next")

	id := s.put(s.lane("default", "spans"), segment.Sealed, 1, sealed(t, uuid.Nil, 2), time.Second)
	require.NoError(t, os.WriteFile(holds, []byte("traces\n"), 0o640))
	var rep statusReport
	require.NoError(t, json.Unmarshal([]byte(s.ok("status", "-o", "json")), &rep))
	require.Len(t, rep.Next, 2)
	require.Contains(t, rep.Next[0].What, "default/aaa takes traces and refuses logs for good (400), and its table siglake.aaa has logs: write logs and a line feed into default/aaa/holds")
	require.Equal(t, advice{
		What: "1 segment of default/spans in sealed/ with rows of logs, and its table siglake.spans has traces: it is not committed there; the table is right, keep it, " +
			"and move the segment to an index of logs (docs/operations/damaged-segments.md): " + id.String(),
		Command: "siglake wal inspect " + id.String(),
	}, rep.Next[1])

	// Where nothing else was there, the table is made of them. Then it is not the one that is right.
	s.ok("drain", "--once")
	got := s.ok("status")
	require.Contains(t, got, "table siglake.spans has logs, and the index default/spans is of traces")
	require.NotContains(t, got, "its table siglake.spans")
}

// What is damaged is told before a start finds it out.
func TestStatus_tells_of_a_damaged_holds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.lane("default", "aaa")
	holds := filepath.Join(s.walDir(), "default", "aaa", "holds")
	require.NoError(t, os.WriteFile(holds, []byte("lofs\n"), 0o640))
	got := s.ok("status")
	require.Contains(t, got, "requests to default/aaa are refused with 503 from the next start of the collector on, unless a segment there says what it holds:")
	require.Contains(t, got, holds+`: segment: damaged record: it is "lofs\n"; write logs, traces or metrics`)
}
