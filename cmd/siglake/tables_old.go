package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/siglakecol/siglakecol/internal/lake"
)

// settled is how old the newest segment of a day must be for the compactor to delete the day, by its default settings.
const settled = 48 * time.Hour

// oldDay is a day that a retention of the tables would delete.
type oldDay struct {
	Table string `json:"table"`
	Day   string `json:"day"`
	Files int    `json:"files"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	Waits bool   `json:"waits"` // a segment with rows of it is too young
	Error string `json:"error,omitempty"`
}

// oldDays lists what retention::table would delete, and deletes nothing.
func (a *app) oldDays(ctx context.Context, w io.Writer, keep time.Duration) error {
	if keep < 24*time.Hour {
		return usageError("tables: --older-than %s is below 24h, the size of a day partition", keep)
	}
	l, err := a.openLake(ctx, true)
	if err != nil {
		return err
	}
	tables, err := l.OldDays(ctx, lake.Retention{Keep: keep, Settled: settled})
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	days := []oldDay{}
	var failed error
	for _, t := range tables {
		if t.Err != nil {
			failed = fmt.Errorf("%s: %w", t.Table, t.Err)
			days = append(days, oldDay{Table: t.Table, Error: t.Err.Error()})
		}
		for _, d := range t.Days {
			days = append(days, oldDay{Table: t.Table, Day: d.Day.Format(time.DateOnly), Files: d.Files, Rows: d.Rows, Bytes: d.Bytes, Waits: d.Waits})
		}
	}
	switch {
	case a.output == "json":
		err = writeJSONArray(w, days)
	case len(days) == 0:
		_, err = fmt.Fprintf(w, "No day ended more than %s ago.\n", humanAge(keep))
	default:
		err = writeOldDays(w, days)
	}
	if err != nil {
		return err
	}
	return failed
}

func writeOldDays(w io.Writer, days []oldDay) error {
	g := grid{header: []string{"TABLE", "DAY", "FILES", "ROWS", "SIZE", ""}, right: []bool{false, false, true, true, true}}
	for _, d := range days {
		note := ""
		switch {
		case d.Error != "":
			note = oneLine(d.Error)
		case d.Waits:
			note = "stays for now: a segment with rows of it is younger than " + humanAge(settled)
		}
		g.add(d.Table, d.Day, humanCount(int64(d.Files)), humanCount(d.Rows), humanBytes(d.Bytes), note)
	}
	return g.write(w)
}
