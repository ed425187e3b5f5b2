package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// grid is a table of text. The zero value of right aligns all columns left.
type grid struct {
	header []string
	right  []bool // per column
	rows   [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// write aligns the columns with two spaces between them.
func (g *grid) write(w io.Writer) error {
	widths := make([]int, len(g.header))
	for _, row := range append([][]string{g.header}, g.rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{g.header}, g.rows...) {
		b.Reset()
		for i, c := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i < len(g.right) && g.right[i] {
				b.WriteString(pad + c)
			} else {
				b.WriteString(c + pad)
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes one indented document.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// humanBytes is a size with one decimal in binary units.
func humanBytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n), -1
	for v >= 1023.95 && unit < 4 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[unit])
}

// humanCount groups the digits of a number.
func humanCount(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// humanAge is a duration in its two largest units. A negative one, from a clock that was set back, is 0s.
func humanAge(d time.Duration) string {
	d = max(d, 0)
	switch s := int64(d / time.Second); {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%dm", s/3600, s%3600/60)
	default:
		return fmt.Sprintf("%dd%dh", s/86400, s%86400/3600)
	}
}

// humanTime is a time in UTC to the second; empty for the zero time.
func humanTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// nanoTime is a time in unix ns, as RFC 3339 in UTC.
func nanoTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

func plural(n int, one, many string) string { return humanCount(int64(n)) + " " + agree(n, one, many) }

// agree chooses the words that go with n things.
func agree(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// show writes a report, as JSON or as text, and returns what went wrong before or with that: what was done stands in the report
// also beside an error.
func (a *app) show(w io.Writer, report any, text func(io.Writer) error, trouble error) error {
	if a.output == "json" {
		return errors.Join(trouble, writeJSON(w, report))
	}
	return errors.Join(trouble, text(w))
}

// writeJSONArray writes one array with one element a line.
func writeJSONArray[T any](w io.Writer, vs []T) error {
	arr := jsonArray{w: w}
	for _, v := range vs {
		if err := arr.add(v); err != nil {
			return err
		}
	}
	return arr.close()
}

// jsonArray writes an array element by element.
type jsonArray struct {
	w io.Writer
	n int
}

func (a *jsonArray) add(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	sep := ",\n"
	if a.n == 0 {
		sep = "[\n"
	}
	a.n++
	_, err := fmt.Fprintf(a.w, "%s%s", sep, bytes.TrimRight(b.Bytes(), "\n"))
	return err
}

func (a *jsonArray) close() error {
	end := "\n]\n"
	if a.n == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(a.w, end)
	return err
}

// oneLine makes text safe to print in one cell: no line breaks, and no control characters, with which data could
// move a terminal's cursor.
func oneLine(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unprintable(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unprintable tells control characters, and those that reorder text, from the rest.
func unprintable(r rune) bool {
	return r < 0x20 || r >= 0x7F && r < 0xA0 || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F
}
