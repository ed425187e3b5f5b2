package otlptest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// RebuildLogs makes OTLP again of rows of the events table, in the order of segment_id and segment_row. An error says
// that a row is not as docs/tables.md says.
func RebuildLogs(rows []Row) (*logspb.LogsData, error) {
	out := &logspb.LogsData{}
	return out, each(rows, func(r *reading) {
		addRecord(out, r.resource(), r.text("resource_schema_url"), r.scope(), r.text("scope_schema_url"), r.record())
	})
}

// RebuildTraces is RebuildLogs for the spans table.
func RebuildTraces(rows []Row) (*tracepb.TracesData, error) {
	out := &tracepb.TracesData{}
	return out, each(rows, func(r *reading) {
		addSpan(out, r.resource(), r.text("resource_schema_url"), r.scope(), r.text("scope_schema_url"), r.span())
	})
}

func each(rows []Row, rebuild func(*reading)) error {
	for i, row := range rows {
		r := &reading{row: row}
		rebuild(r)
		if r.err != nil {
			return fmt.Errorf("row %d: %w", i, r.err)
		}
	}
	return nil
}

// reading reads the columns of one row and keeps the first error.
type reading struct {
	row Row
	err error
}

func (r *reading) fail(column string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("column %s: %w", column, err)
	}
}

// maybe is a column's value; ok is false when it is NULL.
func maybe[T any](r *reading, column string) (v T, ok bool) {
	x, there := r.row[column]
	if !there {
		r.fail(column, errors.New("not there"))
	}
	if x == nil {
		return v, false
	}
	if v, ok = x.(T); !ok {
		r.fail(column, fmt.Errorf("%T, want %T", x, v))
	}
	return v, ok
}

// must is the value of a column that is never NULL.
func must[T any](r *reading, column string) T {
	v, ok := maybe[T](r, column)
	if !ok {
		r.fail(column, errors.New("NULL"))
	}
	return v
}

// text is "" for NULL, which stands for nothing else: an empty text is NULL.
func (r *reading) text(column string) string {
	v, ok := maybe[string](r, column)
	if ok && v == "" {
		r.fail(column, errors.New("empty and not NULL"))
	}
	return v
}

func (r *reading) uint32(column string) uint32 {
	n := must[int64](r, column)
	if n < 0 || n > math.MaxUint32 {
		r.fail(column, fmt.Errorf("%d is over 32 bits", n))
	}
	return uint32(n)
}

// rawTime is a column in two's complement, 0 for NULL.
func (r *reading) rawTime(column string) uint64 {
	n, ok := maybe[int64](r, column)
	if ok && n == 0 {
		r.fail(column, errors.New("0 and not NULL"))
	}
	return uint64(n)
}

func (r *reading) count(column string) uint64 {
	n := must[int64](r, column)
	if n < 0 {
		r.fail(column, fmt.Errorf("%d is negative", n))
	}
	return uint64(n)
}

func (r *reading) id(column string, size int) []byte {
	s, ok := maybe[string](r, column)
	if !ok {
		return nil
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != size || s != strings.ToLower(s) {
		r.fail(column, fmt.Errorf("%q is no id of %d bytes", s, size))
	}
	return b
}

func (r *reading) enum(column string, names ...string) int32 {
	return enumOf(r, column, must[string](r, column), names)
}

func enumOf(r *reading, column, s string, names []string) int32 {
	for n, name := range names {
		if s == name {
			return int32(n)
		}
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n >= 0 && int(n) < len(names) {
		r.fail(column, fmt.Errorf("%q is no name and no number without a name", s))
	}
	return int32(n)
}

func (r *reading) attributes(column, types string) []*commonpb.KeyValue {
	texts := must[map[string]string](r, column)
	kinds, some := maybe[map[string]string](r, types)
	if some && len(kinds) == 0 {
		r.fail(types, errors.New("empty and not NULL"))
	}
	var out []*commonpb.KeyValue
	for k, text := range texts {
		v, err := valueOf(text, kinds[k])
		if err != nil {
			r.fail(column, fmt.Errorf("key %q: %w", k, err))
		}
		out = append(out, &commonpb.KeyValue{Key: k, Value: v})
	}
	for k := range kinds {
		if _, ok := texts[k]; !ok {
			r.fail(types, fmt.Errorf("key %q is not in %s", k, column))
		}
	}
	sortByKey(out)
	return out
}

func (r *reading) resource() *resourcepb.Resource {
	attrs := r.attributes("resource_attributes", "resource_attribute_types")
	service, ok := maybe[string](r, "service_name")
	texts := must[map[string]string](r, "resource_attributes")
	if want, there := texts["service.name"]; there != ok || want != service {
		r.fail("service_name", fmt.Errorf("%q, the resource has %q", service, want))
	}
	return &resourcepb.Resource{
		Attributes: attrs, DroppedAttributesCount: r.uint32("resource_dropped_attributes_count"), EntityRefs: r.entityRefs(),
	}
}

func (r *reading) entityRefs() []*commonpb.EntityRef {
	text, there := maybe[string](r, "resource_entity_refs")
	if !there {
		return nil
	}
	var refs []struct {
		SchemaURL       *string   `json:"schemaUrl"`
		Type            *string   `json:"type"`
		IDKeys          *[]string `json:"idKeys"`
		DescriptionKeys *[]string `json:"descriptionKeys"`
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&refs); err != nil || len(refs) == 0 || d.More() {
		r.fail("resource_entity_refs", fmt.Errorf("%q is no array of references: %w", text, err))
		return nil
	}
	var out []*commonpb.EntityRef
	for _, ref := range refs {
		if ref.SchemaURL == nil || ref.Type == nil || ref.IDKeys == nil || ref.DescriptionKeys == nil {
			r.fail("resource_entity_refs", fmt.Errorf("%q lacks a field", text))
			return nil
		}
		out = append(out, &commonpb.EntityRef{
			SchemaUrl: *ref.SchemaURL, Type: *ref.Type, IdKeys: *ref.IDKeys, DescriptionKeys: *ref.DescriptionKeys,
		})
	}
	return out
}

func (r *reading) scope() *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{
		Name: r.text("scope_name"), Version: r.text("scope_version"),
		Attributes:             r.attributes("scope_attributes", "scope_attribute_types"),
		DroppedAttributesCount: r.uint32("scope_dropped_attributes_count"),
	}
}

func (r *reading) record() *logspb.LogRecord {
	at, observed := r.rawTime("time_unix_nano"), r.rawTime("observed_time_unix_nano")
	r.effective(at, observed)
	r.micros("observed_timestamp", observed)
	severity := must[int64](r, "severity_number")
	return &logspb.LogRecord{
		TimeUnixNano: at, ObservedTimeUnixNano: observed, SeverityNumber: logspb.SeverityNumber(severity),
		SeverityText: r.text("severity_text"), EventName: r.text("event_name"), Body: r.body(),
		Attributes: r.attributes("attributes", "attribute_types"), DroppedAttributesCount: r.uint32("dropped_attributes_count"),
		Flags: r.uint32("trace_flags"), TraceId: r.id("trace_id", 16), SpanId: r.id("span_id", 8),
	}
}

func (r *reading) body() *commonpb.AnyValue {
	text, there := maybe[string](r, "body")
	typ, _ := maybe[string](r, "body_type")
	if !there {
		if typ != "empty" {
			r.fail("body", fmt.Errorf("NULL of type %q", typ))
		}
		return &commonpb.AnyValue{}
	}
	v, err := valueOf(text, typ)
	if err != nil {
		r.fail("body", err)
	}
	return v
}

func clamp(raw uint64) int64 { return int64(min(raw, math.MaxInt64)) }

func floorMicros(ns int64) int64 {
	us := ns / 1000
	if ns%1000 < 0 {
		us--
	}
	return us
}

// effective checks timestamp_ns and timestamp: the first of the times that is set, else arrival.
func (r *reading) effective(times ...uint64) {
	ns, us := must[int64](r, "timestamp_ns"), must[int64](r, "timestamp")
	if us != floorMicros(ns) {
		r.fail("timestamp", fmt.Errorf("%d, timestamp_ns is %d", us, ns))
	}
	for _, t := range times {
		if t == 0 {
			continue
		}
		if ns != clamp(t) {
			r.fail("timestamp_ns", fmt.Errorf("%d, sent was %d", ns, t))
		}
		return
	}
	if arrived := must[int64](r, "ingested_at"); us != arrived {
		r.fail("timestamp", fmt.Errorf("%d, it arrived at %d", us, arrived))
	}
}

// micros checks a column that repeats a raw time in microseconds.
func (r *reading) micros(column string, raw uint64) {
	us, ok := maybe[int64](r, column)
	if ok != (raw != 0) || ok && us != floorMicros(clamp(raw)) {
		r.fail(column, fmt.Errorf("%d, sent was %d", us, raw))
	}
}

// structs reads a list of structs.
func (r *reading) structs(column string, read func(*reading)) {
	for _, e := range must[[]any](r, column) {
		row, ok := e.(Row)
		if !ok {
			r.fail(column, fmt.Errorf("element %T", e))
			return
		}
		in := &reading{row: row}
		read(in)
		if in.err != nil {
			r.fail(column, in.err)
		}
	}
}

func (r *reading) span() *tracepb.Span {
	start, end := r.rawTime("start_time_unix_nano"), r.rawTime("end_time_unix_nano")
	r.effective(start)
	r.micros("end_timestamp", end)
	r.duration(start, end)
	out := &tracepb.Span{
		TraceId: r.id("trace_id", 16), SpanId: r.id("span_id", 8), ParentSpanId: r.id("parent_span_id", 8),
		TraceState: r.text("trace_state"), Flags: r.uint32("flags"), Name: must[string](r, "name"),
		Kind:              tracepb.Span_SpanKind(r.enum("kind", "UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")),
		StartTimeUnixNano: start, EndTimeUnixNano: end,
		Attributes: r.attributes("attributes", "attribute_types"), DroppedAttributesCount: r.uint32("dropped_attributes_count"),
		DroppedEventsCount: r.uint32("dropped_events_count"), DroppedLinksCount: r.uint32("dropped_links_count"),
		Status: &tracepb.Status{
			Code: tracepb.Status_StatusCode(r.enum("status_code", "UNSET", "OK", "ERROR")), Message: r.text("status_message"),
		},
	}
	r.structs("events", func(e *reading) {
		out.Events = append(out.Events, &tracepb.Span_Event{
			TimeUnixNano: e.rawTime("timestamp_ns"), Name: must[string](e, "name"),
			Attributes: e.attributes("attributes", "attribute_types"), DroppedAttributesCount: e.uint32("dropped_attributes_count"),
		})
	})
	r.structs("links", func(l *reading) {
		out.Links = append(out.Links, &tracepb.Span_Link{
			TraceId: l.id("trace_id", 16), SpanId: l.id("span_id", 8), TraceState: l.text("trace_state"), Flags: l.uint32("flags"),
			Attributes: l.attributes("attributes", "attribute_types"), DroppedAttributesCount: l.uint32("dropped_attributes_count"),
		})
	})
	return out
}

// duration checks duration_ns against exact arithmetic.
func (r *reading) duration(start, end uint64) {
	d, ok := maybe[int64](r, "duration_ns")
	var want int64
	switch {
	case start == 0 || end == 0:
		if ok {
			r.fail("duration_ns", errors.New("there, without a start or an end"))
		}
		return
	case end >= start:
		want = clamp(end - start)
	case start-end > 1<<63:
		want = math.MinInt64
	default:
		want = -int64(start - end)
	}
	if !ok || d != want {
		r.fail("duration_ns", fmt.Errorf("%d, want %d", d, want))
	}
}
