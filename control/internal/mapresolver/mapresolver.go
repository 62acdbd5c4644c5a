// SPDX-License-Identifier: Apache-2.0

package mapresolver

// The Map-Resolver: passes Encapsulated Map-Requests to the Map-Server that knows,
// or answers that none does (RFC 9301 s.8.4). It caches nothing, and never answers
// positively: what a Map-Server of the same Node knows does not come here.

import (
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/lisp"
)

// MapResolver is the role.
type MapResolver struct {
	h *system.System
	Routes
	next int // of equal Map-Servers
}

// Routes say which Map-Servers are asked for what; they never change.
type Routes struct {
	routes table.Prefixes[[]netip.AddrPort]
	rest   []netip.AddrPort // for EIDs that no route covers
}

// New makes a Map-Resolver without routes.
func New(h *system.System) *MapResolver { return &MapResolver{h: h} }

// Configure takes over other routes.
func (r *MapResolver) Configure(routes Routes) { r.Routes = routes }

// NewRoutes makes the table of a configuration.
func NewRoutes(c *settings.MapResolverConfig) (r Routes) {
	for _, route := range c.MapServers {
		if len(route.Prefixes) == 0 {
			r.rest = append(r.rest, route.Address)
		}
		for _, p := range route.Prefixes {
			servers, _ := r.routes.Get(p)
			r.routes.Insert(p, append(servers, route.Address))
		}
	}
	return r
}

// HandleMapRequest passes on the request for one EID-Prefix. known reports whether
// others know EID-Prefixes that overlap with one: a negative answer must not cover
// those.
func (r *MapResolver) HandleMapRequest(m *message.MapRequest, asked lisp.Prefix, known func(lisp.Prefix) bool) {
	if !r.passOn(m, asked) {
		r.deny(m, asked, known)
	}
}

// HandleFlowRequest passes on the request for the path of a flow by its destination.
func (r *MapResolver) HandleFlowRequest(m *message.MapRequest, destination lisp.Prefix) {
	if !r.passOn(m, destination) {
		r.h.Count(counter.RefusedNoRoute)
	}
}

// passOn reports whether there is a Map-Server to ask.
func (r *MapResolver) passOn(m *message.MapRequest, asked lisp.Prefix) bool {
	match, servers, ok := r.routes.Match(asked)
	if !ok {
		match, servers = asked, r.rest
	}
	if len(servers) == 0 {
		return false
	}
	r.h.Forward(m, servers[r.next%len(servers)], match)
	r.next++
	return true
}

func (r *MapResolver) deny(m *message.MapRequest, asked lisp.Prefix, known func(lisp.Prefix) bool) {
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	hole := table.LeastSpecificHole(host, 0, func(p lisp.Prefix) bool { return r.routes.Overlaps(p) || known(p) })
	r.h.ReplyNegative(m, hole, settings.NegativeTTLMinutes)
}
