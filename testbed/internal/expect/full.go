package expect

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Choices is how many requests Full must make to have used every field of every oneof.
const Choices = 8

// Full makes a request in which every field that the tables have a place for is set, found by reflection: a field that
// a later version of OTLP adds is set too. choice picks the field of each oneof.
func Full(signal string, choice int) (proto.Message, error) {
	m, err := NewRequest(signal)
	if err != nil {
		return nil, err
	}
	populate(m.ProtoReflect(), 0, choice)
	return m, nil
}

// notStored are fields that the tables have no place for.
var notStored = map[protoreflect.FullName]bool{
	"opentelemetry.proto.common.v1.KeyValue.key_strindex":          true, // only profiles have a string table
	"opentelemetry.proto.common.v1.AnyValue.string_value_strindex": true,
}

// populate sets every field of a message, choosing field pick of each oneof.
func populate(m protoreflect.Message, depth, pick int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() && o.Fields().Get(pick%o.Fields().Len()) != f {
			continue
		}
		switch {
		case notStored[f.FullName()] || f.Message() != nil && depth > 8:
		case f.IsList() && f.Message() != nil:
			populate(m.Mutable(f).List().AppendMutable().Message(), depth+1, pick)
		case f.IsList():
			m.Mutable(f).List().Append(sample(f, int(f.Number())))
		case f.Message() != nil:
			populate(m.Mutable(f).Message(), depth+1, pick)
		default:
			m.Set(f, sample(f, int(f.Number())))
		}
	}
}

func sample(f protoreflect.FieldDescriptor, n int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("text-%d", n))
	case protoreflect.BytesKind:
		b := []byte{byte(n), 1, 2, 3, 4, 5, 6, 7}
		if f.Name() == "trace_id" {
			b = append(b, b...)
		}
		return protoreflect.ValueOfBytes(b)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 1 || f.Name() == "is_monotonic" && n != 0)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) + 0.5)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(1 + n%2))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(int32(n + 1))
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n + 1))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n + 1))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(1_700_000_000_000_000_000 + n*1_000_000))
	}
	panic(f.Kind())
}
