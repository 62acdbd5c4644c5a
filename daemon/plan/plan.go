// SPDX-License-Identifier: Apache-2.0

package plan

// From the configuration and what the host is like to what the Node, the data
// plane and policy routing are told. Every problem is reported at its position in
// the file. Nothing is changed here.

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"loci/config"
	"loci/control"
	"loci/daemon/handover"
	"loci/daemon/hostnet"
	"loci/dataplane"
	"loci/lisp"
)

// Plan is what a configuration means on this host.
type Plan struct {
	Config   *config.Config
	Control  control.Config
	Settings dataplane.Settings
	Warnings []string
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

// hostWait is something that the host does not have yet.
type hostWait struct {
	link    string // the interface that is not there, empty when it is something else
	problem error  // with its place in the file
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

// databaseStep leaves room for EID-Prefixes that a reload adds.
const databaseStep = 1024

// restingMappings is how many entries of the data plane rest after they were removed, when its map-cache is full and 20,000 mappings
// a second take the places of others: 200 ms each.
const restingMappings = 4096

// MappingLimit is how many entries both tables of the data plane may need. There is room for an ETR that a reload adds.
func (p Plan) MappingLimit() int {
	own := 0
	if p.Config.ETR != nil {
		own = len(p.Config.ETR.LocalEIDs)
	}
	return p.Control.Limits.MapCacheEntries + restingMappings + (own/databaseStep+1)*databaseStep
}

// planner collects problems while it makes a plan.
type planner struct {
	config   *config.Config
	host     hostnet.Host
	problems []error
	waits    []hostWait
	choices  [][]lisp.RLOC
	chosen   map[string]bool // locator-sets, by name, that are among the choices
}

// Make reports every problem it finds, not only the first.
func Make(c *config.Config, host hostnet.Host) (Plan, error) {
	p := &planner{config: c, host: host, chosen: map[string]bool{}}
	made := Plan{Config: c, Host: host}
	made.Interfaces = p.interfaces()
	made.Settings.Interfaces = p.inForce(made.Interfaces)
	made.Control = p.control()
	for _, rloc := range made.Control.LocalRLOCs {
		made.RLOCs = append(made.RLOCs, rloc.Addr())
	}
	p.addChoices(made.Control.LocalRLOCs)
	made.choices = p.choices
	made.Control.LocalRLOCs = p.usableFirst(made.Control.LocalRLOCs)
	made.Settings.LocalRLOCs = made.Control.LocalRLOCs
	if c.ITR != nil {
		p.itrSettings(&made.Settings)
	} else {
		// Without an ITR nothing resolves misses: what is no EID of ours goes its way.
		made.Settings.MissPolicy, made.Settings.Wait = dataplane.MissForwardNatively, dataplane.DefaultWaitBounds
	}
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

func encapsulationsOf(rules []config.EncapsulationRule) (list []dataplane.EncapsulationRule) {
	for _, r := range rules {
		list = append(list, dataplane.EncapsulationRule{RLOCs: r.RLOCPrefix, Encapsulation: map[config.Encapsulation]dataplane.Encapsulation{
			config.EncapsulationLISPGPE: dataplane.EncapsulationLISPGPE, config.EncapsulationVXLANGPE: dataplane.EncapsulationVXLANGPE,
		}[r.Encapsulation]})
	}
	return list
}

// headerOf says what data headers tell.
func headerOf(c *config.Config) dataplane.HeaderSettings {
	h := c.Datapath.DataHeader
	return dataplane.HeaderSettings{
		Glean:          c.ITR != nil && c.ITR.Gleaning,
		PublicInternet: c.PublicInternet, StatusBits: h.StatusBits, MapVersions: h.MapVersions, EchoNonce: h.EchoNonce,
		EchoWait: h.EchoWait, EchoInterval: h.EchoInterval,
		SourceCheck: map[config.SourceCheck]dataplane.SourceCheck{
			config.SourceCheckLoose: dataplane.SourceLoose, config.SourceCheckStrict: dataplane.SourceStrict,
		}[c.Datapath.SourceCheck],
	}
}

// where is the path of a value in the file: keys and indexes.
type where []any

// problem reports something wrong with a value.
func (p *planner) problem(at where, message, hint string) {
	p.problems = append(p.problems, p.config.Problem(message+": "+hint, at...))
}

// wait reports something that the host does not have yet.
func (p *planner) wait(at where, link, message string) {
	p.waits = append(p.waits, hostWait{link: link, problem: p.config.Problem(message+": waiting for it", at...)})
}

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

// InForce leaves out the site's interfaces while a sibling gets its packets: what comes
// in there then goes its native way, which policy routing makes the way to the sibling.
func (p *planner) inForce(list []dataplane.Interface) []dataplane.Interface {
	if !p.host.Detour {
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

func (p *planner) control() control.Config {
	c := p.config
	built := control.Config{ControlPort: c.Control.Port, AcceptZeroInnerChecksum: c.Control.AcceptZeroInnerChecksum, Limits: limitsOf(c)}
	if c.RouterID != nil {
		built.XTRID, built.SiteID = c.RouterID.XTRID, c.RouterID.SiteID
	}
	if c.ITR != nil {
		built.ITR = p.itr()
		built.LocalRLOCs = localRLOCs(p.locatorSet(c.ITR.RLOCs, where{"itr", "itr-rlocs"}))
	}
	if c.ETR != nil {
		built.ETR = p.etr()
		built.LocalRLOCs = addLocal(built.LocalRLOCs, built.ETR.Database)
	}
	if c.UsesDataPlane() && len(built.LocalRLOCs) == 0 && len(p.problems)+len(p.waits) == 0 {
		p.wait(where{"interfaces", "core"}, "", "no core interface has an address that could be an RLOC")
	}
	if c.MapServer != nil {
		built.MapServer = mapServerOf(c.MapServer)
	}
	if c.MapResolver != nil {
		built.MapResolver = mapResolverOf(c.MapResolver)
	}
	return built
}

func limitsOf(c *config.Config) control.Limits {
	l := c.Limits
	limits := control.Limits{
		MapReplies: rateOf(l.MapReplies), MapRepliesTotal: rateOf(l.MapRepliesTotal), MapRequestsTotal: rateOf(l.MapRequestsTotal),
		NegativeReplies: rateOf(l.NegativeReplies), MapNotifies: rateOf(l.MapNotifies), MapRegisters: rateOf(l.MapRegisters),
		SMRInvoked: rateOf(l.SMRInvoked), SMRs: rateOf(l.SMRs), SMRsTotal: rateOf(l.SMRsTotal),
		RLOCProbes: rateOf(l.RLOCProbes), ProbeReplies: rateOf(l.ProbeReplies), Notices: rateOf(l.Notices),
		RateTable: l.RateEntries, PendingRequests: l.PendingRequests, Locators: l.Locators, SMRPeers: l.SMRPeers, Notifications: l.Notifications,
		Registrations: l.Registrations, RegistrationsPerSite: l.RegistrationsPerSite, RegistrantsPerPrefix: l.RegistrantsPerPrefix,
		ReplayEntriesPerSite: l.ReplayEntriesPerSite, MoreSpecificsPerReply: l.MoreSpecificsPerReply,
	}
	if c.ITR != nil {
		limits.MapCacheEntries = c.ITR.MapCache.Limit
	}
	return limits
}

func rateOf(r config.Rate) control.Rate {
	return control.Rate{PerSecond: r.Rate.PerSecond(), Burst: r.Burst}
}

func (p *planner) itr() *control.ITRConfig {
	cache := p.config.ITR.MapCache
	itr := &control.ITRConfig{
		PublicInternet: p.config.PublicInternet, IdleTimeout: cache.IdleTimeout, UnlimitedTTL: cache.UnlimitedTTL,
		RLOCProbing: probingOf(p.config.ITR.RLOCProbing), LocatorPolicies: locatorPoliciesOf(p.config.ITR.LocatorPolicies),
		Gleaning: p.config.ITR.Gleaning,
	}
	for _, r := range p.config.ITR.MapResolvers {
		itr.MapResolvers = append(itr.MapResolvers, netip.AddrPortFrom(r.Addr(), cmp.Or(r.Port(), p.config.Control.Port)))
	}
	if itr.IdleTimeout == 0 {
		itr.IdleTimeout = -1 // the file's 0 is "never", the Node's is its default
	}
	if r := p.config.ITR.ProxyETRs; r.Name != "" || len(r.Locators) > 0 {
		itr.ProxyETRs = p.locatorSet(r, where{"itr", "proxy-etrs"})
	}
	for i, m := range cache.Mappings {
		mapping := lisp.Mapping{Prefix: m.Prefix(), TTLMinutes: lisp.TTLUnlimited}
		if m.Action != nil {
			mapping.Action = *m.Action
		} else {
			mapping.Locators = p.locatorSet(m.RLOCs, where{"itr", "map-cache", "mappings", i, "rlocs"})
		}
		itr.StaticMappings = append(itr.StaticMappings, mapping)
	}
	return itr
}

func (p *planner) etr() *control.ETRConfig {
	etr := &control.ETRConfig{EchoNonce: p.config.Datapath.DataHeader.EchoNonce, VerifyPiggybacked: p.config.ETR.PiggybackedMappings == config.PiggybackedVerify, WithdrawOnShutdown: p.config.ETR.WithdrawOnShutdown, QuickRegistrationInterval: p.config.ETR.QuickRegistrationInterval}
	if etr.QuickRegistrationInterval == 0 {
		etr.QuickRegistrationInterval = -1 // the file's 0 is "never" here too
	}
	for _, m := range p.config.ETR.MapServers {
		etr.MapServers = append(etr.MapServers, control.MapServerPeer{
			Address: m.Address, Site: m.Site, Key: keyFrom(m.Keys[0]), OtherKeys: keysFrom(m.Keys[1:]), ProxyReply: m.ProxyReply, WantMapNotify: m.WantMapNotify,
			UseTTL: m.UseRecordTTL, MergeRequest: m.MergeRequest, RegistrationInterval: m.RegistrationInterval,
		})
	}
	for i, e := range p.config.ETR.LocalEIDs {
		if set, ok := p.databaseLocators(e.RLOCs, i); ok {
			etr.Database = append(etr.Database, control.DatabaseMapping{
				Prefix: e.Prefix(), Locators: set, TTLMinutes: e.TTLMinutes, Version: e.MapVersion, Site: e.Site,
			})
		}
	}
	return etr
}

// siblings are those in whose network this host has an address.
func (p *planner) siblings() []control.SiblingConfig {
	var list []control.SiblingConfig
	for i, s := range p.config.ETR.Siblings {
		link, own, ok := p.host.Neighbour(s.Addresses[0])
		if !ok {
			p.wait(where{"etr", "siblings", i, "addresses", 0}, "", fmt.Sprintf("no interface of this host is in a network with %s", s))
			continue
		}
		list = append(list, control.SiblingConfig{Address: s.Addresses[0], Local: own, Interval: s.Interval})
		if slices.Contains(p.config.Interfaces.CoreNames(), link.Name) {
			p.problem(where{"etr", "siblings", i, "addresses", 0}, fmt.Sprintf("sibling %s is at %s, a core interface", s, link.Name), "want its address on a link of the site: it is for the time without a core")
		}
	}
	return list
}

// databaseLocators is false for an EID-Prefix that this router cannot be reached for
// yet: it is registered when the first address comes.
func (p *planner) databaseLocators(r config.RLOCs, index int) (set lisp.LocatorSet, ok bool) {
	at := where{"etr", "local-eids", index, "rlocs"}
	set = p.configuredSet(r, at)
	p.addChoicesOf(r, set)
	set = p.lowered(set)
	if len(set) > 0 && len(localRLOCs(set)) == 0 {
		p.wait(at, "", "no locator of this EID-Prefix is an address of this host")
	}
	return set, len(localRLOCs(set)) > 0
}

// locatorSet resolves interfaces to their addresses. Own RLOCs that are down are unreachable.
func (p *planner) locatorSet(r config.RLOCs, at where) lisp.LocatorSet {
	return p.lowered(p.configuredSet(r, at))
}

// lowered clears the R bits of own RLOCs that are down.
func (p *planner) lowered(set lisp.LocatorSet) lisp.LocatorSet {
	for i := range set {
		set[i].Reachable = set[i].Reachable && !p.host.Down[set[i].RLOC.Addr()]
	}
	return set
}

// configuredSet is a locator-set with the R bits of the configuration.
func (p *planner) configuredSet(r config.RLOCs, at where) lisp.LocatorSet {
	var list []lisp.Locator
	for _, l := range p.config.LocatorsOf(r) {
		for _, a := range p.locatorAddresses(l, at) {
			list = append(list, lisp.Locator{
				RLOC: lisp.RLOCFromAddr(a), Priority: l.Priority, Weight: l.Weight,
				MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
				Local: p.host.IsOwn(a), Reachable: l.Reachable,
			})
		}
	}
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		p.problem(at, err.Error(), "an interface counts with all its addresses")
	}
	return set
}

func (p *planner) locatorAddresses(l config.Locator, at where) []netip.Addr {
	if l.Interface == "" {
		return []netip.Addr{l.Address}
	}
	addresses := p.host.AddressesOf(l.Interface, l.AddressFamily)
	switch {
	case len(addresses) > 0:
	case !p.host.Has(l.Interface):
		p.wait(at, l.Interface, fmt.Sprintf("interface %s does not exist on this host", l.Interface))
	default:
		p.wait(at, "", fmt.Sprintf("interface %s has no usable address (family %s)", l.Interface, l.AddressFamily))
	}
	return addresses
}

// usableFirst brings the RLOCs that are down to the end: the first of a family is what
// packets are sent from.
func (p *planner) usableFirst(rlocs []lisp.RLOC) []lisp.RLOC {
	ordered := slices.Clone(rlocs)
	isDown := func(r lisp.RLOC) int {
		if p.host.Down[r.Addr()] {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ordered, func(a, b lisp.RLOC) int { return isDown(a) - isDown(b) })
	return ordered
}

// localRLOCs are the addresses of this host in a locator-set, in set order.
func localRLOCs(set lisp.LocatorSet) []lisp.RLOC {
	var local []lisp.RLOC
	for _, l := range set {
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
		for _, r := range localRLOCs(m.Locators) {
			if !slices.Contains(rlocs, r) {
				rlocs = append(rlocs, r)
			}
		}
	}
	return rlocs
}

func mapServerOf(c *config.MapServer) *control.MapServerConfig {
	server := &control.MapServerConfig{RegistrationTimeout: c.RegistrationTimeout, Journal: c.StateDirectory != ""}
	for _, s := range c.Sites {
		server.Sites = append(server.Sites, siteFrom(s))
	}
	return server
}

func siteFrom(s config.Site) control.Site {
	site := control.Site{Name: s.Label(), AcceptAnyNonce: s.AcceptAnyNonce, Policy: sitePolicyOf(s.Policy), ProxyReply: map[config.ProxyReply]control.ProxyReplyPolicy{
		config.ProxyReplyByRequest: control.ProxyReplyByRequest, config.ProxyReplyAlways: control.ProxyReplyAlways, config.ProxyReplyNever: control.ProxyReplyNever,
	}[s.ProxyReply]}
	site.Keys = keysFrom(s.Keys)
	for _, e := range s.EIDPrefixes {
		site.Prefixes = append(site.Prefixes, control.SitePrefix{Prefix: e.Prefix(), AcceptMoreSpecifics: e.MoreSpecificsAccepted})
	}
	return site
}

func mapResolverOf(c *config.MapResolver) *control.MapResolverConfig {
	resolver := &control.MapResolverConfig{}
	for _, m := range c.MapServers {
		route := control.MapServerRoute{Address: m.Address}
		for _, e := range m.EIDPrefixes {
			route.Prefixes = append(route.Prefixes, e.Prefix())
		}
		resolver.MapServers = append(resolver.MapServers, route)
	}
	return resolver
}

func keysFrom(keys []config.Key) []control.Key {
	list := make([]control.Key, len(keys))
	for i, k := range keys {
		list[i] = keyFrom(k)
	}
	return list
}

func keyFrom(k config.Key) control.Key {
	return control.Key{ID: k.ID, Algorithm: uint8(k.Algorithm), Secret: k.Value.Reveal(), TruncatedMAC: k.TruncatedMAC}
}

var missPolicies = map[config.MissPolicy]dataplane.MissPolicy{
	config.MissQueue: dataplane.MissQueue, config.MissDrop: dataplane.MissDrop, config.MissNativelyForward: dataplane.MissForwardNatively,
	config.MissHandOver: dataplane.MissHandOver,
}

func (p *planner) itrSettings(s *dataplane.Settings) {
	itr := p.config.ITR
	s.MissPolicy = missPolicies[itr.MissPolicy]
	for _, p := range itr.MissPolicies {
		if s.MissPolicies == nil {
			s.MissPolicies = map[lisp.InstanceID]dataplane.MissPolicy{}
		}
		s.MissPolicies[p.InstanceID] = missPolicies[p.MissPolicy]
	}
	s.MissForm = map[config.MissForm]dataplane.MissForm{
		config.MissFormEID: dataplane.MissFormEID, config.MissFormHeader: dataplane.MissFormHeader, config.MissFormPacket: dataplane.MissFormPacket,
	}[itr.MissForm]
	s.Wait = dataplane.WaitBounds{
		PacketsPerDestination: itr.Wait.PacketsPerDestination, PacketsTotal: itr.Wait.Packets,
		OctetsTotal: itr.Wait.Octets, Time: itr.Wait.Time,
	}
}

// warnings tell what works less well than it could.
func (p *planner) warnings(made Plan) []string {
	var warnings []string
	for _, w := range p.config.Warnings {
		warnings = append(warnings, w.Error())
	}
	for _, w := range p.config.AsksItself(p.host.Holds) {
		warnings = append(warnings, w.Error())
	}
	for _, path := range hostnet.ForwardingOff(familiesOf(made.Control.ETR)) {
		warnings = append(warnings, fmt.Sprintf("%s is 0: packets between site and core are not forwarded", path))
	}
	return warnings
}

// familiesOf are the families of this site's EIDs.
func familiesOf(etr *control.ETRConfig) (families []string) {
	if etr == nil {
		return nil
	}
	for _, m := range etr.Database {
		if kind := m.Prefix.Kind(); m.Prefix.EID().IsIP() && !slices.Contains(families, kind.String()) {
			families = append(families, kind.String())
		}
	}
	return families
}

// hostnet.OwnPaths are the plan's own RLOCs, and how they are reached.
func (p Plan) OwnPaths() hostnet.OwnPaths {
	return hostnet.OwnPaths{RLOCs: p.RLOCs, Choices: p.choices, Core: CoreNames(p)}
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
		{"itr", c.ITR != nil}, {"etr", c.ETR != nil}, {"map-server", c.MapServer != nil}, {"map-resolver", c.MapResolver != nil},
	} {
		if role.on {
			names = append(names, role.name)
		}
	}
	return names
}
