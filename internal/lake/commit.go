package lake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
)

// Commit makes the rows of the segments part of the table, each exactly once (LAKE-1), and finds out which of them
// are part of it already. Rows that lie in more day partitions than a transaction takes are left to the next call
// (Outcome.Cut), so that others have their turn between the two.
//
//	return   what is known to be in the table, also next to an error
//	durable  on return of nil: rows, proof and the catalog's pointer to them
//	safe     to call again with the same segments, after any error or crash, and from several processes at once;
//	         commits of one process to one table take turns
//	ctx      ends the wait for that turn, the writing of files and the waits between attempts; an attempt that was
//	         sent is awaited and looked after whatever ctx says
//	errors   IncarnationError, GoneBackError, ErrProof, ErrShape, ErrClock, ErrCatalogGone, ErrNoTable, ErrReadOnly: nothing was
//	         written. UnknownError: a commit was sent, its outcome could not be learned. Others: not committed
//	files    those of a commit that was never sent are removed again; all others stay for garbage collection
func (t *Table) Commit(ctx context.Context, segs []Segment) (Outcome, error) {
	out := Outcome{Committed: map[string]int64{}}
	if t.lake.readOnly {
		return out, ErrReadOnly
	}
	if err := checkSegments(segs); err != nil {
		return out, err
	}
	select {
	case <-t.turn:
		defer func() { t.turn <- struct{}{} }()
	case <-ctx.Done():
		return out, fmt.Errorf("wait for the turn to commit to %s: %w", t.Name(), context.Cause(ctx))
	}
	t.lake.busy.Add(1)
	defer t.lake.busy.Add(-1)
	for batch := range slices.Chunk(segs, t.lake.limits.segments) {
		w := work{t: t, batch: batch, out: &out, counted: map[string]bool{}}
		if err := w.run(ctx); err != nil {
			return out, fmt.Errorf("commit to %s: %w", t.Name(), err)
		}
		if out.Cut {
			break
		}
	}
	return out, nil
}

func checkSegments(segs []Segment) error {
	seen := make(map[string]struct{}, len(segs))
	for _, s := range segs {
		if s.ID == "" || len(s.ID) > 255 {
			return fmt.Errorf("segment id %.40q: want 1 to 255 bytes", s.ID)
		}
		if _, twice := seen[s.ID]; twice {
			return fmt.Errorf("segment %s is offered twice in one commit", s.ID)
		}
		seen[s.ID] = struct{}{}
		var rows int64
		for _, b := range s.Batches {
			rows += b.NumRows()
		}
		if rows != s.Rows {
			return fmt.Errorf("segment %s has %d rows in its batches, not %d", s.ID, rows, s.Rows)
		}
	}
	return nil
}

// work brings one batch of segments into the table.
type work struct {
	t     *Table
	batch []Segment
	out   *Outcome
	// files of the attempt at hand; nil when there are none to offer again.
	files *written
	// inDoubt says that a commit was sent and has not been found in the table, or been proved absent, since.
	inDoubt bool
	began   time.Time // the load that the attempt at hand started with
	tries   int
	// last is the error after which only one more look is taken: attempts or patience have run out.
	last error
	// found are rows per id seen in the table itself, as of a snapshot.
	found   map[string]int64
	foundAt string // the metadata file they were found by
	counted map[string]bool
}

// run looks, and writes and sends what is not there, until all is. Every error of a commit leads back to the look.
func (w *work) run(ctx context.Context) error {
	for {
		parts, st, err := w.look(ctx)
		if err == nil && (len(parts) == 0 || w.out.Cut) {
			return nil
		}
		if err == nil && w.last != nil {
			w.t.lake.metrics.commits.Add(ctx, 1, outcome(outcomeFailed))
			return w.last
		}
		if err == nil {
			err = w.attempt(ctx, st, parts)
		}
		if err == nil && (w.out.Cut || w.done()) {
			return nil
		}
		if err == nil {
			w.tries = 0
			continue
		}
		if err := w.again(ctx, err); err != nil {
			return err
		}
	}
}

// look loads the table and returns the rows that are not in it yet. It does not end with ctx while a commit that was
// sent is in doubt.
func (w *work) look(ctx context.Context) ([]part, state, error) {
	if w.inDoubt {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), w.t.lake.limits.commitTimeout)
		defer cancel()
	} else {
		w.began = time.Now()
	}
	st, err := w.t.load(ctx)
	if err != nil {
		return nil, st, err
	}
	if w.inDoubt {
		if id, ok := findCommit(st.tbl, w.files.commitID); ok {
			w.landed(ctx, st.tbl, id)
		}
	}
	parts, err := w.missing(ctx, st)
	if err == nil {
		w.inDoubt = false
	}
	return parts, st, err
}

// missing compares the batch with the proof and, where the proof cannot tell, with the rows of the table.
func (w *work) missing(ctx context.Context, st state) ([]part, error) {
	listed := st.proof.rows()
	w.t.dropped.see(st.proof, w.t.lake.limits)
	var ask []string
	for _, s := range w.batch {
		_, inProof := listed[s.ID]
		made, ok := madeAt(s)
		if !inProof && w.out.Committed[s.ID] < s.Rows && (s.Doubtful || !ok || !w.t.dropped.rulesOut(s.ID, made)) {
			ask = append(ask, s.ID)
		}
	}
	if at := st.tbl.MetadataLocation(); len(ask) > 0 && w.foundAt != at {
		found, err := w.t.rowsOf(ctx, st.tbl, ask)
		if err != nil {
			return nil, fmt.Errorf("look up %d segments: %w", len(ask), err)
		}
		w.found, w.foundAt = found, at
	}
	var parts []part
	for _, s := range w.batch {
		n := max(listed[s.ID], w.found[s.ID], w.out.Committed[s.ID])
		w.countDuplicates(ctx, s, n)
		w.out.Committed[s.ID] = n
		if n < s.Rows {
			parts = append(parts, part{seg: s, from: n, to: s.Rows})
		}
	}
	return parts, nil
}

// countDuplicates counts, once per segment, the rows of it that others committed.
func (w *work) countDuplicates(ctx context.Context, s Segment, n int64) {
	if w.counted[s.ID] || n == 0 {
		return
	}
	w.counted[s.ID] = true
	n = max(0, min(n, s.Rows)-s.Written)
	w.out.Duplicates += n
	w.t.lake.metrics.duplicates.Add(ctx, n)
}

// attempt writes the missing rows, or as many as a transaction takes, unless that was done before, and sends them.
func (w *work) attempt(ctx context.Context, st state, parts []part) error {
	tx, tg, err := w.t.begin(st)
	if err != nil {
		return err
	}
	if !w.files.fits(parts, tg.columns, w.t.lake.limits) {
		w.forget()
		if w.files, err = w.t.lake.write(ctx, w.t.signal, tg, parts); err != nil {
			return err
		}
		if !w.files.fits(parts, tg.columns, w.t.lake.limits) {
			return fmt.Errorf("its files took longer than %s to write, or the machine slept: they could be taken for orphans", w.t.lake.limits.orphanAge/2)
		}
	}
	if err := w.t.stageManifests(ctx, st.tbl, tx); err != nil {
		return err
	}
	if err := w.stage(ctx, st, tx, tg.remember); err != nil {
		return err
	}
	return w.send(ctx, tx)
}

// forget lets go of files that hold the wrong rows by now, and removes them if no catalog ever heard of them.
func (w *work) forget() {
	if w.files != nil && !w.files.sent {
		w.t.lake.remove(w.files)
	}
	w.files = nil
}

// stage puts files, proof and commit id into the transaction.
func (w *work) stage(ctx context.Context, st state, tx *table.Transaction, remember string) error {
	summary := iceberg.Properties{sumCommitID: w.files.commitID, sumSegments: strconv.Itoa(len(w.files.parts))}
	err := appendOnly(tx, st.tbl, func() error {
		return tx.AddDataFiles(ctx, w.files.files, summary, table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping())
	})
	if err != nil {
		return fmt.Errorf("stage %d files: %w", len(w.files.files), w.t.lake.io.listError(st.tbl, err))
	}
	merged := st.proof.merge(w.t.lake.now(), w.entries(), w.t.lake.limits)
	props := iceberg.Properties{propProof: merged.encode()}
	if remember != "" {
		props[propPromote] = remember
	}
	if err := tx.SetProperties(props); err != nil {
		return fmt.Errorf("stage the proof: %w", err)
	}
	return nil
}

// entries are what the transaction adds to the proof: its own rows, and what was found by looking, so that the next
// one need not look.
func (w *work) entries() []proofEntry {
	var out []proofEntry
	own := map[string]struct{}{}
	for _, p := range w.files.parts {
		out = append(out, proofEntry{id: p.seg.ID, rows: p.to})
		own[p.seg.ID] = struct{}{}
	}
	for _, s := range w.batch {
		if _, twice := own[s.ID]; !twice && w.found[s.ID] > 0 {
			out = append(out, proofEntry{id: s.ID, rows: w.found[s.ID]})
		}
	}
	return out
}

// send asks the catalog to commit. A request under way is not torn by the end of ctx: it has its own time.
func (w *work) send(ctx context.Context, tx *table.Transaction) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.t.lake.limits.commitTimeout)
	defer cancel()
	sent := w.files.sent
	w.files.sent, w.inDoubt = true, true
	made, err := tx.Commit(ctx)
	if err == nil {
		err = w.t.lake.stillThere() // or the answer came from a file that no longer has a name
	}
	if _, ok := errors.AsType[notAskedError](err); ok && noSpace(err) { // the room that the files take is needed
		w.files.sent, w.inDoubt = sent, false
	}
	if err != nil {
		return err
	}
	id, ok := findCommit(made, w.files.commitID)
	if !ok {
		return errors.New("the catalog answered with a table that lacks the commit")
	}
	w.landed(ctx, made, id)
	return nil
}

// landed notes that the files at hand are part of the table.
func (w *work) landed(ctx context.Context, tbl *table.Table, snapshot int64) {
	f := w.files
	for _, p := range f.parts {
		w.out.Committed[p.seg.ID] = max(w.out.Committed[p.seg.ID], p.to)
		w.counted[p.seg.ID] = true
	}
	w.out.RowsWritten += f.rows
	w.out.FilesWritten += int64(len(f.files))
	w.out.Snapshot = snapshot
	if f.cut {
		w.out.Cut = true
		w.t.lake.metrics.cuts.Add(ctx, 1)
	}
	w.t.lake.metrics.committed(ctx, f.rows, int64(len(f.files)), f.bytes, time.Since(w.began))
	w.t.lake.metrics.addMisfits(ctx, f.misfits)
	w.t.see(headOf(tbl))
	w.files, w.inDoubt, w.tries = nil, false, 0
}

// done is true when all rows of the batch are known to be in the table.
func (w *work) done() bool {
	for _, s := range w.batch {
		if n, ok := w.out.Committed[s.ID]; !ok || n < s.Rows {
			return false
		}
	}
	return true
}

// again decides after an error. It returns nil to look and try once more, after a wait.
func (w *work) again(ctx context.Context, err error) error {
	l := w.t.lake
	final := w.last != nil || isFinal(err)
	switch {
	case w.inDoubt && final: // not even a look says what became of it
		l.metrics.commits.Add(ctx, 1, outcome(outcomeUnknown))
		return &UnknownError{Table: w.t.Name(), CommitID: w.files.commitID, Attempts: w.tries, Err: errors.Join(w.last, err)}
	case final || w.files == nil || !w.files.sent:
		w.forget()
		l.metrics.commits.Add(ctx, 1, outcome(outcomeFailed))
		return errors.Join(w.last, err)
	}
	w.tries++
	l.metrics.commits.Add(ctx, 1, outcome(outcomeRetried))
	if noSpace(err) { // after one more look: the attempt may have landed
		w.last = err
		return nil
	}
	if w.tries >= l.limits.attempts {
		w.last = fmt.Errorf("give up after %d attempts: %w", w.tries, err)
		return nil
	}
	l.log.Warn("A commit was not answered with success; looking whether it landed, then trying again",
		zap.String("table", w.t.Name()), zap.String("commit", w.files.commitID), zap.Int("attempt", w.tries), zap.Error(err))
	d := min(l.limits.backoff<<min(w.tries-1, 16), l.limits.backoffMax)
	if werr := l.wait(ctx, d/2+rand.N(d/2+1)); werr != nil {
		w.last = fmt.Errorf("%w after: %w", werr, err)
	}
	return nil
}

// isFinal is true for errors that another attempt would meet again.
func isFinal(err error) bool {
	for _, e := range []error{ErrNoTable, ErrShape, ErrProof, ErrClock, ErrCatalogGone} {
		if errors.Is(err, e) {
			return true
		}
	}
	var other *IncarnationError
	var back *GoneBackError
	return errors.As(err, &other) || errors.As(err, &back)
}

// remove removes files that no catalog has heard of. What cannot be removed is left for garbage collection.
func (l *Lake) remove(w *written) {
	for _, f := range w.files {
		if err := l.io.Remove(f.FilePath()); err != nil {
			l.log.Warn("A data file that is not needed was left behind", zap.String("file", f.FilePath()), zap.Error(err))
		}
	}
}

// findCommit looks for a commit of ours among the table's snapshots.
func findCommit(tbl *table.Table, commitID string) (snapshot int64, ok bool) {
	for _, s := range tbl.Metadata().Snapshots() {
		if s.Summary != nil && s.Summary.Properties[sumCommitID] == commitID {
			return s.SnapshotID, true
		}
	}
	return 0, false
}
