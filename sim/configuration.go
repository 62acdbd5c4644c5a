// SPDX-License-Identifier: Apache-2.0

package sim

// From the state of the world to the configuration of each Node: always derived anew,
// so that faults that overlap leave nothing behind.

import (
	"net/netip"
	"slices"

	"loci/control"
	"loci/lisp"
)

// configuration is what the router's operator wants now.
func (r *router) configuration() control.Config {
	c := control.Config{LocalRLOCs: r.localRLOCs()}
	if r.w.trace.keep == 0 {
		c.Limits.Notices = control.Rate{PerSecond: 0.001, Burst: 1} // nobody reads them
	}
	if r.site != nil {
		r.configureSite(&c)
		return c
	}
	for _, s := range r.w.servers {
		if s == r {
			c.MapServer = &control.MapServerConfig{Sites: r.w.mapServerSites(), Journal: true}
		}
	}
	for _, s := range r.w.resolvers {
		if s == r {
			c.MapResolver = r.w.mapResolver(c.MapServer != nil)
		}
	}
	return c
}

// localRLOCs are the addresses of the router, those of links that are known to be down at the end.
func (r *router) localRLOCs() []lisp.RLOC {
	var up, down []lisp.RLOC
	for _, l := range r.links {
		rloc := lisp.RLOCFromAddr(l.addr)
		if l.isUp() {
			up = append(up, rloc)
		} else {
			down = append(down, rloc)
		}
	}
	return append(up, down...)
}

// noteLinks notes which links are up, for what the router says of them.
func (r *router) noteLinks() {
	r.linksUp = r.linksUp[:0]
	for _, l := range r.links {
		if l.noticed == 0 {
			r.linksUp = append(r.linksUp, lisp.RLOCFromAddr(l.addr))
		}
	}
}

func (r *router) configureSite(c *control.Config) {
	s := r.site
	r.noteLinks()
	if !s.withoutXTRID {
		c.XTRID, c.SiteID = r.xtrID(), uint64(s.index)
	}
	c.ITR = &control.ITRConfig{RLOCProbing: r.probing(), IdleTimeout: r.w.flavour.idle, Gleaning: r.w.flavour.gleaning}
	for i := range r.w.resolvers {
		at := r.w.resolvers[(i+r.index)%len(r.w.resolvers)]
		c.ITR.MapResolvers = append(c.ITR.MapResolvers, r.reach(at))
	}
	c.ETR = &control.ETRConfig{WithdrawOnShutdown: s.index%3 == 0, Siblings: r.siblingsOf()}
	for _, at := range r.w.servers {
		c.ETR.MapServers = append(c.ETR.MapServers, control.MapServerPeer{
			Address: r.reach(at), Key: r.key(), ProxyReply: s.proxy, WantMapNotify: s.notify, UseTTL: s.useTTL, MergeRequest: s.merge,
		})
	}
	if s.withdrawn == 0 {
		c.ETR.Database = r.database()
	}
	if r.w.flavour.tight {
		c.Limits.MapCacheEntries, c.Limits.PendingRequests, c.Limits.RateTable = 6, 4, 64
	}
}

// key is the one in use, or a wrong one of the same ID.
func (r *router) key() control.Key {
	key := r.site.keys[min(r.site.keyInUse, len(r.site.keys)-1)]
	if r.wrongKey > 0 {
		key.Secret = append([]byte("wrong "), key.Secret...)
	}
	return key
}

func (r *router) database() []control.DatabaseMapping {
	var list []control.DatabaseMapping
	of := r
	if !r.site.merge {
		of = nil
	}
	for i, p := range r.site.prefixes {
		if r.site.isWithdrawn(i) {
			continue
		}
		list = append(list, control.DatabaseMapping{
			Prefix: p.prefix, Locators: r.withSiblingsUp(p.locators(of)), TTLMinutes: r.site.ttlMinutes, Version: r.site.version,
		})
	}
	if s := r.site; !s.strange.IsZero() {
		list = append(list, control.DatabaseMapping{Prefix: s.strange, Locators: s.prefixes[0].locators(of), TTLMinutes: s.ttlMinutes, Version: s.version})
	}
	return list
}

// reach is a server's address in a family that the router has.
func (r *router) reach(server *router) netip.AddrPort {
	for _, l := range server.links {
		if l.addr.Is4() == r.links[0].addr.Is4() {
			return netip.AddrPortFrom(l.addr, 0)
		}
	}
	return netip.AddrPort{}
}

func (r *router) xtrID() (id [16]byte) {
	id[0], id[1], id[15] = byte(r.index>>8), byte(r.index), 1
	return id
}

func (w *world) mapServerSites() []control.Site {
	var list []control.Site
	for _, s := range w.sites {
		if s.barred > 0 {
			continue
		}
		site := control.Site{Name: s.name, Keys: append([]control.Key(nil), s.keys...)}
		for i, p := range s.prefixes {
			implied := func(wider *sitePrefix) bool { return wider.prefix.Covers(p.prefix) }
			if !s.moreSpecifics || !slices.ContainsFunc(s.prefixes[:i], implied) {
				site.Prefixes = append(site.Prefixes, control.SitePrefix{Prefix: p.prefix, AcceptMoreSpecifics: s.moreSpecifics})
			}
		}
		list = append(list, site)
	}
	return list
}

// mapResolver asks the Map-Servers, unless it stands beside one that knows all.
func (w *world) mapResolver(besideMapServer bool) *control.MapResolverConfig {
	c := &control.MapResolverConfig{}
	for _, s := range w.servers {
		if !besideMapServer {
			c.MapServers = append(c.MapServers, control.MapServerRoute{Address: netip.AddrPortFrom(s.links[0].addr, 0)})
		}
	}
	return c
}
