package lake

import (
	"context"
	"time"
)

// What tests of the whole way, in lake_test, need of the inside.

// OpenWithProof opens a lake whose proof keeps that many segments, 0: as many as always, and that has a clock of its own.
func OpenWithProof(ctx context.Context, opt Options, entries int, now func() time.Time) (*Lake, error) {
	l, err := open(ctx, opt, hooks{limits: limits{proofEntries: entries}})
	if err == nil {
		l.now = now
	}
	return l, err
}

// Proved is how many segments the proof of a table lists.
func (t *Table) Proved(ctx context.Context) (int, error) {
	st, err := t.load(ctx)
	return len(st.proof.rows()), err
}

// Expire keeps the newest snapshots of a table, as maintenance does, and returns how many are left.
func (t *Table) Expire(ctx context.Context, keep int) (int, error) {
	if _, _, err := t.expire(ctx, keep); err != nil {
		return 0, err
	}
	st, err := t.load(ctx)
	return len(st.tbl.Metadata().Snapshots()), err
}
