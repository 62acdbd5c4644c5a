// SPDX-License-Identifier: Apache-2.0

package sites

// Relays (RFC 6832, RFC 8060 s.4.6), which some seeds have: RTRs, and routers that are PITR and PETR, some of them
// RTR as well. Sites register explicit locator paths by the RTRs, or one of them before their own RLOCs, or send all
// their packets to RTRs; they have proxy ETRs, and hosts outside LISP talk to them. What relays do is judged in
// passages.go.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/paths"
	"loci/sim/internal/virtual"
)

const (
	relayStream = 7
	relayShare  = 0.35
	// relayNetwork is the smallest network that has relays.
	relayNetwork = 14
	// relayProbing is the interval of RLOC-probes where there are relays: that a hop is dead is learned by
	// nothing else.
	relayProbing = 20 * time.Second
	// fallback is the least priority of an RLOC that is used when no path is left.
	fallback = 4
)

// Relay is what a router does for packets of others.
type Relay struct {
	roles   []control.Role
	Serves  []*Site       // whose EIDs its policies name
	Barred  map[*Site]int // faults that took a site out of them
	Limited bool          // it is PITR for some hosts alone
	Loops   []Loop        // mistaken static mappings
	Mislaid int           // faults that took the true ones away
}

// Loop is a static mapping that leads packets back to where they came from.
type Loop struct {
	Prefix lisp.Prefix
	To     *Router
}

// Via is how relays stand on the way of a site's packets.
type Via struct {
	paths  []paths.Path[*Router]
	Before *Router   // an RTR that is a locator of the site, and knows the others
	hidden bool      // no other router sends to the others
	Behind []*Router // RTRs that the site sends everything to
	Exits  []*Router // its proxy ETRs
}

// Is reports whether a relay has a role.
func (r *Relay) Is(role control.Role) bool { return r != nil && slices.Contains(r.roles, role) }

func (d *Via) none() bool { return len(d.paths)+len(d.Behind)+len(d.Exits) == 0 && d.Before == nil }

// drawRelays says whether there are relays in this run.
func (p *Plan) drawRelays() {
	p.Relaying = virtual.NewRandom(p.Options.Seed, relayStream)
	if p.Options.Routers < relayNetwork || !p.Relaying.Chance(relayShare) {
		return
	}
	p.Flavour.Relays, p.Flavour.behind = true, p.Relaying.Chance(0.5)
	for i := range 2 + p.Relaying.IntN(3) {
		p.addRelay(fmt.Sprintf("rtr%d", i+1), control.RoleRTR)
	}
	for i := range 1 + p.Relaying.IntN(2) {
		roles := []control.Role{control.RolePITR, control.RolePETR}
		if p.Relaying.Chance(0.5) {
			roles = append(roles, control.RoleRTR)
		}
		p.addRelay(fmt.Sprintf("proxy%d", i+1), roles...)
	}
}

func (p *Plan) addRelay(name string, roles ...control.Role) {
	r := p.addRouter(name)
	r.Relay = &Relay{roles: roles, Limited: p.Relaying.Chance(0.5), Barred: map[*Site]int{}}
	for _, v4 := range []bool{true, false} {
		if has := p.Flavour.Families.V4 && v4 || p.Flavour.Families.v6 && !v4; has {
			r.Station.Links = append(r.Station.Links, network.Link{Addr: p.NewAddress(v4)})
		}
	}
	p.Network.Attach(&r.Station)
	p.Relays = append(p.Relays, r)
}

// RelaysThatAre are the relays of a role.
func (p *Plan) RelaysThatAre(role control.Role) (list []*Router) {
	for _, r := range p.Relays {
		if r.Relay.Is(role) {
			list = append(list, r)
		}
	}
	return list
}

// StandsBefore reports whether the relay stands before a site.
func (r *Relay) StandsBefore(sites []*Site) bool {
	return slices.ContainsFunc(sites, func(s *Site) bool { return s.Via.Before != nil && s.Via.Before.Relay == r })
}

// serve puts a site into a relay's policies.
func serve(r *Router, s *Site) {
	if !slices.Contains(r.Relay.Serves, s) {
		r.Relay.Serves = append(r.Relay.Serves, s)
	}
}

// makeRelayed puts relays in the way of a site.
func (p *Plan) makeRelayed(s *Site) {
	c, rtrs := p.Relaying, p.RelaysThatAre(control.RoleRTR)
	for _, r := range p.Relays {
		if c.Chance(0.3) { // whether or not its packets come by it
			serve(r, s)
		}
	}
	if c.Chance(0.4) {
		s.Via.Exits = p.RelaysThatAre(control.RolePETR)
	}
	switch {
	case s.Siblings:
	case c.Chance(0.4):
		s.Via.paths = paths.Draw(c, rtrs, len(s.links()))
	case c.Chance(0.25) && !s.merge && !p.Flavour.Overlaps:
		s.Via.Before, s.Via.hidden = virtual.Pick(c, rtrs), c.Chance(0.5)
	}
	if p.Flavour.behind && !s.Siblings && c.Chance(0.3) { // who asks no Map-Resolver may not find out that it has no path
		at := c.IntN(len(rtrs))
		s.Via.Behind = []*Router{rtrs[at], rtrs[(at+1)%len(rtrs)]}
	}
	for _, r := range s.ByWay() {
		serve(r, s)
	}
}

// ByWay are all relays that stand in the way of a site's packets.
func (s *Site) ByWay() []*Router {
	list := slices.Concat(s.Via.Behind, s.Via.Exits)
	if s.Via.Before != nil {
		list = append(list, s.Via.Before)
	}
	for _, p := range s.Via.paths {
		for _, h := range p.Hops {
			list = append(list, h.Relay)
		}
	}
	return list
}

// byPaths is a link of the site as its locators: by paths, or as it is. Beside a path with a hop that must not be
// skipped the link itself is there, for when that one is dead; where sites send everything to RTRs it always is, for
// an RTR on no path. Paths come first.
func (p *SitePrefix) byPaths(at int, link *network.Link, reachable bool) (list []lisp.Locator) {
	d, plain := &p.Site.Via, p.Site.plan.Flavour.behind
	for i := range d.paths {
		if path := &d.paths[i]; path.Link == at {
			policy := p.pathPolicy[i]
			if p.policy[at].priority == lisp.PriorityUnused {
				policy.priority = lisp.PriorityUnused
			}
			list = append(list, path.To(locatorOf(link, policy)))
			plain = plain || path.IsStrict()
		}
	}
	if own := locatorOf(link, p.policy[at]); plain || len(list) == 0 {
		if d.hidden {
			own.Priority = lisp.PriorityUnused
		}
		if (len(list) > 0 || d.Before != nil) && own.Priority != lisp.PriorityUnused {
			own.Priority += fallback
		}
		list = append(list, own)
	}
	for i := range list {
		list[i].Reachable = list[i].Reachable && reachable
	}
	return list
}

// before is the RTR before a site as a locator.
func (s *Site) before(p *SitePrefix) lisp.Locator {
	l := lisp.NewLocator(lisp.RLOCFromAddr(paths.AddressOf(s.Via.Before, s.XTRs[0].Station.Links[0].Addr.Is4())))
	l.Weight = p.policy[0].weight
	return l
}

// configureRelay is what the operator of a relay wants now.
func configureRelay(r *Router, c *control.Config) {
	c.ITR = &control.ITRConfig{RLOCProbing: Probing(r), IdleTimeout: r.Plan.Flavour.idle, MapResolvers: resolversOf(r)}
	for _, s := range r.Plan.Sites {
		if s.Via.Before != r || r.Relay.Mislaid > 0 {
			continue
		}
		for _, p := range s.Prefixes {
			var own []lisp.Locator
			for i, l := range s.links() {
				own = append(own, locatorOf(l, p.policy[i]))
			}
			slices.SortFunc(own, func(a, b lisp.Locator) int { return a.Path().Compare(b.Path()) })
			c.ITR.StaticMappings = append(c.ITR.StaticMappings, lisp.Mapping{Prefix: p.Prefix, Locators: own})
		}
	}
	for _, l := range r.Relay.Loops {
		c.ITR.StaticMappings = append(c.ITR.StaticMappings, lisp.Mapping{Prefix: l.Prefix, Locators: paths.Plainly([]*Router{l.To})})
	}
	c.Roles = paths.Policies(r.Relay.roles, r.Relay.served(), r.Relay.sources())
}

// served are the EID-Prefixes that a relay's policies name.
func (r *Relay) served() (list []lisp.Prefix) {
	for _, s := range r.Serves {
		for _, p := range s.Prefixes {
			if r.Barred[s] == 0 {
				list = append(list, p.Prefix)
			}
		}
	}
	for _, l := range r.Loops {
		list = append(list, l.Prefix)
	}
	return list
}

// sources are the hosts that a PITR is limited to, none for all.
func (r *Relay) sources() []netip.Prefix {
	if r.Limited {
		return packets.Outsiders
	}
	return nil
}
