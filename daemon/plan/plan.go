// SPDX-License-Identifier: Apache-2.0

package plan

// From the configuration and what the host is like to what the Node, the data
// plane and policy routing are told. Every problem is reported at its position in
// the file. Nothing is changed here.

import (
	"errors"
	"net/netip"
	"slices"

	"loci/config"
	"loci/control"
	"loci/daemon/handover"
	"loci/daemon/hostnet"
	"loci/daemon/lispnat"
	"loci/daemon/trouble"
	"loci/dataplane"
	"loci/lisp"
)

// Plan is what a configuration means on this host.
type Plan struct {
	Config   *config.Config
	Control  control.Config
	Settings dataplane.Settings
	Warnings []trouble.Trouble
	// waits are what the configuration names and the host does not have yet; each is
	// used when it comes.
	waits []hostWait
	// rlocs are the own RLOCs in the order of the configuration, those that are down too.
	RLOCs []netip.Addr
	// choices are the own RLOCs, by family, between which other sites choose by a
	// locator-set, or this router when it sends.
	choices     [][]lisp.RLOC
	Host        hostnet.Host // what the plan was made from
	Own         []hostnet.OwnRLOC
	Interfaces  []dataplane.Interface // also those that the data plane does not watch now
	RLOCChanges []hostnet.RLOCChange
}

// WaitsForRLOC reports that packets can be neither sent nor received yet.
func (p Plan) WaitsForRLOC() bool {
	return p.Config.UsesDataPlane() && len(p.Settings.LocalRLOCs) == 0
}

// Waiting is what the host does not have yet, in words.
func (p Plan) Waiting() []string {
	words := []string{}
	for _, w := range p.waits {
		words = append(words, w.problem.Error())
	}
	return words
}

// State is what this router waits for, in a line.
func (p Plan) State() string {
	state, awaited := "ready", ""
	for _, w := range p.waits {
		awaited += "; " + w.what
	}
	if p.WaitsForRLOC() {
		state = "waiting for an address that can be an RLOC"
	}
	return state + awaited
}

// MissingLinks are the interfaces that the configuration names and the host does not have: each once, however often
// it is named. Those of the site are hosts' only way in.
func (p Plan) MissingLinks() (site, others []hostnet.MissingLink) {
	for _, w := range p.waits {
		isSite := slices.ContainsFunc(p.Config.Interfaces.Site, func(s config.SiteInterface) bool { return s.Interface.Name == w.link })
		missing := hostnet.MissingLink{Name: w.link, Since: p.Host.Missing[w.link]}
		switch {
		case w.link == "" || slices.Contains(site, missing) || slices.Contains(others, missing):
		case isSite:
			site = append(site, missing)
		default:
			others = append(others, missing)
		}
	}
	return site, others
}

// WaitingBesides is Waiting without what is about a missing interface.
func (p Plan) WaitingBesides() (words []string) {
	for _, w := range p.waits {
		if w.link == "" {
			words = append(words, w.problem.Error())
		}
	}
	return words
}

// databaseStep leaves room for EID-Prefixes that a reload adds.
const databaseStep = 1024

// restingMappings is how many entries of the data plane rest after they were removed, when its map-cache is full and
// 20,000 mappings a second take the places of others: 200 ms each.
const restingMappings = 4096

// MappingLimit is how many entries both tables of the data plane may need. There is room for an ETR that a reload
// adds.
func (p Plan) MappingLimit() int {
	own := 0
	if p.Config.ETR != nil {
		own = len(p.Config.ETR.LocalEIDs)
	}
	return p.Control.Limits.MapCacheEntries + restingMappings + (own/databaseStep+1)*databaseStep
}

// Make reports every problem it finds, not only the first.
func Make(c *config.Config, host hostnet.Host) (Plan, error) {
	p := &planner{config: c, host: host}
	made := Plan{Config: c, Host: host}
	made.Interfaces = p.interfaces()
	made.Settings.Interfaces, made.Settings.Sibling = p.inForce(made.Interfaces), p.host.Sibling
	made.Settings.RTRs = p.host.RTRs
	made.Control = p.control()
	for _, rloc := range made.Control.LocalRLOCs {
		made.RLOCs = append(made.RLOCs, rloc.Addr())
	}
	p.choices.add(made.Control.LocalRLOCs)
	made.choices = p.choices.list
	made.Control.LocalRLOCs = p.usableFirst(made.Control.LocalRLOCs)
	made.Settings.LocalRLOCs = made.Control.LocalRLOCs
	if c.ITR != nil {
		p.itrSettings(&made.Settings)
	} else {
		// Without an ITR nothing resolves misses: packets to other EIDs are forwarded natively.
		made.Settings.MissPolicy, made.Settings.Wait = dataplane.MissForwardNatively, dataplane.DefaultWaitBounds
	}
	made.Settings.Roles, made.Settings.RecursionDepth = rolesOf(c), c.Datapath.RecursionDepth
	made.Control.RecursionDepth = c.Datapath.RecursionDepth
	for _, policy := range made.Settings.Roles {
		made.Control.Roles = append(made.Control.Roles, control.RolePolicy{
			Role: control.Role(policy.Role), Instance: policy.Instance, EIDs: policy.EIDs, Sources: policy.Sources,
		})
	}
	made.Settings.MarkNative = lispnat.MarksNative(c)
	made.Settings.Header = headerOf(c)
	made.Settings.Encapsulations = encapsulationsOf(c.Datapath.Encapsulations)
	made.Settings.Lists = accessListsOf(c.Datapath.AccessLists)
	if c.ETR != nil {
		made.Control.ETR.Siblings = p.siblings()
	}
	made.waits = p.waits
	made.Warnings = p.warnings(made)
	return made, errors.Join(p.problems...)
}

// IsMobile reports whether this host is a mobile node.
func (p Plan) IsMobile() bool { return p.Config.MobileNode != nil }

// WithXTRID is the plan of a router that registers with an xTR-ID where its configuration has none.
func (p Plan) WithXTRID(id [16]byte) Plan {
	p.Host.XTRID = id
	if p.Config.RouterID == nil {
		p.Control.XTRID = id
	}
	return p
}

// warnings tell what works less well than it could.
func (p *planner) warnings(made Plan) (warnings []trouble.Trouble) {
	for _, w := range slices.Concat(p.config.Warnings, p.config.AsksItself(p.host.Holds)) {
		warnings = append(warnings, trouble.Trouble{
			Kind: trouble.Configuration, Subject: w.Position.String(), What: w.Position.String() + ": " + w.Message, Remedy: w.Hint,
		})
	}
	warnings = append(warnings, p.doubts...)
	told := map[string]bool{}
	for _, c := range []struct {
		families []string
		lost     string
	}{
		{siteFamilies(made), "packets between site and core are not forwarded"},
		{roleFamilies(made, dataplane.RolePITR, dataplane.RolePETR), "packets are not forwarded natively, as a PITR and a PETR do"},
		{roleFamilies(made, dataplane.RoleRTR), "packets whose TTL ends at this RTR are not answered"},
	} {
		for _, path := range hostnet.ForwardingOff(c.families) {
			if !told[path] {
				warnings = append(warnings, trouble.Trouble{
					Kind: trouble.ForwardingOff, Subject: path, What: path + " is 0", Effect: c.lost, Remedy: "set it to 1",
				})
			}
			told[path] = true
		}
	}
	return warnings
}

// siteFamilies are the families of the site's EIDs. A mobile node without a site forwards for no other host.
func siteFamilies(p Plan) (families []string) {
	if p.Control.ETR != nil && (p.Config.MobileNode == nil || len(p.Config.Interfaces.Site) > 0) {
		for _, m := range p.Control.ETR.Database {
			if kind := m.Prefix.Kind().String(); m.Prefix.EID().IsIP() && !slices.Contains(families, kind) {
				families = append(families, kind)
			}
		}
	}
	return families
}

// roleFamilies are those of the EIDs that the policies of some roles name.
func roleFamilies(p Plan, roles ...dataplane.Role) (families []string) {
	for _, policy := range p.Settings.Roles {
		for _, prefix := range policy.EIDs {
			if kind := lisp.EIDFromAddr(prefix.Addr()).Kind().String(); slices.Contains(roles, policy.Role) && !slices.Contains(families, kind) {
				families = append(families, kind)
			}
		}
	}
	return families
}

// LeavingEIDs are the EID-Prefixes whose packets the kernel forwards natively for a PETR.
func (p Plan) LeavingEIDs() (prefixes []netip.Prefix) {
	for _, policy := range p.Settings.Roles {
		if policy.Role == dataplane.RolePETR {
			prefixes = append(prefixes, policy.EIDs...)
		}
	}
	return prefixes
}

// OwnPaths are the plan's own RLOCs, and how they are reached.
func (p Plan) OwnPaths() hostnet.OwnPaths {
	return hostnet.OwnPaths{RLOCs: p.RLOCs, Choices: p.choices, Core: CoreNames(p), Mobile: p.IsMobile()}
}

// Servers are the Map-Servers and Map-Resolvers of a plan.
func (p Plan) Servers() []netip.Addr {
	var servers []netip.Addr
	add := func(a netip.Addr) {
		if !slices.Contains(servers, a) {
			servers = append(servers, a)
		}
	}
	if p.Control.ITR != nil {
		for _, r := range p.Control.ITR.MapResolvers {
			add(r.Addr())
		}
	}
	if p.Control.ETR != nil {
		for _, m := range p.Control.ETR.MapServers {
			add(m.Address.Addr())
		}
	}
	return servers
}

// CoreNames are the interfaces towards the core.
func CoreNames(p Plan) []string {
	var names []string
	for _, i := range p.Settings.Interfaces {
		if i.Side == dataplane.SideCore {
			names = append(names, i.Name)
		}
	}
	return names
}

// HandoverOf are the settings for packets that the data plane hands over.
func HandoverOf(p Plan) handover.Settings {
	s := handover.Settings{Local: p.Settings.LocalRLOCs, Wait: p.Settings.Wait}
	if itr := p.Config.ITR; itr != nil {
		s.To, s.Proxy = itr.HandOver.To, itr.HandOver.Proxy
	}
	return s
}

// InterfaceNames are the interfaces that a configuration refers to by name.
func InterfaceNames(c *config.Config) []string {
	var names []string
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	for _, s := range c.Interfaces.Site {
		add(s.Interface.Name)
	}
	for _, r := range c.Interfaces.Core {
		add(r.Interface.Name)
	}
	for _, set := range c.LocatorSets {
		for _, l := range set {
			add(l.Interface)
		}
	}
	if c.ITR != nil {
		for _, l := range c.ITR.RLOCs.Locators {
			add(l.Interface)
		}
	}
	if c.ETR != nil {
		for _, e := range c.ETR.LocalEIDs {
			for _, l := range e.RLOCs.Locators {
				add(l.Interface)
			}
		}
	}
	return names
}

// Roles are the names of what the configuration makes of this system.
func (p Plan) Roles() []string {
	c := p.Config
	var names []string
	for _, role := range []struct {
		name string
		on   bool
	}{
		{"itr", c.EncapsulatesForSite()}, {"etr", c.ETR != nil}, {"rtr", c.RTR != nil}, {"pitr", c.PITR != nil}, {"petr", c.PETR != nil}, {"map-server", c.MapServer != nil}, {"map-resolver", c.MapResolver != nil},
	} {
		if role.on {
			names = append(names, role.name)
		}
	}
	return names
}
