// SPDX-License-Identifier: Apache-2.0

package te

// The set from before, out of a configuration.

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"loci/config"
)

// SetIn reads a locator-set of a configuration, or of what WriteYAML writes, each locator by its hops. What has neither
// an address nor a path is refused.
func SetIn(file string, text []byte, name string) ([][]netip.Addr, error) {
	sets, err := config.ParseLocatorSets(file, text)
	if err != nil {
		return nil, err
	}
	set, known := sets[name]
	if !known {
		return nil, fmt.Errorf("%s: no locator-set %s; it has: %s", file, name,
			strings.Join(slices.Sorted(maps.Keys(sets)), ", "))
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("%s: locator-set %s is empty", file, name)
	}
	var paths [][]netip.Addr
	for _, l := range set {
		var hops []netip.Addr
		for _, h := range l.Path.Hops() {
			hops = append(hops, h.Address)
		}
		if l.Path.IsZero() {
			hops = []netip.Addr{l.Address}
		}
		if !hops[0].IsValid() {
			return nil, fmt.Errorf("%s: locator-set %s: locator %s has no address", file, name, l)
		}
		paths = append(paths, hops)
	}
	return paths, nil
}
