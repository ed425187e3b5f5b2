package crashtest

import (
	"context"
	"fmt"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

var background = context.Background()

// state is what a crash left: a disk, a catalog that knows nothing of it, and what has been promised.
type state struct {
	at
	disk    *simfs.FS
	catalog *catalog
	ms      int64
	expect  *expect
}

// crashed is the machine after a crash at this moment. It may go on.
func (m *machine) crashed(a at, policy simfs.Policy, purpose uint64, e *expect) *state {
	return &state{
		at: a, disk: m.disk.Crash(policy, a.rng(purpose)), catalog: m.catalog.clone(), ms: m.clock.ms.Load(), expect: e,
	}
}

// boot is a machine on what the crash left.
func (st *state) boot(wrap func(vfs.FS) vfs.FS) *machine {
	m := &machine{
		disk: st.disk, fs: wrap(st.disk), catalog: st.catalog, clock: newClock(st.ms),
		client: &client{pins: map[string]*pin{}},
	}
	for path, p := range st.expect.pins {
		m.client.pins[path] = &p
	}
	m.watch(func(simfs.Op) error { return nil })
	return m
}

// recover starts the log, drains, lets the mirror finish and drains again when all is due to be retired, and
// holds what it finds against what was promised. opened is called when the log is open.
func (m *machine) recover(e *expect, opened func()) (v violations) {
	l, err := m.open()
	if err != nil {
		return violations{fmt.Sprintf("ACK-1: the log does not open: %v", err)}
	}
	opened()
	if err := l.Close(background); err != nil {
		v.add("ACK-1: close: %v", err)
	}
	m.checkedDrain(&v)
	m.checkNames(&v, e)
	m.checkRetired(&v, e, true)
	if err := m.unpin(); err != nil {
		v.add("PIN-1: unpin: %v", err)
	}
	m.clock.forward(2 * retain)
	m.checkedDrain(&v)
	m.checkRetired(&v, e, false)
	m.checkRows(&v, e)
	m.checkRest(&v, noName)
	return v
}

func noName(string) bool { return false }

// retain is how long the drain keeps committed segments.
const retain = time.Hour
