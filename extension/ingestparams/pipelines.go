package ingestparams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.uber.org/zap"
)

// effective is what the checks read of the Collector's configuration, defaults included.
type effective struct {
	Receivers  map[string]map[string]any `mapstructure:"receivers"`
	Processors map[string]map[string]any `mapstructure:"processors"`
	Exporters  map[string]map[string]any `mapstructure:"exporters"`
	Connectors map[string]map[string]any `mapstructure:"connectors"`
	Service    struct {
		Pipelines map[string]pipeline `mapstructure:"pipelines"`
	} `mapstructure:"service"`
}

type pipeline struct {
	Receivers  []string `mapstructure:"receivers"`
	Processors []string `mapstructure:"processors"`
	Exporters  []string `mapstructure:"exporters"`
}

// brokenAckError is one place where a client is answered before its rows are on disk.
type brokenAckError struct {
	pipeline  string // as written under service::pipelines
	via       string // how that pipeline reaches siglake, "" when directly
	component string // kind and id
	why, fix  string
}

func (b brokenAckError) Error() string {
	return fmt.Sprintf("pipeline %q%s: %s %s: %s, or set extensions::ingestparams::allow_broken_ack: true and accept that acknowledged rows can be lost",
		b.pipeline, b.via, b.component, b.why, b.fix)
}

// NotifyConfigSnapshot runs after the extensions have started and before any pipeline does. An error ends
// the start of the Collector with its text.
func (p *params) NotifyConfigSnapshot(_ context.Context, snapshot extensioncapabilities.ConfigSnapshot) error {
	cfg, err := readEffective(snapshot.Effective())
	if err != nil {
		return err
	}
	if lost := cfg.lostTenants(); len(lost) > 0 {
		return fmt.Errorf("check that every row keeps its tenant: %w", errors.Join(lost...))
	}
	broken, bare := cfg.inspect()
	for _, key := range bare {
		p.logger.Warn("receiver feeds siglake without the ingestparams middleware: the query parameter commit is ignored there and "+
			"header and metadata too unless include_metadata is set; every request gets the exporter's commit::default",
			zap.String("fix", "add {id: "+typeName+"} to "+key+"::middlewares"))
	}
	if len(broken) == 0 {
		return nil
	}
	if !p.cfg.AllowBrokenAck {
		errs := make([]error, len(broken))
		for i, b := range broken {
			errs[i] = b
		}
		return fmt.Errorf("check that an answer means rows on disk: %w", errors.Join(errs...))
	}
	for _, b := range broken {
		p.logger.Warn("pipeline answers before its rows are on disk: acknowledged rows can be lost (allow_broken_ack is true)",
			zap.String("pipeline", b.pipeline), zap.String("component", b.component), zap.String("why", b.why), zap.String("fix", b.fix))
	}
	return nil
}

func readEffective(conf *confmap.Conf) (*effective, error) {
	cfg := &effective{}
	if conf == nil {
		return cfg, nil
	}
	if err := conf.Unmarshal(cfg, confmap.WithIgnoreUnused()); err != nil {
		return nil, fmt.Errorf("read the effective configuration: %w", err)
	}
	return cfg, nil
}

// inspect walks from every siglake exporter back to the receivers, through connectors. It returns what acks
// early on the way, and the OTLP protocols (as configuration keys) that lack this middleware.
func (e *effective) inspect() (broken []brokenAckError, bare []string) {
	reached := e.reach(func(id string) bool { return typeOf(id) == siglakeType })
	seen := map[string]bool{} // components may stand in several pipelines
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		pl, via := e.Service.Pipelines[name], reached[name]
		for _, id := range pl.Processors {
			if why, fix := ackOfProcessor(name, id, e.Processors[id]); why != "" {
				broken = append(broken, brokenAckError{name, via, "processor " + quote(id), why, fix})
			}
		}
		for _, id := range slices.Concat(pl.Receivers, pl.Exporters) {
			if cfg, ok := e.Connectors[id]; ok && !seen["connector "+id] && queueAcksEarly(cfg) {
				seen["connector "+id] = true
				why, fix := queueText("connectors::" + id)
				broken = append(broken, brokenAckError{name, via, "connector " + quote(id), why, fix})
			}
		}
		for _, id := range pl.Exporters {
			if typeOf(id) == siglakeType && !seen["exporter "+id] && queueAcksEarly(e.Exporters[id]) {
				seen["exporter "+id] = true
				why, fix := queueText("exporters::" + id)
				broken = append(broken, brokenAckError{name, via, "exporter " + quote(id), why, fix})
			}
		}
		for _, id := range pl.Receivers {
			if seen["receiver "+id] {
				continue
			}
			seen["receiver "+id] = true
			if why, fix := ackOfReceiver(id, e.Receivers[id]); why != "" {
				broken = append(broken, brokenAckError{name, via, "receiver " + quote(id), why, fix})
			}
			bare = append(bare, bareProtocols(id, e.Receivers[id])...)
		}
	}
	return broken, bare
}

// reach returns the pipelines whose data ends in an exporter that is meant, each with how it gets there.
func (e *effective) reach(meant func(exporter string) bool) map[string]string {
	reached := map[string]string{}
	var queue []string
	for _, name := range slices.Sorted(maps.Keys(e.Service.Pipelines)) {
		if slices.ContainsFunc(e.Service.Pipelines[name].Exporters, meant) {
			reached[name] = ""
			queue = append(queue, name)
		}
	}
	for len(queue) > 0 {
		to := queue[0]
		queue = queue[1:]
		for _, id := range e.Service.Pipelines[to].Receivers {
			if _, ok := e.Connectors[id]; !ok || derives(id) {
				continue
			}
			for _, from := range slices.Sorted(maps.Keys(e.Service.Pipelines)) {
				if _, ok := reached[from]; ok || !slices.Contains(e.Service.Pipelines[from].Exporters, id) {
					continue
				}
				reached[from] = fmt.Sprintf(" (feeds siglake through connector %s and pipeline %q)", quote(id), to)
				queue = append(queue, from)
			}
		}
	}
	return reached
}

// typeOf is the type part of a component id, without underscores: several types were renamed only by adding
// them, and both spellings start.
func typeOf(id string) string {
	t, _, _ := strings.Cut(id, "/")
	return strings.ReplaceAll(t, "_", "")
}
