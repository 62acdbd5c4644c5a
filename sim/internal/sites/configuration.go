// SPDX-License-Identifier: Apache-2.0

package sites

// From the state of the world to the configuration of each Node: always derived anew,
// so that faults that overlap leave nothing behind.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/paths"
)

// shortServeStale ends within a run; a quarter of the seeds have it.
const shortServeStale = 2 * time.Minute

// Configuration is what the router's operator wants now.
func (r *Router) Configuration() control.Config {
	c := control.Config{LocalRLOCs: localRLOCs(r)}
	if !r.Plan.Options.Trace {
		c.Limits.Notices = control.Rate{PerSecond: 0.001, Burst: 1} // they are not read
	}
	if r.Site != nil {
		configureSite(r, &c)
		return c
	}
	if r.Relay != nil {
		configureRelay(r, &c)
		return c
	}
	for _, s := range r.Plan.Servers {
		if s == r {
			c.MapServer = &control.MapServerConfig{Sites: mapServerSites(r.Plan), Journal: true}
		}
	}
	for _, s := range r.Plan.Resolvers {
		if s == r {
			c.MapResolver = mapResolver(r.Plan, c.MapServer != nil)
		}
	}
	return c
}

// localRLOCs are the addresses of the router, those of links that are known to be down at the end.
func localRLOCs(r *Router) []lisp.RLOC {
	var up, down []lisp.RLOC
	for _, l := range r.Station.Links {
		rloc := lisp.RLOCFromAddr(l.Addr)
		if l.IsUp() {
			up = append(up, rloc)
		} else {
			down = append(down, rloc)
		}
	}
	return append(up, down...)
}

func configureSite(r *Router, c *control.Config) {
	s := r.Site
	if !s.WithoutXTRID {
		c.XTRID, c.SiteID = r.XTRID(), uint64(s.Index)
	}
	c.ITR = &control.ITRConfig{RLOCProbing: Probing(r), IdleTimeout: r.Plan.Flavour.idle, Gleaning: r.Plan.Flavour.Gleaning}
	c.ITR.MapResolvers, c.ITR.StaticMappings, c.ITR.ProxyETRs = resolversOf(r), paths.Everywhere(s.Instance, s.Via.Behind), paths.Plainly(s.Via.Exits)
	if r.Plan.Options.Seed%4 == 3 {
		c.ITR.ServeStale = shortServeStale
	}
	c.ETR = &control.ETRConfig{WithdrawOnShutdown: s.Index%3 == 0, Siblings: siblingsOf(r)}
	for _, at := range r.Plan.Servers {
		c.ETR.MapServers = append(c.ETR.MapServers, control.MapServerPeer{
			Address: reach(r, at), Key: key(r), ProxyReply: s.proxy, WantMapNotify: s.Notify, UseTTL: s.useTTL, MergeRequest: s.merge,
		})
	}
	if s.Withdrawn == 0 {
		c.ETR.Database = database(r)
	}
	if r.Plan.Flavour.Tight {
		c.Limits.MapCacheEntries, c.Limits.PendingRequests, c.Limits.RateTable = 6, 4, 64
	}
}

// resolversOf are the Map-Resolvers that a router asks.
func resolversOf(r *Router) (list []netip.AddrPort) {
	for i := range r.Plan.Resolvers {
		list = append(list, reach(r, r.Plan.Resolvers[(i+r.Index)%len(r.Plan.Resolvers)]))
	}
	return list
}

// key is the one in use, or a wrong one of the same ID.
func key(r *Router) control.Key {
	key := r.Site.Keys[min(r.Site.KeyInUse, len(r.Site.Keys)-1)]
	if r.WrongKey > 0 {
		key.Secret = append([]byte("wrong "), key.Secret...)
	}
	return key
}

func database(r *Router) []control.DatabaseMapping {
	var list []control.DatabaseMapping
	of := r
	if !r.Site.merge {
		of = nil
	}
	for i, p := range r.Site.Prefixes {
		if r.Site.isWithdrawn(i) {
			continue
		}
		list = append(list, control.DatabaseMapping{
			Prefix: p.Prefix, Locators: withSiblingsUp(r, p.Locators(of)), TTLMinutes: r.Site.TtlMinutes, Version: r.Site.Version,
		})
	}
	if s := r.Site; !s.Strange.IsZero() {
		list = append(list, control.DatabaseMapping{Prefix: s.Strange, Locators: s.Prefixes[0].Locators(of), TTLMinutes: s.TtlMinutes, Version: s.Version})
	}
	return list
}

// reach is a server's address in a family that the router has.
func reach(r *Router, server *Router) netip.AddrPort {
	for _, l := range server.Station.Links {
		if l.Addr.Is4() == r.Station.Links[0].Addr.Is4() {
			return netip.AddrPortFrom(l.Addr, 0)
		}
	}
	return netip.AddrPort{}
}

func mapServerSites(p *Plan) []control.Site {
	var list []control.Site
	for _, s := range p.Sites {
		if s.Barred > 0 {
			continue
		}
		site := control.Site{Name: s.Name, Keys: append([]control.Key(nil), s.Keys...)}
		for i, own := range s.Prefixes {
			implied := func(wider *SitePrefix) bool { return wider.Prefix.Covers(own.Prefix) }
			if !s.moreSpecifics || !slices.ContainsFunc(s.Prefixes[:i], implied) {
				site.Prefixes = append(site.Prefixes, control.SitePrefix{Prefix: own.Prefix, AcceptMoreSpecifics: s.moreSpecifics})
			}
		}
		list = append(list, site)
	}
	return list
}

// mapResolver asks the Map-Servers, unless it stands beside one that knows all.
func mapResolver(p *Plan, besideMapServer bool) *control.MapResolverConfig {
	c := &control.MapResolverConfig{}
	for _, s := range p.Servers {
		if !besideMapServer {
			c.MapServers = append(c.MapServers, control.MapServerRoute{Address: netip.AddrPortFrom(s.Station.Links[0].Addr, 0)})
		}
	}
	return c
}

// siblingsOf is the configuration of a tunnel router's siblings.
func siblingsOf(r *Router) []control.SiblingConfig {
	var list []control.SiblingConfig
	for _, x := range r.Site.XTRs {
		if r.Site.Siblings && x != r {
			list = append(list, control.SiblingConfig{Address: x.Station.Inside.Addr, Local: r.Station.Inside.Addr, Interval: r.Site.SiblingInterval})
		}
	}
	return list
}

// withSiblingsUp sets the R bits of the siblings' locators: the operator of a tunnel router knows of its own
// links alone.
func withSiblingsUp(r *Router, set lisp.LocatorSet) lisp.LocatorSet {
	if !r.Site.Siblings {
		return set
	}
	for i := range set {
		l := r.Station.LinkOf(set[i].Path().Last().Addr())
		set[i].Reachable = l == nil || l.IsUp()
	}
	return set
}

// Probing is how the router probes.
func Probing(r *Router) control.ProbingConfig {
	if r.Site != nil && r.Site.Siblings { // that the path behind a link is dead is learned by nothing else
		return r.Site.Probing
	}
	if r.Plan.Flavour.Relays {
		return control.ProbingConfig{Interval: relayProbing}
	}
	return r.Plan.Flavour.probing
}

// Choices are the router's own RLOCs, by family: those of all its links, and those that each EID-Prefix is reached
// by.
func Choices(r *Router) (choices [][]lisp.RLOC) {
	for _, v4 := range []bool{true, false} {
		choices = append(choices, rlocsFor(r, nil, v4))
		for _, p := range r.Site.Prefixes {
			choices = append(choices, rlocsFor(r, p, v4))
		}
	}
	return choices
}

// rlocsFor are the own RLOCs of a family by which an EID-Prefix is reached, all of them for none.
func rlocsFor(r *Router, p *SitePrefix, v4 bool) (rlocs []lisp.RLOC) {
	at := 0
	for _, x := range r.Site.XTRs {
		for i := range x.Station.Links {
			rloc := lisp.RLOCFromAddr(x.Station.Links[i].Addr)
			if x == r && rloc.Is4() == v4 && (p == nil || p.policy[at].priority != lisp.PriorityUnused) {
				rlocs = append(rlocs, rloc)
			}
			at++
		}
	}
	return rlocs
}

// SendsStatusBits reports whether data packets carry Locator-Status-Bits, and those that come are heeded. Where
// registrations are merged no router may: a tunnel router's own locators are others by number than those of the
// mapping that peers have.
func SendsStatusBits(r *Router) bool {
	return r.Plan.Flavour.statusBits && (r.Site == nil || !r.Site.merge || len(r.Site.XTRs) == 1)
}
