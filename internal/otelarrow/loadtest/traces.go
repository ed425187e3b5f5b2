package loadtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// spansPerTrace is how many spans of a service share a trace.
const spansPerTrace = 8

// Traces are spans of about 480 bytes: eight to a trace, six attributes; every fourth has an event, every twentieth of
// these an exception with its stack, every tenth span a link. They started within the five seconds before at.
func Traces(rng *rand.Rand, at time.Time, spans int) ptrace.Traces {
	td := ptrace.NewTraces()
	for i := range min(services, spans) {
		rs := td.ResourceSpans().AppendEmpty()
		resource(i, rs.Resource().Attributes())
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("io.opentelemetry.servlet-5.0")
		ss.Scope().SetVersion("2.17.0-alpha")
		var trace pcommon.TraceID
		var parent pcommon.SpanID
		var start time.Time
		for n := range share(spans, i) {
			s := ss.Spans().AppendEmpty()
			if n%spansPerTrace == 0 {
				trace, parent = traceID(rng), pcommon.SpanID{}
				start = at.Add(-time.Duration(rng.IntN(5e9)))
			}
			s.SetTraceID(trace)
			s.SetParentSpanID(parent)
			span(rng, start.Add(time.Duration(n%spansPerTrace*rng.IntN(2e6))), s)
			if n%spansPerTrace < 3 {
				parent = s.SpanID()
			}
		}
	}
	return td
}

// routes are what the spans' names are made of.
var routes = [...]string{"orders", "orders/{id}", "orders/{id}/confirm", "customers/{id}", "stock/{warehouse}", "payments", "health"}

func span(rng *rand.Rand, start time.Time, s ptrace.Span) {
	route := routes[rng.IntN(len(routes))]
	s.SetSpanID(spanID(rng))
	s.SetFlags(0x101)
	s.SetName("POST /api/v2/" + route)
	s.SetKind(ptrace.SpanKind(1 + rng.IntN(5)))
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(time.Duration(rng.IntN(9e8)))))
	a := s.Attributes()
	a.PutStr("http.request.method", "POST")
	a.PutStr("http.route", "/api/v2/"+route)
	a.PutStr("url.full", fmt.Sprintf("https://shop.example/api/v2/orders/%d/confirm?session=%08x", rng.IntN(1e9), rng.Uint32()))
	a.PutInt("http.response.status_code", 200)
	a.PutStr("client.address", fmt.Sprintf("10.%d.%d.%d", rng.IntN(4), rng.IntN(256), rng.IntN(256)))
	a.PutStr("user.id", fmt.Sprintf("%016x", rng.Uint64()))
	if rng.IntN(4) == 0 {
		e := s.Events().AppendEmpty()
		e.SetTimestamp(s.EndTimestamp() - 1_000)
		if rng.IntN(20) == 0 {
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Status().SetMessage(fmt.Sprintf("gateway answered after %d ms", rng.IntN(900)))
			e.SetName("exception")
			e.Attributes().PutStr("exception.type", "java.net.SocketTimeoutException")
			e.Attributes().PutStr("exception.stacktrace", stack(rng))
		} else {
			e.SetName("message")
			e.Attributes().PutInt("message.id", rng.Int64N(1e9))
			e.Attributes().PutStr("message.type", "SENT")
		}
	}
	if rng.IntN(10) == 0 {
		l := s.Links().AppendEmpty()
		l.SetTraceID(traceID(rng))
		l.SetSpanID(spanID(rng))
		l.Attributes().PutStr("messaging.operation", "receive")
	}
}

func stack(rng *rand.Rand) string {
	out := "java.net.SocketTimeoutException: Read timed out\n"
	for range 12 {
		out += fmt.Sprintf("\tat com.example.shop.checkout.step%d.Service.call(Service.java:%d)\n", rng.IntN(9), rng.IntN(400))
	}
	return out
}
