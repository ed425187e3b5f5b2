package expect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// kind is the name a value's type has in an attribute_types column; "" for strings, which are not listed there.
func kind(v *commonpb.AnyValue) string {
	switch v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return ""
	case *commonpb.AnyValue_BoolValue:
		return "bool"
	case *commonpb.AnyValue_IntValue:
		return "int"
	case *commonpb.AnyValue_DoubleValue:
		return "double"
	case *commonpb.AnyValue_ArrayValue:
		return "array"
	case *commonpb.AnyValue_KvlistValue:
		return "kvlist"
	case *commonpb.AnyValue_BytesValue:
		return "bytes"
	}
	return "empty"
}

// render is the text of a value: a string as it is, any other as natural JSON.
func render(v *commonpb.AnyValue) string {
	if s, ok := v.GetValue().(*commonpb.AnyValue_StringValue); ok {
		return clean(s.StringValue)
	}
	var b strings.Builder
	renderJSON(&b, v)
	return b.String()
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(clean(s)); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func renderJSON(b *strings.Builder, v *commonpb.AnyValue) {
	switch x := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		b.WriteString(quote(x.StringValue))
	case *commonpb.AnyValue_BoolValue:
		b.WriteString(strconv.FormatBool(x.BoolValue))
	case *commonpb.AnyValue_IntValue:
		b.WriteString(strconv.FormatInt(x.IntValue, 10))
	case *commonpb.AnyValue_DoubleValue:
		b.WriteString(renderDouble(x.DoubleValue))
	case *commonpb.AnyValue_BytesValue:
		b.WriteString(`{"$bytes":` + quote(base64.StdEncoding.EncodeToString(x.BytesValue)) + `}`)
	case *commonpb.AnyValue_ArrayValue:
		b.WriteByte('[')
		for i, e := range x.ArrayValue.GetValues() {
			if i > 0 {
				b.WriteByte(',')
			}
			renderJSON(b, e)
		}
		b.WriteByte(']')
	case *commonpb.AnyValue_KvlistValue:
		renderList(b, x.KvlistValue.GetValues())
	default:
		b.WriteString("null")
	}
}

func renderList(b *strings.Builder, kvs []*commonpb.KeyValue) {
	natural := isNatural(kvs)
	open, between, end := "{", ":", "}"
	if !natural {
		open, between, end = `{"$kvlist":[`, ",", "]}"
	}
	b.WriteString(open)
	for i, kv := range kvs {
		if i > 0 {
			b.WriteByte(',')
		}
		if !natural {
			b.WriteByte('[')
		}
		b.WriteString(quote(kv.Key) + between)
		renderJSON(b, kv.Value)
		if !natural {
			b.WriteByte(']')
		}
	}
	b.WriteString(end)
}

// isNatural says whether a list can be written as a plain JSON object: no key twice, none that starts with '$'.
func isNatural(kvs []*commonpb.KeyValue) bool {
	keys := map[string]bool{}
	for _, kv := range kvs {
		k := clean(kv.Key)
		if keys[k] || strings.HasPrefix(k, "$") {
			return false
		}
		keys[k] = true
	}
	return true
}

func renderDouble(f float64) string {
	switch {
	case math.IsNaN(f):
		return `{"$double":"NaN"}`
	case math.IsInf(f, 1):
		return `{"$double":"Infinity"}`
	case math.IsInf(f, -1):
		return `{"$double":"-Infinity"}`
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// parse reads JSON text back into a value. It is the promise of the tables: equal OTLP can be rebuilt.
func parse(text string) (*commonpb.AnyValue, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := parseNext(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more text after the value")
	}
	return v, nil
}

func parseNext(d *json.Decoder) (*commonpb.AnyValue, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch x := t.(type) {
	case nil:
		return &commonpb.AnyValue{}, nil
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: x}}, nil
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: x}}, nil
	case json.Number:
		return parseNumber(x.String())
	case json.Delim:
		if x == '[' {
			return parseArray(d)
		}
		return parseObject(d)
	}
	return nil, fmt.Errorf("unexpected %v", t)
}

func parseNumber(text string) (*commonpb.AnyValue, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}, err
}

func parseArray(d *json.Decoder) (*commonpb.AnyValue, error) {
	a := &commonpb.ArrayValue{}
	for d.More() {
		v, err := parseNext(d)
		if err != nil {
			return nil, err
		}
		a.Values = append(a.Values, v)
	}
	_, err := d.Token()
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: a}}, err
}

func parseObject(d *json.Decoder) (*commonpb.AnyValue, error) {
	l := &commonpb.KeyValueList{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("key %v is no text", t)
		}
		v, err := parseNext(d)
		if err != nil {
			return nil, err
		}
		l.Values = append(l.Values, &commonpb.KeyValue{Key: key, Value: v})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if !isNatural(l.Values) {
		return parseSpecial(l.Values)
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: l}}, nil
}

// parseSpecial reads the one-key objects that stand for what JSON cannot say.
func parseSpecial(kvs []*commonpb.KeyValue) (*commonpb.AnyValue, error) {
	if len(kvs) != 1 {
		return nil, errors.New("an object with a '$' key has other keys too, or a key stands twice")
	}
	v := kvs[0].Value
	switch kvs[0].Key {
	case "$bytes":
		b, err := base64.StdEncoding.DecodeString(v.GetStringValue())
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: b}}, err
	case "$double":
		f := map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}
		x, ok := f[v.GetStringValue()]
		if !ok {
			return nil, fmt.Errorf("$double %q is not one of NaN, Infinity, -Infinity", v.GetStringValue())
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: x}}, nil
	case "$kvlist":
		l := &commonpb.KeyValueList{}
		for _, pair := range v.GetArrayValue().GetValues() {
			p := pair.GetArrayValue().GetValues()
			if len(p) != 2 || kind(p[0]) != "" {
				return nil, errors.New("$kvlist holds something else than [key, value]")
			}
			l.Values = append(l.Values, &commonpb.KeyValue{Key: p[0].GetStringValue(), Value: p[1]})
		}
		if isNatural(l.Values) && len(l.Values) > 0 {
			return nil, errors.New("$kvlist for a list that is a plain object")
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: l}}, nil
	}
	return nil, fmt.Errorf("key %q starts with '$' in a plain object", kvs[0].Key)
}

// differs says where two values differ; "" when they are equal. want may hold bad UTF-8, got may not.
func differs(want, got *commonpb.AnyValue, path string) string {
	if kind(want) != kind(got) {
		return fmt.Sprintf("%s: want %s, got %s", path, typeName(want), typeName(got))
	}
	same := true
	switch w := want.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		same = clean(w.StringValue) == got.GetStringValue()
	case *commonpb.AnyValue_BoolValue:
		same = w.BoolValue == got.GetBoolValue()
	case *commonpb.AnyValue_IntValue:
		same = w.IntValue == got.GetIntValue()
	case *commonpb.AnyValue_DoubleValue:
		same = sameDouble(w.DoubleValue, got.GetDoubleValue())
	case *commonpb.AnyValue_BytesValue:
		same = bytes.Equal(w.BytesValue, got.GetBytesValue())
	case *commonpb.AnyValue_ArrayValue:
		return arrayDiffers(w.ArrayValue.GetValues(), got.GetArrayValue().GetValues(), path)
	case *commonpb.AnyValue_KvlistValue:
		return listDiffers(w.KvlistValue.GetValues(), got.GetKvlistValue().GetValues(), path)
	}
	if !same {
		return fmt.Sprintf("%s: want %s, got %s", path, short(render(want)), short(render(got)))
	}
	return ""
}

func typeName(v *commonpb.AnyValue) string {
	if k := kind(v); k != "" {
		return k
	}
	return "string"
}

// sameDouble compares bits; all NaN are one.
func sameDouble(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

func arrayDiffers(want, got []*commonpb.AnyValue, path string) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%s: want %d elements, got %d", path, len(want), len(got))
	}
	for i := range want {
		if d := differs(want[i], got[i], fmt.Sprintf("%s[%d]", path, i)); d != "" {
			return d
		}
	}
	return ""
}

// listDiffers ignores the order of a plain list, and keeps to it where keys repeat.
func listDiffers(want, got []*commonpb.KeyValue, path string) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%s: want %d keys, got %d", path, len(want), len(got))
	}
	if isNatural(want) {
		want, got = byKey(want), byKey(got)
	}
	for i := range want {
		if clean(want[i].Key) != got[i].Key {
			return fmt.Sprintf("%s: want key %q, got %q", path, clean(want[i].Key), got[i].Key)
		}
		if d := differs(want[i].Value, got[i].Value, path+"."+got[i].Key); d != "" {
			return d
		}
	}
	return ""
}

func byKey(kvs []*commonpb.KeyValue) []*commonpb.KeyValue {
	kvs = slices.Clone(kvs)
	slices.SortFunc(kvs, func(a, b *commonpb.KeyValue) int { return strings.Compare(clean(a.Key), clean(b.Key)) })
	return kvs
}

// short is a text cut for a message.
func short(s string) string {
	if len(s) > 120 {
		return fmt.Sprintf("%q… (%d bytes)", s[:120], len(s))
	}
	return strconv.Quote(s)
}
