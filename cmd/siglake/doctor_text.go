package main

import (
	"fmt"
	"io"
	"strings"
)

// doctorReport is the report of doctor.
type doctorReport struct {
	Checks []finding `json:"checks"`
	Failed int       `json:"failed"`
	Warned int       `json:"warned"`
}

// write prints the table, and below it what to do.
func (r *doctorReport) write(w io.Writer) error {
	var b strings.Builder
	g := &grid{header: []string{"CHECK", "RESULT", "SEEN"}}
	for _, f := range r.Checks {
		g.add(f.Check, f.Result, oneLine(f.Seen))
	}
	if err := g.write(&b); err != nil {
		return err
	}
	for _, f := range r.Checks {
		if f.Result == passed || f.Result == skipped {
			continue
		}
		fmt.Fprintf(&b, "\n%s %s\n  costs  %s\n  fix    %s\n", f.Result, f.Check, f.Costs, f.Fix)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// verdict turns what failed into an error.
func (r *doctorReport) verdict() error {
	if r.Failed == 0 {
		return nil
	}
	var names []string
	for _, f := range r.Checks {
		if f.Result == failed {
			names = append(names, f.Check)
		}
	}
	return &exitError{exitUnfit, fmt.Errorf("%s failed: %s", plural(r.Failed, "check", "checks"), strings.Join(names, ", "))}
}
