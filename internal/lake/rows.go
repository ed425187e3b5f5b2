package lake

import (
	"cmp"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// nsPerDay is a partition's width in timestamp_ns.
const nsPerDay = int64(24 * 60 * 60 * 1e9)

// part is rows [from, to) of a segment.
type part struct {
	seg      Segment
	from, to int64
}

// key is one row: where it sorts, and where it is.
type key struct {
	ns          int64
	source, row int32
}

// rowSet is the rows of one transaction in table order: by timestamp_ns (and so by timestamp, which is its floor),
// then as offered.
type rowSet struct {
	sources []otelarrow.Source
	bytes   [][]int64 // per source and row, in the table's form
	keys    []key
}

// dayOf is the partition of a row: whole days since 1970, floored also before it.
func dayOf(ns int64) int32 {
	d := ns / nsPerDay
	if ns%nsPerDay < 0 {
		d--
	}
	return int32(d)
}

// collect takes from the parts, in order, the longest prefix of rows that lies in as many partitions as a transaction
// may have, and sorts it. It returns the parts that the rows make up, and whether rows are left (cut).
func collect(parts []part, l limits) (set *rowSet, taken []part, cut bool, err error) {
	set = &rowSet{}
	days := map[int32]struct{}{}
	for _, p := range parts {
		var end int64
		if end, cut, err = set.add(p, days, l); err != nil {
			return nil, nil, false, &SegmentError{ID: p.seg.ID, Err: err}
		}
		if end > p.from {
			taken = append(taken, part{seg: p.seg, from: p.from, to: end})
		}
		if cut {
			break
		}
	}
	slices.SortFunc(set.keys, func(a, b key) int {
		switch {
		case a.ns != b.ns:
			return cmp.Compare(a.ns, b.ns)
		case a.source != b.source:
			return cmp.Compare(a.source, b.source)
		default:
			return cmp.Compare(a.row, b.row)
		}
	})
	return set, taken, cut, nil
}

// full tells whether a transaction of these rows takes no further partition.
func (s *rowSet) full(days int, l limits) bool {
	return days >= l.scattered || days >= l.partitions && len(s.keys) >= l.fileRows*days
}

// add appends rows of p up to its end, or to the first row (full) whose partition would be one too many.
func (s *rowSet) add(p part, days map[int32]struct{}, l limits) (end int64, full bool, err error) {
	first := int64(0) // position of the batch's first row in the segment
	end = p.from
	for _, rec := range p.seg.Batches {
		n := rec.NumRows()
		if first+n <= p.from {
			first += n
			continue
		}
		times, err := otelarrow.Timestamps(rec)
		if err != nil {
			return 0, false, err
		}
		sizes, err := otelarrow.RowBytes(rec)
		if err != nil {
			return 0, false, err
		}
		source := int32(len(s.sources))
		s.sources = append(s.sources, otelarrow.Source{SegmentID: p.seg.ID, FirstRow: first, Record: rec})
		s.bytes = append(s.bytes, sizes)
		for row := max(0, p.from-first); row < n && first+row < p.to; row++ {
			day := dayOf(times[row])
			if _, seen := days[day]; !seen {
				if s.full(len(days), l) {
					return end, true, nil
				}
				days[day] = struct{}{}
			}
			s.keys = append(s.keys, key{ns: times[row], source: source, row: int32(row)})
			end++
		}
		first += n
	}
	return end, false, nil
}

// day returns the end of the run of keys, from lo on, that share a partition.
func (s *rowSet) day(lo int) (hi int, day int32) {
	day = dayOf(s.keys[lo].ns)
	end, overflow := (int64(day)+1)*nsPerDay, int64(day)+1 > maxDay
	hi = lo + 1
	for hi < len(s.keys) && (overflow || s.keys[hi].ns < end) {
		hi++
	}
	return hi, day
}

// maxDay is the last day whose end is an int64 of nanoseconds.
const maxDay = int64(1<<63-1) / nsPerDay

// chunk returns the end of the longest run of keys, from lo on and below hi, within the bounds; at least one row.
func (s *rowSet) chunk(lo, hi int, l limits) int {
	var size int64
	end := lo
	for end < hi && end-lo < l.chunkRows {
		k := s.keys[end]
		size += s.bytes[k.source][k.row]
		if size > l.chunkBytes && end > lo {
			break
		}
		end++
	}
	return end
}

// gather puts keys [lo, hi) into table form. A row that cannot be read is a SegmentError.
func (s *rowSet) gather(signal otelarrow.Signal, columns []otelarrow.PromotedColumn, lo, hi int, mem memory.Allocator) (arrow.RecordBatch, []misfits, error) {
	refs := make([]otelarrow.RowRef, hi-lo)
	for i, k := range s.keys[lo:hi] {
		refs[i] = otelarrow.RowRef{Source: k.source, Row: k.row}
	}
	rec, counts, err := gatherRows(signal, s.sources, refs, columns, mem)
	if err == nil {
		return rec, counts, nil
	}
	return nil, nil, s.blame(signal, columns, refs, err)
}

// blame finds the segment that makes Gather fail, by gathering the rows of each source alone.
func (s *rowSet) blame(signal otelarrow.Signal, columns []otelarrow.PromotedColumn, refs []otelarrow.RowRef, err error) error {
	bySource := map[int32][]otelarrow.RowRef{}
	for _, r := range refs {
		bySource[r.Source] = append(bySource[r.Source], r)
	}
	for source, own := range bySource {
		rec, _, serr := gatherRows(signal, s.sources, own, columns, memory.DefaultAllocator)
		if serr != nil {
			return &SegmentError{ID: s.sources[source].SegmentID, Err: serr}
		}
		rec.Release()
	}
	return err
}

// gatherRows puts rows into table form: the signal's columns, then the promoted ones.
func gatherRows(
	signal otelarrow.Signal, sources []otelarrow.Source, refs []otelarrow.RowRef, columns []otelarrow.PromotedColumn, mem memory.Allocator,
) (arrow.RecordBatch, []misfits, error) {
	rec, err := otelarrow.Gather(signal, sources, refs, mem)
	if err != nil || len(columns) == 0 {
		return rec, nil, err
	}
	defer rec.Release()
	more, counts, err := otelarrow.Promote(signal, sources, refs, columns, mem)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		for _, a := range more {
			a.Release()
		}
	}()
	fields := slices.Clone(rec.Schema().Fields())
	for i := range more {
		fields = append(fields, columns[i].Field())
	}
	var found []misfits
	for i, c := range counts {
		if c != (otelarrow.MisfitCounts{}) {
			found = append(found, misfits{columns[i].Name, c})
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), append(slices.Clone(rec.Columns()), more...), rec.NumRows()), found, nil
}

// misfits are values that did not fit their promoted column.
type misfits struct {
	column string
	counts otelarrow.MisfitCounts
}
