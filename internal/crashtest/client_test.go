package crashtest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// clock moves on with every look at it, so that no two segments get their names at one time.
type clock struct{ ms atomic.Int64 }

func newClock(ms int64) *clock {
	c := &clock{}
	c.ms.Store(ms)
	return c
}

func (c *clock) now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(c.ms.Add(1)) * time.Millisecond)
}

func (c *clock) forward(by time.Duration) { c.ms.Add(by.Milliseconds()) }

// schema is a small one that the drain takes for logs.
var schema = func() *arrow.Schema {
	md := otelarrow.WALSchema(otelarrow.Logs).Metadata()
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "timestamp_ns", Type: arrow.PrimitiveTypes.Int64},
	}, &md)
}()

// sent is one request: what the client knows of it.
type sent struct {
	lane    string // tenant
	ids     []int
	mode    wal.Mode
	called  bool
	acked   bool
	receipt wal.Receipt
	must    bool // acknowledged rows that a power loss may not take
}

// client is everybody outside of the machine: who sends, who asks to seal, and who remembers the pins.
type client struct {
	mu   sync.Mutex
	sent []sent
	pins map[string]*pin // by path
}

// pin is what the log has linked for the mirror, durably.
type pin struct {
	bytes string
}

// expect is what a recovery of one disk has to show.
type expect struct {
	sent []sent
	must map[int]string // row id: the promise that it is there, also after a further crash
	kill map[int]string // the same, after another kill -9 only
	pins map[string]pin // by path
}

const index = "events"

// bodies are encoded once: a sweep sends the same rows thousands of times.
var bodies sync.Map

func bodyOf(ids []int) []byte {
	key := fmt.Sprint(ids)
	if b, ok := bodies.Load(key); ok {
		return slices.Clone(b.([]byte))
	}
	times := make([]int64, len(ids))
	for i, id := range ids {
		times[i] = int64(id)
	}
	msg := encode(ids, times)
	bodies.Store(key, msg)
	return slices.Clone(msg)
}

// encode is the body of a request: rows and when they happened, in Unix ns.
func encode(ids []int, times []int64) []byte {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, id := range ids {
		b.Field(0).(*array.Int64Builder).Append(int64(id))
		b.Field(1).(*array.StringBuilder).Append(textOf(id))
		b.Field(2).(*array.Int64Builder).Append(times[i])
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	e, err := frame.NewEncoder(schema)
	if err != nil {
		panic(err)
	}
	msg, err := e.Append(nil, rec)
	if err != nil {
		panic(err)
	}
	return msg
}

func (s *sent) request() wal.Request {
	return wal.Request{
		Tenant: s.lane, Index: index, Schema: schema, Body: bodyOf(s.ids), Rows: len(s.ids),
		MinTime: int64(s.ids[0]), MaxTime: int64(s.ids[len(s.ids)-1]), Mode: s.mode,
	}
}

// calling notes a request before it is made and returns it.
func (c *client) calling(i int) wal.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[i].called = true
	return c.sent[i].request()
}

// answered notes an answer. One under wait_for is good for every acknowledged row of the lane before it.
func (c *client) answered(i int, r wal.Receipt, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		return
	}
	own := &c.sent[i]
	own.acked, own.receipt, own.must = true, r, own.mode == wal.WaitFor
	for j := range c.sent {
		s := &c.sent[j]
		switch {
		case s.lane != own.lane || !s.acked:
		case own.must && before(s.receipt, r):
			s.must = true
		case s.must && s.mode == wal.WaitFor && before(r, s.receipt):
			own.must = true // the answer that covers this one was noted first
		}
	}
}

func before(a, b wal.Receipt) bool {
	return a.Segment.Seq < b.Segment.Seq || a.Segment.Seq == b.Segment.Seq && a.First < b.First
}

// acked returns the acknowledged requests of a lane; "" of all.
func (c *client) acked(lane string) (which []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.sent {
		if s.acked && (lane == "" || s.lane == lane) {
			which = append(which, i)
		}
	}
	return which
}

// sealed notes that requests are in sealed/, durably.
func (c *client) sealed(which []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range which {
		c.sent[i].must = true
	}
}

// expect is what a crash at this moment must leave; kill tells that it is a kill -9.
func (c *client) expect(kill bool) *expect {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &expect{sent: slices.Clone(c.sent), must: map[int]string{}, kill: map[int]string{}, pins: map[string]pin{}}
	for _, s := range c.sent {
		for _, id := range s.ids {
			switch {
			case s.must:
				e.must[id] = "ACK-1"
			case s.acked && kill:
				e.kill[id] = "ACK-1"
			}
		}
	}
	for name, p := range c.pins {
		e.pins[name] = *p
	}
	return e
}

// why returns the promise that a row is there, "" without one.
func (e *expect) why(id int) string { return cmp.Or(e.must[id], e.kill[id]) }

// owner returns the request of a row.
func (e *expect) owner(id int) *sent {
	i := slices.IndexFunc(e.sent, func(s sent) bool { return slices.Contains(s.ids, id) })
	if i < 0 {
		return nil
	}
	return &e.sent[i]
}

// states are those a segment can be in beyond active/.
var states = []segment.State{
	segment.Sealed, segment.Processing, segment.Committed, segment.Orphans, segment.Poison, segment.Stale,
}
