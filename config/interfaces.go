// SPDX-License-Identifier: Apache-2.0

package config

// The interfaces, and the numbers of policy routing, which must differ from each other and from
// the system's own.

import (
	"fmt"
	"slices"

	"loci/config/source"
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
func validateVLAN(c *Config, site SiteInterface, path string) {
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
func validateStack(c *Config) {
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
func validateRouting(c *Config) {
	d := c.Datapath
	if slices.Contains(reservedTables, d.RouteTable) {
		c.fail("datapath.route-table", fmt.Sprintf("route-table: %d is a table of the system's own", d.RouteTable), "want another number: 253 to 255 are default, main and local")
	}
	if d.SourceRoutes {
		validateSourceRoutes(c)
	}
	if f := d.FallbackRulePriority; f == d.RulePriority {
		c.fail("datapath.fallback-rule-priority", fmt.Sprintf("fallback-rule-priority: %d is taken by rule-priority", f), "want one above 32766, behind the main table's rule")
	} else if f <= mainRulePriority {
		c.warn("datapath.fallback-rule-priority", "fallback-rule-priority: the rule comes before the main table's", "want one above 32766, or packets of this host that have a route are encapsulated")
	}
}

func validateSourceRoutes(c *Config) {
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

// forwardingRole is the section of a role that forwards packets.
func (c *Config) forwardingRole() string {
	switch {
	case c.ITR != nil:
		return "itr"
	case c.ETR != nil:
		return "etr"
	}
	return string(RolePETR) // the other two need itr
}

func validateInterfaces(c *Config) {
	if c.UsesDataPlane() && len(c.Interfaces.Core) == 0 {
		role := c.forwardingRole()
		c.fail(role, role+" needs an interface towards the core", "add interfaces: {core: [NAME]}")
	}
	if c.EncapsulatesForSite() && len(c.Interfaces.Site) == 0 && c.MobileNode == nil {
		c.warn("itr", "no interface leads to the site", "only this host's own packets are encapsulated; add interfaces: {site: [NAME]}")
	}
	seen := map[SiteInterface]string{}
	for i, site := range c.Interfaces.Site {
		path := fmt.Sprintf("interfaces.site[%d]", i)
		validateInterface(c, seen, SiteInterface{Interface: site.Interface, VLAN: site.VLAN}, path)
		validateVLAN(c, site, path)
	}
	for i, core := range c.Interfaces.Core {
		validateInterface(c, seen, SiteInterface{Interface: core.Interface}, fmt.Sprintf("interfaces.core[%d]", i))
	}
	validateStack(c)
}

// validateInterface knows an interface by its name and VLAN.
func validateInterface(c *Config, seen map[SiteInterface]string, ref SiteInterface, path string) {
	if ref.Interface.Name == loopback || ref.Interface.Address.IsLoopback() {
		hint := "name the interface that leads to the hosts"
		if source.Label(path) == "core" {
			hint = "name the interface that leads to the core; give an RLOC that stands at lo by rlocs and itr-rlocs: [{interface: lo}]"
		}
		c.fail(path, fmt.Sprintf("%s: %s is the loopback interface: no other system is behind it", source.Label(path), ref), hint)
	}
	if ref.Interface.Name == c.Datapath.Interface {
		c.fail(path, fmt.Sprintf("%s is the interface that Loci makes itself", ref), "name another here, or change datapath.interface")
	}
	if first, twice := seen[ref]; twice {
		side, hint := source.Label(first), "an interface leads either to the site or to the core"
		if side == source.Label(path) {
			hint = "name each interface once there, and each VLAN of it"
		}
		c.fail(path, fmt.Sprintf("interface %s is in %s already", ref, side), hint)
		return
	}
	seen[ref] = path
}
