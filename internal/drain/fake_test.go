package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// fakeCatalog is a catalog whose every step a test can break. TestConformance holds it against the real one.
type fakeCatalog struct {
	mu     sync.Mutex
	tables map[string]*fakeTable
	ensure func(index string) error // nil or what Ensure returns
}

func newFakeCatalog() *fakeCatalog { return &fakeCatalog{tables: make(map[string]*fakeTable)} }

func (c *fakeCatalog) Ensure(_ context.Context, tenant, index string, _ otelarrow.Signal) (Table, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ensure != nil {
		if err := c.ensure(index); err != nil {
			return nil, false, err
		}
	}
	key := tenant + "/" + index
	t, ok := c.tables[key]
	if !ok {
		t = newFakeTable()
		c.tables[key] = t
	}
	return t, !ok, nil
}

// get returns the table of default/<index>, made if need be.
func (c *fakeCatalog) get(index string) *fakeTable {
	t, _, err := c.Ensure(context.Background(), "default", index, otelarrow.Logs)
	if err != nil {
		panic(err)
	}
	return t.(*fakeTable)
}

// recreate drops default/<index> and makes it anew.
func (c *fakeCatalog) recreate(index string) *fakeTable {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := newFakeTable()
	c.tables["default/"+index] = t
	return t
}

// fakeTable keeps how often each row is in it.
type fakeTable struct {
	uuid uuid.UUID

	mu       sync.Mutex
	sequence int64
	rows     map[string][]int // by segment id: how often each row is there
	proof    map[string]int64
	forget   bool // the proof remembers nothing: only Doubtful tells what to look up

	// Faults. before runs first and may block or fail; after runs when the rows are in; most rows at a time.
	before func(ctx context.Context, segs []lake.Segment) error
	after  func(segs []lake.Segment) error
	lookup error
	gone   error // what InPlace says
	most   int64
	files  int64 // what each commit says that it wrote

	inFlight, peak int64 // rows
	commits        int
}

func newFakeTable() *fakeTable {
	return &fakeTable{uuid: uuid.New(), rows: make(map[string][]int), proof: make(map[string]int64)}
}

func (t *fakeTable) UUID() uuid.UUID { return t.uuid }

func (t *fakeTable) Head() (int64, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sequence, fmt.Sprintf("v%d.metadata.json", t.sequence)
}

func (t *fakeTable) Expect(int64, string) {}

func (t *fakeTable) InPlace() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone
}

func (t *fakeTable) Lookup(_ context.Context, ids []string) (map[string]int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lookup != nil {
		return nil, t.lookup
	}
	found := make(map[string]int64)
	for _, id := range ids {
		if n := len(t.rows[id]); n > 0 {
			found[id] = int64(n)
		}
	}
	return found, nil
}

func (t *fakeTable) Commit(ctx context.Context, segs []lake.Segment) (lake.Outcome, error) {
	var rows int64
	for _, s := range segs {
		rows += s.Rows
	}
	t.mu.Lock()
	before, after := t.before, t.after
	t.commits++
	t.inFlight += rows
	t.peak = max(t.peak, t.inFlight)
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.inFlight -= rows
	}()
	if before != nil {
		if err := before(ctx, segs); err != nil {
			return lake.Outcome{}, err
		}
	}
	out, err := t.apply(segs)
	if after != nil {
		if err := after(segs); err != nil {
			return lake.Outcome{}, err // the worst answer: it landed and nothing says so
		}
	}
	return out, err
}

func (t *fakeTable) apply(segs []lake.Segment) (lake.Outcome, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := lake.Outcome{Committed: make(map[string]int64), FilesWritten: t.files}
	room := t.most
	for _, s := range segs {
		from := t.proof[s.ID]
		if t.forget {
			from = 0
		}
		if s.Doubtful {
			from = max(from, int64(len(t.rows[s.ID])))
		}
		to := s.Rows
		if t.most > 0 {
			to = min(to, from+room)
			room -= to - from
		}
		for i := from; i < to; i++ {
			for int64(len(t.rows[s.ID])) <= i {
				t.rows[s.ID] = append(t.rows[s.ID], 0)
			}
			t.rows[s.ID][i]++
		}
		t.proof[s.ID] = to
		out.Committed[s.ID] = to
		out.RowsWritten += to - from
		out.Duplicates += from - s.Written
	}
	if out.RowsWritten > 0 {
		t.sequence++
	}
	return out, nil
}

// wrong returns what is not there exactly once, of rows by segment id.
func (t *fakeTable) wrong(want map[string]int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for id, n := range want {
		if got := len(t.rows[id]); got != n {
			errs = append(errs, fmt.Errorf("segment %s has %d of %d rows", id, got, n))
		}
	}
	for id, rows := range maps.All(t.rows) {
		if _, ok := want[id]; !ok {
			errs = append(errs, fmt.Errorf("segment %s was never sealed", id))
		}
		for i, n := range rows {
			if n != 1 {
				errs = append(errs, fmt.Errorf("row %d of segment %s is there %d times", i, id, n))
			}
		}
	}
	return errors.Join(errs...)
}
