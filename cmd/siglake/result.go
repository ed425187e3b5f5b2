package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A value of a result is nil, bool, int64, uint64, float64, string (also for times, UUIDs and other types that
// have a text form), number, list, or record.
type (
	// number is an exact number that fits no Go type, in decimal.
	number string
	// list is an array.
	list []any
	// record is a struct or a map: pairs in order.
	record []pair
	pair   struct{ key, value any }
)

// column is one column of a result. Numeric ones are aligned right.
type column struct {
	name    string
	numeric bool
}

// resultWriter prints a result: begin, row by row, end.
type resultWriter interface {
	begin(cols []column) error
	row(values []any) error
	end() error
}

// newResultWriter returns the writer of a format. expanded is of the table format: one value a line.
func newResultWriter(format string, expanded bool, w io.Writer, maxWidth int) resultWriter {
	switch {
	case format == "json":
		return &jsonResult{arr: jsonArray{w: w}}
	case format == "csv":
		return &csvResult{raw: w, w: csv.NewWriter(w)}
	case expanded:
		return &expandedResult{w: w, maxWidth: maxWidth}
	default:
		return &tableResult{w: w, maxWidth: maxWidth}
	}
}

// text is a value for people: NULL is shown by the caller, strings are bare at the top and inside {k=v}.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		return floatText(v)
	case number:
		return string(v)
	case string:
		return v
	case list:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = text(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case record:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = text(p.key) + "=" + text(p.value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return fmt.Sprint(v)
	}
}

func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// tableResult collects all rows to align them.
type tableResult struct {
	w        io.Writer
	maxWidth int
	g        grid
}

func (t *tableResult) begin(cols []column) error {
	for _, c := range cols {
		t.g.header = append(t.g.header, cell(c.name, t.maxWidth))
		t.g.right = append(t.g.right, c.numeric)
	}
	return nil
}

func (t *tableResult) row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = cell(text(v), t.maxWidth)
	}
	t.g.add(cells...)
	return nil
}

// cell makes text safe to print and cuts it; maxWidth 0 = never.
func cell(s string, maxWidth int) string {
	if maxWidth > 0 && len(s) > maxWidth {
		// Cut before escaping, so that a long text costs no more than what is shown of it.
		cut := 0
		for i := range s {
			if cut == maxWidth {
				s = s[:i] + "…"
				break
			}
			cut++
		}
	}
	s = oneLine(strings.ToValidUTF8(s, "\uFFFD"))
	if maxWidth > 0 && utf8.RuneCountInString(s) > maxWidth+1 {
		r := []rune(s)
		s = string(r[:maxWidth]) + "…"
	}
	return s
}

func (t *tableResult) end() error {
	if err := t.g.write(t.w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.w, "(%s)\n", plural(len(t.g.rows), "row", "rows"))
	return err
}

// plainResult writes text as it is, line breaks and all: a plan that EXPLAIN has drawn.
type plainResult struct{ w io.Writer }

func (p *plainResult) begin([]column) error { return nil }

func (p *plainResult) row(values []any) error {
	if len(values) == 0 {
		return nil
	}
	for line := range strings.Lines(text(values[len(values)-1])) {
		if _, err := fmt.Fprintln(p.w, oneLine(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

func (p *plainResult) end() error { return nil }

// csvResult writes a header and one record a row. NULL is an empty field; maps, structs and lists are JSON, as text for people
// could be read in two ways.
type csvResult struct {
	raw   io.Writer
	w     *csv.Writer
	cells []string
}

func (c *csvResult) begin(cols []column) error {
	names := make([]string, len(cols))
	for i, col := range cols {
		names[i] = col.name
	}
	c.cells = make([]string, len(cols))
	return c.write(names)
}

func (c *csvResult) row(values []any) error {
	for i, v := range values {
		switch v.(type) {
		case nil:
			c.cells[i] = ""
		case list, record:
			var b bytes.Buffer
			if err := appendJSON(&b, v); err != nil {
				return err
			}
			c.cells[i] = b.String()
		default:
			c.cells[i] = text(v)
		}
	}
	return c.write(c.cells)
}

func (c *csvResult) write(cells []string) error {
	if len(cells) == 1 && cells[0] == "" {
		// The package would write an empty line, which readers skip.
		c.w.Flush()
		if err := c.w.Error(); err != nil {
			return err
		}
		_, err := io.WriteString(c.raw, "\"\"\n")
		return err
	}
	return c.w.Write(cells)
}

func (c *csvResult) end() error {
	c.w.Flush()
	return c.w.Error()
}

// jsonResult writes an array of objects, one a line, columns in order.
type jsonResult struct {
	arr  jsonArray
	cols []column
}

func (j *jsonResult) begin(cols []column) error {
	j.cols = cols
	return nil
}

func (j *jsonResult) row(values []any) error {
	obj := make(record, len(values))
	for i, v := range values {
		obj[i] = pair{j.cols[i].name, v}
	}
	return j.arr.add(obj)
}

func (j *jsonResult) end() error { return j.arr.close() }

// MarshalJSON writes an object with its keys in order. Keys that are no strings are written as their text.
func (r record) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := appendJSON(&b, text(p.key)); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := appendJSON(&b, p.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// MarshalJSON writes the elements by the rules of this file.
func (l list) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := appendJSON(&b, v); err != nil {
			return nil, err
		}
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

func appendJSON(b *bytes.Buffer, v any) error {
	switch x := v.(type) {
	case number:
		b.WriteString(string(x))
		return nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) { // JSON has no word for them
			v = floatText(x)
		} else {
			b.WriteString(floatText(x))
			return nil
		}
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the line break
	return nil
}
