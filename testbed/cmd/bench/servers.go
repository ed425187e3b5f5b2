package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/siglakecol/siglakecol/testbed/internal/measure"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// rival is a pipeline of stock components: the OTLP receiver of the shipped configuration, then an exporter.
const rival = `
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "${env:SIGLAKE_OTLP_GRPC}", max_recv_msg_size_mib: 20}
processors:
  memory_limiter: {check_interval: 1s, limit_percentage: 75, spike_limit_percentage: 20}
extensions:
  healthcheckv2: {use_v2: true, http: {endpoint: "${env:SIGLAKE_HEALTH}", status: {enabled: true, path: /}}}
service:
  extensions: [healthcheckv2]
  pipelines: {logs: {receivers: [otlp], processors: [memory_limiter], exporters: [%s]}}
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: localhost, port: "${env:SIGLAKE_METRICS_PORT}"}}}}]}}
exporters:
  %[1]s:%[2]s
`

// queue is what a user would take instead: the Collector's persistent queue, before a destination that never answers,
// so that what is measured is the way into the queue alone.
const queue = `
    endpoint: http://%s
    timeout: 0
    sending_queue: {storage: file_storage, queue_size: 10000000, num_consumers: 1}
`

const queueOverlay = `
extensions: {file_storage: {directory: "${env:SIGLAKE_DATA}", fsync: %t}}
service: {extensions: [healthcheckv2, file_storage]}
`

// writeOnly leaves the compactor out: the figures are those of the acknowledgement alone.
const writeOnly = `service: {extensions: [ingestparams, walmirror, healthcheckv2]}`

// atOnce opens the gate: a drain after the load should not wait for more.
const atOnce = `extensions: {lakecompactor: {gate: {age: 100ms}}}`

// servers are what is compared. The configuration returned is the shipped one.
func servers(dir, sink string) ([]measure.Server, string, error) {
	config, err := testenv.DefaultConfig()
	if err != nil {
		return nil, "", err
	}
	ceiling, queued := filepath.Join(dir, "nop.yaml"), filepath.Join(dir, "queue.yaml")
	if err := errors.Join(
		os.WriteFile(ceiling, fmt.Appendf(nil, rival, "nop", ""), 0o600),
		os.WriteFile(queued, fmt.Appendf(nil, rival, "otlp_http", fmt.Sprintf(queue, sink)), 0o600),
	); err != nil {
		return nil, "", err
	}
	return []measure.Server{
		{Name: "otlp → nop", Config: ceiling},
		{Name: "persistent queue, fsync on", Config: queued, Overlay: []string{fmt.Sprintf(queueOverlay, true)}, Full: true},
		{Name: "persistent queue, fsync off", Config: queued, Overlay: []string{fmt.Sprintf(queueOverlay, false)}, Full: true},
		{Name: "auto", Mode: "auto", Config: config, Overlay: []string{writeOnly}, Stores: true},
		{Name: "wait_for", Mode: "wait_for", Config: config, Overlay: []string{writeOnly}, Stores: true},
		{Name: "auto, draining", Mode: "auto", Config: config, Stores: true, Drains: true},
		{Name: "wait_for, draining", Mode: "wait_for", Config: config, Stores: true, Drains: true},
	}, config, nil
}

// silentSink is a destination that takes requests and never answers. end hangs up on all of them.
func silentSink() (address string, end func() error, err error) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "localhost:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for the persistent queue: %w", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return l.Addr().String(), func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
