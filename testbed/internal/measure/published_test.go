package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/testbed/internal/load"
)

// A row is as fresh as the commit that brought the last row of its request.
func TestFreshness(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	acks := []load.Ack{{At: at(1)}, {At: at(2)}, {At: at(3)}, {At: at(4)}}
	commits := []commit{{at(5), 15}, {at(7), 30}} // the first ends within the second request; the fourth is in none
	require.Equal(t, []time.Duration{4 * time.Second, 5 * time.Second, 4 * time.Second}, freshness(acks, 10, commits, time.Time{}))
	require.Equal(t, []time.Duration{5 * time.Second, 4 * time.Second}, freshness(acks, 10, commits, at(6)), "only what came since")
}

// Only what adds rows is a commit, and a file that is still being written is read again.
func TestPublished(t *testing.T) {
	t.Parallel()
	p := &published{dir: t.TempDir()}
	write := func(version int, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("%05d-x.metadata.json", version)), []byte(text), 0o600))
	}
	snapshot := func(rows string) string {
		return `{"current-snapshot-id":2,"snapshots":[{"snapshot-id":1,"summary":{"total-records":"1"}},{"snapshot-id":2,"summary":{"total-records":"` + rows + `"}}]}`
	}
	rows := func() int {
		p.look()
		_, n := p.now()
		return n
	}
	require.Zero(t, rows(), "no table")
	write(0, `{"current-snapshot-id":null}`)
	require.Zero(t, rows(), "an empty table")
	write(1, snapshot("7"))
	require.Equal(t, 7, rows())
	write(2, snapshot("7"))
	require.Equal(t, 7, rows())
	require.Len(t, p.all(), 1, "maintenance")
	write(3, snapshot("9")[:20])
	require.Equal(t, 7, rows(), "not whole")
	write(3, snapshot("9"))
	require.Equal(t, 9, rows())
	require.Len(t, p.all(), 2)
}

func TestGrow(t *testing.T) {
	t.Parallel()
	r := LakeResult{Points: []Point{
		{Seconds: 10, Backlog: 1000, Acked: 1000},
		{Seconds: 20, Backlog: 500, Acked: 2000},
		{Seconds: 40, Backlog: 900, Acked: 4000},
	}}
	r.grow(40 * time.Second)
	require.InDelta(t, 20, r.Growth, 1e-9)
	require.InDelta(t, .2, r.Steady, 1e-9)
}
