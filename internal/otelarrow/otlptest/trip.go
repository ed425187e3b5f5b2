package otlptest

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Trip is what requests of one signal must become.
type Trip struct {
	Want     proto.Message
	Adjusted Adjusted
	Rowless  int // metrics without a point
	rebuild  func([]Row) (proto.Message, error)
}

// Sent says what requests, all of one signal, must become.
func Sent(requests ...any) (Trip, error) {
	if len(requests) == 0 {
		return Trip{}, errors.New("no request")
	}
	var t Trip
	switch requests[0].(type) {
	case plog.Logs:
		all, err := of[plog.Logs](requests)
		t.Want, t.Adjusted = SentLogs(all...)
		t.rebuild = func(rows []Row) (proto.Message, error) { return RebuildLogs(rows) }
		return t, err
	case ptrace.Traces:
		all, err := of[ptrace.Traces](requests)
		t.Want, t.Adjusted = SentTraces(all...)
		t.rebuild = func(rows []Row) (proto.Message, error) { return RebuildTraces(rows) }
		return t, err
	case pmetric.Metrics:
		all, err := of[pmetric.Metrics](requests)
		t.Want, t.Adjusted, t.Rowless = SentMetrics(all...)
		t.rebuild = func(rows []Row) (proto.Message, error) { return RebuildMetrics(rows) }
		return t, err
	default:
		return t, fmt.Errorf("%T is no request", requests[0])
	}
}

func of[T any](requests []any) ([]T, error) {
	out := make([]T, len(requests))
	for i, r := range requests {
		var ok bool
		if out[i], ok = r.(T); !ok {
			return nil, fmt.Errorf("%T beside %T", r, out[i])
		}
	}
	return out, nil
}

// Check rebuilds OTLP from the rows and says where it differs from what it must be.
func (t Trip) Check(rows []Row) error {
	got, err := t.rebuild(rows)
	if err != nil {
		return err
	}
	if Same(t.Want, got) {
		return nil
	}
	want, have := prototext.Format(t.Want), prototext.Format(got)
	at := 0
	for at < min(len(want), len(have)) && want[at] == have[at] {
		at++
	}
	return fmt.Errorf("what was sent and what was rebuilt differ from byte %d on:\nsent    ...%s\nrebuilt ...%s", at, around(want, at), around(have, at))
}

func around(s string, at int) string { return s[max(0, at-200):min(len(s), at+200)] }
