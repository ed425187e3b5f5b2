package lake

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

const (
	day = 24 * time.Hour
	// daysAtOnce bounds one deletion of old days, and with it the time that commits of rows wait for it.
	daysAtOnce = 32
)

// Retention says how long rows stay in the tables.
type Retention struct {
	// Keep is how long ago a day, UTC, must have ended for its rows to go.
	Keep time.Duration
	// Settled is how long ago the newest segment with rows of the day must have been made. Until then somebody may ask
	// whether it is committed, and the rows are what tells.
	Settled time.Duration
	// Interval is the time from one round over all tables to the next.
	Interval time.Duration
}

// over tells whether a day has ended long enough ago for its rows to go.
func (r Retention) over(number int32, now time.Time) bool {
	return !dayBegin(number).Add(day).After(now.Add(-r.Keep))
}

// settled tells whether a segment was made so long ago that nobody asks for it any more.
func (r Retention) settled(made, now time.Time) bool { return !made.After(now.Add(-r.Settled)) }

func dayBegin(number int32) time.Time { return time.Unix(int64(number)*86400, 0).UTC() }

// Shown is how many rows of a committed segment its table has to show: [0, n), up to the last one of a day that DropOldDays
// does not delete. All without a Keep, of a segment that is not settled, and where nobody can tell.
func (r Retention) Shown(s Segment, now time.Time) (n int64) {
	if made, ok := madeAt(s); r.Keep == 0 || !ok || !r.settled(made, now) {
		return s.Rows
	}
	first := int64(0) // position of the batch's first row in the segment
	for _, rec := range s.Batches {
		times, err := otelarrow.Timestamps(rec)
		if err != nil {
			return s.Rows
		}
		for row, ns := range times {
			if !r.over(dayOf(ns), now) {
				n = first + int64(row) + 1
			}
		}
		first += rec.NumRows()
	}
	return n
}

// OldDay is a day partition that ended longer ago than Retention.Keep.
type OldDay struct {
	Day   time.Time // its begin
	Files int
	Rows  int64
	Bytes int64
	// Waits says that a segment with rows of it is younger than Retention.Settled, or of unknown age.
	Waits bool

	number int32 // days since 1970
}

// errUnplaced says that nobody can tell the days of a table without reading its rows.
var errUnplaced = errors.New("a data file is not partitioned by day(timestamp): nothing of the table is deleted")

// TableDays are the old days of a table.
type TableDays struct {
	Table string // namespace and name
	Days  []OldDay
	Err   error // they are not known
}

// OldDays are the days that DropOldDays would delete, and those that wait, by table. Nothing is changed.
func (l *Lake) OldDays(ctx context.Context, r Retention) ([]TableDays, error) {
	names, err := l.ours(ctx)
	if err != nil {
		return nil, err
	}
	var out []TableDays
	for _, id := range names {
		tbl, err := l.open(ctx, id)
		if errors.Is(err, ErrNoTable) || err == nil && tbl.Properties()[propSignal] == "" {
			continue
		}
		of := TableDays{Table: strings.Join(id, "."), Err: err}
		if err == nil {
			of.Days, of.Err = l.oldDays(tbl, r, l.now())
		}
		out = append(out, of)
	}
	return out, nil
}

// DropOldDays deletes rows by day partition until ctx ends: one snapshot for up to 32 days of a table, which removes their
// files from it and reads and writes none. The files go with the snapshots that name them, and gc-orphans.
//
//	tables   those of Maintain
//	days     that ended Keep ago, whole, by this machine's clock; one that is set forward while this runs counts for nothing
//	yields   a table's turn is taken for one commit, behind those that wait for it
//	proof    is not touched. Rows of a day that was deleted and are offered again are committed again, and deleted again
//	         in the next round: rows of days that stay are there exactly once all the same
//	safe     beside Commit, Maintain and Compact, and in several processes: pinned to the loaded head
//	ctx      ends it; a commit that was sent is awaited
func (l *Lake) DropOldDays(ctx context.Context, r Retention) {
	began, wall := time.Now(), l.now()
	l.rounds(ctx, r.Interval, "Deleting old days from tables", func(ctx context.Context) error {
		now := wall.Add(time.Since(began))
		if shown := l.now(); shown.Before(now) {
			now = shown
		}
		return l.dropRound(ctx, r, now)
	})
}

// dropRound looks at every table once.
func (l *Lake) dropRound(ctx context.Context, r Retention, now time.Time) error {
	names, err := l.ours(ctx)
	if err != nil {
		return err
	}
	var errs []error
	waiting := 0
	for _, id := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t, err := l.ofSignal(ctx, id)
		if err == nil && t != nil {
			var n int
			n, err = t.dropOldDays(ctx, r, now)
			waiting += n
		}
		if err = ignoreDropped(err); err != nil && !errors.Is(err, errBusy) {
			errs = append(errs, fmt.Errorf("delete old days of %s: %w", strings.Join(id, "."), err))
		}
	}
	l.metrics.retention.round(ctx, waiting, len(errs))
	return errors.Join(errs...)
}

// dropOldDays deletes what is due, and returns how many old days wait.
func (t *Table) dropOldDays(ctx context.Context, r Retention, now time.Time) (waiting int, err error) {
	for {
		st, err := t.load(ctx)
		if err != nil {
			return 0, err
		}
		old, err := t.lake.oldDays(st.tbl, r, now)
		if err != nil {
			return 0, err
		}
		due := slices.DeleteFunc(slices.Clone(old), func(d OldDay) bool { return d.Waits })
		if waiting = len(old) - len(due); len(due) == 0 {
			return waiting, nil
		}
		if err := t.dropDays(ctx, r, now, len(due)); err != nil {
			return waiting, err
		}
	}
}

// dropDays deletes the oldest days that are due, in one commit.
func (t *Table) dropDays(ctx context.Context, r Retention, now time.Time, due int) error {
	waiting, cancel := context.WithTimeoutCause(ctx, t.lake.limits.turnWait, errBusy)
	defer cancel()
	select {
	case <-t.turn:
		defer func() { t.turn <- struct{}{} }()
	case <-waiting.Done():
		return fmt.Errorf("wait for the turn to commit to %s: %w", t.Name(), context.Cause(waiting))
	}
	st, err := t.load(ctx)
	if err != nil {
		return err
	}
	old, err := t.lake.oldDays(st.tbl, r, now)
	if err != nil {
		return err
	}
	old = slices.DeleteFunc(old, func(d OldDay) bool { return d.Waits })
	if len(old) == 0 {
		return nil
	}
	old = old[:min(len(old), daysAtOnce)]
	tx, err := t.stageDrop(ctx, st, old)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), t.lake.limits.commitTimeout)
	defer stop()
	made, err := tx.Commit(ctx)
	if err == nil {
		err = t.lake.stillThere() // or the answer came from a file that no longer has a name
	}
	t.lake.metrics.retention.dropped(ctx, old, err)
	if err != nil {
		return fmt.Errorf("delete %d days: %w", len(old), err)
	}
	t.see(headOf(made))
	t.lake.log.Info("Old days were deleted from a table", zap.String("table", t.Name()), zap.Int("days", len(old)), zap.Int("due", due),
		zap.Time("from", old[0].Day), zap.Time("to", old[len(old)-1].Day), zap.Int64("rows", sumOf(old).Rows))
	return nil
}

// stageDrop makes the transaction, and looks that it removes these files and does nothing else.
func (t *Table) stageDrop(ctx context.Context, st state, old []OldDay) (*table.Transaction, error) {
	if err := checkClock(t.Name(), st.tbl.Metadata()); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a commit id: %w", err)
	}
	quiet := table.New(st.tbl.Identifier(), st.tbl.Metadata(), st.tbl.MetadataLocation(), st.tbl.FS, quietCatalog{t.lake.cat})
	tx := quiet.NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return nil, fmt.Errorf("pin the transaction: %w", err)
	}
	props := iceberg.Properties{sumCommitID: id.String(), sumMaintenance: "retention"}
	if err := tx.Delete(ctx, rowsOfDays(old), props); err != nil {
		return nil, fmt.Errorf("stage the deletion of %d days: %w", len(old), err)
	}
	staged, err := tx.StagedTable()
	if err != nil {
		return nil, fmt.Errorf("stage the deletion of %d days: %w", len(old), err)
	}
	sum := staged.CurrentSnapshot().Summary
	all := sumOf(old)
	if sum == nil || sum.Operation != table.OpDelete || sum.Properties["deleted-data-files"] != strconv.Itoa(all.Files) ||
		sum.Properties["deleted-records"] != strconv.FormatInt(all.Rows, 10) || sum.Properties["added-data-files"] != "" ||
		sum.Properties["added-delete-files"] != "" {
		return nil, fmt.Errorf("the deletion of %d files with %d rows would be another: %v; nothing was deleted", all.Files, all.Rows, sum)
	}
	return tx, nil
}

// rowsOfDays is true for the rows of these days.
func rowsOfDays(old []OldDay) iceberg.BooleanExpression {
	var out iceberg.BooleanExpression = iceberg.AlwaysFalse{}
	column := iceberg.Reference(colTimestamp)
	for _, d := range old {
		from, to := iceberg.Timestamp(d.Day.UnixMicro()), iceberg.Timestamp(d.Day.Add(day).UnixMicro())
		out = iceberg.NewOr(out, iceberg.NewAnd(
			iceberg.GreaterThanEqual(column, from), iceberg.LessThan(column, to)))
	}
	return out
}

// sumOf adds days up.
func sumOf(old []OldDay) (all OldDay) {
	for _, d := range old {
		all.Files, all.Rows, all.Bytes = all.Files+d.Files, all.Rows+d.Rows, all.Bytes+d.Bytes
	}
	return all
}

// oldDays are the days that ended r.Keep before now, the oldest first.
func (l *Lake) oldDays(tbl *table.Table, r Retention, now time.Time) ([]OldDay, error) {
	snap := tbl.CurrentSnapshot()
	if snap == nil {
		return nil, nil
	}
	days := map[int32]*OldDay{}
	for df, err := range l.dataFiles(snap) {
		if err != nil {
			return nil, err
		}
		number, ok := partitionDay(df, tbl.Metadata())
		if !ok {
			return nil, fmt.Errorf("%w: %s", errUnplaced, df.FilePath())
		}
		if !r.over(number, now) {
			continue
		}
		d := days[number]
		if d == nil {
			d = &OldDay{Day: dayBegin(number), number: number}
			days[number] = d
		}
		d.Files, d.Rows, d.Bytes = d.Files+1, d.Rows+df.Count(), d.Bytes+df.FileSizeBytes()
		newest, ok := newestSegment(df, tbl.Schema())
		d.Waits = d.Waits || !ok || !r.settled(newest, now)
	}
	out := make([]OldDay, 0, len(days))
	for _, d := range days {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b OldDay) int { return int(a.number) - int(b.number) })
	return out, nil
}

// partitionDay is the day partition of a file, if it has one.
func partitionDay(df iceberg.DataFile, meta table.Metadata) (int32, bool) {
	spec := meta.PartitionSpecByID(int(df.SpecID()))
	column, ok := meta.CurrentSchema().FindFieldByName(colTimestamp)
	if spec == nil || !ok {
		return 0, false
	}
	for i := range spec.NumFields() {
		f := spec.Field(i)
		if _, daily := f.Transform.(iceberg.DayTransform); daily && slices.Equal(f.SourceIDs, []int{column.ID}) {
			d, ok := df.Partition()[f.FieldID].(iceberg.Date)
			return int32(d), ok
		}
	}
	return 0, false
}

// newestSegment is when the newest segment of a file was made: the ids begin with the time, of which the bound in the
// manifest keeps more than enough.
func newestSegment(df iceberg.DataFile, sc *iceberg.Schema) (time.Time, bool) {
	column, ok := sc.FindFieldByName(colSegmentID)
	if !ok {
		return time.Time{}, false
	}
	const digits = len("01999f3e-2b7c")
	bound := df.UpperBoundValues()[column.ID]
	if len(bound) < digits || bound[8] != '-' {
		return time.Time{}, false
	}
	b, err := hex.DecodeString("0000" + string(bound[:8]) + string(bound[9:digits]))
	if err != nil {
		return time.Time{}, false
	}
	ms := int64(0)
	for _, v := range b {
		ms = ms<<8 | int64(v)
	}
	return time.UnixMilli(ms), true
}
