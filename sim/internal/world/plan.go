// SPDX-License-Identifier: Apache-2.0

package world

// Who is there: servers, relays, sites and the routers of each, in the order in which the seed gives them.

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
	Flavour  flavour
	Random   virtual.Random
	Kinds    virtual.Random // of kinds.go
	Relaying virtual.Random // of relays.go
	Gleans   virtual.Random // of gleaning and of forged packets
	Network  network.Network[*SitesRouter]

	Routers   []*SitesRouter
	XTRs      []*SitesRouter
	Relays    []*SitesRouter // RTRs, PITRs and PETRs
	Servers   []*SitesRouter // Map-Servers
	Resolvers []*SitesRouter // Map-Resolvers, which may be the same
	Sites     []*Site
	Flows     []*Flow // steady ones
	Owners    owners
	wides     int // sites with many EID-Prefixes
}

// SitesRouter is a LISP router as its operator sees it.
type SitesRouter struct {
	Plan    *Plan
	Index   int
	Name    string
	Station network.Station[*SitesRouter]
	Site    *Site  // nil for servers and relays
	Relay   *Relay // nil for others

	WrongKey int // faults that gave it a wrong key
	CoreLost int // faults that cut it off the core
}

// newPlan is that of a run in which nobody is yet.
func newPlan(o report.Options) *Plan {
	o = o.WithDefaults()
	return &Plan{Options: o, Random: virtual.NewRandom(o.Seed, 1), Owners: newOwners()}
}

// serverCount is how many Map-Servers there are, and Map-Resolvers if they are apart.
const serverCount = 2

// drawRouters says who is there. What sets the seed apart is drawn before.
func (p *Plan) drawRouters() {
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

func (p *Plan) addRouter(name string) *SitesRouter {
	r := &SitesRouter{Plan: p, Index: len(p.Routers), Name: name}
	r.Station.Number, r.Station.Router = r.Index, r
	p.Routers = append(p.Routers, r)
	p.Network.Routers = len(p.Routers)
	return r
}

// NewAddress is an RLOC that no router had yet.
func (p *Plan) NewAddress(v4 bool) netip.Addr { return p.Network.New(v4) }

// ownerOf is the site of an EID: that of the longest configured EID-Prefix.
func (p *Plan) ownerOf(instance lisp.InstanceID, eid lisp.EID) (*SitePrefix, bool) {
	return p.Owners.Longest(lisp.HostPrefix(instance, eid))
}

// XTRID is the router's xTR-ID.
func (r *SitesRouter) XTRID() (id [16]byte) {
	id[0], id[1], id[15] = byte(r.Index>>8), byte(r.Index), 1
	return id
}

// isServer reports whether a router is a Map-Server or Map-Resolver alone.
func (r *SitesRouter) isServer() bool { return r.Site == nil && r.Relay == nil }

func (r *SitesRouter) isSibling() bool { return r.Site != nil && r.Site.Siblings }

// Addresses are those of the router.
func (r *SitesRouter) Addresses() (list []netip.Addr) {
	for _, l := range r.Station.Links {
		list = append(list, l.Addr)
	}
	return list
}

// calmSince is when the last fault is over.
func (p *Plan) calmSince() time.Duration { return p.Options.FaultsEnd() }

// MayEnd reports whether something may happen at last: there were faults, and tables have room.
func (p *Plan) MayEnd() bool { return p.Options.FaultsEnd() > 0 && !p.Flavour.tight }
