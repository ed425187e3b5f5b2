package expect

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// Window is when a request was under way, in nanoseconds: what the server calls arrival lies in it.
type Window struct{ From, To int64 }

// Cell is what one column must hold.
type Cell struct {
	// Want is a value that the column may hold, in the reader's exact form.
	Want any
	// Check says what is wrong with the value got; "" when nothing is. row is the row or struct that holds it.
	Check func(w Window, row map[string]any, got any) string
}

// Row is what one row must hold: a cell for each column.
type Row map[string]Cell

// Diff is one value that is not as it must be.
type Diff struct{ Column, Problem string }

// Compare checks a row read from a table. Every column must have a cell and every cell a column.
func (r Row) Compare(w Window, got map[string]any) []Diff {
	var out []Diff
	for _, name := range slices.Sorted(maps.Keys(r)) {
		value, ok := got[name]
		if !ok {
			out = append(out, Diff{name, "the table has no such column"})
			continue
		}
		if p := r[name].Check(w, got, value); p != "" {
			out = append(out, Diff{name, p})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := r[name]; !ok {
			out = append(out, Diff{name, "no rule says what this column holds"})
		}
	}
	return out
}

func show(v any) string {
	if v == nil {
		return "null"
	}
	return short(fmt.Sprint(v))
}

func exactly(want any) Cell {
	return Cell{want, func(_ Window, _ map[string]any, got any) string {
		if reflect.DeepEqual(want, got) {
			return ""
		}
		return fmt.Sprintf("want %s, got %s", show(want), show(got))
	}}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// number is an integer; zero is a value like any other.
func number(n int64) Cell { return exactly(decimal(n)) }

// clampInt is a uint64 as a long: what is too large becomes the largest.
func clampInt(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func count(n uint64) Cell { return number(clampInt(n)) }

// text is a string that is null when empty.
func text(s string) Cell {
	if s == "" {
		return exactly(nil)
	}
	return exactly(clean(s))
}

// name is a string that is never null.
func name(s string) Cell { return exactly(clean(s)) }

func double(f float64) Cell {
	return Cell{formatDouble(f), func(_ Window, _ map[string]any, got any) string { return doubleDiffers(f, got) }}
}

func formatDouble(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func doubleDiffers(want float64, got any) string {
	s, ok := got.(string)
	f, err := strconv.ParseFloat(s, 64)
	if !ok || err != nil || !sameDouble(want, f) {
		return fmt.Sprintf("want %s, got %s", formatDouble(want), show(got))
	}
	return ""
}

// id is a trace or span id: lower-case hex, null when empty or all zero.
func id(b []byte) Cell {
	if !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		return exactly(nil)
	}
	return exactly(hex.EncodeToString(b))
}

// enum is the OTLP name; a number that has none as decimal text.
func enum(number int32, name string) Cell {
	if name == "" {
		return exactly(decimal(int64(number)))
	}
	return exactly(name)
}

func boolean(b bool) Cell { return exactly(b) }

func micros(ns int64) string {
	us := ns / 1000
	if ns%1000 < 0 {
		us--
	}
	return decimal(us)
}

// rawTime is a uint64 time as two's complement; null when not set.
func rawTime(ns uint64) Cell {
	if ns == 0 {
		return exactly(nil)
	}
	return number(int64(ns))
}

// clampedTime is a time as a long; null when not set.
func clampedTime(ns uint64) Cell {
	if ns == 0 {
		return exactly(nil)
	}
	return count(ns)
}

// timestamp is a time as microseconds, rounded down; null when not set.
func timestamp(ns uint64) Cell {
	if ns == 0 {
		return exactly(nil)
	}
	return exactly(micros(clampInt(ns)))
}

// arrived is ingested_at: a time within the window.
func arrived() Cell {
	return Cell{"0", func(w Window, _ map[string]any, got any) string {
		s, ok := got.(string)
		us, err := strconv.ParseInt(s, 10, 64)
		if !ok || err != nil || us*1000 < w.From-1000 || us*1000 > w.To {
			return fmt.Sprintf("want a time from %d to %d µs, got %s", w.From/1000, w.To/1000, show(got))
		}
		return ""
	}}
}

// effective is the pair of timestamp columns: the first time that is set, else arrival.
func effective(times ...uint64) (us, ns Cell) {
	for _, t := range times {
		if t != 0 {
			return exactly(micros(clampInt(t))), exactly(decimal(clampInt(t)))
		}
	}
	us = Cell{"0", func(_ Window, row map[string]any, got any) string {
		if !reflect.DeepEqual(got, row["ingested_at"]) {
			return fmt.Sprintf("want the arrival %v, got %s", row["ingested_at"], show(got))
		}
		return ""
	}}
	ns = Cell{"0", func(_ Window, row map[string]any, got any) string {
		s, ok := got.(string)
		n, err := strconv.ParseInt(s, 10, 64)
		if !ok || err != nil || micros(n) != row["ingested_at"] {
			return fmt.Sprintf("want the arrival %v µs, got %s ns", row["ingested_at"], show(got))
		}
		return ""
	}}
	return us, ns
}

// first keeps the first of each key, as the tables do.
func first(kvs []*commonpb.KeyValue) []*commonpb.KeyValue {
	seen := map[string]bool{}
	var out []*commonpb.KeyValue
	for _, kv := range kvs {
		if k := clean(kv.Key); !seen[k] {
			seen[k] = true
			out = append(out, kv)
		}
	}
	return out
}

// attributes are the cells of an attribute map and of its types. The types come out of the row by name.
func attributes(kvs []*commonpb.KeyValue, typesColumn string) (values, types Cell) {
	kvs = first(kvs)
	wantValues, wantTypes := []any{}, []any{}
	for _, kv := range kvs {
		wantValues = append(wantValues, []any{clean(kv.Key), render(kv.Value)})
		if k := kind(kv.Value); k != "" {
			wantTypes = append(wantTypes, []any{clean(kv.Key), k})
		}
	}
	values = Cell{wantValues, func(_ Window, row map[string]any, got any) string {
		if got == nil {
			return "want a map, got null"
		}
		pairs, problem := pairsOf(got)
		if problem != "" {
			return problem
		}
		kinds, problem := pairsOf(row[typesColumn])
		if problem != "" {
			return typesColumn + ": " + problem
		}
		return attributesDiffer(kvs, pairs, kinds)
	}}
	types = Cell{wantTypes, func(_ Window, _ map[string]any, got any) string {
		if len(wantTypes) == 0 && got != nil {
			return fmt.Sprintf("want null as all values are strings, got %s", show(got))
		}
		pairs, problem := pairsOf(got)
		if problem != "" {
			return problem
		}
		want, _ := pairsOf(wantTypes)
		if !maps.Equal(want, pairs) {
			return fmt.Sprintf("want %s, got %s", show(wantTypes), show(got))
		}
		return ""
	}}
	if len(wantTypes) == 0 {
		types.Want = nil
	}
	return values, types
}

// pairsOf reads a map column: [[key, value], ...].
func pairsOf(got any) (map[string]string, string) {
	out := map[string]string{}
	if got == nil {
		return out, ""
	}
	list, ok := got.([]any)
	if !ok {
		return nil, "want a map, got " + show(got)
	}
	for _, e := range list {
		pair, ok := e.([]any)
		if !ok || len(pair) != 2 {
			return nil, "want a map, got " + show(got)
		}
		key, ok := pair[0].(string)
		if !ok {
			return nil, "key " + show(pair[0]) + " is no text"
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Sprintf("key %q stands twice", key)
		}
		if out[key], ok = pair[1].(string); !ok {
			return nil, "value " + show(pair[1]) + " is no text"
		}
	}
	return out, ""
}

func attributesDiffer(kvs []*commonpb.KeyValue, pairs, kinds map[string]string) string {
	if len(pairs) != len(kvs) {
		return fmt.Sprintf("want %d keys, got %d: %s", len(kvs), len(pairs), show(slices.Sorted(maps.Keys(pairs))))
	}
	for _, kv := range kvs {
		key := clean(kv.Key)
		text, ok := pairs[key]
		if !ok {
			return fmt.Sprintf("key %s is missing", short(key))
		}
		if p := valueDiffers(kv.Value, text, kinds[key]); p != "" {
			return fmt.Sprintf("key %s: %s", short(key), p)
		}
	}
	return ""
}

// valueDiffers rebuilds a value from its text and type and compares it with the one sent.
func valueDiffers(want *commonpb.AnyValue, text, typ string) string {
	got := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: text}}
	if typ != "" {
		var err error
		if got, err = parse(text); err != nil {
			return fmt.Sprintf("type %s, but %s is no such JSON: %v", typ, short(text), err)
		}
		if kind(got) != typ {
			return fmt.Sprintf("type %s, but the text %s is of type %s", typ, short(text), typeName(got))
		}
	}
	return differs(want, got, "value")
}

// list is a column with a list of structs, empty rather than null.
func list(rows []Row) Cell {
	want := make([]any, len(rows))
	for i, r := range rows {
		want[i] = r.Wanted()
	}
	return Cell{want, func(w Window, _ map[string]any, got any) string {
		l, ok := got.([]any)
		if !ok || len(l) != len(rows) {
			return fmt.Sprintf("want %d elements, got %d: %s", len(rows), len(l), show(got))
		}
		for i, e := range l {
			m, ok := e.(map[string]any)
			if !ok {
				return fmt.Sprintf("element %d: want a struct, got %s", i, show(e))
			}
			if d := rows[i].Compare(w, m); len(d) > 0 {
				return fmt.Sprintf("element %d: %s: %s", i, d[0].Column, d[0].Problem)
			}
		}
		return ""
	}}
}

// scalars is a column with a list of plain values, empty rather than null.
func scalars[T any](values []T, render func(T) string, check func(T, any) string) Cell {
	want := make([]any, len(values))
	for i, v := range values {
		want[i] = render(v)
	}
	return Cell{want, func(_ Window, _ map[string]any, got any) string {
		l, ok := got.([]any)
		if !ok || len(l) != len(values) {
			return fmt.Sprintf("want %d elements, got %d: %s", len(values), len(l), show(got))
		}
		for i := range values {
			if p := check(values[i], l[i]); p != "" {
				return fmt.Sprintf("element %d: %s", i, p)
			}
		}
		return ""
	}}
}

func doubles(values []float64) Cell { return scalars(values, formatDouble, doubleDiffers) }

func counts(values []uint64) Cell {
	render := func(n uint64) string { return decimal(clampInt(n)) }
	return scalars(values, render, func(n uint64, got any) string {
		if got != render(n) {
			return fmt.Sprintf("want %s, got %s", render(n), show(got))
		}
		return ""
	})
}

// Wanted is the row as the usual values, as if it had been read.
func (r Row) Wanted() map[string]any {
	out := map[string]any{}
	for name, c := range r {
		out[name] = c.Want
	}
	return out
}
