package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSumAddsTheSamplesOfANamePattern(t *testing.T) {
	t.Parallel()
	text := "# HELP x y\nsiglake_wal_fsync_duration_seconds_count{op=\"data\"} 3\nsiglake_wal_fsync_duration_seconds_count{op=\"dir\"} 4\nsiglake_wal_fsync_duration_seconds_sum 9\nother_count 5\n"
	all, err := samples(strings.NewReader(text))
	require.NoError(t, err)
	require.InDelta(t, 7, total(all, IsFsync), 0)
	_, err = samples(strings.NewReader("siglake_wal_fsync_count x\n"))
	require.ErrorContains(t, err, "read metrics")
}
