package ingestparams

import (
	"fmt"
	"strings"
)

const siglakeType = "siglake"

// earlyProcessors answer as soon as rows are in their memory and send them on later. batch is part of this
// distribution; the others are those of the upstream catalogue that buffer, for people who build their own.
// Checked in their code and left out because they call the next consumer within the request: attributes,
// cumulativetodelta, deltatocumulative, filter, groupbyattrs, memory_limiter, probabilistic_sampler,
// redaction, resource, transform.
var earlyProcessors = map[string]string{
	"batch":        "the exporter groups the writes of concurrent requests itself",
	"groupbytrace": "or run it in a Collector in front whose exporter has a persistent sending_queue",
	"interval":     "or run it in a Collector in front whose exporter has a persistent sending_queue",
	"logdedup":     "or run it in a Collector in front whose exporter has a persistent sending_queue",
	"tailsampling": "or run it in a Collector in front whose exporter has a persistent sending_queue",
}

// derives reports a connector that makes new data on its own clock: what it emits is no request's rows, so
// no answer depends on it.
func derives(id string) bool {
	switch typeOf(id) {
	case "spanmetrics", "servicegraph", "count", "sum", "exceptions", "signaltometrics":
		return true
	default:
		return false
	}
}

// ackOfProcessor says why a processor acks early and what to do, "" when it does not.
func ackOfProcessor(pipeline, id string, cfg map[string]any) (why, fix string) {
	if fix, ok := earlyProcessors[typeOf(id)]; ok {
		return "answers the client when rows are in its memory", fmt.Sprintf("take %s out of service::pipelines::%s::processors (%s)", id, pipeline, fix)
	}
	if queueAcksEarly(cfg) {
		return queueText("processors::" + id)
	}
	return "", ""
}

// ackOfReceiver knows the one receiver of this distribution that tells its source "done" before the
// pipeline has run: kafka commits offsets first unless told otherwise. The others answer when the pipeline
// returns (otlp, jaeger, zipkin, fluent_forward) or their protocol has no answer.
func ackOfReceiver(id string, cfg map[string]any) (why, fix string) {
	if typeOf(id) != "kafka" {
		return "", ""
	}
	marking, _ := cfg["message_marking"].(map[string]any)
	key := "receivers::" + id + "::message_marking"
	switch {
	case !isTrue(marking["after"]):
		return "marks messages as consumed before their rows are on disk", "set " + key + "::after: true"
	case isTrue(marking["on_error"]):
		return "marks messages as consumed when storing them was refused", "set " + key + "::on_error: false"
	default:
		return "", ""
	}
}

// queueAcksEarly finds a queue that answers on arrival: a sending_queue section, or a component that is
// itself a queue, without wait_for_result.
func queueAcksEarly(cfg map[string]any) bool {
	if queue, ok := cfg["sending_queue"].(map[string]any); ok && len(queue) > 0 {
		return !isFalse(queue["enabled"]) && !isTrue(queue["wait_for_result"])
	}
	if wait, ok := cfg["wait_for_result"]; ok {
		return !isTrue(wait)
	}
	return false
}

func queueText(key string) (why, fix string) {
	return "has a queue that answers the client when rows are in it", "set wait_for_result: true in the queue of " + key + ", or remove the queue"
}

// bareProtocols lists the protocols of an otlp receiver that do not run this middleware.
func bareProtocols(id string, cfg map[string]any) []string {
	if typeOf(id) != "otlp" {
		return nil
	}
	protocols, _ := cfg["protocols"].(map[string]any)
	var bare []string
	for _, name := range []string{"grpc", "http"} {
		proto, ok := protocols[name].(map[string]any)
		if !ok || len(proto) == 0 || hasMiddleware(proto["middlewares"]) {
			continue
		}
		bare = append(bare, "receivers::"+id+"::protocols::"+name)
	}
	return bare
}

func hasMiddleware(v any) bool {
	list, _ := v.([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		if t, _, _ := strings.Cut(fmt.Sprint(m["id"]), "/"); t == typeName {
			return true
		}
	}
	return false
}

func isTrue(v any) bool  { b, ok := v.(bool); return ok && b }
func isFalse(v any) bool { b, ok := v.(bool); return ok && !b }
