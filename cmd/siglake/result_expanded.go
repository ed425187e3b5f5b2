package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// expandedResult writes one value a line, for rows too wide for a screen.
type expandedResult struct {
	w        io.Writer
	maxWidth int
	names    []string // padded to one width
	rows     int
}

func (e *expandedResult) begin(cols []column) error {
	width := 0
	for _, c := range cols {
		name := cell(c.name, e.maxWidth)
		e.names = append(e.names, name)
		width = max(width, utf8.RuneCountInString(name))
	}
	for i, name := range e.names {
		e.names[i] = name + strings.Repeat(" ", width-utf8.RuneCountInString(name))
	}
	return nil
}

func (e *expandedResult) row(values []any) error {
	e.rows++
	var b strings.Builder
	fmt.Fprintf(&b, "-[ %d ]-\n", e.rows)
	for i, v := range values {
		fmt.Fprintf(&b, "%s | %s\n", e.names[i], cell(text(v), e.maxWidth))
	}
	_, err := io.WriteString(e.w, b.String())
	return err
}

func (e *expandedResult) end() error {
	_, err := fmt.Fprintf(e.w, "(%s)\n", plural(e.rows, "row", "rows"))
	return err
}
