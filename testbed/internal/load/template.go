package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// IDKey is the attribute that carries a record's id.
const IDKey = "load.id"

const numberWidth = 12 // decimal digits of a record number in its id

// Shape says what the requests of a run look like.
type Shape struct {
	Signal      string // logs, traces or metrics
	Batch       int    // records, spans or points in a request
	Resources   int    // resources in a request; 0 means 1
	RecordBytes int    // mean encoded size of a log record or span; 0 means 500
	Templates   int    // different contents to cycle through; 0 means 8
	Run         string // first part of every id; letters, digits and '_'
	Seed        uint64
}

// ID is the id of record number n.
func (s Shape) ID(n uint64) string { return fmt.Sprintf("%s-%0*d", s.Run, numberWidth, n) }

// Numbers are the numbers of the records of a request.
func (s Shape) Numbers(request uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		batch := uint64(s.Batch)
		for n := request * batch; n < (request+1)*batch && yield(n); n++ {
		}
	}
}

// ParseID returns the number of an id of this run.
func ParseID(run, id string) (uint64, bool) {
	digits, ok := strings.CutPrefix(id, run+"-")
	if !ok || len(digits) != numberWidth {
		return 0, false
	}
	var n uint64
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// NumbersIn finds the record numbers of a run in the raw bytes of a segment: attribute values stand in it as plain text.
func NumbersIn(run string, data []byte) []uint64 {
	mark := []byte(run + "-")
	var out []uint64
	for {
		at := bytes.Index(data, mark)
		if at < 0 {
			return out
		}
		data = data[at:]
		if end := len(mark) + numberWidth; len(data) >= end {
			if n, ok := ParseID(run, string(data[:end])); ok {
				out = append(out, n)
			}
		}
		data = data[len(mark):]
	}
}

// Template is one encoded request with the places of what changes from send to send.
type Template struct {
	shape   Shape
	data    []byte
	patches []patch
}

type patchKind uint8

const (
	patchNumber  patchKind = iota // the digits of the record number in the id
	patchTraceID                  // 16 bytes made from the record number
	patchSpanID                   // 8 bytes made from the record number
	patchTime                     // the time of the send
	patchEarlier                  // up to 50 ms before it
)

type patch struct {
	at     int
	record int
	kind   patchKind
}

// NewTemplates builds the requests of a shape.
func NewTemplates(shape Shape) ([]*Template, error) {
	if shape.Batch < 1 || shape.Batch > 1_000_000 {
		return nil, fmt.Errorf("build request: batch %d is not within 1 to 1000000", shape.Batch)
	}
	shape.Resources = min(max(shape.Resources, 1), shape.Batch)
	if shape.RecordBytes == 0 {
		shape.RecordBytes = 500
	}
	if shape.Templates == 0 {
		shape.Templates = 8
	}
	out := make([]*Template, shape.Templates)
	for i := range out {
		data, err := encode(shape, rand.New(rand.NewPCG(shape.Seed, uint64(i))))
		if err != nil {
			return nil, err
		}
		t := &Template{shape: shape, data: data}
		if err := t.locate(); err != nil {
			return nil, err
		}
		out[i] = t
	}
	return out, nil
}

// Size is the encoded size of the request.
func (t *Template) Size() int { return len(t.data) }

// Fill writes request number request into buf, which it grows as needed, and returns it.
func (t *Template) Fill(buf []byte, request uint64, now time.Time) []byte {
	buf = append(buf[:0], t.data...)
	base := request * uint64(t.shape.Batch)
	ns := uint64(now.UnixNano())
	for _, p := range t.patches {
		n := base + uint64(p.record)
		at := buf[p.at:]
		switch p.kind {
		case patchNumber:
			for i, v := numberWidth-1, n; i >= 0; i, v = i-1, v/10 {
				at[i] = byte('0' + v%10)
			}
		case patchTraceID:
			binary.BigEndian.PutUint64(at, scatter(n, 1)|1)
			binary.BigEndian.PutUint64(at[8:], scatter(n, 2))
		case patchSpanID:
			binary.BigEndian.PutUint64(at, scatter(n, 3)|1)
		case patchTime:
			binary.LittleEndian.PutUint64(at, ns+uint64(p.record))
		case patchEarlier:
			binary.LittleEndian.PutUint64(at, ns-scatter(n, 4)%50_000_000)
		}
	}
	return buf
}

// scatter spreads a record number over 64 bits, repeatably (the finaliser of MurmurHash3).
func scatter(n, stream uint64) uint64 {
	x := n ^ stream*0xd6e8feb86659fd93
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// The field numbers on the way from a request to its records, and within a record, by signal.
// All three start resource (1), scope (2), record (2).
var layouts = map[string]layout{
	"logs":   {fixed: map[protowire.Number]patchKind{1: patchTime, 11: patchTime}, trace: 9, span: 10, attributes: 6},
	"traces": {fixed: map[protowire.Number]patchKind{7: patchEarlier, 8: patchTime}, trace: 1, span: 2, attributes: 9},
}

type layout struct {
	fixed                   map[protowire.Number]patchKind
	trace, span, attributes protowire.Number
}

// The points of a metric: data field, points field 1, then these.
var points = map[protowire.Number]layout{
	5: {fixed: map[protowire.Number]patchKind{2: patchEarlier, 3: patchTime}, attributes: 7}, // gauge
	7: {fixed: map[protowire.Number]patchKind{2: patchEarlier, 3: patchTime}, attributes: 7}, // sum
	9: {fixed: map[protowire.Number]patchKind{2: patchEarlier, 3: patchTime}, attributes: 9}, // histogram
}

// locate finds the places to patch and checks that every record has its id.
func (t *Template) locate() error {
	record := -1
	err := t.within(0, len(t.data), []protowire.Number{1, 2, 2}, func(from, to int) error {
		if t.shape.Signal != "metrics" {
			record++
			return t.record(from, to, record, layouts[t.shape.Signal])
		}
		for data, l := range points {
			err := t.within(from, to, []protowire.Number{data, 1}, func(from, to int) error {
				record++
				return t.record(from, to, record, l)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ids := 0
	for _, p := range t.patches {
		if p.kind == patchNumber {
			ids++
		}
	}
	if ids != t.shape.Batch || record+1 != t.shape.Batch {
		return fmt.Errorf("build request: %d records with %d ids, want %d", record+1, ids, t.shape.Batch)
	}
	return nil
}

// fields calls each with every field of the message at data[from:to]: where its value starts and ends.
func (t *Template) fields(from, to int, each func(num protowire.Number, typ protowire.Type, from, to int) error) error {
	for at := from; at < to; {
		num, typ, n := protowire.ConsumeTag(t.data[at:to])
		if n < 0 {
			return protowire.ParseError(n)
		}
		at += n
		size := protowire.ConsumeFieldValue(num, typ, t.data[at:to])
		if size < 0 {
			return protowire.ParseError(size)
		}
		start := at
		if typ == protowire.BytesType {
			_, prefix := protowire.ConsumeVarint(t.data[at:to])
			start += prefix
		}
		at += size
		if err := each(num, typ, start, at); err != nil {
			return err
		}
	}
	return nil
}

// within calls each with every message at the end of a path of field numbers.
func (t *Template) within(from, to int, path []protowire.Number, each func(from, to int) error) error {
	if len(path) == 0 {
		return each(from, to)
	}
	return t.fields(from, to, func(num protowire.Number, typ protowire.Type, from, to int) error {
		if num != path[0] || typ != protowire.BytesType {
			return nil
		}
		return t.within(from, to, path[1:], each)
	})
}

func (t *Template) record(from, to, record int, l layout) error {
	return t.fields(from, to, func(num protowire.Number, typ protowire.Type, from, to int) error {
		switch {
		case typ == protowire.Fixed64Type:
			if kind, ok := l.fixed[num]; ok {
				t.patches = append(t.patches, patch{from, record, kind})
			}
		case num == l.trace && to-from == 16:
			t.patches = append(t.patches, patch{from, record, patchTraceID})
		case num == l.span && to-from == 8:
			t.patches = append(t.patches, patch{from, record, patchSpanID})
		case num == l.attributes && typ == protowire.BytesType:
			return t.attribute(from, to, record)
		}
		return nil
	})
}

// attribute finds the digits in the id's attribute: KeyValue {key 1, value 2 {string 1}}, in either order.
func (t *Template) attribute(from, to, record int) error {
	isID, end := false, 0
	err := t.fields(from, to, func(num protowire.Number, _ protowire.Type, from, to int) error {
		switch num {
		case 1:
			isID = string(t.data[from:to]) == IDKey
		case 2:
			end = to
		}
		return nil
	})
	if isID {
		t.patches = append(t.patches, patch{end - numberWidth, record, patchNumber})
	}
	return err
}
