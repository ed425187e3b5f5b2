package ingestparams

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/connector/forwardconnector"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// free takes any keys; it stands in for components whose code a test needs not link.
type free map[string]any

func freeConfig() component.Config { return &free{} }

func freeExporter(name string) exporter.Factory {
	nop := exportertest.NewNopFactory()
	return exporter.NewFactory(component.MustNewType(name), freeConfig,
		exporter.WithLogs(nop.CreateLogs, 1), exporter.WithTraces(nop.CreateTraces, 1), exporter.WithMetrics(nop.CreateMetrics, 1))
}

func freeProcessor(name string) processor.Factory {
	nop := processortest.NewNopFactory()
	return processor.NewFactory(component.MustNewType(name), freeConfig, processor.WithLogs(nop.CreateLogs, 1), processor.WithTraces(nop.CreateTraces, 1))
}

func freeReceiver(name string) receiver.Factory {
	nop := receivertest.NewNopFactory()
	return receiver.NewFactory(component.MustNewType(name), freeConfig, receiver.WithLogs(nop.CreateLogs, 1))
}

// derivingConnector turns traces into metrics, as spanmetrics does.
func derivingConnector(t *testing.T, name string) connector.Factory {
	t.Helper()
	return connector.NewFactory(component.MustNewType(name), freeConfig, connector.WithTracesToMetrics(nil, 1))
}

// snapshot makes what the Collector hands to NotifyConfigSnapshot, by its own two steps: resolve and decode
// the text with factories, then marshal the result, defaults included.
func snapshot(t *testing.T, text string) extensioncapabilities.ConfigSnapshot {
	t.Helper()
	var err error
	f := otelcol.Factories{Telemetry: telemetry.NewFactory(func() component.Config { return struct{}{} })}
	f.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](NewFactory(), extensiontest.NewNopFactory())
	require.NoError(t, err)
	f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory(), freeReceiver("kafka"), freeReceiver("nop"))
	require.NoError(t, err)
	f.Processors, err = otelcol.MakeFactoryMap[processor.Factory](batchprocessor.NewFactory(), memorylimiterprocessor.NewFactory(),
		freeProcessor("queued"), freeProcessor("tail_sampling"), freeProcessor("log_dedup"))
	require.NoError(t, err)
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlpexporter.NewFactory(), freeExporter("siglake"), freeExporter("nop"))
	require.NoError(t, err)
	f.Connectors, err = otelcol.MakeFactoryMap[connector.Factory](forwardconnector.NewFactory(), derivingConnector(t, "spanmetrics"))
	require.NoError(t, err)

	provider, err := otelcol.NewConfigProvider(otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
		URIs: []string{"yaml:" + text}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(t.Context())) })
	cfg, err := provider.Get(t.Context(), f)
	require.NoError(t, err)
	require.NoError(t, confmap.Validate(cfg))
	conf := confmap.New()
	require.NoError(t, conf.Marshal(cfg))
	return extensioncapabilities.NewConfigSnapshot(conf, conf)
}

// notify runs the check and returns its error text and its warnings as "field=value" lines.
func notify(t *testing.T, cfg *Config, text string) (string, []string) {
	t.Helper()
	core, logs := observer.New(zapcore.WarnLevel)
	f := NewFactory()
	set := extensiontest.NewNopSettings(f.Type())
	set.TelemetrySettings = componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	ext, err := f.Create(t.Context(), set, cfg)
	require.NoError(t, err)
	watcher, ok := ext.(extensioncapabilities.ConfigSnapshotWatcher)
	require.True(t, ok)
	err = watcher.NotifyConfigSnapshot(t.Context(), snapshot(t, text))
	var warnings []string
	for _, entry := range logs.All() {
		var fields []string
		for _, f := range entry.Context {
			fields = append(fields, f.Key+"="+f.String)
		}
		warnings = append(warnings, strings.Join(fields, " "))
	}
	if err == nil {
		return "", warnings
	}
	return err.Error(), warnings
}

const (
	accept = ", or set extensions::ingestparams::allow_broken_ack: true and accept that acknowledged rows can be lost"
	head   = "check that an answer means rows on disk: "
)

// collector is a configuration in flow style; empty parts get what a clean one needs.
type collector struct {
	receivers, processors, exporters, connectors string
	pipelines                                    string
}

func (c collector) yaml() string {
	const with = "{middlewares: [{id: ingestparams}]}"
	or := func(s, or string) string {
		if s == "" {
			return or
		}
		return s
	}
	return "{extensions: {ingestparams: }" +
		", receivers: {" + or(c.receivers, "otlp: {protocols: {grpc: "+with+", http: "+with+"}}") + "}" +
		", processors: {" + c.processors + "}" +
		", exporters: {" + or(c.exporters, "siglake: , nop: ") + "}" +
		", connectors: {" + c.connectors + "}" +
		", service: {extensions: [ingestparams], pipelines: {" + c.pipelines + "}}}"
}

// ACK-1: what would answer before rows are on disk does not start.
func TestNotifyConfigSnapshot_refuses_what_acks_early_C8(t *testing.T) {
	t.Parallel()
	const (
		inMemory = "answers the client when rows are in its memory: "
		inQueue  = "has a queue that answers the client when rows are in it: "
	)
	for _, tc := range []struct {
		name  string
		given collector
		want  []string
	}{
		{
			name: "clean",
			given: collector{
				processors: "memory_limiter: {check_interval: 1s, limit_mib: 100}, queued: ",
				pipelines:  "logs: {receivers: [otlp], processors: [memory_limiter, queued], exporters: [siglake]}",
			},
		},
		{
			name:  "batch",
			given: collector{processors: "batch: ", pipelines: "logs: {receivers: [otlp], processors: [batch], exporters: [siglake]}"},
			want:  []string{`pipeline "logs": processor "batch" ` + inMemory + `take batch out of service::pipelines::logs::processors (the exporter groups the writes of concurrent requests itself)`},
		},
		{
			name: "batch where siglake is not reached",
			given: collector{
				processors: "batch: ",
				pipelines:  "logs: {receivers: [otlp], exporters: [siglake]}, traces: {receivers: [otlp], processors: [batch], exporters: [nop]}",
			},
		},
		{
			name: "named instances, both pipelines",
			given: collector{
				processors: "batch/big: {timeout: 1s}, tail_sampling: ", exporters: "siglake/b: , nop: ",
				pipelines: "logs/a: {receivers: [otlp], processors: [batch/big], exporters: [nop, siglake/b]}, traces: {receivers: [otlp], processors: [tail_sampling], exporters: [siglake/b]}",
			},
			want: []string{
				`pipeline "logs/a": processor "batch/big" ` + inMemory + `take batch/big out of service::pipelines::logs/a::processors (the exporter groups the writes of concurrent requests itself)`,
				`pipeline "traces": processor "tail_sampling" ` + inMemory + `take tail_sampling out of service::pipelines::traces::processors (or run it in a Collector in front whose exporter has a persistent sending_queue)`,
			},
		},
		{
			name:  "old and new spelling of a type",
			given: collector{processors: "log_dedup: ", pipelines: "logs: {receivers: [otlp], processors: [log_dedup], exporters: [siglake]}"},
			want:  []string{`pipeline "logs": processor "log_dedup" ` + inMemory + `take log_dedup out of service::pipelines::logs::processors (or run it in a Collector in front whose exporter has a persistent sending_queue)`},
		},
		{
			name: "through forward connectors",
			given: collector{
				processors: "batch: ", connectors: "forward/1: , forward/2: ",
				pipelines: "logs/in: {receivers: [otlp], processors: [batch], exporters: [forward/1]}, logs/mid: {receivers: [forward/1], exporters: [forward/2]}, logs/out: {receivers: [forward/2], exporters: [siglake]}",
			},
			want: []string{`pipeline "logs/in" (feeds siglake through connector "forward/1" and pipeline "logs/mid"): processor "batch" ` + inMemory + `take batch out of service::pipelines::logs/in::processors (the exporter groups the writes of concurrent requests itself)`},
		},
		{
			name: "a connector that derives new data ends the search",
			given: collector{
				processors: "batch: ", connectors: "spanmetrics: ",
				pipelines: "traces: {receivers: [otlp], processors: [batch], exporters: [spanmetrics, nop]}, metrics: {receivers: [spanmetrics], exporters: [siglake]}",
			},
		},
		{
			name: "queues of processors and of the exporter",
			given: collector{
				processors: "queued/off: {sending_queue: {enabled: false}}, queued/waits: {sending_queue: {wait_for_result: true}}, queued/early: {sending_queue: {queue_size: 5}}, queued/self: {wait_for_result: false}",
				exporters:  "siglake: {sending_queue: {enabled: true}}",
				pipelines:  "logs: {receivers: [otlp], processors: [queued/off, queued/waits, queued/early, queued/self], exporters: [siglake]}, traces: {receivers: [otlp], exporters: [siglake]}",
			},
			want: []string{
				`pipeline "logs": processor "queued/early" ` + inQueue + `set wait_for_result: true in the queue of processors::queued/early, or remove the queue`,
				`pipeline "logs": processor "queued/self" ` + inQueue + `set wait_for_result: true in the queue of processors::queued/self, or remove the queue`,
				`pipeline "logs": exporter "siglake" ` + inQueue + `set wait_for_result: true in the queue of exporters::siglake, or remove the queue`,
			},
		},
		{
			name: "another exporter's queue is its own affair",
			given: collector{
				exporters: "siglake: , otlp_grpc: {endpoint: 'localhost:1', sending_queue: {enabled: true}}",
				pipelines: "logs: {receivers: [otlp], exporters: [siglake, otlp_grpc]}",
			},
		},
		{
			name: "kafka marks before, or in spite of, the answer",
			given: collector{
				receivers: "kafka: , kafka/2: {message_marking: {after: true, on_error: true}}, kafka/3: {message_marking: {after: true}}",
				pipelines: "logs: {receivers: [kafka, kafka/2, kafka/3], exporters: [siglake]}",
			},
			want: []string{
				`pipeline "logs": receiver "kafka" marks messages as consumed before their rows are on disk: set receivers::kafka::message_marking::after: true`,
				`pipeline "logs": receiver "kafka/2" marks messages as consumed when storing them was refused: set receivers::kafka/2::message_marking::on_error: false`,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, warnings := notify(t, &Config{}, tc.given.yaml())
			require.Empty(t, warnings)
			if len(tc.want) == 0 {
				require.Empty(t, got)
				return
			}
			require.Equal(t, head+strings.Join(tc.want, accept+"\n")+accept, got)

			// Allowed, each becomes a warning with the same facts.
			got, warnings = notify(t, &Config{AllowBrokenAck: true}, tc.given.yaml())
			require.Empty(t, got)
			require.Len(t, warnings, len(tc.want))
		})
	}
}

// ACK-1: a receiver that would not pass the mode on is named, each protocol for itself.
func TestNotifyConfigSnapshot_warns_of_a_receiver_without_the_middleware(t *testing.T) {
	t.Parallel()
	got, warnings := notify(t, &Config{}, collector{
		receivers: "otlp: {protocols: {grpc: , http: {middlewares: [{id: ingestparams}]}}}, otlp/both: {protocols: {grpc: {endpoint: 'localhost:1'}, http: {middlewares: [{id: nop}]}}}," +
			" otlp/one: {protocols: {http: {middlewares: [{id: nop}, {id: ingestparams}]}}}, otlp/far: {protocols: {http: }}, nop: ",
		pipelines: "logs: {receivers: [otlp, otlp/both, otlp/one, nop], exporters: [siglake]}, traces: {receivers: [otlp], exporters: [siglake]}, metrics: {receivers: [otlp/far], exporters: [nop]}",
	}.yaml())
	require.Empty(t, got)
	require.Equal(t, []string{
		"fix=add {id: ingestparams} to receivers::otlp::protocols::grpc::middlewares",
		"fix=add {id: ingestparams} to receivers::otlp/both::protocols::grpc::middlewares",
		"fix=add {id: ingestparams} to receivers::otlp/both::protocols::http::middlewares",
	}, warnings)
}

// C6: where tenancy is on, nothing may stand in between that forgets whose rows it holds, whatever is allowed.
func TestNotifyConfigSnapshot_C6_refuses_what_forgets_the_tenant(t *testing.T) {
	t.Parallel()
	const (
		tenants = "check that every row keeps its tenant: "
		off     = ", or switch tenancy off in the siglake exporter"
		on      = "siglake: {tenancy: {enabled: true}}, siglake/off: {tenancy: {enabled: false}}, nop: "
	)
	for _, tc := range []struct {
		name  string
		given collector
		want  []string
	}{
		{name: "clean", given: collector{exporters: on, processors: "queued: ", pipelines: "logs: {receivers: [otlp], processors: [queued], exporters: [siglake]}"}},
		{
			name: "queues with storage, in processor and exporter, even if they wait",
			given: collector{
				exporters:  "siglake: {tenancy: {enabled: true}, sending_queue: {storage: file_storage, wait_for_result: true}}",
				processors: "queued: {sending_queue: {storage: file_storage, wait_for_result: true}}, queued/self: {storage: x}, queued/off: {sending_queue: {enabled: false, storage: file_storage}}",
				pipelines:  "logs: {receivers: [otlp], processors: [queued, queued/self, queued/off], exporters: [siglake]}",
			},
			want: []string{
				`pipeline "logs": processor "queued" ` + onDiskText + `: remove its queue`,
				`pipeline "logs": processor "queued/self" ` + onDiskText + `: remove its queue`,
				`pipeline "logs": exporter "siglake" ` + onDiskText + `: remove its queue`,
			},
		},
		{
			name:  "batch, through a connector",
			given: collector{exporters: on, processors: "batch: ", connectors: "forward: ", pipelines: "logs/in: {receivers: [otlp], processors: [batch], exporters: [forward]}, logs: {receivers: [forward], exporters: [siglake]}"},
			want:  []string{`pipeline "logs/in" (feeds siglake through connector "forward" and pipeline "logs"): processor "batch" forgets the tenant of a request: take batch out of service::pipelines::logs/in::processors`},
		},
		{name: "batch that keeps it", given: collector{exporters: on, processors: "batch: {metadata_keys: [X-Siglake-Tenant]}", pipelines: "logs: {receivers: [otlp], processors: [batch], exporters: [siglake]}"}},
		{name: "batch before an exporter without tenancy", given: collector{exporters: on, processors: "batch: ", pipelines: "logs: {receivers: [otlp], processors: [batch], exporters: [siglake/off]}"}},
		{
			name:  "rows of no request",
			given: collector{exporters: on, connectors: "spanmetrics: ", pipelines: "traces: {receivers: [otlp], exporters: [spanmetrics]}, metrics: {receivers: [spanmetrics], exporters: [siglake]}"},
			want:  []string{`pipeline "metrics": connector "spanmetrics" makes rows that are no tenant's: send them to a siglake exporter without tenancy, with a directory of its own`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, _ := notify(t, &Config{AllowBrokenAck: true}, tc.given.yaml())
			if len(tc.want) == 0 {
				require.Empty(t, got)
				return
			}
			require.Equal(t, tenants+strings.Join(tc.want, off+"\n")+off, got)
		})
	}
}
