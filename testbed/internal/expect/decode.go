package expect

import (
	"bytes"
	"fmt"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Decoded is what pdata, the collector's own decoder, makes of the bytes of a request.
type Decoded struct {
	Rejected error  // pdata's words; nil when it takes the request
	Records  int    // log records, spans or data points
	Proto    []byte // the request as protobuf
}

type request interface {
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
	MarshalProto() ([]byte, error)
}

// Decode asks pdata about a request body. A panic of pdata is an error of its own, not a rejection.
func Decode(signal string, body []byte, isJSON bool) (d Decoded, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("pdata panics: %v", p)
		}
	}()
	var r request
	var records func() int
	switch signal {
	case "logs":
		x := plogotlp.NewExportRequest()
		r, records = x, func() int { return x.Logs().LogRecordCount() }
	case "traces":
		x := ptraceotlp.NewExportRequest()
		r, records = x, func() int { return x.Traces().SpanCount() }
	case "metrics":
		x := pmetricotlp.NewExportRequest()
		r, records = x, func() int { return x.Metrics().DataPointCount() }
	default:
		return d, fmt.Errorf("signal %q is not one of logs, traces, metrics", signal)
	}
	if isJSON {
		d.Rejected = r.UnmarshalJSON(body)
	} else {
		d.Rejected = r.UnmarshalProto(bytes.Clone(body)) // pdata may keep parts of it
	}
	if d.Rejected != nil {
		return d, nil
	}
	d.Records = records()
	if d.Proto, err = r.MarshalProto(); err != nil {
		return d, fmt.Errorf("encode what pdata decoded: %w", err)
	}
	return d, nil
}

// Message parses protobuf bytes into the official message. Bad UTF-8, which the official decoder refuses and pdata
// lets pass, is replaced first in the way the tables do it.
func Message(signal string, wire []byte) (proto.Message, error) {
	m, err := NewRequest(signal)
	if err != nil {
		return nil, err
	}
	if wire, err = cleanWire(m.ProtoReflect().Descriptor(), wire); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(wire, m); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	return m, nil
}

// cleanWire copies a message with every string field made valid UTF-8.
func cleanWire(d protoreflect.MessageDescriptor, in []byte) ([]byte, error) {
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		num, typ, n := protowire.ConsumeTag(in)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(num, typ, in[n:])
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		whole, value := in[:n+size], in[n:n+size]
		in = in[n+size:]
		f := d.Fields().ByNumber(num)
		if typ != protowire.BytesType || f == nil || f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.MessageKind {
			out = append(out, whole...)
			continue
		}
		b, _ := protowire.ConsumeBytes(value)
		if f.Kind() == protoreflect.StringKind {
			b = []byte(clean(string(b)))
		} else {
			var err error
			if b, err = cleanWire(f.Message(), b); err != nil {
				return nil, err
			}
		}
		out = protowire.AppendTag(out, num, typ)
		out = protowire.AppendBytes(out, b)
	}
	return out, nil
}
