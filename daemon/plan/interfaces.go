// SPDX-License-Identifier: Apache-2.0

package plan

// The interfaces that the data plane watches.

import (
	"fmt"
	"slices"

	"loci/config"
	"loci/dataplane"
)

func (p *planner) interfaces() []dataplane.Interface {
	var list []dataplane.Interface
	for i, site := range p.config.Interfaces.Site {
		if name := p.interfaceName(site.Interface, where{"interfaces", "site", i, "interface"}); name != "" {
			list = append(list, dataplane.Interface{Name: name, Side: dataplane.SideSite, Instance: site.InstanceID, VLAN: site.VLAN, Hook: hookOf(site.Hook), Forwarding: forwardingOf(site.Forwarding)})
		}
	}
	for i, core := range p.config.Interfaces.Core {
		if name := p.interfaceName(core.Interface, where{"interfaces", "core", i, "interface"}); name != "" {
			list = append(list, dataplane.Interface{Name: name, Side: dataplane.SideCore, Hook: hookOf(core.Hook), Forwarding: forwardingOf(core.Forwarding)})
		}
	}
	p.checkDistinct(list)
	return list
}

func forwardingOf(f config.Forwarding) dataplane.Forwarding {
	if f == config.ForwardingStack {
		return dataplane.ForwardingStack
	}
	return dataplane.ForwardingFast
}

// hookOf is the data plane's value for the configuration's.
func hookOf(h config.Hook) dataplane.Hook {
	switch h {
	case config.HookTC:
		return dataplane.HookTC
	case config.HookXDP:
		return dataplane.HookXDP
	}
	return dataplane.HookAuto
}

func (p *planner) interfaceName(ref config.InterfaceRef, at where) string {
	if ref.Name != "" {
		if !p.host.Has(ref.Name) {
			p.wait(at, ref.Name, fmt.Sprintf("interface %s does not exist on this host", ref.Name))
		}
		return ref.Name // the data plane uses it when it comes
	}
	name := p.host.InterfaceOf(ref.Address)
	if name == "" {
		p.wait(at, "", fmt.Sprintf("no interface of this host has the address %s", ref.Address))
	}
	return name
}

// inForce leaves out the site's interfaces while a sibling forwards its packets: packets from there are then
// forwarded natively, and policy routing sends them to the sibling.
func (p *planner) inForce(list []dataplane.Interface) []dataplane.Interface {
	if !p.host.Sibling.IsValid() {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(i dataplane.Interface) bool { return i.Side == dataplane.SideSite })
}

// checkDistinct finds one interface written in two ways.
func (p *planner) checkDistinct(list []dataplane.Interface) {
	for i, one := range list {
		for _, other := range list[:i] {
			if one.Name == other.Name && one.VLAN == other.VLAN {
				p.problem(where{"interfaces"}, fmt.Sprintf("interface %s is named twice, as %s and as %s interface", one.Name, other.Side, one.Side), "name it once")
			}
		}
	}
}
