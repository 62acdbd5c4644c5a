// SPDX-License-Identifier: Apache-2.0

package config

// Locators and locator-sets: named ones exist, each has at least one locator that can be used.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"loci/config/codec"
	"loci/config/multipath"
	"loci/config/source"
	"loci/lisp"
)

func validateLocatorSets(c *Config) {
	used := map[string]bool{}
	for _, r := range c.rlocs() {
		used[r.Name] = true
		if r.Name != "" {
			validateSetName(c, r)
		}
		if len(r.Locators) > 0 {
			validateLocators(c, r.Locators, r.path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.LocatorSets)) {
		path := source.Join("locator-sets", name)
		validateLocators(c, c.LocatorSets[name], path)
		if !used[name] {
			c.warn(path, fmt.Sprintf("locator-set %s is not used", name), "name it by rlocs, or remove it")
		}
	}
	validatePathPlaces(c)
}

// placedRLOCs is a locator-set with the path it stands at.
type placedRLOCs struct {
	RLOCs
	path   string
	remote bool // of another site: interfaces make no sense
	paths  bool // explicit locator paths may stand here
	static bool // ports may stand here
}

// rlocs lists every place where a locator-set is named or written out.
func (c *Config) rlocs() []placedRLOCs {
	var list []placedRLOCs
	if c.ITR != nil {
		list = append(list, placedRLOCs{RLOCs: c.ITR.RLOCs, path: "itr.itr-rlocs"}, placedRLOCs{RLOCs: c.ITR.ProxyETRs, path: "itr.proxy-etrs", remote: true})
		for i, m := range c.ITR.MapCache.Mappings {
			list = append(list, placedRLOCs{m.RLOCs, fmt.Sprintf("itr.map-cache.mappings[%d].rlocs", i), true, true, true})
		}
	}
	if c.ETR != nil {
		for i, l := range c.ETR.LocalEIDs {
			list = append(list, placedRLOCs{RLOCs: l.RLOCs, path: fmt.Sprintf("etr.local-eids[%d].rlocs", i), paths: true})
		}
	}
	return list
}

func validateSetName(c *Config, r placedRLOCs) {
	if _, ok := c.LocatorSets[r.Name]; ok {
		return
	}
	names := slices.Sorted(maps.Keys(c.LocatorSets))
	hint := "add it to locator-sets"
	if near := codec.Nearest(r.Name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	c.fail(r.path, fmt.Sprintf("%s: there is no locator-set %q", source.Label(r.path), r.Name), hint)
}

func validateLocators(c *Config, list []Locator, path string) {
	switch {
	case len(list) == 0:
		c.fail(path, source.Label(path)+": the locator-set is empty", "want at least one locator")
	case len(list) > lisp.MaxLocators:
		c.fail(path, fmt.Sprintf("%s: %d locators", source.Label(path), len(list)), fmt.Sprintf("want at most %d: a mapping holds no more", lisp.MaxLocators))
	}
	seen := map[Locator]bool{}
	for i, l := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		validateLocator(c, l, at)
		identity := Locator{Interface: l.Interface, Address: l.Address, Port: l.Port, AddressFamily: l.AddressFamily, Path: l.Path.withoutBits()}
		if seen[identity] {
			c.fail(at, fmt.Sprintf("locator %s stands twice in one set", l), "remove one of the two")
		}
		seen[identity] = true
	}
	warnOfUnusedLocators(c, list, path)
}

// warnOfUnusedLocators warns of sets that other routers cannot use, or not by weight.
func warnOfUnusedLocators(c *Config, list []Locator, path string) {
	isUsed := func(l Locator) bool { return l.Priority != lisp.PriorityUnused && l.Reachable }
	switch best := bestOf(list, isUsed); {
	case len(list) == 0:
	case slices.ContainsFunc(list, isUsed):
		if !slices.ContainsFunc(list, func(l Locator) bool { return isUsed(l) && l.Priority == best && l.Weight > 0 }) {
			c.warn(path, fmt.Sprintf("%s: all locators of the best priority, %d, have weight 0", source.Label(path), best),
				"weight 0 switches nothing off: the senders choose how to share (RFC 9300 s.9). Want a weight above 0, or priority 255 to switch a locator off")
		}
	case !slices.ContainsFunc(list, func(l Locator) bool { return l.Priority != lisp.PriorityUnused }):
		c.warn(path, source.Label(path)+": every locator has priority 255", "that priority is never used for unicast packets: these EIDs cannot be reached")
	default:
		c.warn(path, source.Label(path)+": every locator has priority 255 or reachable: false", "neither is used for unicast packets: these EIDs cannot be reached")
	}
}

// bestOf is the lowest priority of those that count, PriorityUnused without one.
func bestOf(list []Locator, counts func(Locator) bool) uint8 {
	best := uint8(lisp.PriorityUnused)
	for _, l := range list {
		if counts(l) {
			best = min(best, l.Priority)
		}
	}
	return best
}

func validateLocator(c *Config, l Locator, path string) {
	var kinds []string
	for _, k := range []struct {
		key string
		has bool
	}{{"interface", l.Interface != ""}, {"address", l.Address.IsValid()}, {"explicit-locator-path", l.Path.given}} {
		if k.has {
			kinds = append(kinds, k.key)
		}
	}
	switch {
	case len(kinds) == 0:
		c.fail(path, "the locator has neither interface nor address nor explicit-locator-path", "want one of them")
	case len(kinds) > 1:
		c.fail(path, "the locator has both "+strings.Join(kinds, " and "), "want one of them")
	case l.Interface != "":
		validateLocatorInterface(c, l.Interface, path+".interface")
	case l.Path.given:
		validatePath(c, &l.Path, path)
	default:
		if err := lisp.RLOCFromAddr(l.Address).Valid(); err != nil {
			c.fail(path+".address", err.Error(), "want an address that other systems reach")
		}
	}
	if len(kinds) != 1 {
		return
	}
	if l.Port != dataPort && !l.Address.IsValid() {
		c.fail(path+".port", "port goes with address", "of a path, write it at the hop: explicit-locator-path: [{address: ADDRESS, port: PORT}]")
	}
	if l.AddressFamily != FamilyBoth && l.Interface == "" {
		c.fail(path+".address-family", "address-family goes with interface, not with "+kinds[0], "remove it: an address has one family")
	}
}

// validateLocatorInterface warns of a locator at which no LISP packet is taken.
func validateLocatorInterface(c *Config, name, path string) {
	if err := validInterfaceName(name); err != nil {
		message, hint := codec.SplitError(err)
		c.fail(path, "interface: "+message, hint)
		return
	}
	if name == loopback {
		return // its addresses are reached by the core interfaces
	}
	for _, core := range c.Interfaces.Core {
		if core.Interface.Name == name || core.Interface.Address.IsValid() { // whose address it is, the host knows
			return
		}
	}
	c.warn(path, fmt.Sprintf("interface: %s is not among the core interfaces", name), "packets that arrive there are not decapsulated: add it to interfaces: {core: [NAME]}")
}

// String is the interface, the address or the path.
func (l Locator) String() string {
	switch {
	case !l.Path.IsZero():
		return l.Path.String()
	case l.Address.IsValid():
		return l.RLOC().String()
	}
	return l.Interface
}

// validatePathIdentification checks what the paths of a mapping are told apart by against Instance-IDs and paths.
func validatePathIdentification(c *Config) {
	if c.RTR != nil && c.RTR.PathIdentification == multipath.ByNumber {
		refuseInstances(c, "rtr.path-identification")
	} else if c.ITR != nil && c.ITR.PathIdentification == multipath.ByNumber {
		refuseInstances(c, "itr.path-identification")
	}
	if c.RTR != nil && c.ITR != nil && c.RTR.PathIdentification == multipath.BySource && c.ITR.PathIdentification == multipath.ByNumber {
		c.fail("itr.path-identification", "path-identification: pid here, and eld in rtr: the routers of a path go by one of the two", "leave it out here: eld needs nothing of an ITR")
	}
	if c.ETR != nil && c.ETR.PathIdentification == multipath.BySource {
		validateApart(c, "etr.")
	}
	if c.RTR != nil && c.RTR.PathIdentification == multipath.BySource {
		validateApart(c, "itr.")
	}
}

// refuseInstances refuses Instance-IDs beside numbers of paths, which take their place.
func refuseInstances(c *Config, key string) {
	for _, of := range []any{c.Interfaces, c.ITR, c.ETR, c.RTR, c.PITR, c.PETR} {
		multipath.RefuseInstances(key, of, c.fail)
	}
}

// validateApart refuses paths of one set that the hop before a router does not tell apart; section says whose sets.
func validateApart(c *Config, section string) {
	checked := map[string]bool{}
	for _, r := range c.rlocs() {
		if !r.paths || !strings.HasPrefix(r.path, section) || r.Name != "" && checked[r.Name] {
			continue
		}
		at := r.path
		if checked[r.Name] = true; r.Name != "" {
			at = source.Join("locator-sets", r.Name)
		}
		var apart multipath.Apart
		for i, l := range c.setOf(r.RLOCs) {
			if l.Path.IsZero() || l.Priority == lisp.PriorityUnused {
				continue
			}
			path, _, err := l.Path.Path()
			if why := apart.Add(path); err == nil && why != "" {
				c.fail(fmt.Sprintf("%s[%d].explicit-locator-path", at, i), "explicit-locator-path: "+why,
					"with path-identification: eld a router tells a path by the hop before it: give each path a first hop and links between RTRs of its own")
			}
		}
	}
}
