// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"strings"
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/store"
)

// keptFields are those that upgrades copy by name, of layout 35 and later. A field that is renamed
// loses what it holds, unless the translator learns of its earlier name.
var keptFields = map[string]string{
	"lisp_mapping": "flags iid locator_set action family prefix_length prefix created_ns expires_ns " +
		"ttl_minutes map_version cookie last_used",
	"lisp_mapping_counters": "packets octets",
	"lisp_locator_set":      "count first status_bits serial buckets",
	"lisp_locator": "rloc source family priority weight multicast_priority multicast_weight flags " +
		"port encapsulation path_mtu ifindex",
}

func TestKeptFieldsHaveTheirNames(t *testing.T) {
	spec, err := abi.LoadTC()
	if err != nil {
		t.Fatal(err)
	}
	for structure, names := range keptFields {
		fields, _, err := layoutOf(spec.Types, structure)
		if err != nil {
			t.Error(err)
			continue
		}
		for name := range strings.FieldsSeq(names) {
			if _, ok := fields[name]; !ok {
				t.Errorf("struct %s has no %s: what older maps hold there is lost", structure, name)
			}
		}
	}
}

func TestKeptMapsHaveTheirNames(t *testing.T) {
	for got, want := range map[string]string{
		abi.MapSettings: "settings", abi.MapMappings: "mappings", abi.MapMappingCounters: "mapping_counters",
		abi.MapLocatorSets: "locator_sets", abi.MapLocators: "locators", abi.MapDrops: "drops", abi.MapCounters: "counters",
		store.MapWords: "user_words", store.MapSavedSettings: "user_settings", store.MapSavedStates: "user_states",
		store.MapPathStates: "user_path_states", abi.MapPaths: "paths",
	} {
		if got != want {
			t.Errorf("map %s was %s in older layouts: what it holds is lost", got, want)
		}
	}
}
