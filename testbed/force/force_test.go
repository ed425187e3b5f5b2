// Package force asks the built collector for rows that are in the table at the answer, and reads the table then.
package force

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unasked nothing is sealed and no gate opens: only what was asked for under force gets into a table.
const unasked = `
exporters: {siglake: {wal: {segment: {max_age: 1h}}}}
extensions: {lakecompactor: {gate: {age: 1h}}}
`

// What was answered under force is in the table, with nobody left alive to bring it there: one request after the other, then
// many at once until kill -9. The rest is in the log, and nothing is there twice.
func TestForce_in_the_table_at_the_answer(t *testing.T) {
	h := collector.New(t, unasked)
	p := h.Start()
	lone := traffic.Plan(p, "lone", "force", 5)
	lone.Connections, lone.Records = 1, 200
	one := traffic.Start(t, lone)
	t.Logf("one after the other: %+v ms", one.Wait(t).Latency)
	traffic.Judge(t, h, one.Book)

	kept := traffic.Plan(p, "kept", "wait_for", 5)
	kept.Records = 100
	rest := traffic.Start(t, kept)
	rest.Wait(t)

	many := traffic.Start(t, traffic.Plan(p, "many", "force", 50))
	many.Acked(t, 5000)
	p.Kill()
	many.Settle(t)
	t.Logf("many at once: %+v ms", many.End(t).Latency)
	traffic.Judge(t, h, many.Book)

	h.Start()
	h.Stop()
	out, err := exec.CommandContext(t.Context(), testenv.Must(t, testenv.CLI), "drain", "--once", "--data", h.Data).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, tr := range []*traffic.Traffic{one, rest, many} {
		traffic.Judge(t, h, tr.Book)
	}
}
