package otlptest

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Reach adds to seen the full names of all fields that are set in a message and in those within it.
func Reach(m proto.Message, seen map[protoreflect.FullName]bool) { reach(m.ProtoReflect(), seen) }

func reach(m protoreflect.Message, seen map[protoreflect.FullName]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		seen[f.FullName()] = true
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				reach(v.List().Get(i).Message(), seen)
			}
		default:
			reach(v.Message(), seen)
		}
		return true
	})
}

// Fields are all fields that a message of this kind, and those within it, can have.
func Fields(m proto.Message) map[protoreflect.FullName]bool {
	out := map[protoreflect.FullName]bool{}
	fields(m.ProtoReflect().Descriptor(), out)
	return out
}

func fields(d protoreflect.MessageDescriptor, out map[protoreflect.FullName]bool) {
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if out[f.FullName()] {
			continue
		}
		out[f.FullName()] = true
		if f.Message() != nil {
			fields(f.Message(), out)
		}
	}
}
