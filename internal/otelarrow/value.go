package otelarrow

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Kinds of a value as the WAL keeps them, one byte each; 0 is by far the most common.
const (
	valueString uint8 = iota
	valueInt
	valueDouble
	valueBool
	valueBytes
	valueArray
	valueKvlist
	valueEmpty
)

// valueNames are what attribute_types and body_type say; a string says nothing.
var valueNames = [...]string{
	valueInt:    "int",
	valueDouble: "double",
	valueBool:   "bool",
	valueBytes:  "bytes",
	valueArray:  "array",
	valueKvlist: "kvlist",
	valueEmpty:  "empty",
}

func kindOf(v pcommon.Value) uint8 {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return valueString
	case pcommon.ValueTypeInt:
		return valueInt
	case pcommon.ValueTypeDouble:
		return valueDouble
	case pcommon.ValueTypeBool:
		return valueBool
	case pcommon.ValueTypeBytes:
		return valueBytes
	case pcommon.ValueTypeSlice:
		return valueArray
	case pcommon.ValueTypeMap:
		return valueKvlist
	default:
		return valueEmpty
	}
}

// appendJSON appends the value as JSON text. It recurses as deep as the value
// is nested, which the protobuf decoder bounds to 100 and Go's stack far beyond.
func (s *scratch) appendJSON(dst []byte, v pcommon.Value) []byte {
	switch kindOf(v) {
	case valueString:
		return s.appendString(dst, v.Str())
	case valueInt:
		return strconv.AppendInt(dst, v.Int(), 10)
	case valueDouble:
		return appendDouble(dst, v.Double())
	case valueBool:
		return strconv.AppendBool(dst, v.Bool())
	case valueBytes:
		dst = append(dst, `{"$bytes":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes().AsRaw())
		return append(dst, `"}`...)
	case valueArray:
		dst = append(dst, '[')
		for i, e := range v.Slice().All() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = s.appendJSON(dst, e)
		}
		return append(dst, ']')
	case valueKvlist:
		return s.appendKvlist(dst, v.Map())
	default:
		return append(dst, "null"...)
	}
}

// appendKvlist appends an object, or {"$kvlist":[[k,v],…]} where an object would
// be taken for one of the escapes or would lose a pair.
func (s *scratch) appendKvlist(dst []byte, m pcommon.Map) []byte {
	start, pair, end := "{", "", "}"
	if !s.isObject(m) {
		start, pair, end = `{"$kvlist":[`, "[", "]}"
	}
	dst = append(dst, start...)
	first := true
	for k, v := range m.All() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, pair...)
		dst = s.appendString(dst, k)
		if pair == "" {
			dst = append(dst, ':')
		} else {
			dst = append(dst, ',')
		}
		dst = s.appendJSON(dst, v)
		if pair != "" {
			dst = append(dst, ']')
		}
	}
	return append(dst, end...)
}

// isObject reports that no key starts with $ and no key comes twice.
func (s *scratch) isObject(m pcommon.Map) bool {
	const few = 8
	var near [few]string
	var far map[string]struct{}
	n := 0
	for k := range m.All() {
		if s.careful {
			k = strings.ToValidUTF8(k, "\uFFFD")
		}
		if strings.HasPrefix(k, "$") {
			return false
		}
		if slices.Contains(near[:min(n, few)], k) {
			return false
		}
		if n < few {
			near[n] = k
		} else {
			if far == nil {
				far = make(map[string]struct{}, m.Len())
			}
			if _, have := far[k]; have {
				return false
			}
			far[k] = struct{}{}
		}
		n++
	}
	return true
}

// appendDouble appends the shortest text that reads back as the same double. It
// always has a point or an exponent; what JSON cannot say is {"$double":"NaN"}.
func appendDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `{"$double":"NaN"}`...)
	case math.IsInf(f, 1):
		return append(dst, `{"$double":"Infinity"}`...)
	case math.IsInf(f, -1):
		return append(dst, `{"$double":"-Infinity"}`...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	for _, c := range dst[start:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// appendString appends a JSON string: quote, backslash and control characters
// are escaped, all else stands as it is.
func (s *scratch) appendString(dst []byte, v string) []byte {
	const hex = "0123456789abcdef"
	if s.careful {
		v = s.clean(v)
	}
	dst = append(dst, '"')
	start := 0
	for i := range len(v) {
		c := v[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, v[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(dst, v[start:]...), '"')
}

// value writes a value as text: a string as it is, all else as JSON.
func (s *scratch) value(t *text, v pcommon.Value) uint8 {
	k := kindOf(v)
	if k == valueString {
		t.add(v.Str())
		return k
	}
	s.json = s.appendJSON(s.json[:0], v)
	t.addBytes(s.json)
	return k
}

// attrs collects attributes: a list of key, value and kind.
type attrs struct {
	*list
	rec      *record
	key, val *text
	kind     *fixed[uint8]
}

func newAttrs(s *scratch, path string) attrs {
	return attrs{
		list: find[*list](s, path),
		rec:  find[*record](s, path+".[]"),
		key:  find[*text](s, path+".key"),
		val:  find[*text](s, path+".value"),
		kind: find[*fixed[uint8]](s, path+".kind"),
	}
}

// manyKeys is where a table of keys becomes cheaper than comparing them.
const manyKeys = 32

// attributes writes one record's attributes. Of keys that come twice the first
// wins, as in pdata's Get; bad UTF-8 may make two keys one.
func (s *scratch) attributes(a attrs, m pcommon.Map) {
	first := len(a.kind.v)
	var seen map[string]struct{}
	if m.Len() > manyKeys {
		seen = make(map[string]struct{}, m.Len())
	}
	var marks [4]uint64 // a small filter: most records need no comparison at all
	for k, v := range m.All() {
		if s.careful {
			k = s.clean(k)
		}
		if seen != nil {
			if _, dup := seen[k]; dup {
				s.adjusted.DuplicateKeys++
				continue
			}
			seen[k] = struct{}{}
		} else {
			h := keyHash(k)
			word, bit := &marks[h>>6], uint64(1)<<(h&63)
			if *word&bit != 0 && a.has(first, k) {
				s.adjusted.DuplicateKeys++
				continue
			}
			*word |= bit
		}
		a.key.put(k)
		a.kind.add(s.value(a.val, v))
	}
	a.rec.n = len(a.kind.v)
	a.end(len(a.kind.v))
}

// has looks for a key among those written since first.
func (a attrs) has(first int, k string) bool {
	for i := first; i < len(a.kind.v); i++ {
		if a.key.at(i) == k {
			return true
		}
	}
	return false
}

// keyHash tells most keys of one record apart.
func keyHash(k string) uint8 {
	n := len(k)
	if n == 0 {
		return 0
	}
	return uint8(n) + 7*k[n-1] + 31*k[n/2] + 101*k[n/4]
}
