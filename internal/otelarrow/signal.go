package otelarrow

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// Signal is one of the three kinds of telemetry; each has its own table shape.
type Signal uint8

// The signals, in the order of their layouts.
const (
	Logs Signal = iota
	Traces
	Metrics
)

// String is the value of siglake.signal in the schema metadata of a segment.
func (s Signal) String() string {
	switch s {
	case Logs:
		return "logs"
	case Traces:
		return "traces"
	case Metrics:
		return "metrics"
	default:
		return "signal(" + strconv.Itoa(int(s)) + ")"
	}
}

// Table is the default index of the signal, which is also its table's name.
func (s Signal) Table() string {
	switch s {
	case Logs:
		return "events"
	case Traces:
		return "spans"
	case Metrics:
		return "metrics"
	default:
		return s.String()
	}
}

// Schema metadata of a segment: which signal its rows are, and in which layout.
const (
	metaSignal = "siglake.signal"
	metaLayout = "siglake.layout"
	// layoutV1 has no resource_entity_refs. It is read, and that column is NULL.
	layoutV1 = "1"
	layoutV2 = "2" // what is written
)

// ErrNotOurs is returned for a schema that does not say which signal it holds.
var ErrNotOurs = errors.New("otelarrow: schema names no siglake.signal")

// ErrLayout is returned for a layout this version cannot read, written by a newer one.
var ErrLayout = errors.New("otelarrow: unknown siglake.layout")

// SignalOf reads the signal of a segment from its schema's metadata.
//
//	errors  ErrNotOurs (no or unknown siglake.signal), ErrLayout (a newer layout)
func SignalOf(schema *arrow.Schema) (Signal, error) {
	md := schema.Metadata()
	name, ok := md.GetValue(metaSignal)
	if !ok {
		return 0, ErrNotOurs
	}
	if v, _ := md.GetValue(metaLayout); v != layoutV1 && v != layoutV2 {
		return 0, fmt.Errorf("%w %q: this version reads %q and %q", ErrLayout, v, layoutV1, layoutV2)
	}
	for s := Logs; s <= Metrics; s++ {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%w: unknown signal %q", ErrNotOurs, name)
}
