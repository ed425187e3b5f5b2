package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
)

// span is the time that --since and --until leave: [since, until). A zero bound is none.
type span struct{ since, until time.Time }

// spanTime reads the value of --since or --until: a time, a day, or how long ago.
func spanTime(flag, value string, now time.Time) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, value); err == nil {
			return t.Truncate(time.Microsecond), nil // as exact as the column
		}
	}
	ago, err := time.ParseDuration(value)
	if days, ok := strings.CutSuffix(value, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || ago < 0 {
		return time.Time{}, usageError("%s: %q is neither how long ago (90m, 2h, 7d) nor a time (2026-05-17, 2026-05-17T12:00:00Z)", flag, value)
	}
	return now.Add(-ago).Truncate(time.Microsecond), nil
}

func (s span) all() bool { return s.since.IsZero() && s.until.IsZero() }

// overlaps tells whether times from lo to hi, both included, may be in the span.
func (s span) overlaps(lo, hi time.Time) bool {
	return (s.since.IsZero() || !hi.Before(s.since)) && (s.until.IsZero() || lo.Before(s.until))
}

// files are those that may hold rows of the span; bounds of the manifests that say nothing keep a file.
func (s span) files(files []lake.PlanFile) []lake.PlanFile {
	return slices.DeleteFunc(slices.Clone(files), func(f lake.PlanFile) bool {
		return !f.Min.IsZero() && !f.Max.IsZero() && !s.overlaps(f.Min, f.Max)
	})
}

// mayHold reads a sealed segment's header and tells whether it may hold rows of the span.
func (s span) mayHold(f io.ReaderAt) bool {
	if s.all() {
		return true
	}
	b := make([]byte, frame.HeaderSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return true // decoding it says what is wrong
	}
	h, err := frame.ParseHeader(b)
	if err != nil || h.Partial || h.MinTime == 0 && h.MaxTime == 0 {
		return true
	}
	return s.overlaps(time.Unix(0, h.MinTime), time.Unix(0, h.MaxTime))
}

// where is the condition of the span on a table, "" where there is none.
func (s span) where() string {
	var parts []string
	const layout = "2006-01-02 15:04:05.999999Z07:00"
	if !s.since.IsZero() {
		parts = append(parts, fmt.Sprintf(`"timestamp" >= TIMESTAMPTZ '%s'`, s.since.UTC().Format(layout)))
	}
	if !s.until.IsZero() {
		parts = append(parts, fmt.Sprintf(`"timestamp" < TIMESTAMPTZ '%s'`, s.until.UTC().Format(layout)))
	}
	return strings.Join(parts, " AND ")
}

// fits tells whether a table has the column that the span speaks of.
func (s span) fits(p lake.Plan) bool {
	return s.all() || slices.ContainsFunc(p.Schema, func(c lake.PlanColumn) bool {
		return strings.EqualFold(c.Name, "timestamp") && c.DuckDBType == "TIMESTAMPTZ"
	})
}
