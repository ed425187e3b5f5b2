package crashtest

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// trace lives one life that nothing disturbs and returns its operations in order.
func trace(t *testing.T, p simfs.Policy) (*machine, []simfs.Op) {
	t.Helper()
	m := newMachine(plain)
	var ops []simfs.Op
	rng := at{policy: p, seed: 1, k: letThrough, k2: letThrough}.rng(forLife)
	simulate(t, rng, func(_ int, op simfs.Op) error {
		ops = append(ops, op)
		return nil
	}, func(s *sched) {
		m.under(s)
		m.live(s, rng)
		m.disk.SetHook(nil)
	})
	return m, ops
}

// The lives that are swept hold what they are swept for, and keep every promise when nothing happens.
func TestLife(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range simfs.Policies() {
		m, ops := trace(t, p)
		for _, s := range m.client.sent {
			require.True(t, s.acked && s.must, "%v", s)
		}
		var v violations
		m.checkNames(&v, m.client.expect(true))
		m.checkRows(&v, m.client.expect(true))
		m.checkRest(&v, noName)
		require.Empty(t, v)
		for _, op := range ops {
			state := func(name string) segment.State { return segment.State(filepath.Base(filepath.Dir(name))) }
			switch {
			case op.Kind == simfs.Link:
				seen[fmt.Sprintf("%s to %s", state(op.Name), state(op.To))] = true
			case op.Kind == simfs.Remove && state(op.Name) == segment.Committed:
				seen["retire"] = true
			case op.Kind == simfs.Remove && state(op.Name) == segment.MirrorPending:
				seen["unpin"] = true
			case op.Kind == simfs.Writev && op.Bytes >= int64(len(bodyOf([]int{1}))+len(bodyOf([]int{2}))):
				seen["a group in one write"] = true
			}
		}
	}
	for _, what := range []string{
		"a group in one write", "active to mirror-pending", "active to sealed", "sealed to processing",
		"processing to committed", "unpin", "retire",
	} {
		require.True(t, seen[what], what)
	}
}

// One seed is one order of operations; without that no line could reproduce a failure. Two lanes of a drain may
// swap when they sync directories that are durable already.
func TestLife_is_reproduced(t *testing.T) {
	t.Parallel()
	for _, p := range simfs.Policies() {
		var lines [2][]string
		for i := range lines {
			_, ops := trace(t, p)
			from := 0 // of what is not held back, and sorted here
			for _, op := range ops {
				lines[i] = append(lines[i], fmt.Sprintf("%s %s %s", op.Kind, stable(op.Name), stable(op.To)))
				if held(op) {
					from = len(lines[i])
				}
				slices.Sort(lines[i][from:])
			}
		}
		require.Equal(t, lines[0], lines[1], p)
	}
}
