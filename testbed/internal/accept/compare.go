package accept

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"

	"github.com/siglakecol/siglakecol/testbed/internal/expect"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
)

// Difference is one thing that is not as it must be.
type Difference struct {
	Name    string // of the request
	Form    string
	Row     int // -1: not about one row
	Column  string
	Problem string
}

func (d Difference) String() string {
	where := d.Name
	if d.Form != "" {
		where += " (" + d.Form + ")"
	}
	if d.Row >= 0 {
		where += fmt.Sprintf(" row %d", d.Row)
	}
	if d.Column != "" {
		where += " column " + d.Column
	}
	return where + ": " + d.Problem
}

// got is a row with its position and arrival.
type got struct {
	row     tables.Row
	segment string
	writer  string
	seq     uint64
	at      int64 // segment_row
	arrival int64 // microseconds
}

var segmentID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}-([0-9a-f]{12})-([0-9]+)$`)

func position(row tables.Row) (g got, err error) {
	g.row = row
	id, ok := row["segment_id"].(string)
	m := segmentID.FindStringSubmatch(id)
	if !ok || m == nil {
		return g, fmt.Errorf("segment_id %v is no segment's name", row["segment_id"])
	}
	g.segment, g.writer = id, m[1]
	if g.seq, err = strconv.ParseUint(m[2], 10, 64); err != nil {
		return g, err
	}
	for column, into := range map[string]*int64{"segment_row": &g.at, "ingested_at": &g.arrival} {
		text, _ := row[column].(string)
		if *into, err = strconv.ParseInt(text, 10, 64); err != nil {
			return g, fmt.Errorf("%s is %v, want a whole number", column, row[column])
		}
	}
	return g, nil
}

// Compare reads the tables and lists every difference from what was sent. The requests must have gone one at a time to
// an empty data directory.
func Compare(ctx context.Context, r *tables.Reader, sent []Sent) ([]Difference, error) {
	var out []Difference
	for signal, table := range expect.Tables {
		var mine []Sent
		for _, s := range sent {
			if s.Signal == signal {
				mine = append(mine, s)
			}
		}
		d, err := compareTable(ctx, r, table, mine)
		if err != nil {
			return out, fmt.Errorf("%s: %w", table, err)
		}
		out = append(out, d...)
	}
	return out, nil
}

func compareTable(ctx context.Context, r *tables.Reader, table string, sent []Sent) ([]Difference, error) {
	summary, err := r.Verify(ctx, table)
	if err != nil {
		return nil, err
	}
	var out []Difference
	for _, w := range summary.Wrong {
		out = append(out, Difference{Name: table, Row: -1, Problem: w})
	}
	acked := 0
	for _, s := range sent {
		acked += s.Stored()
	}
	if summary.Count() != acked { // that the files hold as many as the manifests claim is Verify's part
		out = append(out, Difference{Name: table, Row: -1, Problem: fmt.Sprintf("%d rows were acknowledged, the manifests have %d", acked, summary.Count())})
	}
	var rows []got
	err = r.Rows(ctx, table, func(row tables.Row) error {
		g, err := position(row)
		rows = append(rows, g)
		return err
	})
	if err != nil {
		return out, err
	}
	sortRows(rows)
	out = append(out, gaps(table, rows)...)
	return append(out, matchRows(table, sent, rows)...), nil
}

// sortRows brings rows into the order in which they were written: writers by their first row (each life of the collector
// has its own, and numbers its segments from 1), then segments by number, then rows.
func sortRows(rows []got) {
	begin := map[string]int64{}
	for _, g := range rows {
		if at, ok := begin[g.writer]; !ok || g.arrival < at {
			begin[g.writer] = g.arrival
		}
	}
	slices.SortFunc(rows, func(a, b got) int {
		return cmp.Or(cmp.Compare(begin[a.writer], begin[b.writer]), cmp.Compare(a.seq, b.seq), cmp.Compare(a.at, b.at))
	})
}

// gaps says where positions are not 0, 1, 2, … within a segment, or a position stands twice.
func gaps(table string, rows []got) []Difference {
	var out []Difference
	for i, g := range rows {
		want := int64(0)
		if i > 0 && rows[i-1].segment == g.segment {
			want = rows[i-1].at + 1
		}
		if g.at != want {
			out = append(out, Difference{Name: table, Row: -1, Column: "segment_row", Problem: fmt.Sprintf("segment %s: row %d where %d is due", g.segment, g.at, want)})
		}
	}
	return out
}

// matchRows gives each row to the request in whose window it arrived and compares them in order.
func matchRows(table string, sent []Sent, rows []got) []Difference {
	var out []Difference
	byRequest := make([][]got, len(sent))
	last := -1
	for _, g := range rows {
		// The last request that began before the row arrived; microseconds are rounded down.
		i := sort.Search(len(sent), func(i int) bool { return sent[i].Window.From > g.arrival*1000+999 }) - 1
		if i < 0 || g.arrival*1000 > sent[i].Window.To {
			out = append(out, Difference{Name: table, Row: -1, Column: "ingested_at", Problem: fmt.Sprintf("row %s/%d arrived at %d µs, when no request was under way", g.segment, g.at, g.arrival)})
			continue
		}
		if i < last {
			out = append(out, Difference{Name: sent[i].Name, Form: sent[i].Form, Row: -1, Problem: "its rows stand after those of a later request"})
		}
		last = i
		byRequest[i] = append(byRequest[i], g)
	}
	for i, s := range sent {
		if len(byRequest[i]) != s.Stored() {
			out = append(out, Difference{Name: s.Name, Form: s.Form, Row: -1, Problem: fmt.Sprintf("want %d rows, the table has %d", s.Stored(), len(byRequest[i]))})
			continue
		}
		for n, g := range byRequest[i] {
			for _, d := range s.Rows[n].Compare(s.Window, g.row) {
				out = append(out, Difference{s.Name, s.Form, n, d.Column, d.Problem})
			}
		}
	}
	return out
}
