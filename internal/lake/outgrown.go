package lake

import (
	"context"
	"maps"
	"slices"

	"github.com/apache/iceberg-go/table"
)

// outgrown tells whether a table went another way so long ago that its history does not name files of that age any more. The
// metadata file that was seen says so: a table removes those that its history names no longer, but it does not know those of
// another way. Of two ways one sequence number is two snapshots. Where the table keeps none so old any more, the segments of the last
// commit are looked up. Where the file is gone, too, nothing is known and the answer is no.
func (t *Table) outgrown(ctx context.Context, tbl *table.Table, seen head) (bool, error) {
	was, err := t.lake.stored(ctx, t.id, seen.metadata)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case isAbsent(err), err != nil && readable(t.lake, seen.metadata):
		return false, nil
	case err != nil:
		return false, err
	}
	snap := was.CurrentSnapshot()
	if was.Metadata().TableUUID() != t.uuid || snap == nil || tbl.Metadata().SnapshotByID(snap.SnapshotID) != nil {
		return false, nil
	}
	for _, s := range tbl.Metadata().Snapshots() {
		if s.SequenceNumber == snap.SequenceNumber {
			return true, nil
		}
	}
	rec, err := readProof(was.Metadata(), t.lake.now())
	if err != nil || len(rec.commits) == 0 {
		return false, nil //nolint:nilerr // it does not say what was committed
	}
	last := map[string]int64{}
	for _, e := range rec.commits[len(rec.commits)-1].entries {
		last[e.id] = e.rows
	}
	now, err := readProof(tbl.Metadata(), t.lake.now())
	if err != nil {
		return false, err
	}
	found, err := t.committed(ctx, state{tbl: tbl, proof: now}, slices.Sorted(maps.Keys(last)))
	for id, rows := range last {
		if err == nil && found[id] < rows {
			return true, nil
		}
	}
	return false, err
}

// since is when the best state was the newest that there was, in Unix ms.
func (p *Past) since() int64 {
	since := int64(0)
	if p.best != nil {
		since = p.best.Metadata().LastUpdatedMillis()
	}
	if p.parted >= 0 {
		since = min(since, p.parted)
	}
	return since
}

// part notes a state that went another way than what the catalog shows: they parted after the newest snapshot that both have, or
// before the oldest one of it.
func (p *Past) part(tbl *table.Table) {
	at := int64(-1)
	for _, s := range tbl.Metadata().Snapshots() {
		if p.have != nil && p.have.Metadata().SnapshotByID(s.SnapshotID) != nil {
			at = max(at, s.TimestampMs)
		}
	}
	if snaps := tbl.Metadata().Snapshots(); at < 0 && len(snaps) > 0 {
		at = snaps[0].TimestampMs - 1
	}
	if at >= 0 && (p.parted < 0 || at < p.parted) {
		p.parted = at
	}
}

// before tells whether the catalog shows a state that came after this one.
func (p *Past) before(tbl *table.Table) bool {
	snap := tbl.CurrentSnapshot()
	return snap == nil || p.have.Metadata().SnapshotByID(snap.SnapshotID) != nil
}
