// SPDX-License-Identifier: Apache-2.0

package config

// The numbers of policy routing, which must not meet each other or the system's own.

import (
	"fmt"
	"slices"

	"loci/lisp"
)

// CoreNames are the core interfaces that are named, not given by an address.
func (i Interfaces) CoreNames() []string {
	var names []string
	for _, core := range i.Core {
		if core.Interface.Name != "" {
			names = append(names, core.Interface.Name)
		}
	}
	return names
}

// String names the interface, with its VLAN if it has one.
func (s SiteInterface) String() string {
	if s.VLAN == 0 {
		return s.Interface.String()
	}
	return fmt.Sprintf("%s VLAN %d", s.Interface, s.VLAN)
}

// validateVLAN checks a site that is a VLAN of an interface, which has one hook for all.
func (c *Config) validateVLAN(site SiteInterface, path string) {
	if site.VLAN != 0 && site.Forwarding == ForwardingStack {
		c.fail(path+".forwarding", "forwarding: stack knows no tags", "name the kernel's own device of the VLAN as the interface, such as eth0.10, without vlan")
	}
	for _, other := range c.Interfaces.Site {
		if other.Interface == site.Interface && other.VLAN < site.VLAN && other.Hook != site.Hook {
			c.fail(path, fmt.Sprintf("hook: %s for %s and %s for %s", site.Hook, site, other.Hook, other), "an interface has one hook for all its VLANs")
			return
		}
	}
}

// validateStack warns where the host's IP forwarding would have to tell equal EIDs of
// several Instance-IDs apart: it knows those of Instance-ID 0 alone then.
func (c *Config) validateStack() {
	instances := map[lisp.InstanceID]bool{}
	for _, site := range c.Interfaces.Site {
		instances[site.InstanceID] = true
	}
	if len(instances) < 2 {
		return
	}
	const hint = "use fast there, or run a router in a network namespace of its own for each Instance-ID"
	for i, site := range c.Interfaces.Site {
		if site.Forwarding == ForwardingStack && site.InstanceID != 0 {
			c.warn(fmt.Sprintf("interfaces.site[%d].forwarding", i), fmt.Sprintf("forwarding: stack cannot tell Instance-IDs apart: what comes from the core for Instance-ID %s is dropped (other-instance)", site.InstanceID), hint)
		}
	}
	for i, core := range c.Interfaces.Core {
		if core.Forwarding == ForwardingStack {
			c.warn(fmt.Sprintf("interfaces.core[%d].forwarding", i), "forwarding: stack cannot tell Instance-IDs apart: what comes in there for another Instance-ID than 0 is dropped (other-instance)", hint)
		}
	}
}

// sourceRules is how many consecutive rule priorities the source routes take.
const sourceRules = 3

// validateRouting checks the numbers of policy routing against each other.
func (c *Config) validateRouting() {
	d := c.Datapath
	if slices.Contains(reservedTables, d.RouteTable) {
		c.fail("datapath.route-table", fmt.Sprintf("route-table: %d is a table of the system's own", d.RouteTable), "want another number: 253 to 255 are default, main and local")
	}
	if d.SourceRoutes {
		c.validateSourceRoutes()
	}
	if f := d.FallbackRulePriority; f == d.RulePriority {
		c.fail("datapath.fallback-rule-priority", fmt.Sprintf("fallback-rule-priority: %d is taken by rule-priority", f), "want one above 32766, behind the main table's rule")
	} else if f <= mainRulePriority {
		c.warn("datapath.fallback-rule-priority", "fallback-rule-priority: the rule comes before the main table's", "want one above 32766, or packets of this host that have a route are encapsulated")
	}
}

func (c *Config) validateSourceRoutes() {
	d := c.Datapath
	first, last := uint64(d.SourceRouteTable), uint64(d.SourceRouteTable)+uint64(max(len(c.Interfaces.Core), 1))-1
	for _, taken := range append([]uint32{d.RouteTable}, reservedTables...) {
		if n := uint64(taken); n >= first && n <= last {
			c.fail("datapath.source-route-table", fmt.Sprintf("source-route-table: tables %d to %d are needed, one for each core interface, and %d is taken", first, last, taken), "want another number")
			return
		}
	}
	if last > 1<<32-1 {
		c.fail("datapath.source-route-table", fmt.Sprintf("source-route-table: tables %d to %d are needed, one for each core interface", first, last), "want a smaller number")
	}
	from, to := d.SourceRulePriority, d.SourceRulePriority+sourceRules-1
	for _, taken := range []uint32{d.RulePriority, d.FallbackRulePriority} {
		if taken >= from && taken <= to {
			c.fail("datapath.source-rule-priority", fmt.Sprintf("source-rule-priority: %d to %d are needed, and %d is taken by the rules for EIDs", from, to, taken), "want another number")
			return
		}
	}
}
