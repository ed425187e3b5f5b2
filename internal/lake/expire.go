package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"
)

// errBusy ends the wait for the turn to commit: a table that takes rows all the time is left to the next round.
var errBusy = errors.New("commits of rows kept the table")

// expire removes from the table's metadata the snapshots beyond the last retain of main, in one commit, and returns
// them and the metadata file that still names them. No file is removed. What stays besides: what branches and tags
// lead to, and what the table's own properties history.expire.min-snapshots-to-keep and max-snapshot-age-ms ask for.
//
//	return   also beside an error of the commit: then it may have landed
//	durable  on return of nil
//	safe     beside commits of this process (they take turns) and of others: pinned to the loaded head, tried once
//	ctx      ends the wait for the turn; a commit that was sent is awaited
//	proof    is not touched, and neither is the sequence number: what commits find out about each other they read
//	         from the proof and from rows. A snapshot's commit id only spares them that
func (t *Table) expire(ctx context.Context, retain int) (gone []table.Snapshot, base string, err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, t.lake.limits.turnWait, errBusy)
	defer cancel()
	select {
	case <-t.turn:
		defer func() { t.turn <- struct{}{} }()
	case <-waiting.Done():
		return nil, "", fmt.Errorf("wait for the turn to commit to %s: %w", t.Name(), context.Cause(waiting))
	}
	st, err := t.load(ctx)
	if err != nil {
		return nil, "", err
	}
	tx, gone, err := t.stageExpiry(st.tbl, retain)
	if err != nil || len(gone) == 0 {
		return nil, "", err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), t.lake.limits.commitTimeout)
	defer stop()
	made, err := tx.Commit(ctx)
	if err == nil {
		err = t.lake.stillThere() // or the answer came from a file that no longer has a name
	}
	if err != nil {
		return gone, st.tbl.MetadataLocation(), fmt.Errorf("expire %d snapshots of %s: %w", len(gone), t.Name(), err)
	}
	t.see(headOf(made))
	return gone, st.tbl.MetadataLocation(), nil
}

// stageExpiry makes the transaction and tells which snapshots go with it; none: there is nothing to commit.
func (t *Table) stageExpiry(tbl *table.Table, retain int) (*table.Transaction, []table.Snapshot, error) {
	meta := tbl.Metadata()
	keep, age, ok := retention(meta, retain)
	if !ok {
		return nil, nil, nil
	}
	if err := checkClock(t.Name(), meta); err != nil {
		return nil, nil, err
	}
	tx := tbl.NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return nil, nil, fmt.Errorf("pin the transaction: %w", err)
	}
	// Without WithOlderThan nothing younger than five days goes; with WithPostCommit files would go at once, under
	// whoever reads them.
	if err := tx.ExpireSnapshots(table.WithRetainLast(keep), table.WithOlderThan(age), table.WithPostCommit(false)); err != nil {
		return nil, nil, fmt.Errorf("stage the expiry of snapshots of %s: %w", t.Name(), err)
	}
	staged, err := tx.StagedTable()
	if err != nil {
		return nil, nil, fmt.Errorf("stage the expiry of snapshots of %s: %w", t.Name(), err)
	}
	return tx, without(meta.Snapshots(), staged.Metadata()), nil
}

// retention says how many snapshots of each branch stay, and from which age on the others go. False: none goes.
func retention(meta table.Metadata, retain int) (keep int, age time.Duration, ok bool) {
	head := meta.CurrentSnapshot()
	props := meta.Properties()
	if head == nil || !props.GetBool(table.GCEnabledKey, table.GCEnabledDefault) {
		return 0, 0, false
	}
	keep = max(retain, props.GetInt(table.MinSnapshotsToKeepKey, 0))
	history := table.AncestorsOf(head.SnapshotID, meta.SnapshotByID)
	if len(history) <= keep {
		return 0, 0, false
	}
	// The last one that stays draws the line also for snapshots that no branch leads to, as a rollback leaves them. A
	// millisecond is taken off so that one of the same time does not stay.
	age = time.Since(time.UnixMilli(history[keep-1].TimestampMs)) - time.Millisecond
	age = max(age, time.Duration(props.GetInt64(table.MaxSnapshotAgeMsKey, 0))*time.Millisecond, 0)
	return keep, age, true
}

// without are the snapshots that meta does not have.
func without(all []table.Snapshot, meta table.Metadata) []table.Snapshot {
	var out []table.Snapshot
	for _, s := range all {
		if meta.SnapshotByID(s.SnapshotID) == nil {
			out = append(out, s)
		}
	}
	return out
}

// unreached are the manifest lists and manifests of the snapshots gone that no snapshot of the table names. Rows lie
// in data files, which are not among them.
func (l *Lake) unreached(meta table.Metadata, gone []table.Snapshot) ([]string, error) {
	lists, manifests := map[string]struct{}{}, map[string]struct{}{}
	for _, s := range gone {
		lists[s.ManifestList] = struct{}{}
		switch found, err := l.io.manifestsOf(&s); {
		case errors.Is(err, fs.ErrNotExist): // removed by another; what it named is for garbage collection
		case err != nil:
			return nil, fmt.Errorf("look for what is expired: %w", err)
		default:
			for _, m := range found {
				manifests[m.FilePath()] = struct{}{}
			}
		}
	}
	for _, s := range meta.Snapshots() {
		delete(lists, s.ManifestList)
	}
	// A manifest lives on from snapshot to snapshot until it is merged into another, so the oldest snapshot that stays
	// has most of them, and often none is left to look for in the others.
	for _, s := range meta.Snapshots() {
		if len(manifests) == 0 {
			break
		}
		found, err := l.io.manifestsOf(&s)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			delete(manifests, m.FilePath())
		}
	}
	return append(slices.Collect(maps.Keys(lists)), slices.Collect(maps.Keys(manifests))...), nil
}
