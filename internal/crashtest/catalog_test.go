package crashtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// catalog is a lake in memory that knows every row in it by its id. Its proof remembers nothing: only what the
// drain itself knows prevents a double.
type catalog struct {
	turn func(lane string) error // before a commit; nil: none
	lost error                   // answers one commit that was made

	mu     sync.Mutex
	tables map[string]*table
	bad    []string // rows that are not what was sent
}

type table struct {
	c    *catalog
	lane string
	uuid uuid.UUID

	sequence int64
	rows     map[string][]int // by segment: ids in order, gone for one of a day that was dropped, of which there is none at the end
	dropped  map[int]string   // rows that went with their day, and have not come again: of which segment
	later    *table           // what the table was before its catalog went back; nil: it did not
}

func newCatalog() *catalog { return &catalog{tables: map[string]*table{}} }

// clone is the catalog as it is now, without its faults.
func (c *catalog) clone() *catalog {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := newCatalog()
	out.bad = slices.Clone(c.bad)
	for lane, t := range c.tables {
		copied := &table{c: out, lane: lane, uuid: t.uuid, sequence: t.sequence, rows: make(map[string][]int, len(t.rows))}
		copied.dropped = maps.Clone(t.dropped)
		for id, rows := range t.rows {
			copied.rows[id] = slices.Clip(rows)
		}
		out.tables[lane] = copied
	}
	return out
}

// Ensure implements drain.Catalog.
func (c *catalog) Ensure(_ context.Context, tenant, index string, _ otelarrow.Signal) (drain.Table, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lane := tenant + "/" + index
	t, ok := c.tables[lane]
	if !ok {
		t = &table{c: c, lane: lane, uuid: uuid.NewSHA1(uuid.Nil, []byte(lane)), rows: map[string][]int{}, dropped: map[int]string{}}
		c.tables[lane] = t
	}
	return t, !ok, nil
}

// UUID implements drain.Table.
func (t *table) UUID() uuid.UUID { return t.uuid }

// Head implements drain.Table.
func (t *table) Head() (sequence int64, metadata string) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.sequence, fmt.Sprintf("v%d.metadata.json", t.sequence)
}

// Expect implements drain.Table.
func (t *table) Expect(int64, string) {}

// InPlace implements drain.Table.
func (t *table) InPlace() error { return nil }

// Lookup implements drain.Table.
func (t *table) Lookup(_ context.Context, ids []string) (map[string]int64, error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	found := map[string]int64{}
	for _, id := range ids {
		if n := len(t.rows[id]); n > 0 {
			found[id] = int64(n)
		}
	}
	return found, nil
}

// Commit implements drain.Table. A segment that is not doubtful is taken at the drain's word and written whole.
func (t *table) Commit(_ context.Context, segs []lake.Segment) (lake.Outcome, error) {
	if t.c.turn != nil {
		if err := t.c.turn(t.lane); err != nil {
			return lake.Outcome{}, err
		}
	}
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	out := lake.Outcome{Committed: map[string]int64{}}
	for _, s := range segs {
		have := int64(0)
		if s.Doubtful {
			have = int64(len(t.rows[s.ID]))
		}
		ids, bad := rowsOf(s)
		t.c.bad = append(t.c.bad, bad...)
		if have < s.Rows {
			t.rows[s.ID] = append(slices.Clip(t.rows[s.ID]), ids[have:]...)
			out.RowsWritten += s.Rows - have
		}
		out.Duplicates += min(have, s.Rows)
		out.Committed[s.ID] = s.Rows
	}
	if out.RowsWritten > 0 {
		t.sequence++
	}
	if err := t.c.lost; err != nil {
		t.c.lost = nil
		return lake.Outcome{}, err // the worst answer: it landed and nothing says so
	}
	return out, nil
}

// errLost is the answer of a commit that landed.
var errLost = errors.New("no answer")

// lose makes one commit end with err, after it was made.
func (c *catalog) lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = err
}

// rowsOf reads the ids of a segment's rows, and says which rows have another text than was sent.
func rowsOf(s lake.Segment) (ids []int, bad []string) {
	for _, b := range s.Batches {
		id, text := b.Column(0).(*array.Int64), b.Column(1).(*array.String)
		for i := range int(b.NumRows()) {
			n := int(id.Value(i))
			ids = append(ids, n)
			if text.Value(i) != textOf(n) {
				bad = append(bad, fmt.Sprintf("row %d of %s has other bytes than were sent", n, s.ID))
			}
		}
	}
	return ids, bad
}

// all is every row of every table, by lane and segment.
func (c *catalog) all() map[string]map[string][]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]map[string][]int{}
	for lane, t := range c.tables {
		out[lane] = maps.Clone(t.rows)
	}
	return out
}

// wide makes a row span three sectors and more, so that a crash can leave a hole inside it.
var wide = strings.Repeat("0123456789abcdef", 100)

func textOf(id int) string { return fmt.Sprintf("%d %s", id, wide) }
