package expect

import (
	"fmt"
	"math"
	"strings"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// NewRequest makes an empty export request of a signal.
func NewRequest(signal string) (proto.Message, error) {
	switch signal {
	case "logs":
		return &collogs.ExportLogsServiceRequest{}, nil
	case "traces":
		return &coltrace.ExportTraceServiceRequest{}, nil
	case "metrics":
		return &colmetrics.ExportMetricsServiceRequest{}, nil
	}
	return nil, fmt.Errorf("signal %q is not one of logs, traces, metrics", signal)
}

// Tables are the table names by signal.
var Tables = map[string]string{"logs": "siglake.events", "traces": "siglake.spans", "metrics": "siglake.metrics"}

// Rows says what the rows of a request hold, in the order of the request, and which of its fields no rule covers.
func Rows(request proto.Message) (rows []Row, unseen []string) {
	w := &walk{}
	root := w.node(request.ProtoReflect(), "request")
	switch request.(type) {
	case *collogs.ExportLogsServiceRequest:
		rows = groups(root, "resource_logs", "scope_logs", "log_records", logRow)
	case *coltrace.ExportTraceServiceRequest:
		rows = groups(root, "resource_spans", "scope_spans", "spans", spanRow)
	case *colmetrics.ExportMetricsServiceRequest:
		rows = groups(root, "resource_metrics", "scope_metrics", "metrics", metricRows)
	default:
		panic(fmt.Sprintf("%T is no export request", request))
	}
	return rows, w.unseen()
}

// groups walks resource → scope → record and lays the columns of resource and scope under those of each record.
func groups(root *node, resources, scopes, records string, rule func(*node) []Row) []Row {
	var out []Row
	for _, rg := range root.list(resources) {
		base := Row{}
		resourceColumns(base, rg)
		for _, sg := range rg.list(scopes) {
			scopeColumns(base, sg)
			for _, r := range sg.list(records) {
				for _, row := range rule(r) {
					for column, c := range base {
						row[column] = c
					}
					out = append(out, row)
				}
			}
		}
	}
	return out
}

func (r Row) attributes(n *node, field, column, typesColumn string) {
	r[column], r[typesColumn] = attributes(n.keyValues(field), typesColumn)
}

func resourceColumns(r Row, group *node) {
	r["resource_schema_url"] = text(group.str("schema_url"))
	// A request without a resource has one all the same: an empty one.
	res := group.msg("resource")
	if res == nil {
		r["resource_attributes"], r["resource_attribute_types"] = attributes(nil, "resource_attribute_types")
		r["resource_dropped_attributes_count"] = number(0)
		r["service_name"] = exactly(nil)
		r["resource_entity_refs"] = text("")
		return
	}
	r.attributes(res, "attributes", "resource_attributes", "resource_attribute_types")
	r["resource_dropped_attributes_count"] = count(res.uint("dropped_attributes_count"))
	r["resource_entity_refs"] = text(entityRefs(res.list("entity_refs")))
	r["service_name"] = exactly(nil)
	for _, kv := range first(res.keyValues("attributes")) {
		if kv.Key != "service.name" {
			continue
		}
		r["service_name"] = exactly(render(kv.Value))
	}
}

// entityRefs are references as JSON text; "" when there are none.
func entityRefs(refs []*node) string {
	if len(refs) == 0 {
		return ""
	}
	out := make([]string, len(refs))
	for i, ref := range refs {
		out[i] = `{"schemaUrl":` + quote(ref.str("schema_url")) + `,"type":` + quote(ref.str("type")) +
			`,"idKeys":` + quotes(ref.strs("id_keys")) + `,"descriptionKeys":` + quotes(ref.strs("description_keys")) + `}`
	}
	return "[" + strings.Join(out, ",") + "]"
}

func quotes(texts []string) string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = quote(t)
	}
	return "[" + strings.Join(out, ",") + "]"
}

func scopeColumns(r Row, group *node) {
	r["scope_schema_url"] = text(group.str("schema_url"))
	scope := group.msg("scope")
	if scope == nil {
		r["scope_name"], r["scope_version"] = text(""), text("")
		r["scope_attributes"], r["scope_attribute_types"] = attributes(nil, "scope_attribute_types")
		r["scope_dropped_attributes_count"] = number(0)
		return
	}
	r["scope_name"], r["scope_version"] = text(scope.str("name")), text(scope.str("version"))
	r.attributes(scope, "attributes", "scope_attributes", "scope_attribute_types")
	r["scope_dropped_attributes_count"] = count(scope.uint("dropped_attributes_count"))
}

// position columns are judged by the caller, who knows the order of the requests.
func position(r Row) {
	unjudged := Cell{"0", func(Window, map[string]any, any) string { return "" }}
	r["segment_id"], r["segment_row"] = unjudged, unjudged
	r["ingested_at"] = arrived()
}

func logRow(n *node) []Row {
	r := Row{}
	position(r)
	at, observed := n.uint("time_unix_nano"), n.uint("observed_time_unix_nano")
	r["timestamp"], r["timestamp_ns"] = effective(at, observed)
	r["time_unix_nano"] = rawTime(at)
	r["observed_timestamp"], r["observed_time_unix_nano"] = timestamp(observed), rawTime(observed)
	r["trace_id"], r["span_id"] = id(n.bytes("trace_id")), id(n.bytes("span_id"))
	r["trace_flags"] = count(n.uint("flags"))
	severity, _ := n.enum("severity_number", "SEVERITY_NUMBER_")
	r["severity_number"] = number(int64(severity))
	r["severity_text"] = text(n.str("severity_text"))
	r["event_name"] = text(n.str("event_name"))
	r["body"], r["body_type"] = body(n)
	r.attributes(n, "attributes", "attributes", "attribute_types")
	r["dropped_attributes_count"] = count(n.uint("dropped_attributes_count"))
	return []Row{r}
}

// body is the text of a string body with no type, or the JSON text of any other with its type. No body at all is null,
// of type empty.
func body(n *node) (value, typ Cell) {
	v := n.anyValue("body")
	k := kind(v)
	switch k {
	case "":
		return exactly(render(v)), exactly(nil)
	case "empty":
		return exactly(nil), exactly("empty")
	}
	value = Cell{render(v), func(_ Window, _ map[string]any, got any) string {
		s, ok := got.(string)
		if !ok {
			return fmt.Sprintf("want %s, got %s", short(render(v)), show(got))
		}
		return valueDiffers(v, s, k)
	}}
	return value, exactly(k)
}

func spanRow(n *node) []Row {
	r := Row{}
	position(r)
	start, end := n.uint("start_time_unix_nano"), n.uint("end_time_unix_nano")
	r["timestamp"], r["timestamp_ns"] = effective(start)
	r["start_time_unix_nano"], r["end_time_unix_nano"] = rawTime(start), rawTime(end)
	r["end_timestamp"] = timestamp(end)
	r["duration_ns"] = duration(start, end)
	r["trace_id"], r["span_id"] = id(n.bytes("trace_id")), id(n.bytes("span_id"))
	r["parent_span_id"] = id(n.bytes("parent_span_id"))
	r["trace_state"] = text(n.str("trace_state"))
	r["flags"] = count(n.uint("flags"))
	r["name"] = name(n.str("name"))
	r["kind"] = enum(n.enum("kind", "SPAN_KIND_"))
	r["status_code"], r["status_message"] = enum(0, "UNSET"), text("")
	if s := n.msg("status"); s != nil {
		r["status_code"] = enum(s.enum("code", "STATUS_CODE_"))
		r["status_message"] = text(s.str("message"))
	}
	r.attributes(n, "attributes", "attributes", "attribute_types")
	r["dropped_attributes_count"] = count(n.uint("dropped_attributes_count"))
	r["dropped_events_count"] = count(n.uint("dropped_events_count"))
	r["dropped_links_count"] = count(n.uint("dropped_links_count"))
	r["events"], r["links"] = list(spanEvents(n)), list(spanLinks(n))
	return []Row{r}
}

// duration is end less start, exact where a long can say it and else the nearest long; a span that lacks one of the two
// has none.
func duration(start, end uint64) Cell {
	var d int64
	switch {
	case start == 0 || end == 0:
		return exactly(nil)
	case end >= start:
		d = clampInt(end - start)
	case start-end > 1<<63:
		d = math.MinInt64
	default:
		d = -int64(start - end)
	}
	return exactly(decimal(d))
}

func spanEvents(n *node) []Row {
	var out []Row
	for _, e := range n.list("events") {
		r := Row{"timestamp_ns": clampedTime(e.uint("time_unix_nano")), "name": name(e.str("name"))}
		r.attributes(e, "attributes", "attributes", "attribute_types")
		r["dropped_attributes_count"] = count(e.uint("dropped_attributes_count"))
		out = append(out, r)
	}
	return out
}

func spanLinks(n *node) []Row {
	var out []Row
	for _, l := range n.list("links") {
		r := Row{
			"trace_id": id(l.bytes("trace_id")), "span_id": id(l.bytes("span_id")),
			"trace_state": text(l.str("trace_state")), "flags": count(l.uint("flags")),
		}
		r.attributes(l, "attributes", "attributes", "attribute_types")
		r["dropped_attributes_count"] = count(l.uint("dropped_attributes_count"))
		out = append(out, r)
	}
	return out
}
