package otlptest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// valueOf is the reader's side of docs/tables.md: a value from its text and its type, "" for a string.
func valueOf(text, typ string) (*commonpb.AnyValue, error) {
	if typ == "" {
		return stringValue(text), nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	v, err := readValue(dec)
	if err != nil {
		return nil, fmt.Errorf("value %.80q: %w", text, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("value %.80q: something follows it", text)
	}
	if is := typeName(v); is != typ {
		return nil, fmt.Errorf("value %.80q is of type %s, not %q", text, is, typ)
	}
	return v, nil
}

func typeName(v *commonpb.AnyValue) string {
	switch v.GetValue().(type) {
	case *commonpb.AnyValue_IntValue:
		return "int"
	case *commonpb.AnyValue_DoubleValue:
		return "double"
	case *commonpb.AnyValue_BoolValue:
		return "bool"
	case *commonpb.AnyValue_BytesValue:
		return "bytes"
	case *commonpb.AnyValue_ArrayValue:
		return "array"
	case *commonpb.AnyValue_KvlistValue:
		return "kvlist"
	case nil:
		return "empty"
	default:
		return "string"
	}
}

func readValue(dec *json.Decoder) (*commonpb.AnyValue, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case nil:
		return &commonpb.AnyValue{}, nil
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: tok}}, nil
	case string:
		return stringValue(tok), nil
	case json.Number:
		return number(tok.String())
	case json.Delim:
		if tok == '[' {
			return readArray(dec)
		}
		return readObject(dec)
	default:
		return nil, fmt.Errorf("token %v", tok)
	}
}

func number(text string) (*commonpb.AnyValue, error) {
	if strings.ContainsAny(text, ".e") {
		return double(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}, err
}

func double(text string) (*commonpb.AnyValue, error) {
	f, err := strconv.ParseFloat(text, 64)
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}, err
}

func readArray(dec *json.Decoder) (*commonpb.AnyValue, error) {
	a := &commonpb.ArrayValue{}
	for dec.More() {
		v, err := readValue(dec)
		if err != nil {
			return nil, err
		}
		a.Values = append(a.Values, v)
	}
	_, err := dec.Token()
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: a}}, err
}

// readObject reads a kvlist, or what a key with $ stands for.
func readObject(dec *json.Decoder) (*commonpb.AnyValue, error) {
	l := &commonpb.KeyValueList{}
	var escaped *commonpb.AnyValue
	seen := map[string]bool{} // most readers of JSON keep one of two equal keys
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := tok.(string)
		if !ok || escaped != nil {
			return nil, fmt.Errorf("a second key beside one with $: %v", tok)
		}
		if seen[key] {
			return nil, fmt.Errorf("the key %q stands twice in an object", key)
		}
		seen[key] = true
		v, err := readValue(dec)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(key, "$") {
			if escaped, err = unescape(key, v); err != nil || len(l.Values) > 0 {
				return nil, fmt.Errorf("key %q: %w", key, err)
			}
			continue
		}
		l.Values = append(l.Values, &commonpb.KeyValue{Key: key, Value: v})
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if escaped != nil {
		return escaped, nil
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: l}}, nil
}

func unescape(key string, v *commonpb.AnyValue) (*commonpb.AnyValue, error) {
	switch key {
	case "$bytes":
		b, err := base64.StdEncoding.DecodeString(v.GetStringValue())
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: b}}, err
	case "$double":
		f, ok := map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}[v.GetStringValue()]
		if !ok {
			return nil, fmt.Errorf("unknown double %v", v)
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}, nil
	case "$kvlist":
		l := &commonpb.KeyValueList{}
		for _, p := range v.GetArrayValue().GetValues() {
			pair := p.GetArrayValue().GetValues()
			if len(pair) != 2 || typeName(pair[0]) != "string" {
				return nil, fmt.Errorf("not a pair: %v", p)
			}
			l.Values = append(l.Values, &commonpb.KeyValue{Key: pair[0].GetStringValue(), Value: pair[1]})
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: l}}, nil
	default:
		return nil, errors.New("no such escape")
	}
}
