package expect

import (
	"fmt"
	"strings"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// walk collects the nodes of a request, to find the fields that no rule asked for.
type walk struct {
	nodes    []*node
	problems []string
}

// node is one message. Its getters mark the field as seen.
type node struct {
	w    *walk
	m    protoreflect.Message
	path string
	seen map[protoreflect.FieldNumber]bool
}

func (w *walk) node(m protoreflect.Message, path string) *node {
	n := &node{w: w, m: m, path: path, seen: map[protoreflect.FieldNumber]bool{}}
	w.nodes = append(w.nodes, n)
	return n
}

// unseen lists the populated fields that no rule asked for.
func (w *walk) unseen() []string {
	out := w.problems
	for _, n := range w.nodes {
		n.m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			if !n.seen[f.Number()] {
				out = append(out, fmt.Sprintf("field %s never seen stored (at %s)", f.FullName(), n.path))
			}
			return true
		})
		if len(n.m.GetUnknown()) > 0 {
			out = append(out, fmt.Sprintf("unknown fields in %s (at %s)", n.m.Descriptor().FullName(), n.path))
		}
	}
	return out
}

func (n *node) field(name string) protoreflect.FieldDescriptor {
	f := n.m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if f == nil {
		panic(fmt.Sprintf("rule asks for field %s, which %s does not have", name, n.m.Descriptor().FullName()))
	}
	n.seen[f.Number()] = true
	return f
}

func (n *node) get(name string) protoreflect.Value { return n.m.Get(n.field(name)) }
func (n *node) has(name string) bool               { return n.m.Has(n.field(name)) }
func (n *node) str(name string) string             { return n.get(name).String() }
func (n *node) bytes(name string) []byte           { return n.get(name).Bytes() }
func (n *node) uint(name string) uint64            { return n.get(name).Uint() }
func (n *node) int(name string) int64              { return n.get(name).Int() }
func (n *node) float(name string) float64          { return n.get(name).Float() }
func (n *node) bool(name string) bool              { return n.get(name).Bool() }

// enum is the number of an enum field and its OTLP name without the prefix, or "" when OTLP has no name for it.
func (n *node) enum(name, prefix string) (int32, string) {
	f := n.field(name)
	number := n.m.Get(f).Enum()
	if v := f.Enum().Values().ByNumber(number); v != nil {
		return int32(number), strings.TrimPrefix(string(v.Name()), prefix)
	}
	return int32(number), ""
}

// msg is a message field; nil when it is not populated.
func (n *node) msg(name string) *node {
	f := n.field(name)
	if !n.m.Has(f) {
		return nil
	}
	return n.w.node(n.m.Get(f).Message(), n.path+"."+name)
}

// list is a repeated message field.
func (n *node) list(name string) []*node {
	l := n.m.Get(n.field(name)).List()
	out := make([]*node, l.Len())
	for i := range out {
		out[i] = n.w.node(l.Get(i).Message(), fmt.Sprintf("%s.%s[%d]", n.path, name, i))
	}
	return out
}

// uints is a repeated unsigned field.
func (n *node) uints(name string) []uint64 {
	l := n.m.Get(n.field(name)).List()
	out := make([]uint64, l.Len())
	for i := range out {
		out[i] = l.Get(i).Uint()
	}
	return out
}

// strs is a repeated string field.
func (n *node) strs(name string) []string {
	l := n.m.Get(n.field(name)).List()
	out := make([]string, l.Len())
	for i := range out {
		out[i] = l.Get(i).String()
	}
	return out
}

// floats is a repeated double field.
func (n *node) floats(name string) []float64 {
	l := n.m.Get(n.field(name)).List()
	out := make([]float64, l.Len())
	for i := range out {
		out[i] = l.Get(i).Float()
	}
	return out
}

// keyValues is a repeated KeyValue field, each part of it checked for fields that nothing stores.
func (n *node) keyValues(name string) []*commonpb.KeyValue {
	l := n.m.Get(n.field(name)).List()
	out := make([]*commonpb.KeyValue, l.Len())
	for i := range out {
		out[i] = l.Get(i).Message().Interface().(*commonpb.KeyValue)
		n.w.keyValue(out[i], fmt.Sprintf("%s.%s[%d]", n.path, name, i))
	}
	return out
}

// anyValue is an AnyValue field; nil when it is not populated.
func (n *node) anyValue(name string) *commonpb.AnyValue {
	f := n.field(name)
	if !n.m.Has(f) {
		return nil
	}
	v := n.m.Get(f).Message().Interface().(*commonpb.AnyValue)
	n.w.anyValue(v, n.path+"."+name)
	return v
}

var keyValueFields = map[protoreflect.Name]bool{"key": true, "value": true}

var anyValueFields = map[protoreflect.Name]bool{
	"string_value": true, "bool_value": true, "int_value": true, "double_value": true,
	"array_value": true, "kvlist_value": true, "bytes_value": true,
}

func (w *walk) only(m proto.Message, path string, known map[protoreflect.Name]bool) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !known[f.Name()] {
			w.problems = append(w.problems, fmt.Sprintf("field %s never seen stored (at %s)", f.FullName(), path))
		}
		return true
	})
}

func (w *walk) keyValue(kv *commonpb.KeyValue, path string) {
	w.only(kv, path, keyValueFields)
	if kv.Value != nil {
		w.anyValue(kv.Value, path)
	}
}

func (w *walk) anyValue(v *commonpb.AnyValue, path string) {
	w.only(v, path, anyValueFields)
	for _, e := range v.GetArrayValue().GetValues() {
		w.anyValue(e, path)
	}
	for _, kv := range v.GetKvlistValue().GetValues() {
		w.keyValue(kv, path)
	}
}

// clean is s with each run of bad bytes replaced by U+FFFD, as the tables hold it.
func clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
