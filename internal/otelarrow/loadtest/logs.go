package loadtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// services that a request comes from, each with the same share of its rows.
const services = 4

// share is how many of n rows service i has.
func share(n, i int) int { return (n - i + services - 1) / services }

// resource describes service i.
func resource(i int, a pcommon.Map) {
	a.PutStr("service.name", fmt.Sprintf("checkout-%d", i))
	a.PutStr("service.version", "1.27.3")
	a.PutStr("k8s.namespace.name", "shop")
	a.PutStr("k8s.pod.name", fmt.Sprintf("checkout-%d-7d4b9c6f5b-x2x%dz", i, i))
	a.PutStr("host.name", fmt.Sprintf("ip-10-0-0-%d.eu-central-1.compute.internal", i))
}

func traceID(rng *rand.Rand) (id pcommon.TraceID) {
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return id
}

func spanID(rng *rand.Rand) (id pcommon.SpanID) {
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return id
}

// Logs are records of about 510 bytes of protobuf: bodies that are all different, eight attributes of which two are
// integers, ids of their own. They happened within the five seconds before at, in no order.
func Logs(rng *rand.Rand, at time.Time, records int) plog.Logs {
	ld := plog.NewLogs()
	for i := range min(services, records) {
		rl := ld.ResourceLogs().AppendEmpty()
		resource(i, rl.Resource().Attributes())
		sl := rl.ScopeLogs().AppendEmpty()
		sl.Scope().SetName("io.opentelemetry.log4j-appender-2.17")
		for range share(records, i) {
			logRecord(rng, at, sl.LogRecords().AppendEmpty())
		}
	}
	return ld
}

func logRecord(rng *rand.Rand, at time.Time, lr plog.LogRecord) {
	ts := pcommon.NewTimestampFromTime(at.Add(-time.Duration(rng.IntN(5e9))))
	lr.SetTimestamp(ts)
	lr.SetObservedTimestamp(ts + 1_000_000)
	lr.SetTraceID(traceID(rng))
	lr.SetSpanID(spanID(rng))
	lr.SetFlags(1)
	lr.SetSeverityNumber(plog.SeverityNumberInfo)
	lr.SetSeverityText("INFO")
	lr.Body().SetStr(fmt.Sprintf("order %d accepted for customer %x, %d items, payment authorised by gateway %s in %d ms; next step: reserve stock at warehouse %d",
		rng.IntN(1e9), rng.Uint64(), rng.IntN(20), "stripe-eu", rng.IntN(900), rng.IntN(50)))
	a := lr.Attributes()
	a.PutStr("http.request.method", "POST")
	a.PutStr("url.path", fmt.Sprintf("/api/v2/orders/%d/confirm", rng.IntN(1e9)))
	a.PutInt("http.response.status_code", 200)
	a.PutStr("thread.name", fmt.Sprintf("http-nio-8080-exec-%d", rng.IntN(200)))
	a.PutStr("code.namespace", "com.example.shop.checkout.OrderService")
	a.PutInt("code.lineno", int64(rng.IntN(2000)))
	a.PutStr("user.id", fmt.Sprintf("%016x", rng.Uint64()))
	a.PutStr("session.token", fmt.Sprintf("run-00000000-%012d", rng.IntN(1e9)))
}
