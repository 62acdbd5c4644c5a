// SPDX-License-Identifier: Apache-2.0

package control

// The Map-Resolver: passes Encapsulated Map-Requests to the Map-Server that knows,
// or says that nobody does (RFC 9301 s.8.4). It caches nothing, and never answers
// positively: what a Map-Server of the same Node knows does not come here.

import (
	"net/netip"

	"loci/lisp"
)

// mapResolver is the role.
type mapResolver struct {
	h *host
	mapResolverRoutes
	turn int
}

// mapResolverRoutes say which Map-Servers are asked for what; they never change.
type mapResolverRoutes struct {
	routes prefixTable[[]netip.AddrPort]
	rest   []netip.AddrPort // for EIDs that no route covers
}

// newMapResolver makes a Map-Resolver without routes.
func newMapResolver(h *host) *mapResolver { return &mapResolver{h: h} }

// configure takes over other routes.
func (r *mapResolver) configure(routes mapResolverRoutes) { r.mapResolverRoutes = routes }

// newMapResolverRoutes makes the table of a configuration.
func newMapResolverRoutes(c *MapResolverConfig) (r mapResolverRoutes) {
	for _, route := range c.MapServers {
		if len(route.Prefixes) == 0 {
			r.rest = append(r.rest, route.Address)
		}
		for _, p := range route.Prefixes {
			servers, _ := r.routes.get(p)
			r.routes.insert(p, append(servers, route.Address))
		}
	}
	return r
}

// handleMapRequest passes on the request for one EID-Prefix. known reports whether
// others know EID-Prefixes that overlap with one: a negative answer must not cover
// those.
func (r *mapResolver) handleMapRequest(m *mapRequest, asked lisp.Prefix, known func(lisp.Prefix) bool) {
	match, servers, ok := r.routes.match(asked)
	if !ok {
		match, servers = asked, r.rest
	}
	if len(servers) == 0 {
		r.deny(m, asked, known)
		return
	}
	r.h.forward(m, servers[r.turn%len(servers)], match)
	r.turn++
}

func (r *mapResolver) deny(m *mapRequest, asked lisp.Prefix, known func(lisp.Prefix) bool) {
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	hole := leastSpecificHole(host, 0, func(p lisp.Prefix) bool { return r.routes.overlaps(p) || known(p) })
	r.h.replyNegative(m, hole, negativeTTLMinutes)
}
