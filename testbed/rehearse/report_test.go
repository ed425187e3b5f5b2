package rehearse

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
)

// account is what became of one load. Counts are records.
type account struct {
	mode, table string
	connections int
	tr          *traffic.Traffic

	// At the loss: of those acknowledged, in the tables, in the mirror, there and not in the tables, and in neither place when
	// only whole copies count.
	acked, inTables, inMirror, toRecover, exposed int
	before                                        map[uint64]int
	mayGo                                         map[uint64]bool

	// At the end.
	verdict   load.Verdict
	recovered int // of those acknowledged before the loss: in the tables now, and not at the loss
	lost      []load.Ack
	oldest    time.Duration // how long before the loss the first of them was acknowledged
	beyond    int           // lost, and not of those that may be
}

// atLoss counts what there is while the collector is dead.
func (a *account) atLoss(t *testing.T, s *scene, l *loss) {
	t.Helper()
	run := a.tr.Book.Shape.Run
	a.before = traffic.CountIn(t, s.Harness, a.table, run)
	a.mayGo = l.exposed(t, run)
	copied := s.copies(t, run)
	for _, ack := range a.tr.Book.Acks() {
		for n := range a.tr.Book.Shape.Numbers(ack.Request) {
			a.acked++
			a.inTables += min(a.before[n], 1)
			if copied[n] {
				a.inMirror++
				a.toRecover += 1 - min(a.before[n], 1)
			}
			if a.mayGo[n] {
				a.exposed++
			}
		}
	}
}

// atEnd counts what the tables have when all is drained.
func (a *account) atEnd(t *testing.T, s *scene, l *loss) {
	t.Helper()
	book := a.tr.Book
	found := traffic.CountIn(t, s.Harness, a.table, book.Shape.Run)
	a.verdict = book.Judge(found)
	for _, ack := range book.Acks() {
		for n := range book.Shape.Numbers(ack.Request) {
			if ack.At.Before(l.back) && found[n] > 0 && a.before[n] == 0 {
				a.recovered++
			}
		}
	}
	a.lost = book.Lost(found)
	for i, ack := range a.lost {
		if i == 0 {
			a.oldest = l.at.Sub(ack.At)
		}
		for n := range book.Shape.Numbers(ack.Request) {
			if found[n] == 0 && !a.mayGo[n] {
				a.beyond++
			}
		}
	}
}

// report is the outcome of a rehearsal.
type report struct {
	machine                string
	away                   time.Duration
	awayAcked, awayWaiting int
	catalogAway            time.Duration // just before the loss
	bound                  time.Duration // how long before the loss a row may have been acknowledged and be lost
	printed                []string
	accounts               []*account
}

// err is nil when every promise was kept.
func (r *report) err() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, a := range r.accounts {
		v := a.verdict
		if v.Doubled+v.TornRequests+v.Unknown > 0 {
			wrong("%s: %s", a.mode, v)
		}
		if a.beyond > 0 {
			wrong("%s: %d rows are lost that were neither in an open segment nor waiting to be copied", a.mode, a.beyond)
		}
		if a.oldest > r.bound {
			wrong("%s: a row acknowledged %s before the loss is lost, the bound is %s", a.mode, a.oldest, r.bound)
		}
		if a.mode == "mirrored" && v.Missing > 0 {
			wrong("mirrored: %s: %w", v, v.Err())
		}
	}
	return errors.Join(errs...)
}

// print writes the report, and one line that sums it up.
func (r *report) print(t *testing.T) {
	t.Helper()
	out := t.Output()
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) } // a test's output takes it
	line("Rehearsal of the loss of the log's volume: %s", r.machine)
	line("shipped configuration; catalog in PostgreSQL, warehouse s3://lake/warehouse, mirror s3://lake/wal-mirror\n")
	line("The store was away for %.1f s: %d rows acknowledged under wait_for meanwhile, %d segments waited and were copied then.\n",
		r.away.Seconds(), r.awayAcked, r.awayWaiting)
	line("The catalog was away for the last %.1f s before the loss, so that the tables lack rows that the mirror has.\n", r.catalogAway.Seconds())
	line("%s\n", strings.Join(r.printed, "\n\n"))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(*account) any) {
		_, _ = fmt.Fprint(w, name)
		for _, a := range r.accounts {
			_, _ = fmt.Fprintf(w, "\t%v", value(a))
		}
		_, _ = fmt.Fprintln(w, "\t")
	}
	row("rows", func(a *account) any { return a.mode })
	row("acknowledged before the loss", func(a *account) any { return a.acked })
	row("of them in the tables at the loss", func(a *account) any { return a.inTables })
	row("of them in the mirror at the loss", func(a *account) any { return a.inMirror })
	row("of them in the mirror only", func(a *account) any { return a.toRecover })
	row("recovered into the tables", func(a *account) any { return a.recovered })
	row("LOST", func(a *account) any { return a.verdict.Missing })
	row("at most: open, or waiting to be copied", func(a *account) any { return a.exposed })
	row("acknowledged after the recovery", func(a *account) any { return a.verdict.Acked - a.acked })
	row("DUPLICATED", func(a *account) any { return a.verdict.Doubled })
	_ = w.Flush()
	line("")
	line("%s", r.summary())
}

func (r *report) summary() string {
	word := "kept"
	if r.err() != nil {
		word = "BROKEN"
	}
	parts := []string{}
	for _, a := range r.accounts {
		part := fmt.Sprintf("%s lost %d of %d rows", a.mode, a.verdict.Missing, a.acked)
		if len(a.lost) > 0 {
			part += fmt.Sprintf(", the oldest acknowledged %.1f s before the loss (bound %.1f s)", a.oldest.Seconds(), r.bound.Seconds())
		}
		parts = append(parts, part)
	}
	doubled := 0
	for _, a := range r.accounts {
		doubled += a.verdict.Doubled
	}
	return fmt.Sprintf("promises %s: %s; %d duplicated", word, strings.Join(parts, "; "), doubled)
}
