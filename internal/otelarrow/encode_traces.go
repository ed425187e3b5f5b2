package otelarrow

import (
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

type tracesWriters struct {
	sharedWriters
	rows  int
	times timeRange

	timestamp, start, end         *fixed[int64]
	traceID, spanID, parentSpanID *idents
	traceState, name, message     *text
	flags                         *fixed[uint32]
	kind, status                  *fixed[int32]
	attrs                         attrs
	dropped                       *fixed[uint32]
	events                        eventWriters
	droppedEvents                 *fixed[uint32]
	links                         linkWriters
	droppedLinks                  *fixed[uint32]
}

type eventWriters struct {
	*list
	rec     *record
	time    *fixed[int64]
	name    *text
	attrs   attrs
	dropped *fixed[uint32]
}

type linkWriters struct {
	*list
	rec             *record
	traceID, spanID *idents
	traceState      *text
	flags           *fixed[uint32]
	attrs           attrs
	dropped         *fixed[uint32]
}

func newTracesWriters(s *scratch) *tracesWriters {
	return &tracesWriters{
		sharedWriters: newSharedWriters(s),
		timestamp:     find[*fixed[int64]](s, "timestamp_ns"),
		start:         find[*fixed[int64]](s, "start_time_unix_nano"),
		end:           find[*fixed[int64]](s, "end_time_unix_nano"),
		traceID:       find[*idents](s, "trace_id"),
		spanID:        find[*idents](s, "span_id"),
		parentSpanID:  find[*idents](s, "parent_span_id"),
		traceState:    find[*text](s, "trace_state"),
		flags:         find[*fixed[uint32]](s, "flags"),
		name:          find[*text](s, "name"),
		kind:          find[*fixed[int32]](s, "kind"),
		status:        find[*fixed[int32]](s, "status_code"),
		message:       find[*text](s, "status_message"),
		attrs:         newAttrs(s, "attributes"),
		dropped:       find[*fixed[uint32]](s, "dropped_attributes_count"),
		events: eventWriters{
			list:    find[*list](s, "events"),
			rec:     find[*record](s, "events.[]"),
			time:    find[*fixed[int64]](s, "events.time_unix_nano"),
			name:    find[*text](s, "events.name"),
			attrs:   newAttrs(s, "events.attributes"),
			dropped: find[*fixed[uint32]](s, "events.dropped_attributes_count"),
		},
		droppedEvents: find[*fixed[uint32]](s, "dropped_events_count"),
		links: linkWriters{
			list:       find[*list](s, "links"),
			rec:        find[*record](s, "links.[]"),
			traceID:    find[*idents](s, "links.trace_id"),
			spanID:     find[*idents](s, "links.span_id"),
			traceState: find[*text](s, "links.trace_state"),
			flags:      find[*fixed[uint32]](s, "links.flags"),
			attrs:      newAttrs(s, "links.attributes"),
			dropped:    find[*fixed[uint32]](s, "links.dropped_attributes_count"),
		},
		droppedLinks: find[*fixed[uint32]](s, "dropped_links_count"),
	}
}

func (s *scratch) encodeTraces(arrival time.Time, requests ...ptrace.Traces) (Batch, error) {
	return s.run(func() Batch { return s.traces.write(arrival.UnixNano(), requests) })
}

func (w *tracesWriters) write(arrival int64, requests []ptrace.Traces) Batch {
	w.rows, w.times = 0, timeRange{}
	for _, td := range requests {
		w.writeRequest(td, arrival)
	}
	return Batch{Rows: w.rows, MinTime: w.times.lo, MaxTime: w.times.hi}
}

func (w *tracesWriters) writeRequest(td ptrace.Traces, arrival int64) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, sp := range ss.Spans().All() {
				w.times.add(w.writeSpan(sp, arrival), w.rows == 0)
				w.rows++
			}
			w.endScope(ss.Scope(), ss.SchemaUrl(), w.rows)
		}
		w.endResource(rs.Resource(), rs.SchemaUrl(), arrival, w.rows)
	}
}

// writeSpan returns the span's effective time: its start, else arrival.
func (w *tracesWriters) writeSpan(sp ptrace.Span, arrival int64) int64 {
	start := w.s.rawTime(sp.StartTimestamp())
	at := arrival
	if start != 0 {
		at = clampTime(start)
	}
	w.timestamp.add(at)
	w.start.add(start)
	w.end.add(w.s.rawTime(sp.EndTimestamp()))
	traceID, spanID, parent := sp.TraceID(), sp.SpanID(), sp.ParentSpanID()
	w.traceID.add(traceID[:])
	w.spanID.add(spanID[:])
	w.parentSpanID.add(parent[:])
	w.traceState.add(sp.TraceState().AsRaw())
	w.flags.add(sp.Flags())
	w.name.add(sp.Name())
	w.kind.add(int32(sp.Kind()))
	w.status.add(int32(sp.Status().Code()))
	w.message.add(sp.Status().Message())
	w.s.attributes(w.attrs, sp.Attributes())
	w.dropped.add(sp.DroppedAttributesCount())
	w.events.write(w.s, sp.Events())
	w.droppedEvents.add(sp.DroppedEventsCount())
	w.links.write(w.s, sp.Links())
	w.droppedLinks.add(sp.DroppedLinksCount())
	return at
}

func (w *eventWriters) write(s *scratch, events ptrace.SpanEventSlice) {
	for _, ev := range events.All() {
		w.time.add(s.rawTime(ev.Timestamp()))
		w.name.add(ev.Name())
		s.attributes(w.attrs, ev.Attributes())
		w.dropped.add(ev.DroppedAttributesCount())
		w.rec.end()
	}
	w.end(w.rec.n)
}

func (w *linkWriters) write(s *scratch, links ptrace.SpanLinkSlice) {
	for _, ln := range links.All() {
		traceID, spanID := ln.TraceID(), ln.SpanID()
		w.traceID.add(traceID[:])
		w.spanID.add(spanID[:])
		w.traceState.add(ln.TraceState().AsRaw())
		w.flags.add(ln.Flags())
		s.attributes(w.attrs, ln.Attributes())
		w.dropped.add(ln.DroppedAttributesCount())
		w.rec.end()
	}
	w.end(w.rec.n)
}
