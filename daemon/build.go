// SPDX-License-Identifier: Apache-2.0

package daemon

// From the configuration and what the host is like to what the Node, the data
// plane and policy routing are told. Every problem is reported at its position in
// the file. Nothing is changed here.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/config"
	"loci/control"
	"loci/dataplane"
	"loci/lisp"
)

// plan is what a configuration means on this host.
type plan struct {
	config   *config.Config
	control  control.Config
	settings dataplane.Settings
	routes   policyRoutes
	warnings []string
}

// planner collects problems while it makes a plan.
type planner struct {
	config   *config.Config
	host     hostView
	problems []error
}

// makePlan reports every problem it finds, not only the first.
func makePlan(c *config.Config, host hostView) (plan, error) {
	p := &planner{config: c, host: host}
	made := plan{config: c}
	made.settings.Interfaces = p.interfaces()
	made.control = p.control()
	made.settings.LocalRLOCs = made.control.LocalRLOCs
	if c.ITR != nil {
		p.itrSettings(&made.settings)
	} else {
		// Without an ITR nothing resolves misses: what is no EID of ours goes its way.
		made.settings.MissPolicy, made.settings.Wait = dataplane.MissForwardNatively, dataplane.DefaultWaitBounds
	}
	made.routes = p.routes(made.control.ETR)
	made.warnings = p.warnings(made)
	return made, errors.Join(p.problems...)
}

// problem reports something wrong with the value at a path of keys and indexes.
func (p *planner) problem(message string, path ...any) {
	p.problems = append(p.problems, p.config.Problem(message, path...))
}

func (p *planner) interfaces() []dataplane.Interface {
	var list []dataplane.Interface
	for i, site := range p.config.Interfaces.Site {
		if name := p.interfaceName(site.Interface, "interfaces", "site", i); name != "" {
			list = append(list, dataplane.Interface{Name: name, Side: dataplane.SideSite, Instance: site.InstanceID})
		}
	}
	for i, core := range p.config.Interfaces.Core {
		if name := p.interfaceName(core, "interfaces", "core", i); name != "" {
			list = append(list, dataplane.Interface{Name: name, Side: dataplane.SideCore})
		}
	}
	p.checkDistinct(list)
	return list
}

func (p *planner) interfaceName(ref config.InterfaceRef, path ...any) string {
	if ref.Name != "" {
		if !p.host.has(ref.Name) {
			p.problem(fmt.Sprintf("interface %s does not exist on this host: `ip link` lists what does", ref.Name), path...)
			return ""
		}
		return ref.Name
	}
	name := p.host.interfaceOf(ref.Address)
	if name == "" {
		p.problem(fmt.Sprintf("no interface of this host has the address %s: `ip address` lists what there is", ref.Address), path...)
	}
	return name
}

// checkDistinct finds one interface written in two ways.
func (p *planner) checkDistinct(list []dataplane.Interface) {
	for i, one := range list {
		for _, other := range list[:i] {
			if one.Name == other.Name {
				p.problem(fmt.Sprintf("interface %s is named twice, as %s and as %s interface", one.Name, other.Side, one.Side), "interfaces")
			}
		}
	}
}

func (p *planner) control() control.Config {
	c := p.config
	built := control.Config{ControlPort: c.Control.Port, AcceptZeroInnerChecksum: true, Limits: limitsOf(c)}
	if c.RouterID != nil {
		built.XTRID, built.SiteID = c.RouterID.XTRID, c.RouterID.SiteID
	}
	if c.ITR != nil {
		built.ITR = p.itr()
		built.LocalRLOCs = p.localRLOCs(c.ITR.RLOCs, "itr", "itr-rlocs")
	}
	if c.ETR != nil {
		built.ETR = p.etr()
		built.LocalRLOCs = addLocal(built.LocalRLOCs, built.ETR.Database)
	}
	if c.UsesDataPlane() && len(built.LocalRLOCs) == 0 && len(p.problems) == 0 {
		p.problem("no core interface has an address that could be an RLOC", "interfaces", "core")
	}
	if c.MapServer != nil {
		built.MapServer = mapServerOf(c.MapServer)
	}
	if c.MapResolver != nil {
		built.MapResolver = &control.MapResolverConfig{}
		for _, a := range c.MapResolver.MapServers {
			built.MapResolver.MapServers = append(built.MapResolver.MapServers, control.MapServerRoute{Address: netip.AddrPortFrom(a, c.Control.Port)})
		}
	}
	return built
}

func limitsOf(c *config.Config) control.Limits {
	limits := control.DefaultLimits()
	l := c.Limits
	limits.MapReplies = control.Rate{PerSecond: perSecond(l.MapReplyInterval), Burst: l.MapReplyBurst}
	limits.MapRepliesTotal = control.Rate{PerSecond: float64(l.MapReplyRate), Burst: l.MapReplyRate}
	limits.PendingRequests, limits.Registrations = l.PendingRequests, l.Registrations
	limits.RegistrationsPerSite = l.Registrations
	if c.ITR != nil {
		limits.MapCacheEntries = c.ITR.MapCache.Limit
	}
	return limits
}

// unlimitedPerSecond stands for "no limit" in a token bucket.
const unlimitedPerSecond = 1e9

func perSecond(interval time.Duration) float64 {
	if interval <= 0 {
		return unlimitedPerSecond
	}
	return 1 / interval.Seconds()
}

func (p *planner) itr() *control.ITRConfig {
	itr := &control.ITRConfig{IdleTimeout: p.config.ITR.MapCache.IdleTimeout}
	if itr.IdleTimeout == 0 {
		itr.IdleTimeout = -1 // the file's 0 is "never", the Node's is its default
	}
	for _, a := range p.config.ITR.MapResolvers {
		itr.MapResolvers = append(itr.MapResolvers, netip.AddrPortFrom(a, p.config.Control.Port))
	}
	for i, m := range p.config.ITR.MapCache.Mappings {
		mapping := lisp.Mapping{Prefix: m.Prefix(), TTLMinutes: lisp.TTLUnlimited}
		if m.Action != nil {
			mapping.Action = *m.Action
		} else {
			mapping.Locators = p.locatorSet(m.RLOCs, "itr", "map-cache", "mappings", i, "rlocs")
		}
		itr.StaticMappings = append(itr.StaticMappings, mapping)
	}
	return itr
}

func (p *planner) etr() *control.ETRConfig {
	etr := &control.ETRConfig{}
	for _, m := range p.config.ETR.MapServers {
		etr.MapServers = append(etr.MapServers, control.MapServerPeer{
			Address: netip.AddrPortFrom(m.Address, p.config.Control.Port), Key: keyFrom(m.Keys[0]), ProxyReply: m.ProxyReply,
			WantMapNotify: m.WantMapNotify, UseTTL: m.UseTTL, MergeRequest: m.MergeRequest, RegistrationInterval: m.RegistrationInterval,
		})
	}
	for i, e := range p.config.ETR.LocalEIDs {
		etr.Database = append(etr.Database, control.DatabaseMapping{
			Prefix: e.Prefix(), Locators: p.databaseLocators(e.RLOCs, i), TTLMinutes: e.TTLMinutes,
		})
	}
	return etr
}

func (p *planner) databaseLocators(r config.RLOCs, index int) lisp.LocatorSet {
	path := []any{"etr", "local-eids", index, "rlocs"}
	set := p.locatorSet(r, path...)
	isLocal := func(l lisp.Locator) bool { return l.Local }
	if len(set) > 0 && !slices.ContainsFunc(set, isLocal) {
		p.problem("no locator of this EID-Prefix is an address of this host", path...)
	}
	return set
}

// locatorSet resolves interfaces to their addresses.
func (p *planner) locatorSet(r config.RLOCs, path ...any) lisp.LocatorSet {
	var list []lisp.Locator
	for _, l := range p.config.LocatorsOf(r) {
		for _, a := range p.locatorAddresses(l, path...) {
			list = append(list, lisp.Locator{
				RLOC: lisp.RLOCFromAddr(a), Priority: l.Priority, Weight: l.Weight,
				MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
				Local: p.host.holds(a), Reachable: true,
			})
		}
	}
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		p.problem(err.Error(), path...)
	}
	return set
}

func (p *planner) locatorAddresses(l config.Locator, path ...any) []netip.Addr {
	if l.Interface == "" {
		return []netip.Addr{l.Address}
	}
	if !p.host.has(l.Interface) {
		p.problem(fmt.Sprintf("interface %s does not exist on this host: `ip link` lists what does", l.Interface), path...)
		return nil
	}
	wrongFamily := func(a netip.Addr) bool {
		return l.AddressFamily == config.FamilyIPv4 && !a.Is4() || l.AddressFamily == config.FamilyIPv6 && a.Is4()
	}
	addresses := slices.DeleteFunc(slices.Clone(p.host.addresses[l.Interface]), wrongFamily)
	if len(addresses) == 0 {
		p.problem(fmt.Sprintf("interface %s has no usable address (family %s): give it one, or name an address", l.Interface, l.AddressFamily), path...)
	}
	return addresses
}

// localRLOCs are the addresses of this host in a locator-set, in set order.
func (p *planner) localRLOCs(r config.RLOCs, path ...any) []lisp.RLOC {
	var local []lisp.RLOC
	for _, l := range p.locatorSet(r, path...) {
		if l.Local {
			local = append(local, l.RLOC)
		}
	}
	return local
}

// addLocal adds the Database's own locators: the ETR must know packets to them
// for its own.
func addLocal(rlocs []lisp.RLOC, database []control.DatabaseMapping) []lisp.RLOC {
	for _, m := range database {
		for _, l := range m.Locators {
			if l.Local && !slices.Contains(rlocs, l.RLOC) {
				rlocs = append(rlocs, l.RLOC)
			}
		}
	}
	return rlocs
}

func mapServerOf(c *config.MapServer) *control.MapServerConfig {
	server := &control.MapServerConfig{RegistrationTimeout: c.ExpirationAge}
	for _, s := range c.Sites {
		site := control.Site{Name: s.Name}
		for _, k := range s.Keys {
			site.Keys = append(site.Keys, keyFrom(k))
		}
		for _, e := range s.EIDPrefixes {
			site.Prefixes = append(site.Prefixes, control.SitePrefix{Prefix: e.Prefix(), AcceptMoreSpecifics: e.MoreSpecificsAccepted})
		}
		server.Sites = append(server.Sites, site)
	}
	return server
}

func keyFrom(k config.Key) control.Key {
	return control.Key{ID: k.ID, Algorithm: uint8(k.Algorithm), Secret: []byte(k.Value)}
}

func (p *planner) itrSettings(s *dataplane.Settings) {
	itr := p.config.ITR
	s.MissPolicy = map[config.MissPolicy]dataplane.MissPolicy{
		config.MissQueue: dataplane.MissQueue, config.MissDrop: dataplane.MissDrop, config.MissNativelyForward: dataplane.MissForwardNatively,
	}[itr.MissPolicy]
	s.Wait = dataplane.WaitBounds{
		PacketsPerDestination: itr.Wait.PacketsPerDestination, PacketsTotal: itr.Wait.Packets,
		OctetsTotal: itr.Wait.Octets, Time: itr.Wait.Time,
	}
}

func (p *planner) routes(etr *control.ETRConfig) policyRoutes {
	d := p.config.Datapath
	routes := policyRoutes{
		table: int(d.RouteTable), priority: int(d.RulePriority), fallbackPriority: int(d.FallbackRulePriority), link: d.Interface,
	}
	if etr == nil {
		return routes
	}
	for _, m := range etr.Database {
		if prefix := m.Prefix.Netip(); prefix.IsValid() && !slices.Contains(routes.prefixes, prefix) {
			routes.prefixes = append(routes.prefixes, prefix)
		}
	}
	return routes
}

// warnings tell what works less well than it could.
func (p *planner) warnings(made plan) []string {
	var warnings []string
	for _, w := range p.config.Warnings {
		warnings = append(warnings, w.Error())
	}
	var families []string
	for _, prefix := range made.routes.prefixes {
		family := "ipv6"
		if prefix.Addr().Is4() {
			family = "ipv4"
		}
		if !slices.Contains(families, family) {
			families = append(families, family)
		}
	}
	for _, path := range forwardingOff(families) {
		warnings = append(warnings, fmt.Sprintf("%s is 0: packets between site and core are not forwarded", path))
	}
	return warnings
}
