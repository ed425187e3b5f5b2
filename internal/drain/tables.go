package drain

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Catalog is what the drain needs of the lake. The methods are lake.Lake's.
type Catalog interface {
	Ensure(ctx context.Context, tenant, index string, s otelarrow.Signal) (t Table, created bool, err error)
}

// Table is what the drain needs of one table. The methods are lake.Table's.
type Table interface {
	UUID() uuid.UUID
	Head() (sequence int64, metadata string)
	Expect(sequence int64, metadata string)
	InPlace() error
	Commit(ctx context.Context, segs []lake.Segment) (lake.Outcome, error)
	Lookup(ctx context.Context, ids []string) (map[string]int64, error)
}

// lakeCatalog is the real catalog.
type lakeCatalog struct{ l *lake.Lake }

func (c lakeCatalog) Ensure(ctx context.Context, tenant, index string, s otelarrow.Signal) (Table, bool, error) {
	t, created, err := c.l.Ensure(ctx, tenant, index, s)
	if err != nil {
		return nil, false, err // not a typed nil inside the interface
	}
	return t, created, nil
}

// opener is a lake that may not be there yet. Each failed attempt is answered to whoever asks within the
// following second, so that a thousand lanes do not queue for a database that times out.
type opener struct {
	open func(context.Context) (*lake.Lake, error)

	mu    sync.Mutex
	lake  *lake.Lake
	err   error
	tried time.Time
}

func (o *opener) get(ctx context.Context) (*lake.Lake, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lake != nil || o.err != nil && time.Since(o.tried) < time.Second {
		return o.lake, o.err
	}
	o.lake, o.err = o.open(ctx)
	o.tried = time.Now()
	if o.err != nil {
		o.lake, o.err = nil, fmt.Errorf("open the lake: %w", o.err)
	}
	return o.lake, o.err
}

func (o *opener) Ensure(ctx context.Context, tenant, index string, s otelarrow.Signal) (Table, bool, error) {
	l, err := o.get(ctx)
	if err != nil {
		return nil, false, err
	}
	return lakeCatalog{l}.Ensure(ctx, tenant, index, s)
}

// run tries until the lake is open or ctx ends, and tells how each attempt went.
func (o *opener) run(ctx context.Context, wait func(tries int) time.Duration, tell func(error)) {
	for n := 1; ; n++ {
		_, err := o.get(ctx)
		tell(err)
		if err == nil || !sleep(ctx, wait(n)) {
			return
		}
	}
}

func (o *opener) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lake == nil {
		return nil
	}
	err := o.lake.Close()
	o.lake = nil
	return err
}
