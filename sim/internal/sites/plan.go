// SPDX-License-Identifier: Apache-2.0

// Package sites is who is there in a simulated run: sites, relays and Map-Servers, with the routers of each, and how
// each operator means them to be configured. All of it is drawn from the seed before anything runs. Faults change it
// while a run goes on; package world brings what changed to the Nodes.
package sites

import (
	"fmt"
	"net/netip"
	"time"

	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

// Plan is who is there in a run, and what each operator means to have.
type Plan struct {
	Options  report.Options
	Flavour  Flavour
	Random   virtual.Random
	Kinds    virtual.Random // of kinds.go
	Relaying virtual.Random // of relays.go
	Gleans   virtual.Random // of gleaning and of forged packets
	Network  network.Network[*Router]

	Routers   []*Router
	XTRs      []*Router
	Relays    []*Router // RTRs, PITRs and PETRs
	Servers   []*Router // Map-Servers
	Resolvers []*Router // Map-Resolvers, which may be the same
	Sites     []*Site
	Flows     []*Flow // steady ones
	Owners    owners
	wides     int // sites with many EID-Prefixes
}

// Router is a LISP router as its operator sees it.
type Router struct {
	Plan    *Plan
	Index   int
	Name    string
	Station network.Station[*Router]
	Site    *Site  // nil for servers and relays
	Relay   *Relay // nil for others

	WrongKey int // faults that gave it a wrong key
	CoreLost int // faults that cut it off the core
}

// NewPlan is that of a run, with no router yet.
func NewPlan(o report.Options) *Plan {
	o = o.WithDefaults()
	return &Plan{Options: o, Random: virtual.NewRandom(o.Seed, 1), Owners: newOwners()}
}

// serverCount is how many Map-Servers there are, and Map-Resolvers if they are apart.
const serverCount = 2

// DrawRouters says who is there. What sets the seed apart is drawn before.
func (p *Plan) DrawRouters() {
	for i := range serverCount {
		p.Servers = append(p.Servers, p.addRouter(fmt.Sprintf("ms%d", i+1)))
	}
	p.Resolvers = p.Servers
	if p.Flavour.resolvers && p.Options.Routers > 2*serverCount {
		p.Resolvers = nil
		for i := range serverCount {
			p.Resolvers = append(p.Resolvers, p.addRouter(fmt.Sprintf("mr%d", i+1)))
		}
	}
	for _, s := range p.Routers {
		s.Station.Links = []network.Link{{Addr: p.NewAddress(true)}, {Addr: p.NewAddress(false)}}
		p.Network.Attach(&s.Station)
	}
	p.drawRelays()
	for len(p.Routers) < p.Options.Routers {
		p.addSite()
	}
}

func (p *Plan) addRouter(name string) *Router {
	r := &Router{Plan: p, Index: len(p.Routers), Name: name}
	r.Station.Number, r.Station.Router = r.Index, r
	p.Routers = append(p.Routers, r)
	p.Network.Routers = len(p.Routers)
	return r
}

// NewAddress is an RLOC that no router had yet.
func (p *Plan) NewAddress(v4 bool) netip.Addr { return p.Network.New(v4) }

// OwnerOf is the site of an EID: that of the longest configured EID-Prefix.
func (p *Plan) OwnerOf(instance lisp.InstanceID, eid lisp.EID) (*SitePrefix, bool) {
	return p.Owners.Longest(lisp.HostPrefix(instance, eid))
}

// XTRID is the router's xTR-ID.
func (r *Router) XTRID() (id [16]byte) {
	id[0], id[1], id[15] = byte(r.Index>>8), byte(r.Index), 1
	return id
}

// IsServer reports whether a router is a Map-Server or Map-Resolver alone.
func (r *Router) IsServer() bool { return r.Site == nil && r.Relay == nil }

// IsSibling reports whether the router has siblings.
func (r *Router) IsSibling() bool { return r.Site != nil && r.Site.Siblings }

// Addresses are those of the router.
func (r *Router) Addresses() (list []netip.Addr) {
	for _, l := range r.Station.Links {
		list = append(list, l.Addr)
	}
	return list
}

// CalmSince is when the last fault is over.
func (p *Plan) CalmSince() time.Duration { return p.Options.FaultsEnd() }

// MayEnd reports whether something may happen at last: there were faults, and tables have room.
func (p *Plan) MayEnd() bool { return p.Options.FaultsEnd() > 0 && !p.Flavour.Tight }
