// SPDX-License-Identifier: Apache-2.0

package itr

// Mappings that NAT traversal makes are static too: everything to the RTR at a node behind a NAT, a node's EID-Prefix
// to its translated address at the RTR. They end when NAT traversal says so, and no Map-Reply replaces them.

import (
	"time"

	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/maprequest"
	"loci/control/internal/timing"
	"loci/lisp"
)

// adoptedNATLasts is how long such a mapping of an earlier run is used until NAT traversal makes it again.
const adoptedNATLasts = time.Minute

// NATMapping is such a mapping.
type NATMapping struct {
	lisp.Mapping
	Registered bool // by a router behind a NAT, by this RTR
}

// PutNAT puts such a mapping in; where the operator has one for the same EID-Prefix, when that is gone.
func (c *mapCache) PutNAT(m NATMapping) {
	_, e, ok := c.Get(m.Prefix)
	switch {
	case ok && e.Static && !e.ByNAT:
		c.displaced[m.Prefix] = m
	case ok && e.Static && e.Mapping.Equal(m.Mapping) && e.Registered == m.Registered:
	default:
		c.Install(mapcache.Entry{
			Mapping: m.Mapping, Static: true, ByNAT: true, Registered: m.Registered, ExpiresAt: timing.Never,
		})
	}
}

// isRegistered reports whether this RTR forwards a mapping's packets to a router behind a NAT.
func isRegistered(e *mapcache.Entry) bool { return e.ByNAT && e.Registered }

// RemoveNAT takes one out.
func (c *mapCache) RemoveNAT(p lisp.Prefix, reason effect.RemoveReason) {
	delete(c.displaced, p)
	if id, e, ok := c.Get(p); ok && e.ByNAT {
		c.Remove(id, reason)
	}
}

// departures finds out that routers behind NATs have left this RTR.
type departures struct {
	cache     *mapCache
	requester *maprequest.Requester
	Leaves    func(lisp.Mapping) bool // whether a mapping leads to this RTR no more
}

// Ask asks for the mapping of an EID-Prefix that a router behind a NAT registered by this RTR, and that may be another
// one, at the rate that such Map-Requests have.
func (d *departures) Ask(p lisp.Prefix) {
	if _, e, ok := d.cache.Get(p); ok && isRegistered(e) {
		d.requester.AskForNews(maprequest.Request{Prefix: p}, p)
	}
}

// has reports whether the Map-Reply to a Map-Request for just that EID-Prefix says so. Then its mapping takes the place
// of the one by NAT traversal.
func (d *departures) has(asked lisp.Prefix, m lisp.Mapping) bool {
	_, e, ok := d.cache.Get(m.Prefix)
	return ok && m.Prefix == asked && isRegistered(e) && d.Leaves(m)
}

// relayOn has packets relayed by that mapping as before, until its TTL ends (s.5.5).
func (d *departures) relayOn(p lisp.Prefix) {
	if id, e, ok := d.cache.Get(p); ok && !e.Static {
		e.Registered = true
		d.cache.emitInstall(id)
	}
}
