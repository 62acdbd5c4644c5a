// SPDX-License-Identifier: Apache-2.0

package world

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

// configuration is what the router's operator wants now.
func (r *Router) configuration() control.Config {
	c := control.Config{LocalRLOCs: localRLOCs(r)}
	if r.W.Trace.Keep == 0 {
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
	for _, s := range r.W.Servers {
		if s == r {
			c.MapServer = &control.MapServerConfig{Sites: mapServerSites(r.W), Journal: true}
		}
	}
	for _, s := range r.W.Resolvers {
		if s == r {
			c.MapResolver = mapResolver(r.W, c.MapServer != nil)
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
	r.uplinks.note(r.Station.Links)
	r.Sibling.comeback.Links(r.W.Now, hasLinkUp(r))
	if !s.WithoutXTRID {
		c.XTRID, c.SiteID = r.XTRID(), uint64(s.Index)
	}
	c.ITR = &control.ITRConfig{RLOCProbing: probing(r), IdleTimeout: r.W.Flavour.idle, Gleaning: r.W.Flavour.Gleaning}
	c.ITR.MapResolvers, c.ITR.StaticMappings, c.ITR.ProxyETRs = resolversOf(r), paths.Everywhere(s.Instance, s.Via.Behind), paths.Plainly(s.Via.Exits)
	if r.W.Options.Seed%4 == 3 {
		c.ITR.ServeStale = shortServeStale
	}
	c.ETR = &control.ETRConfig{WithdrawOnShutdown: s.Index%3 == 0, Siblings: siblingsOf(r)}
	for _, at := range r.W.Servers {
		c.ETR.MapServers = append(c.ETR.MapServers, control.MapServerPeer{
			Address: reach(r, at), Key: key(r), ProxyReply: s.proxy, WantMapNotify: s.notify, UseTTL: s.useTTL, MergeRequest: s.merge,
		})
	}
	if s.Withdrawn == 0 {
		c.ETR.Database = database(r)
	}
	if r.W.Flavour.tight {
		c.Limits.MapCacheEntries, c.Limits.PendingRequests, c.Limits.RateTable = 6, 4, 64
	}
}

// resolversOf are the Map-Resolvers that a router asks.
func resolversOf(r *Router) (list []netip.AddrPort) {
	for i := range r.W.Resolvers {
		list = append(list, reach(r, r.W.Resolvers[(i+r.Index)%len(r.W.Resolvers)]))
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
			Prefix: p.Prefix, Locators: withSiblingsUp(r, p.locators(of)), TTLMinutes: r.Site.ttlMinutes, Version: r.Site.version,
		})
	}
	if s := r.Site; !s.strange.IsZero() {
		list = append(list, control.DatabaseMapping{Prefix: s.strange, Locators: s.Prefixes[0].locators(of), TTLMinutes: s.ttlMinutes, Version: s.version})
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

func mapServerSites(w *World) []control.Site {
	var list []control.Site
	for _, s := range w.Sites {
		if s.Barred > 0 {
			continue
		}
		site := control.Site{Name: s.Name, Keys: append([]control.Key(nil), s.Keys...)}
		for i, p := range s.Prefixes {
			implied := func(wider *SitePrefix) bool { return wider.Prefix.Covers(p.Prefix) }
			if !s.moreSpecifics || !slices.ContainsFunc(s.Prefixes[:i], implied) {
				site.Prefixes = append(site.Prefixes, control.SitePrefix{Prefix: p.Prefix, AcceptMoreSpecifics: s.moreSpecifics})
			}
		}
		list = append(list, site)
	}
	return list
}

// mapResolver asks the Map-Servers, unless it stands beside one that knows all.
func mapResolver(w *World, besideMapServer bool) *control.MapResolverConfig {
	c := &control.MapResolverConfig{}
	for _, s := range w.Servers {
		if !besideMapServer {
			c.MapServers = append(c.MapServers, control.MapServerRoute{Address: netip.AddrPortFrom(s.Station.Links[0].Addr, 0)})
		}
	}
	return c
}
