package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// Request is one batch for one lane.
type Request struct {
	Tenant, Index string
	// Holds is what the rows are, where an index may be of any kind: the first request decides what its lane holds, and
	// all others are refused, after a restart too. Empty: the index says it.
	Holds  string
	Schema *arrow.Schema // of Body; another one than the open segment's seals that first
	// Body is whole IPC record-batch messages as frame.Encoder makes them. It belongs to the log until Append
	// returns, which writes into it (frame.MarkSynced): no two requests share one.
	Body []byte
	Rows int // in Body
	// MinTime and MaxTime are the event time range of the rows in unix ns; both 0 = unknown.
	MinTime, MaxTime int64
	Mode             Mode
	// SealWithin is when the segment that gets the rows is sealed at the latest, from the write on; 0 = as usual. Who
	// waits for the segment to be elsewhere shares it with all who come in that time.
	SealWithin time.Duration
}

// Receipt names the rows of a request: rows [First, End) of a segment. Zero for an empty request.
type Receipt struct {
	Segment    segment.ID
	First, End int64
}

// pending is a request on its way through a lane, or with seal set a wish to have all before it sealed.
type pending struct {
	req    Request
	schema *schemaMessage
	seal   *sealWait

	receipt Receipt
	done    chan error // one slot, so that the lane never waits for the caller
}

// Append writes one batch and returns when it is as durable as r.Mode says (see Mode).
//
//	return  the segment and the rows of it that are now r's
//	errors  *LimitError (ErrFull), *HoldsError, ErrRequest, ErrClosed, ErrLockLost and segment's name errors: nothing was written.
//	        Anything else is trouble with the storage: the rows were refused, yet some may be found after a
//	        restart; a caller who sends them again may store them twice
//	ctx     ends the wait of a lane whose tables are too far behind (Options.PaceAfter), and then nothing was written. After
//	        that a request's fate is the write's
//	holds   ACK-1, ACK-2, ORD-1
//
// Not idempotent. Safe for many goroutines. An empty request (no rows, no body) succeeds and writes nothing.
func (l *Log) Append(ctx context.Context, r Request) (Receipt, error) {
	if r.Rows == 0 && len(r.Body) == 0 {
		return Receipt{}, nil
	}
	if r.Rows <= 0 || len(r.Body) == 0 || r.Schema == nil || r.Mode >= modes {
		return Receipt{}, fmt.Errorf("%w: %d rows in %d bytes under %s, schema given: %t",
			ErrRequest, r.Rows, len(r.Body), r.Mode, r.Schema != nil)
	}
	if err := ctx.Err(); err != nil {
		return Receipt{}, fmt.Errorf("append to %s/%s: %w", r.Tenant, r.Index, err)
	}
	schema, err := l.schemas.get(r.Schema)
	if err != nil {
		return Receipt{}, err
	}
	if err := frame.MarkSynced(r.Body, 0); err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	size := int64(len(r.Body))
	if err := l.space.admit(r.Tenant, r.Mode, size); err != nil {
		l.countRefused(r.Mode, err)
		return Receipt{}, err
	}
	defer l.space.release(r.Tenant, size)
	// After admission: a name whose rows are refused takes no place among the lanes.
	ln, err := l.lane(r.Tenant, r.Index)
	if err != nil {
		l.countRefused(r.Mode, err)
		return Receipt{}, err
	}
	if err := ln.hold(r.Holds); err != nil {
		l.countRefused(r.Mode, err)
		return Receipt{}, err
	}
	if err := l.hold(ctx, ln, size); err != nil {
		l.countRefused(r.Mode, err)
		return Receipt{}, err
	}
	p := l.pending.Get().(*pending) //nolint:errcheck // the pool makes nothing else
	p.req, p.schema = r, schema
	if err := l.enqueue(ln, p); err != nil {
		return Receipt{}, err
	}
	err = <-p.done
	receipt := p.receipt
	p.req, p.schema, p.receipt = Request{}, nil, Receipt{}
	l.pending.Put(p)
	return receipt, err
}

// Enter lets a request of tenant wait for its answer, or refuses it with a *LimitError when as many wait as may. The
// caller, who may put many requests into one Append, calls Leave for each that was let in.
func (l *Log) Enter(tenant string) error {
	l.space.mu.Lock()
	full := l.space.waiting.take(tenant, 1)
	l.space.mu.Unlock()
	if full == nil {
		return nil
	}
	l.noteRefused(full)
	return full
}

// Leave ends what Enter began.
func (l *Log) Leave(tenant string) {
	l.space.mu.Lock()
	defer l.space.mu.Unlock()
	l.space.waiting.give(tenant, 1)
}

func (l *Log) countRefused(mode Mode, err error) {
	l.met.appends.Add(context.Background(), 1, l.met.byAppend[mode][outcomeRefused]...)
	l.noteRefused(err)
}

func (l *Log) noteRefused(err error) {
	ctx := context.Background()
	if full, ok := errors.AsType[*LimitError](err); ok {
		l.met.refused.Add(ctx, 1, l.met.refusedBy[full.Limit]...)
		l.refusals.note(full, l.opt.Now())
	}
}

// enqueue hands p to its lane and starts the lane's goroutine if it has none.
func (l *Log) enqueue(ln *lane, p *pending) error {
	l.gate.RLock() // Close takes it whole: after that no lane starts
	defer l.gate.RUnlock()
	if l.closed {
		return ErrClosed
	}
	if l.lockLost.Load() {
		return ErrLockLost
	}
	ln.enqueue(p)
	return nil
}

// schemaMessage is a schema as the bytes a segment starts with, but for the segment's id.
type schemaMessage struct {
	schema *arrow.Schema
	msg    []byte
}

// named returns the message that starts the file of a segment.
func (m *schemaMessage) named(id segment.ID) ([]byte, error) {
	return frame.EncodeSchema(id.Name(m.schema))
}

// schemaCache encodes each schema once. Callers use one *arrow.Schema per signal; what goes beyond maxSchemas
// is encoded each time and compared by its bytes.
type schemaCache struct {
	mu   sync.RWMutex
	seen map[*arrow.Schema]*schemaMessage
}

const maxSchemas = 64

func (c *schemaCache) get(s *arrow.Schema) (*schemaMessage, error) {
	c.mu.RLock()
	m, ok := c.seen[s]
	c.mu.RUnlock()
	if ok {
		return m, nil
	}
	msg, err := frame.EncodeSchema(s)
	if err != nil {
		return nil, fmt.Errorf("%w: encode schema: %w", ErrRequest, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.seen {
		if bytes.Equal(known.msg, msg) {
			m = known
		}
	}
	if m == nil {
		m = &schemaMessage{s, msg}
	}
	if len(c.seen) < maxSchemas {
		c.seen[s] = m
	}
	return m, nil
}

// same compares by content: two callers may hold equal schemas at different addresses.
func (m *schemaMessage) same(o *schemaMessage) bool {
	return m == o || bytes.Equal(m.msg, o.msg)
}
