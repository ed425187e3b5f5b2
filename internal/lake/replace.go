package lake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// sumMaintenance is the summary property of snapshots that change no row: a reader of changes may leave them out.
const sumMaintenance = "siglake.maintenance"

// errOvertaken: another commit has changed what a merge is about. The next round looks what there is to do now.
var errOvertaken = errors.New("another commit was faster")

// replaceTries is how often a merged file is offered. Within this process nothing comes between; another one may.
const replaceTries = 5

// merge writes files as one and puts it in their place.
//
//	durable  on return of nil: the file, and the snapshot that has it instead of them
//	errors   errOvertaken, errNotConserved, *foreignFileError, *unreadError; the table is as it was. *UnknownError: it may not be
//	ctx      ends writing and the wait for the turn; a commit that was sent is awaited
func (t *Table) merge(ctx context.Context, tg target, files []mergeFile, rest resting) error {
	began := time.Now()
	m, err := t.lake.writeMerged(ctx, tg, files, rest)
	if err == nil {
		err = t.replace(ctx, m)
		if err != nil && !m.sent {
			t.lake.removeMerged(m.file.FilePath())
		}
	}
	t.lake.metrics.compaction.merged(ctx, files, m, time.Since(began), err)
	return err
}

// replace commits the merged file in place of those it is made of, in turn with commits of rows.
func (t *Table) replace(ctx context.Context, m *merged) error {
	var last error
	for try := range replaceTries {
		if try > 0 {
			if err := t.lake.wait(ctx, t.lake.limits.backoff<<try); err != nil {
				break // one more look below
			}
		}
		done, err := t.offer(ctx, m)
		if done {
			return nil
		}
		last = err
		if isFinal(err) || errors.Is(err, errOvertaken) || errors.Is(err, errBusy) || ctx.Err() != nil {
			break
		}
	}
	if !m.sent || errors.Is(last, errOvertaken) {
		return last
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.lake.limits.commitTimeout)
	defer cancel()
	st, err := t.load(look)
	if err == nil {
		var live bool
		if live, err = t.lake.has(st, m); live {
			return nil
		}
		if err == nil && st.tbl.MetadataLocation() != m.base {
			return fmt.Errorf("%w, %d times: %w", errOvertaken, replaceTries, last)
		}
	}
	return &UnknownError{Table: t.Name(), CommitID: m.commitID, Attempts: replaceTries, Err: errors.Join(last, err)}
}

// offer tries once. It returns true when the merged file is part of the table.
func (t *Table) offer(ctx context.Context, m *merged) (done bool, err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, t.lake.limits.turnWait, errBusy)
	defer cancel()
	select {
	case <-t.turn:
		defer func() { t.turn <- struct{}{} }()
	case <-waiting.Done():
		return false, fmt.Errorf("wait for the turn to commit to %s: %w", t.Name(), context.Cause(waiting))
	}
	st, err := t.load(ctx)
	if err != nil {
		return false, err
	}
	if m.sent { // by an earlier try, and the answer was no success
		if live, err := t.lake.has(st, m); live || err != nil {
			return live, err
		}
	}
	tx, err := t.stageReplace(ctx, st, m)
	if err != nil {
		return false, err
	}
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), t.lake.limits.commitTimeout)
	defer stop()
	if time.Now().Round(0).Sub(m.began) > t.lake.limits.orphanAge/2 {
		return false, fmt.Errorf("%w, or the machine slept: the merged file is so old that it could be taken for an orphan", errOvertaken)
	}
	m.sent, m.base = true, st.tbl.MetadataLocation()
	made, err := tx.Commit(ctx)
	if err == nil {
		err = t.lake.stillThere() // or the answer came from a file that no longer has a name
	}
	if err != nil {
		return false, fmt.Errorf("replace %d files of %s: %w", len(m.from), t.Name(), err)
	}
	t.see(headOf(made))
	return true, nil
}

// stageReplace makes the transaction, pinned to the loaded state, if the files to be replaced are still there. Columns that
// were added since are in none of them: a file is read by the field ids in it.
//
// iceberg-go reads every manifest twice for it: for the files to be replaced, without all of which it stages nothing, and to
// write what is left. What came of it, files and rows in all, is told by the manifest lists, which alone are read here.
func (t *Table) stageReplace(ctx context.Context, st state, m *merged) (*table.Transaction, error) {
	if err := checkClock(t.Name(), st.tbl.Metadata()); err != nil {
		return nil, err
	}
	before, err := t.lake.contentOf(st.tbl)
	if err != nil {
		return nil, err
	}
	if before.deletes > 0 {
		return nil, fmt.Errorf("%w: it deleted rows", errOvertaken)
	}
	quiet := table.New(st.tbl.Identifier(), st.tbl.Metadata(), st.tbl.MetadataLocation(), st.tbl.FS, quietCatalog{t.lake.cat})
	tx, err := quiet.NewTransactionOnBranchWithError(table.MainBranch)
	if err != nil {
		return nil, fmt.Errorf("begin a transaction: %w", err)
	}
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return nil, fmt.Errorf("pin the transaction: %w", err)
	}
	rewrite := tx.NewRewrite(iceberg.Properties{sumCommitID: m.commitID, sumMaintenance: "compaction"})
	for _, f := range m.from {
		rewrite.DeleteFile(f.df)
	}
	if err := rewrite.AddDataFile(m.file).Commit(ctx); err != nil { // not without all of m.from
		err = fmt.Errorf("stage the replacement of %d files: %w", len(m.from), err)
		return nil, errors.Join(t.lake.allLive(st, m), err)
	}
	staged, err := tx.StagedTable()
	if err != nil {
		return nil, fmt.Errorf("stage the replacement of %d files: %w", len(m.from), err)
	}
	after, err := t.lake.contentOf(staged.Table)
	if err != nil {
		return nil, err
	}
	if want := before.without(m); after != want {
		return nil, fmt.Errorf("%w: the table would have %+v, not %+v", errNotConserved, after, want)
	}
	return tx, nil
}

// content is what the list of a snapshot's manifests says that the table consists of.
type content struct{ files, rows, deletes int64 }

// contentOf reads the list of the current snapshot, and no manifest of it.
func (l *Lake) contentOf(tbl *table.Table) (content, error) {
	snap := tbl.CurrentSnapshot()
	if snap == nil {
		return content{}, nil
	}
	manifests, err := l.io.manifestsOf(snap)
	if err != nil {
		return content{}, err
	}
	var out content
	for _, m := range manifests {
		files, rows := sumOfManifests(m)
		switch {
		case files < 0:
			return content{}, fmt.Errorf("the manifest list of snapshot %d does not say what is in %s", snap.SnapshotID, m.FilePath())
		case m.ManifestContent() != iceberg.ManifestContentData:
			out.deletes += files
		default:
			out.files, out.rows = out.files+files, out.rows+rows
		}
	}
	return out, nil
}

// without is the content once the merged file is in the place of those it is made of.
func (c content) without(m *merged) content {
	c.files, c.rows = c.files+1, c.rows+m.file.Count()
	for _, f := range m.from {
		c.files, c.rows = c.files-1, c.rows-f.df.Count()
	}
	return c
}

// allLive returns errOvertaken unless all files that were merged are part of the table, and no row of it is deleted.
func (l *Lake) allLive(st state, m *merged) error {
	missing := map[string]struct{}{}
	for _, f := range m.from {
		missing[f.df.FilePath()] = struct{}{}
	}
	if snap := st.tbl.CurrentSnapshot(); snap != nil {
		for df, err := range l.liveFiles(snap) {
			if err != nil {
				return err
			}
			if df.ContentType() != iceberg.EntryContentData {
				return fmt.Errorf("%w: it deleted rows", errOvertaken)
			}
			delete(missing, df.FilePath())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %d of the files that were merged are gone, %s for one", errOvertaken, len(missing),
			slices.Sorted(maps.Keys(missing))[0])
	}
	return nil
}

// has tells whether the merged file is part of the table.
func (l *Lake) has(st state, m *merged) (bool, error) {
	if _, ok := findCommit(st.tbl, m.commitID); ok {
		return true, nil
	}
	if snap := st.tbl.CurrentSnapshot(); snap != nil {
		for df, err := range l.liveFiles(snap) {
			if err != nil || df.FilePath() == m.file.FilePath() {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// quietCatalog leaves out what iceberg-go's rewrite adds of itself: a name mapping for files without field ids, which
// would be in each metadata.json from then on. It is all that such a transaction sets.
type quietCatalog struct{ iceCatalog }

func (c quietCatalog) CommitTable(
	ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update,
) (table.Metadata, string, error) {
	u = slices.DeleteFunc(slices.Clone(u), func(u table.Update) bool { return u.Action() == table.UpdateSetProperties })
	return c.iceCatalog.CommitTable(ctx, id, r, u)
}
