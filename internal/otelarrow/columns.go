package otelarrow

// The tables, column by column, in the order in which they are shown. Field ids
// are fixed for ever: a column may be added with a new id, none may be reused.
// Ids 1 to 99 mean the same in every table; 100 and up belong to one table.

// Names of the WAL groups.
const (
	groupResource     = "resource"     // runs: what the records of one ResourceLogs/Spans/Metrics share
	groupScope        = "scope"        // runs: what the records of one ScopeLogs/Spans/Metrics share
	groupMetric       = "metric"       // runs: what the points of one metric share
	groupDistribution = "distribution" // optional: histogram, exponential histogram, summary
	groupHistogram    = "histogram"    // optional: histogram
	groupExponential  = "exponential"  // optional: exponential histogram
	groupSummary      = "summary"      // optional: summary
)

var (
	sharedGroups  = []group{{groupResource, true}, {groupScope, true}}
	metricsGroups = []group{
		{groupResource, true},
		{groupScope, true},
		{groupMetric, true},
		{groupDistribution, false},
		{groupHistogram, false},
		{groupExponential, false},
		{groupSummary, false},
	}
)

func logsColumns() []column {
	return concat(
		[]column{
			{id: 1, name: "timestamp", kind: kindMicros, from: "timestamp_ns", required: true, source: "timestamp_ns in whole microseconds, floor"},
			{id: 2, name: "timestamp_ns", kind: kindLong, required: true, source: "time_unix_nano, else observed_time_unix_nano, else arrival; clamped to 2262-04-11"},
			{id: 9, name: "time_unix_nano", kind: kindRawTime, null: "0 (not set)", source: "LogRecord.time_unix_nano; over 2^63-1 in two's complement"},
			{id: 100, name: "observed_timestamp", kind: kindRawMicros, from: "observed_time_unix_nano", null: "0 (not set)", source: "LogRecord.observed_time_unix_nano in whole microseconds; clamped to 2262-04-11"},
			{id: 101, name: "observed_time_unix_nano", kind: kindRawTime, null: "0 (not set)", source: "LogRecord.observed_time_unix_nano; over 2^63-1 in two's complement"},
		},
		arrivalColumn(),
		[]column{
			{id: 5, name: "trace_id", kind: kindTraceID, null: "empty or all zero", source: "LogRecord.trace_id, lower-case hex"},
			{id: 6, name: "span_id", kind: kindSpanID, null: "empty or all zero", source: "LogRecord.span_id, lower-case hex"},
			{id: 102, name: "trace_flags", kind: kindUint32, source: "LogRecord.flags, all 32 bits"},
			{id: 103, name: "severity_number", kind: kindInt, source: "LogRecord.severity_number; 0 = not set, also outside 1 to 24 as sent"},
			{id: 104, name: "severity_text", kind: kindTextOrNull, null: "empty", source: "LogRecord.severity_text"},
		},
		serviceColumn(),
		[]column{
			{id: 105, name: "event_name", kind: kindTextOrNull, null: "empty", source: "LogRecord.event_name"},
			{id: 106, name: "body", kind: kindText, null: "no body (body_type is empty)", source: "LogRecord.body: text of a string, JSON text of any other value"},
			{id: 107, name: "body_type", kind: kindValueKind, from: "body_kind", null: "the body is a string", source: "type of the body"},
		},
		attributeColumns(10, "", "LogRecord"),
		resourceColumns("ResourceLogs"),
		scopeColumns("ScopeLogs"),
		segmentColumns(),
	)
}

func tracesColumns() []column {
	return concat(
		[]column{
			{id: 1, name: "timestamp", kind: kindMicros, from: "timestamp_ns", required: true, source: "timestamp_ns in whole microseconds, floor"},
			{id: 2, name: "timestamp_ns", kind: kindLong, required: true, source: "start_time_unix_nano, else arrival; clamped to 2262-04-11"},
			{id: 100, name: "start_time_unix_nano", kind: kindRawTime, null: "0 (not set)", source: "Span.start_time_unix_nano; over 2^63-1 in two's complement"},
			{id: 101, name: "end_time_unix_nano", kind: kindRawTime, null: "0 (not set)", source: "Span.end_time_unix_nano; over 2^63-1 in two's complement"},
			{id: 102, name: "end_timestamp", kind: kindRawMicros, from: "end_time_unix_nano", null: "end is 0 (not set)", source: "Span.end_time_unix_nano in whole microseconds; clamped to 2262-04-11"},
			{id: 103, name: "duration_ns", kind: kindDuration, from: "end_time_unix_nano", null: "start or end is 0 (not set)", source: "end minus start; negative when the end is before the start; clamped to int64"},
			{id: 5, name: "trace_id", kind: kindTraceID, null: "empty or all zero", source: "Span.trace_id, lower-case hex"},
			{id: 6, name: "span_id", kind: kindSpanID, null: "empty or all zero", source: "Span.span_id, lower-case hex"},
			{id: 104, name: "parent_span_id", kind: kindSpanID, null: "empty or all zero (a root span)", source: "Span.parent_span_id, lower-case hex"},
			{id: 105, name: "trace_state", kind: kindTextOrNull, null: "empty", source: "Span.trace_state"},
			{id: 106, name: "flags", kind: kindUint32, source: "Span.flags, all 32 bits"},
			{id: 107, name: "name", kind: kindText, source: "Span.name"},
			{id: 108, name: "kind", kind: kindSpanKind, source: "Span.kind without SPAN_KIND_; unknown numbers in decimal"},
		},
		serviceColumn(),
		[]column{
			{id: 109, name: "status_code", kind: kindStatusCode, source: "Span.status.code without STATUS_CODE_; unknown numbers in decimal"},
			{id: 110, name: "status_message", kind: kindTextOrNull, null: "empty", source: "Span.status.message"},
		},
		attributeColumns(10, "", "Span"),
		[]column{
			{id: 120, name: "events", kind: kindStructs, source: "Span.events, in order; an empty list when there are none", fields: concat(
				[]column{
					{id: 122, name: "timestamp_ns", kind: kindClampNanos, from: "time_unix_nano", null: "0 (not set)", source: "Event.time_unix_nano, clamped to 2^63-1"},
					{id: 123, name: "name", kind: kindText, source: "Event.name"},
				},
				attributeColumns(124, "", "Event"),
			)},
			{id: 140, name: "dropped_events_count", kind: kindUint32, source: "Span.dropped_events_count"},
			{id: 150, name: "links", kind: kindStructs, source: "Span.links, in order; an empty list when there are none", fields: concat(
				[]column{
					{id: 152, name: "trace_id", kind: kindTraceID, null: "empty or all zero", source: "Link.trace_id, lower-case hex"},
					{id: 153, name: "span_id", kind: kindSpanID, null: "empty or all zero", source: "Link.span_id, lower-case hex"},
					{id: 154, name: "trace_state", kind: kindTextOrNull, null: "empty", source: "Link.trace_state"},
					{id: 155, name: "flags", kind: kindUint32, source: "Link.flags, all 32 bits"},
				},
				attributeColumns(156, "", "Link"),
			)},
			{id: 170, name: "dropped_links_count", kind: kindUint32, source: "Span.dropped_links_count"},
		},
		resourceColumns("ResourceSpans"),
		scopeColumns("ScopeSpans"),
		arrivalColumn(),
		segmentColumns(),
	)
}

// serviceColumn, arrivalColumn and those below are the same in every table.
func serviceColumn() []column {
	return inGroup(groupResource, column{
		id: 4, name: "service_name", kind: kindText, null: "the resource has no service.name",
		source: "resource attribute service.name, as in resource_attributes",
	})
}

func arrivalColumn() []column {
	return inGroup(groupResource, column{
		id: 3, name: "ingested_at", kind: kindMicros, required: true,
		source: "when the collector took the request, not part of OTLP",
	})
}

func resourceColumns(of string) []column {
	return inGroup(groupResource, concat(
		attributeColumns(20, "resource_", "Resource"),
		[]column{
			{id: 27, name: "resource_schema_url", kind: kindTextOrNull, null: "empty", source: of + ".schema_url"},
			{
				id: 28, name: "resource_entity_refs", kind: kindTextOrNull, null: "none",
				source: "Resource.entity_refs as JSON text: an array of objects with schemaUrl, type, idKeys and descriptionKeys",
			},
		},
	)...)
}

func scopeColumns(of string) []column {
	return inGroup(groupScope, concat(
		[]column{
			{id: 38, name: "scope_name", kind: kindTextOrNull, null: "empty", source: "InstrumentationScope.name"},
			{id: 39, name: "scope_version", kind: kindTextOrNull, null: "empty", source: "InstrumentationScope.version"},
		},
		attributeColumns(30, "scope_", "InstrumentationScope"),
		[]column{{id: 37, name: "scope_schema_url", kind: kindTextOrNull, null: "empty", source: of + ".schema_url"}},
	)...)
}

func segmentColumns() []column {
	return []column{
		{id: 7, name: "segment_id", kind: kindSegmentID, source: "id of the WAL segment the row came from, not part of OTLP"},
		{id: 8, name: "segment_row", kind: kindSegmentRow, source: "the row's place in that segment, from 0"},
	}
}
