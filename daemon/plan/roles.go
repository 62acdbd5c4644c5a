// SPDX-License-Identifier: Apache-2.0

package plan

// The Node's configuration: what each role is told.

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"loci/config"
	"loci/control"
	"loci/dataplane"
	"loci/lisp"
)

func (p *planner) control() control.Config {
	c := p.config
	built := control.Config{ControlPort: c.Control.Port, AcceptZeroInnerChecksum: c.Control.AcceptZeroInnerChecksum, Limits: limitsOf(c)}
	if c.RouterID != nil {
		built.XTRID, built.SiteID = c.RouterID.XTRID, c.RouterID.SiteID
	}
	if c.ITR != nil {
		built.ITR = p.itr()
		built.LocalRLOCs = p.ownRLOCs(c.ITR.RLOCs, where{"itr", "itr-rlocs"})
	}
	if c.ETR != nil {
		built.ETR = p.etr()
		built.LocalRLOCs = addLocal(built.LocalRLOCs, built.ETR.Database)
	}
	if c.ITR == nil && c.ETR == nil && c.PETR != nil {
		built.LocalRLOCs = p.ownRLOCs(config.RLOCs{}, where{"interfaces", "core"})
	}
	if c.UsesDataPlane() && len(built.LocalRLOCs) == 0 && len(p.problems)+len(p.waits) == 0 {
		p.wait(where{"interfaces", "core"}, "", "no core interface has an address that could be an RLOC")
	}
	if c.RTR != nil && c.RTR.NATTraversal != nil {
		built.NATRelay = natRelayOf(c.RTR.NATTraversal)
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

func (p *planner) itr() *control.ITRConfig {
	cache := p.config.ITR.MapCache
	itr := &control.ITRConfig{
		PublicInternet: p.config.PublicInternet, IdleTimeout: cache.IdleTimeout, UnlimitedTTL: cache.UnlimitedTTL, ServeStale: cache.ServeStale,
		RLOCProbing: probingOf(p.config.ITR.RLOCProbing), ProbedPeers: peersOf(p.config.ITR.RLOCProbing),
		LocatorPolicies: locatorPoliciesOf(p.config.ITR.LocatorPolicies),
		Gleaning:        p.config.ITR.Gleaning, BindSubflows: p.config.ITR.MPTCP.IsBound(),
		AskForSubflows:  p.config.ITR.MPTCP.IsAskedFor(),
		IdentifiesPaths: pathIdentificationOf(p.config) >= dataplane.PathsByNumber,
	}
	for _, r := range p.config.ITR.MapResolvers {
		itr.MapResolvers = append(itr.MapResolvers, netip.AddrPortFrom(r.Addr(), cmp.Or(r.Port(), p.config.Control.Port)))
	}
	if itr.IdleTimeout == 0 {
		itr.IdleTimeout = -1 // the file's 0 is "never", the Node's is its default
	}
	if itr.ServeStale == 0 {
		itr.ServeStale = -1 // likewise
	}
	if r := p.config.ITR.ProxyETRs; r.Name != "" || len(r.Locators) > 0 {
		itr.ProxyETRs = p.locatorSet(r, where{"itr", "proxy-etrs"})
		p.doubtOwn(itr.ProxyETRs, where{"itr", "proxy-etrs"})
	}
	for i, m := range cache.Mappings {
		mapping := lisp.Mapping{Prefix: m.Prefix(), TTLMinutes: lisp.TTLUnlimited}
		if m.Action != nil {
			mapping.Action = *m.Action
		} else {
			at := where{"itr", "map-cache", "mappings", i, "rlocs"}
			mapping.Locators = p.locatorSet(m.RLOCs, at)
			p.doubtOwn(mapping.Locators, at)
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
	if n := p.config.ETR.NATTraversal; n.Protocol != config.NATOff {
		etr.NAT = &control.NATTraversal{Always: n.RTR == config.RTRAlways, Keepalive: n.Keepalive, Protocol: map[config.NATProtocol]control.NATProtocol{
			config.NATErmagan: control.NATErmagan, config.NATSimple: control.NATSimple,
		}[n.Protocol]}
		if n.Keepalive == 0 {
			etr.NAT.Keepalive = -1 // the file's 0 is "none"
		}
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
	p.checkOwnPaths(set, at)
	p.choices.addSet(r, set)
	set = p.lowered(set)
	if len(set) > 0 && len(localRLOCs(set)) == 0 {
		p.wait(at, "", "no locator of this EID-Prefix is an address of this host")
	}
	return set, len(localRLOCs(set)) > 0
}

func mapServerOf(c *config.MapServer) *control.MapServerConfig {
	server := &control.MapServerConfig{RegistrationTimeout: c.RegistrationTimeout, Journal: c.StateDirectory != ""}
	for _, s := range c.Sites {
		server.Sites = append(server.Sites, siteFrom(s))
	}
	for _, r := range c.RTRs {
		server.RTRs = append(server.RTRs, control.RTRPeer{Address: r.Address, Keys: keysFrom(r.Keys)})
	}
	return server
}

func natRelayOf(n *config.NATRelay) *control.NATRelay {
	relay := &control.NATRelay{Instance: n.InstanceID, SimpleNAT: n.SimpleNAT}
	for _, m := range n.MapServers {
		relay.MapServers = append(relay.MapServers, control.NATMapServer{
			Address: m.Address, Keys: keysFrom(m.Keys), OldDraft: m.DraftVersion == config.DraftOld,
		})
	}
	for _, e := range n.EIDPrefixes {
		if e.EID().IsIP() {
			relay.EIDs = append(relay.EIDs, e.Netip())
		}
	}
	return relay
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
