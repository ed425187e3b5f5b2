package siglakeexporter

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// Why a request is refused for its index; the closed set of the attribute reason of indexRefused.
const (
	indexBadName     = "bad_name"
	indexOtherSignal = "other_signal"
)

// part is what of a request goes to one index.
type part[T any] struct {
	index string
	data  T
}

// indexes is how a signal finds the indexes of a request.
type indexes struct {
	signal    otelarrow.Signal
	attribute string // of the resource; empty: none is looked at
}

// named is the index that the request behind ctx names for all its rows; empty if it names none.
//
//	reason  why there is an error, for the counter
//	errors  errParameter (400); nothing is written
func (x indexes) named(ctx context.Context) (index, reason string, err error) {
	switch values := client.FromContext(ctx).Metadata.Get(keyIndex); len(values) {
	case 0:
		return "", "", nil
	case 1:
		reason, err := x.check(values[0])
		if err != nil {
			return "", reason, fmt.Errorf("%w %s: %w", errParameter, keyIndex, err)
		}
		return values[0], "", nil
	default:
		return "", indexBadName, fmt.Errorf("%w %s: given %d times, want exactly one", errParameter, keyIndex, len(values))
	}
}

// check takes a name as it is or refuses it: never repaired, and never replaced by the default.
func (x indexes) check(name string) (reason string, err error) {
	if err := segment.CheckIndex(name); err != nil {
		return indexBadName, err
	}
	for s := otelarrow.Logs; s <= otelarrow.Metrics; s++ {
		if s != x.signal && name == s.Table() {
			return indexOtherSignal, fmt.Errorf("%q is the index of %s, and these are %s: leave it out, or choose another", name, s, x.signal)
		}
	}
	return "", nil
}

// ofResource is the index that a resource names, else the signal's.
func (x indexes) ofResource(res pcommon.Resource) (index, reason string, err error) {
	v, ok := res.Attributes().Get(x.attribute)
	if !ok {
		return x.signal.Table(), "", nil
	}
	if v.Type() != pcommon.ValueTypeStr {
		return "", indexBadName, fmt.Errorf("%w: resource attribute %s is no string but %s", errParameter, quote(x.attribute), v.Type())
	}
	if reason, err := x.check(v.Str()); err != nil {
		return "", reason, fmt.Errorf("%w: resource attribute %s: %w", errParameter, quote(x.attribute), err)
	}
	return v.Str(), "", nil
}

// splitter parts a request by index: the resources, the making of an empty request, and the copying of resource i.
type splitter[T any] struct {
	count    func(T) int
	resource func(T, int) pcommon.Resource
	empty    func() T
	copyTo   func(from T, i int, to T)
}

// split parts a request. One whose rows all go to one index is not copied.
func (s *splitter[T]) split(ctx context.Context, x indexes, data T) (parts []part[T], reason string, err error) {
	name, reason, err := x.named(ctx)
	if err != nil {
		return nil, reason, err
	}
	n := s.count(data)
	if name != "" || x.attribute == "" || n == 0 {
		if name == "" {
			name = x.signal.Table()
		}
		return []part[T]{{name, data}}, "", nil
	}
	names := make([]string, n)
	several := false
	for i := range n {
		if names[i], reason, err = x.ofResource(s.resource(data, i)); err != nil {
			return nil, reason, err
		}
		several = several || names[i] != names[0]
	}
	if !several {
		return []part[T]{{names[0], data}}, "", nil
	}
	at := map[string]int{}
	for i, name := range names {
		k, ok := at[name]
		if !ok {
			k = len(parts)
			at[name] = k
			parts = append(parts, part[T]{name, s.empty()})
		}
		s.copyTo(data, i, parts[k].data)
	}
	return parts, "", nil
}

func splitLogs() *splitter[plog.Logs] {
	return &splitter[plog.Logs]{
		count:    func(d plog.Logs) int { return d.ResourceLogs().Len() },
		resource: func(d plog.Logs, i int) pcommon.Resource { return d.ResourceLogs().At(i).Resource() },
		empty:    plog.NewLogs,
		copyTo:   func(d plog.Logs, i int, to plog.Logs) { d.ResourceLogs().At(i).CopyTo(to.ResourceLogs().AppendEmpty()) },
	}
}

func splitTraces() *splitter[ptrace.Traces] {
	return &splitter[ptrace.Traces]{
		count:    func(d ptrace.Traces) int { return d.ResourceSpans().Len() },
		resource: func(d ptrace.Traces, i int) pcommon.Resource { return d.ResourceSpans().At(i).Resource() },
		empty:    ptrace.NewTraces,
		copyTo: func(d ptrace.Traces, i int, to ptrace.Traces) {
			d.ResourceSpans().At(i).CopyTo(to.ResourceSpans().AppendEmpty())
		},
	}
}

func splitMetrics() *splitter[pmetric.Metrics] {
	return &splitter[pmetric.Metrics]{
		count:    func(d pmetric.Metrics) int { return d.ResourceMetrics().Len() },
		resource: func(d pmetric.Metrics, i int) pcommon.Resource { return d.ResourceMetrics().At(i).Resource() },
		empty:    pmetric.NewMetrics,
		copyTo: func(d pmetric.Metrics, i int, to pmetric.Metrics) {
			d.ResourceMetrics().At(i).CopyTo(to.ResourceMetrics().AppendEmpty())
		},
	}
}
