// SPDX-License-Identifier: Apache-2.0

package sim

// The attacker in the data plane, in seeds with gleaning: packets to tunnel routers from any
// outer address and inner source.

import (
	"net/netip"
	"slices"
	"time"

	"loci/dataplane"
	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
	"loci/wire"
)

const (
	// lateShare is how often a data packet is told of so late that its source is known by then.
	lateShare = 0.1
	// forgedGap is the mean time between the attacker's packets.
	forgedGap = 700 * time.Millisecond
)

// forger is the attacker in the data plane.
type forger struct {
	w        *world.World
	attacker *attacker
	random   virtual.Random
}

func (f *forger) start() {
	if f.w.Flavour.Gleaning {
		f.w.After(firstFault, f.act)
	}
}

func (f *forger) act() {
	if f.w.Now >= f.w.Options.FaultsEnd() {
		return
	}
	f.w.After(f.random.Between(forgedGap/4, forgedGap*7/4), f.act)
	if f.random.Chance(lateShare) {
		f.tellLate()
	}
	if m := f.forge(); m != nil {
		f.w.Stats.PacketsHostile++
		f.w.Network.Carry(nil, m)
	}
}

// forge is a packet to a host of a site, in the name of a host of any site or of none, from
// the attacker's address or that of somebody else. Some are no LISP packets any more.
func (f *forger) forge() *world.Mail {
	to := virtual.Pick(f.random, f.w.XTRs)
	target := virtual.Pick(f.random, to.Site.Prefixes)
	source, ok := f.innerSource(target)
	if !ok || len(target.Hosts) == 0 {
		return nil
	}
	l := virtual.Pick(f.random, to.Station.Links)
	outer := f.attacker.address(l.Addr.Is4())
	if other := virtual.Pick(f.random, virtual.Pick(f.random, f.w.Routers).Station.Links).Addr; other.Is4() == l.Addr.Is4() && f.random.Chance(0.4) {
		outer = other
	}
	p := packets.Payload{From: uint32(to.Index), Instance: uint32(to.Site.Instance), Site: uint32(to.Site.Index)}
	packet := packets.Encapsulated(outer, l.Addr, to.Site.Instance, p.Packet(source, virtual.Pick(f.random, target.Hosts)))
	if f.random.Chance(0.1) { // its UDP or LISP header
		packet[len(packet)-len(packets.Inner(packet))-1-f.random.IntN(packets.UDPOctets+wire.DataHeaderOctets)] ^= 1 << f.random.IntN(8)
	}
	return &world.Mail{
		From: netip.AddrPortFrom(outer, wire.DataPort), To: netip.AddrPortFrom(l.Addr, wire.DataPort),
		Payload: packet, Data: true, Hostile: true,
	}
}

// tellLate lets an engine tell of a packet whose source the map-cache knows: it came before
// the Map-Reply did, and waited to be told of.
func (f *forger) tellLate() {
	x := f.w.Router(virtual.Pick(f.random, f.w.XTRs))
	target := virtual.Pick(f.random, x.Site.Prefixes)
	if x.Node == nil || x.Plane == nil || len(target.Hosts) == 0 {
		return
	}
	var known []lisp.Prefix
	for p, e := range x.Mirror.Entries {
		if p.Kind() == target.Prefix.Kind() && !e.Gleaned {
			known = append(known, p)
		}
	}
	if len(known) == 0 {
		return
	}
	slices.SortFunc(known, lisp.Prefix.Compare)
	p := virtual.Pick(f.random, known)
	f.w.Stats.PacketsHostile++
	x.Plane.Raise(dataplane.Gleaned{
		Instance: p.Instance(), Source: p.EID(), Destination: lisp.EIDFromAddr(target.Hosts[0]),
		From: lisp.RLOCFromAddr(f.attacker.address(x.Station.Links[0].Addr.Is4())),
	})
	x.RaiseMisses()
}

// innerSource is in whose name a packet is sent: a host of another site, or of no site.
func (f *forger) innerSource(target *sites.SitePrefix) (netip.Addr, bool) {
	for range 20 {
		p := virtual.Pick(f.random, virtual.Pick(f.random, f.w.Sites).Prefixes)
		if p.Prefix.Instance() == target.Prefix.Instance() && p.Prefix.Kind() == target.Prefix.Kind() {
			return packets.Offset(p.Prefix.Netip().Addr(), 1+f.random.IntN(250)), true
		}
	}
	return netip.Addr{}, false
}
