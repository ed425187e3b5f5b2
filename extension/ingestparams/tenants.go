package ingestparams

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tenantLostError is one place where a request loses what says whose rows it holds. No setting allows it: the rows
// would all be refused later, when nobody is there any more who could send them again.
type tenantLostError struct {
	pipeline  string
	via       string
	component string
	why, fix  string
}

func (e tenantLostError) Error() string {
	return fmt.Sprintf("pipeline %q%s: %s %s: %s, or switch tenancy off in the siglake exporter", e.pipeline, e.via, e.component, e.why, e.fix)
}

// lostTenants walks from every siglake exporter with tenancy back to the receivers.
func (e *effective) lostTenants() []error {
	reached := e.reach(func(id string) bool {
		tenancy, _ := e.Exporters[id]["tenancy"].(map[string]any)
		return typeOf(id) == siglakeType && isTrue(tenancy["enabled"])
	})
	var lost []error
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		pl, via := e.Service.Pipelines[name], reached[name]
		add := func(component, why, fix string) { lost = append(lost, tenantLostError{name, via, component, why, fix}) }
		for _, id := range pl.Processors {
			if forgetsTenant(id, e.Processors[id]) {
				add("processor "+quote(id), "forgets the tenant of a request", fmt.Sprintf("take %s out of service::pipelines::%s::processors", id, name))
			} else if queueOnDisk(e.Processors[id]) {
				add("processor "+quote(id), onDiskText, "remove its queue")
			}
		}
		for _, id := range pl.Exporters {
			if queueOnDisk(e.Exporters[id]) && typeOf(id) == siglakeType {
				add("exporter "+quote(id), onDiskText, "remove its queue")
			}
		}
		for _, id := range pl.Receivers {
			cfg, connector := e.Connectors[id]
			switch {
			case connector && derives(id):
				add("connector "+quote(id), "makes rows that are no tenant's", "send them to a siglake exporter without tenancy, with a directory of its own")
			case connector && queueOnDisk(cfg):
				add("connector "+quote(id), onDiskText, "remove its queue")
			}
		}
	}
	return lost
}

const onDiskText = "has a queue with storage, which keeps rows and forgets whose they are"

// forgetsTenant finds processors that send rows on outside the request they came in. batch can be told to keep
// metadata, but not what an authenticator says, and mixes no tenants then.
func forgetsTenant(id string, cfg map[string]any) bool {
	if _, early := earlyProcessors[typeOf(id)]; !early {
		return false
	}
	keys, _ := cfg["metadata_keys"].([]any)
	return typeOf(id) != "batch" || !slices.ContainsFunc(keys, func(k any) bool {
		return strings.EqualFold(fmt.Sprint(k), metadataTenant)
	})
}

func queueOnDisk(cfg map[string]any) bool {
	queue := cfg
	if sending, ok := cfg["sending_queue"].(map[string]any); ok {
		queue = sending
	}
	storage, ok := queue["storage"]
	return ok && storage != nil && fmt.Sprint(storage) != "" && !isFalse(queue["enabled"])
}
