package siglakeexporter

import (
	"context"
	"sync"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// fakeLog is an appender that remembers what it is given and fails as told.
type fakeLog struct {
	mu      sync.Mutex
	opened  []wal.Options
	openErr error
	appends []wal.Request // bodies not kept: they are the caller's again after Append
	fail    []error       // answers of the next appends, then nil
	closes  int
	full    error          // answer of Enter
	inside  map[string]int // requests between Enter and Leave, by tenant
	reserve []error        // answers of the next Reserve calls, then nil
	held    []string       // what Reserve was asked for
	noDrain error          // answer of Drained
	limited int            // appends whose ctx had a deadline
	block   chan struct{}  // if set, Append waits for it, whatever its ctx says
}

func (f *fakeLog) open(_ context.Context, opt wal.Options) (appender, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = append(f.opened, opt)
	return f, f.openErr
}

func (f *fakeLog) Append(ctx context.Context, r wal.Request) (wal.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return wal.Receipt{}, err
	}
	if f.block != nil {
		<-f.block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := ctx.Deadline(); ok {
		f.limited++
	}
	r.Body = append([]byte(nil), r.Body...)
	f.appends = append(f.appends, r)
	if len(f.fail) == 0 {
		return wal.Receipt{End: int64(r.Rows)}, nil
	}
	err := f.fail[0]
	f.fail = f.fail[1:]
	return wal.Receipt{}, err
}

// Drained answers as told.
func (f *fakeLog) Drained() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.noDrain
}

// Committed waits for ctx.
func (f *fakeLog) Committed(ctx context.Context, _, _ string, _ segment.ID) error {
	<-ctx.Done()
	return ctx.Err()
}

// Reserve answers as told.
func (f *fakeLog) Reserve(tenant, index, holds string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, tenant+"/"+index+"="+holds)
	if len(f.reserve) == 0 {
		return nil
	}
	err := f.reserve[0]
	f.reserve = f.reserve[1:]
	return err
}

// Enter lets in while full is nil.
func (f *fakeLog) Enter(tenant string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full != nil {
		return f.full
	}
	if f.inside == nil {
		f.inside = map[string]int{}
	}
	f.inside[tenant]++
	return nil
}

func (f *fakeLog) Leave(tenant string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inside[tenant]--
}

func (f *fakeLog) Close(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closes++
	return nil
}

func (f *fakeLog) failWith(errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = errs
}

// taken returns what was appended since the last call.
func (f *fakeLog) taken() []wal.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.appends
	f.appends = nil
	return got
}
