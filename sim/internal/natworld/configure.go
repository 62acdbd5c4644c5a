// SPDX-License-Identifier: Apache-2.0

package natworld

// From the state of the world to the configuration of each Node.

import (
	"net/netip"

	"loci/control"
	"loci/dataplane"
	"loci/lisp"
)

func (r *router) configuration() control.Config {
	var c control.Config
	for _, l := range r.station.Links {
		c.LocalRLOCs = append(c.LocalRLOCs, lisp.RLOCFromAddr(l.Addr))
	}
	if !r.w.options.Trace {
		c.Limits.Notices = control.Rate{PerSecond: 0.001, Burst: 1} // they are not read
	}
	if r.isSite {
		r.configureSite(&c)
		return c
	}
	if r.isMapServer() {
		c.MapServer = &control.MapServerConfig{Journal: true, Sites: r.w.registrants()}
		c.MapResolver = &control.MapResolverConfig{}
		c.MapServer.RTRs = r.w.rtrs.offered(r.w.flavour.keys)
	}
	if r.isRTR {
		r.configureRTR(&c)
	}
	return c
}

func (r *router) configureSite(c *control.Config) {
	server := r.w.servers[0].rloc(r.address().Is4())
	if !r.withoutXTRID {
		c.XTRID, c.SiteID = [16]byte{0: byte(r.index >> 8), 1: byte(r.index), 15: 1}, uint64(r.number+1)
	}
	c.ITR = &control.ITRConfig{MapResolvers: []netip.AddrPort{server}, RLOCProbing: r.w.flavour.probing}
	c.ETR = &control.ETRConfig{NAT: &control.NATTraversal{Keepalive: r.keepalive}}
	c.ETR.MapServers = []control.MapServerPeer{{Address: server, Key: r.key, WantMapNotify: true, ProxyReply: r.proxy}}
	var locators []lisp.Locator
	for _, l := range r.station.Links {
		locators = append(locators, lisp.NewLocator(lisp.RLOCFromAddr(l.Addr)))
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		panic(err)
	}
	for _, p := range r.prefixes {
		c.ETR.Database = append(c.ETR.Database, control.DatabaseMapping{Prefix: p, Locators: set, TTLMinutes: r.ttlMinutes})
	}
}

// configureRTR has it forward for the nodes that have registered by it, and for no policy.
func (r *router) configureRTR(c *control.Config) {
	c.NATRelay = &control.NATRelay{}
	c.ITR = &control.ITRConfig{RLOCProbing: r.w.flavour.probing}
	for _, v4 := range []bool{true, false} {
		server := r.w.servers[0].rloc(v4)
		c.ITR.MapResolvers = append(c.ITR.MapResolvers, server)
		c.NATRelay.MapServers = append(c.NATRelay.MapServers, control.NATMapServer{Address: server.Addr(), Keys: r.w.flavour.keys})
	}
}

// rtrs are all RTRs.
type rtrs []*router

// offered are they at each of their addresses, as the Map-Server has them.
func (all rtrs) offered(keys []control.Key) (list []control.RTRPeer) {
	for _, r := range all {
		for _, l := range r.station.Links {
			list = append(list, control.RTRPeer{Address: l.Addr, Keys: keys})
		}
	}
	return list
}

// at is the one that has an address, nil for none.
func (all rtrs) at(a netip.Addr) *router {
	for _, r := range all {
		if r.station.Has(a) {
			return r
		}
	}
	return nil
}

// registrants are the sites as the Map-Server has them.
func (w *World) registrants() (list []control.Site) {
	for _, s := range w.sites {
		site := control.Site{Name: s.name, Keys: []control.Key{s.key}}
		for _, p := range s.prefixes {
			site.Prefixes = append(site.Prefixes, control.SitePrefix{Prefix: p})
		}
		list = append(list, site)
	}
	return list
}

// rloc is where a server of both families is asked.
func (r *router) rloc(v4 bool) netip.AddrPort {
	for _, l := range r.station.Links {
		if l.Addr.Is4() == v4 {
			return netip.AddrPortFrom(l.Addr, 0)
		}
	}
	return netip.AddrPort{}
}

func (r *router) isMapServer() bool { return r == r.w.servers[0] }

// hasPlane reports whether the router forwards packets.
func (r *router) hasPlane() bool { return r.isSite || r.isRTR }

// The interfaces of every router that forwards.
const (
	siteInterface = "site0"
	coreInterface = "core0"
)

func (r *router) configurePlane() {
	if r.plane == nil {
		return
	}
	s := dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: coreInterface, Side: dataplane.SideCore}},
		LocalRLOCs: r.config.LocalRLOCs, RTRs: r.rtrs, Wait: dataplane.DefaultWaitBounds,
	}
	if r.isSite {
		s.Interfaces = append(s.Interfaces, dataplane.Interface{Name: siteInterface, Side: dataplane.SideSite, Instance: r.instance})
	}
	r.apply(dataplane.SetSettings{Settings: s})
}
