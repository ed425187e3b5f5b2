package crashtest

import (
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// violations are broken promises, each beginning with its id.
type violations []string

func (v *violations) add(format string, args ...any) { *v = append(*v, fmt.Sprintf(format, args...)) }

// of returns those of one promise; "" all.
func (v violations) of(id string) (out violations) {
	for _, text := range v {
		if strings.HasPrefix(text, id) {
			out = append(out, text)
		}
	}
	return out
}

// checkedDrain drains once. On a disk that works nothing fails, and nothing that was sealed is damaged.
func (m *machine) checkedDrain(v *violations) {
	r, err := m.drain()
	if err != nil {
		v.add("LAKE-1: drain: %v", err)
	}
	for lane, err := range r.Failures {
		v.add("LAKE-1: drain of %s: %v", lane, err)
	}
	if r.Poisoned > 0 {
		v.add("LOUD-1: %d segments beyond active/ are damaged", r.Poisoned)
	}
	if r.Remaining > 0 {
		v.add("LAKE-1: %d segments are not drained", r.Remaining)
	}
}

// checkNames looks at every name below the root: ONE-1, LOUD-1, PIN-1.
func (m *machine) checkNames(v *violations, e *expect) {
	lanes, err := m.lanes()
	if err != nil {
		v.add("ONE-1: %v", err)
		return
	}
	for _, l := range lanes {
		held := map[string]segment.State{}
		for _, st := range append(slices.Clone(states), segment.Active) {
			entries, strangers, err := l.List(st)
			if err != nil || len(strangers) > 0 {
				v.add("ONE-1: %s: strangers %v: %v", l.Dir(st), strangers, err)
			}
			for _, entry := range entries {
				if st != segment.Committed && st != segment.Poison {
					v.add("ONE-1: %s is still in %s", entry.Name, st)
				}
				if was := held[entry.Name]; was != "" {
					v.add("ONE-1: %s is in %s and in %s", entry.Name, was, st)
				}
				held[entry.Name] = st
				if st == segment.Poison {
					if _, err := l.ReadNote(entry.Name); err != nil {
						v.add("LOUD-1: no note: %v", err)
					}
				}
			}
		}
	}
	for path, p := range e.pins {
		if got, err := contentOf(m.disk, path); err != nil || got != p.bytes {
			v.add("PIN-1: %s has %d bytes of %d: %v", path, len(got), len(p.bytes), err)
		}
	}
	if temps := m.files(vfs.IsTemp); len(temps) > 0 {
		v.add("ONE-1: temporary files %v", temps)
	}
}

// files returns the files below the root whose name matches.
func (m *machine) files(match func(base string) bool) (out []string) {
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := m.disk.List(dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name)
			switch {
			case e.IsDir:
				walk(name)
			case match(e.Name):
				out = append(out, name)
			}
		}
	}
	walk(root)
	return out
}

// checkRetired looks at what was unlinked from committed/: the table has its rows, and nothing pins it. RET-1.
func (m *machine) checkRetired(v *violations, e *expect, pinned bool) {
	tables := m.catalog.all()
	for _, name := range m.retired {
		lane := filepath.Dir(filepath.Dir(name))
		base := filepath.Base(name)
		id := strings.TrimSuffix(base, ".arrow")
		rows := tables[strings.TrimPrefix(lane, root+"/")][id]
		if len(rows) == 0 {
			v.add("RET-1: %s was retired and the table has none of its rows", id)
		}
		for _, s := range e.sent {
			if s.acked && s.receipt.Segment.String() == id && e.why(s.ids[0]) != "" && !slices.Contains(rows, s.ids[0]) {
				v.add("RET-1: %s was retired and the table lacks its row %d", id, s.ids[0])
			}
		}
		pin := filepath.Join(lane, string(segment.MirrorPending), base)
		if _, ok := e.pins[pin]; ok && pinned {
			v.add("RET-1: %s was retired and is pinned", id)
		}
	}
}

// checkRows looks at the tables: ACK-1, ACK-2, ORD-1, SEE-1, LAKE-1.
func (m *machine) checkRows(v *violations, e *expect) {
	for _, bad := range m.catalog.bad {
		v.add("ACK-2: %s", bad)
	}
	times := map[int]int{}
	tables := m.catalog.all()
	for lane, segs := range tables {
		for id, rows := range segs {
			for _, row := range rows {
				times[row]++
			}
			e.checkSegment(v, lane, id, rows)
		}
	}
	for _, s := range e.sent {
		for _, id := range s.ids {
			n := times[id]
			if why := e.why(id); n == 0 && why != "" {
				v.add("%s: row %d, %s, %s is lost", why, id, s.mode, s.receipt.Segment)
			}
			if n > 1 {
				v.add("LAKE-1: row %d is there %d times", id, n)
			}
			if n > 0 != (times[s.ids[0]] > 0) {
				v.add("ACK-2: of request %v only a part is there", s.ids)
			}
		}
	}
	m.checkGaps(v, e, times)
}

// checkGaps looks at what was reported as missing. Nobody removes segments here, so nothing may be but the number of a
// segment that the power took with rows under auto, while a later name survived.
func (m *machine) checkGaps(v *violations, e *expect, times map[int]int) {
	lanes, err := m.lanes()
	if err != nil {
		v.add("ORD-1: %v", err)
	}
	for _, l := range lanes {
		gaps, err := l.Gaps()
		if err != nil {
			v.add("ORD-1: %v", err)
		}
		for _, g := range gaps {
			for n := g.First; n <= g.Last; n++ {
				if !e.lost(g.Writer, n, times) {
					v.add("ORD-1: number %d of writer %s in lane %s is reported missing", n, g.Writer, l.Key())
				}
			}
		}
	}
}

// lost tells whether acknowledged rows of a number are in no table. That they may be is checked row by row.
func (e *expect) lost(writer string, number uint64, times map[int]int) bool {
	return slices.ContainsFunc(e.sent, func(s sent) bool {
		id := s.receipt.Segment
		return s.acked && hex.EncodeToString(id.Writer[:]) == writer && id.Seq == number && times[s.ids[0]] == 0
	})
}

// checkSegment holds the rows of one segment against what was sent and where the receipts say it is.
func (e *expect) checkSegment(v *violations, lane, id string, rows []int) {
	for i, row := range rows {
		s := e.owner(row)
		switch {
		case s == nil || !s.called:
			v.add("ACK-2: row %d was never sent", row)
		case s.lane+"/"+index != lane:
			v.add("ACK-2: row %d of %s is in %s", row, s.lane, lane)
		case s.acked && (s.receipt.Segment.String() != id || s.ids[0]+i-int(s.receipt.First) != row):
			v.add("ORD-1: row %d is row %d of %s, receipt %v", row, i, id, s.receipt)
		}
	}
}

// checkRest looks at what is left when all is done: nothing but what was set aside, or is kept for a reason. BND-1.
func (m *machine) checkRest(v *violations, kept func(name string) bool) {
	left := m.files(func(base string) bool { return strings.Contains(base, ".arrow") || vfs.IsTemp(base) })
	left = slices.DeleteFunc(left, func(name string) bool {
		return filepath.Base(filepath.Dir(name)) == string(segment.Poison) || kept(name)
	})
	if len(left) > 0 {
		v.add("BND-1: left after the end: %v", left)
	}
	lanes, err := m.lanes()
	if err != nil {
		v.add("BND-1: %v", err)
	}
	for _, l := range lanes {
		orphaned := map[string]bool{}
		entries, err := m.disk.List(l.Dir(segment.Poison))
		if err != nil {
			v.add("BND-1: %v", err)
		}
		for _, entry := range entries {
			orphaned[strings.TrimSuffix(entry.Name, ".json")] = !orphaned[strings.TrimSuffix(entry.Name, ".json")]
		}
		for _, name := range slices.Sorted(maps.Keys(orphaned)) {
			if orphaned[name] {
				v.add("BND-1: note without segment, or segment without note: %s", name)
			}
		}
	}
}
