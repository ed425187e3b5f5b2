package otelarrow

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

type logsWriters struct {
	sharedWriters
	rows  int
	times timeRange

	timestamp, time, observed *fixed[int64]
	traceID, spanID           *idents
	flags                     *fixed[uint32]
	severity                  *fixed[int32]
	severityText, eventName   *text
	body                      *text
	bodyKind                  *fixed[uint8]
	attrs                     attrs
	dropped                   *fixed[uint32]
}

func newLogsWriters(s *scratch) *logsWriters {
	return &logsWriters{
		sharedWriters: newSharedWriters(s),
		timestamp:     find[*fixed[int64]](s, "timestamp_ns"),
		time:          find[*fixed[int64]](s, "time_unix_nano"),
		observed:      find[*fixed[int64]](s, "observed_time_unix_nano"),
		traceID:       find[*idents](s, "trace_id"),
		spanID:        find[*idents](s, "span_id"),
		flags:         find[*fixed[uint32]](s, "trace_flags"),
		severity:      find[*fixed[int32]](s, "severity_number"),
		severityText:  find[*text](s, "severity_text"),
		eventName:     find[*text](s, "event_name"),
		body:          find[*text](s, "body"),
		bodyKind:      find[*fixed[uint8]](s, "body_kind"),
		attrs:         newAttrs(s, "attributes"),
		dropped:       find[*fixed[uint32]](s, "dropped_attributes_count"),
	}
}

func (s *scratch) encodeLogs(arrival time.Time, requests ...plog.Logs) (Batch, error) {
	return s.run(func() Batch { return s.logs.write(arrival.UnixNano(), requests) })
}

func (w *logsWriters) write(arrival int64, requests []plog.Logs) Batch {
	w.rows, w.times = 0, timeRange{}
	for _, ld := range requests {
		w.writeRequest(ld, arrival)
	}
	return Batch{Rows: w.rows, MinTime: w.times.lo, MaxTime: w.times.hi}
}

func (w *logsWriters) writeRequest(ld plog.Logs, arrival int64) {
	for _, rl := range ld.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, lr := range sl.LogRecords().All() {
				w.times.add(w.writeRecord(lr, arrival), w.rows == 0)
				w.rows++
			}
			w.endScope(sl.Scope(), sl.SchemaUrl(), w.rows)
		}
		w.endResource(rl.Resource(), rl.SchemaUrl(), arrival, w.rows)
	}
}

// writeRecord returns the record's effective time: its own, else the observed, else arrival.
func (w *logsWriters) writeRecord(lr plog.LogRecord, arrival int64) int64 {
	sent, observed := w.s.rawTime(lr.Timestamp()), w.s.rawTime(lr.ObservedTimestamp())
	at := arrival
	switch {
	case sent != 0:
		at = clampTime(sent)
	case observed != 0:
		at = clampTime(observed)
	}
	w.timestamp.add(at)
	w.time.add(sent)
	w.observed.add(observed)
	traceID, spanID := lr.TraceID(), lr.SpanID()
	w.traceID.add(traceID[:])
	w.spanID.add(spanID[:])
	w.flags.add(uint32(lr.Flags()))
	w.severity.add(int32(lr.SeverityNumber()))
	w.severityText.add(lr.SeverityText())
	w.eventName.add(lr.EventName())
	if body := lr.Body(); body.Type() == pcommon.ValueTypeEmpty {
		w.body.addMaybe("", false)
		w.bodyKind.add(valueEmpty)
	} else {
		w.bodyKind.add(w.s.value(w.body, body))
	}
	w.s.attributes(w.attrs, lr.Attributes())
	w.dropped.add(lr.DroppedAttributesCount())
	return at
}
