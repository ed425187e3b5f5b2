package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// write prints the report for people.
func (r *statusReport) write(w io.Writer, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "WAL %s (%s)\n", r.WAL.Dir, r.WAL.UUID)
	if r.WAL.Lock != "" {
		fmt.Fprintf(&b, "  LOCK last held by:       %s\n", r.WAL.Lock)
	}
	if r.WAL.DrainLock != "" {
		fmt.Fprintf(&b, "  drain.lock last held by: %s\n", r.WAL.DrainLock)
	}
	b.WriteByte('\n')
	if len(r.WAL.Lanes) == 0 {
		b.WriteString("No lanes yet: nothing has been sent.\n")
	} else if err := r.lanes().write(&b); err != nil {
		return err
	}
	b.WriteByte('\n')
	switch {
	case len(r.Tables) > 0:
		if err := tableGrid(r.Tables, now).write(&b); err != nil {
			return err
		}
		if r.TablesError != "" {
			fmt.Fprintf(&b, "Not all tables: %s\n", r.TablesError)
		}
	case r.TablesError != "":
		fmt.Fprintf(&b, "No tables: %s\n", r.TablesError)
	default:
		b.WriteString("No tables yet: nothing has been drained.\n")
	}
	if len(r.Next) > 0 {
		b.WriteString("\nNext:\n")
		for _, n := range r.Next {
			fmt.Fprintf(&b, "  %s\n", n.What)
			if n.Command != "" {
				fmt.Fprintf(&b, "    %s\n", n.Command)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *statusReport) lanes() *grid {
	g := &grid{
		header: []string{"LANE", "ACTIVE", "SEALED", "PROCESSING", "COMMITTED", "ORPHANS", "POISON", "STALE", "PENDING", "ROWS", "OLDEST"},
		right:  []bool{false, true, true, true, true, true, true, true, true, true, true},
	}
	for i := range r.WAL.Lanes {
		l := &r.WAL.Lanes[i]
		key, rows, oldest := l.key(), humanCount(l.PendingRows), "-"
		if l.Legacy {
			key += " (legacy)"
		}
		if l.RowsAtLeast {
			rows = "≥ " + rows
		}
		if l.OldestSeconds != nil {
			oldest = humanAge(time.Duration(*l.OldestSeconds) * time.Second)
		}
		cells := []string{key}
		for _, n := range []int{l.Active, l.Sealed, l.Processing, l.Committed, l.Orphans, l.Poison, l.Stale} {
			cells = append(cells, strconv.Itoa(n))
		}
		g.add(append(cells, humanBytes(l.PendingBytes), rows, oldest)...)
	}
	return g
}

// tableGrid is the listing of tables that status and tables share.
func tableGrid(tables []tableStatus, now time.Time) *grid {
	g := &grid{
		header: []string{"TABLE", "ROWS", "FILES", "BYTES", "SNAPSHOTS", "LAST COMMIT"},
		right:  []bool{false, true, true, true, true, false},
	}
	for _, t := range tables {
		last := "never"
		if t.LastCommit != nil {
			last = fmt.Sprintf("%s (%s ago)", humanTime(*t.LastCommit), humanAge(now.Sub(*t.LastCommit)))
		}
		g.add(t.Namespace+"."+t.Name, humanCount(t.Rows), humanCount(t.Files), humanBytes(t.Bytes), strconv.Itoa(t.Snapshots), last)
	}
	return g
}
