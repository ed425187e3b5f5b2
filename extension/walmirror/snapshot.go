package walmirror

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// effective is what the checks read of the Collector's configuration.
type effective struct {
	Exporters  map[string]map[string]any `mapstructure:"exporters"`
	Extensions map[string]map[string]any `mapstructure:"extensions"`
	Service    struct {
		Extensions []string `mapstructure:"extensions"`
	} `mapstructure:"service"`
}

// NotifyConfigSnapshot runs after the extensions have started and before any pipeline does. An error ends the start of
// the Collector with its text. A mirror that no exporter names copies nothing, and nobody would notice; one that shares
// its directory with a warehouse would have its objects taken for the tables' or the reverse.
func (w *walmirror) NotifyConfigSnapshot(_ context.Context, snapshot extensioncapabilities.ConfigSnapshot) error {
	conf := snapshot.Effective()
	if conf == nil || w.cfg.mirror().Idle() {
		return nil
	}
	var cfg effective
	if err := conf.Unmarshal(&cfg, confmap.WithIgnoreUnused()); err != nil {
		return fmt.Errorf("read the effective configuration: %w", err)
	}
	return errors.Join(w.named(&cfg), w.apart(&cfg))
}

// named looks for the exporter whose root is to be mirrored.
func (w *walmirror) named(cfg *effective) error {
	var others []string
	for id, exporter := range cfg.Exporters {
		if typeOf(id) != "siglake" {
			continue
		}
		if fmt.Sprint(exporter["mirror"]) == w.set.ID.String() {
			return nil
		}
		others = append(others, id)
	}
	if len(others) == 0 {
		return fmt.Errorf("extensions::%s: no siglake exporter is there whose log it could copy; take it out of service::extensions", w.set.ID)
	}
	return fmt.Errorf("extensions::%s: no exporter names it, so nothing would be copied; set exporters::%s::mirror: %s", w.set.ID, others[0], w.set.ID)
}

// apart refuses a mirror inside the warehouse of a compactor, and the reverse.
func (w *walmirror) apart(cfg *effective) error {
	at, err := w.cfg.mirror().Location()
	if err != nil {
		return err
	}
	for _, id := range cfg.Service.Extensions {
		if typeOf(id) != "lakecompactor" {
			continue
		}
		text, _ := cfg.Extensions[id]["warehouse"].(string)
		house, err := objstore.ParsePlace(text)
		if err != nil {
			continue // the compactor says so
		}
		if house.Overlaps(at) {
			return fmt.Errorf("extensions::%s::prefix: the mirror %s and the warehouse %s of extensions::%s are inside one another; give the mirror a directory beside the warehouse", w.set.ID, at, house, id)
		}
	}
	return nil
}

func typeOf(id string) string {
	var parsed component.ID
	if err := parsed.UnmarshalText([]byte(id)); err != nil {
		return ""
	}
	return parsed.Type().String()
}
