package lake

import (
	"context"
	"errors"
	"sync"

	"github.com/apache/iceberg-go/table"
)

var errInjected = errors.New("injected")

// answer is what one call of CommitTable does instead of committing; do is the real thing.
type answer func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error)

// faultyCatalog answers the first calls of CommitTable as told, and the rest truly.
type faultyCatalog struct {
	iceCatalog

	mu      sync.Mutex
	answers []answer
	commits int
	loads   int
	// onLoad runs after the n-th load (from 1) has read the table.
	onLoad func(n int) error
}

// faults returns hooks that put f in front of the catalog of the lake opened with them.
func faults(f *faultyCatalog) hooks {
	return hooks{wrap: func(c iceCatalog) iceCatalog {
		f.iceCatalog = c
		return f
	}}
}

func (f *faultyCatalog) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	t, err := f.iceCatalog.LoadTable(ctx, id)
	f.mu.Lock()
	f.loads++
	n, hook := f.loads, f.onLoad
	f.mu.Unlock()
	if err == nil && hook != nil {
		err = hook(n)
	}
	return t, err
}

func (f *faultyCatalog) CommitTable(
	ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update,
) (table.Metadata, string, error) {
	do := func(ctx context.Context) (table.Metadata, string, error) {
		return f.iceCatalog.CommitTable(ctx, id, r, u)
	}
	f.mu.Lock()
	f.commits++
	next := answer(nil)
	if len(f.answers) > 0 {
		next, f.answers = f.answers[0], f.answers[1:]
	}
	f.mu.Unlock()
	if next == nil {
		return do(ctx)
	}
	return next(ctx, do)
}

// lost: the commit never happens.
func lost(context.Context, func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
	return nil, "", errInjected
}

// landedUnheard: the commit happens, the answer does not arrive.
func landedUnheard(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
	if _, _, err := do(ctx); err != nil {
		return nil, "", err
	}
	return nil, "", errInjected
}

// hung: the commit does not happen, and the answer takes longer than anyone waits.
func hung(ctx context.Context, _ func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
	<-ctx.Done()
	return nil, "", context.Cause(ctx)
}

// after runs first, then commits: what first does to the table is a conflict.
func after(first func()) answer {
	return func(ctx context.Context, do func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
		first()
		return do(ctx)
	}
}
